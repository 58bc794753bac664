"""Estimators from impressions: near the truth where clicks alone are not, and wide enough."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch

import counterplay as cp
from counterplay.data.impressions import impressions_of
from counterplay.data.preparation import Preparation
from counterplay.evaluation import impressions
from counterplay.evaluation.evaluator import compared
from counterplay.evaluation.impressions import imputed, imputed_estimates, shown_case
from counterplay.evaluation.propensities import Contestant
from counterplay.evaluation.records import EvaluationRecord
from counterplay.evaluation.stage import Evaluation, Stage
from counterplay.metrics.comparison import comparisons, comparisons_of_sums
from counterplay.metrics.estimation import estimates
from counterplay.metrics.formulas import row_metrics
from counterplay.metrics.item_sums import candidate_ranks
from counterplay.metrics.measures import ranking_metrics
from counterplay.metrics.scoring import TableScores
from counterplay.models.registry import ModelSettings, build
from counterplay.simulation.synthetic import Synthetic
from counterplay.simulation.values import true_values
from counterplay.simulation.world import World
from counterplay.simulation.writing import split_of

pytestmark = pytest.mark.filterwarnings("ignore::counterplay.CounterplayWarning")
SHOWN = ("standard", "impressions", "doubly-robust")


def contestants_of(world: World, train: cp.Interactions) -> list[Contestant]:
    """Return popularity, taste with noise, and what resembles the old system."""
    user, item = (each.ravel() for each in np.indices((world.n_users, world.n_items)))
    taste = world.relevance(np.arange(world.n_users))
    old = world.shown(np.arange(world.n_users))
    rng = np.random.default_rng(0)
    tables = {
        "taste": np.log(taste) + rng.normal(size=taste.shape),
        "old": np.log(old) + rng.normal(size=old.shape),
    }
    found = [
        Contestant(name, TableScores(user, item, table.ravel(), world.n_items), None)
        for name, table in tables.items()
    ]
    model = build("pop", train, generator=torch.Generator())
    pop = cp.metrics.ModelScores(model, train)
    return [*found, Contestant("pop", pop, model, settings=ModelSettings(name="pop"))]


@pytest.fixture(scope="module")
def world() -> World:
    return Synthetic(
        n_users=500, n_items=120, n_shown=15, exposure="history", sharpness=2.0, accuracy=0.2,
        examination=1.0, exposure_noise=0.3, seed=1,
    ).world()  # fmt: skip


def stage_of(world: World, *estimators: str, **options: object) -> Stage:
    split = split_of(world, (1.0, 0.3, 1.0), impressions=True, random_share=0.2)
    config = Evaluation.model_validate(
        {"estimators": estimators, "metrics": ("hit",), "n_resamples": 200, **options}
    )
    return Stage(split, config, explicit=False)


@pytest.fixture(scope="module")
def found(world: World) -> tuple[Stage, list[Contestant], EvaluationRecord]:
    stage = stage_of(world, *SHOWN)
    contestants = contestants_of(world, stage.train)
    return stage, contestants, compared(stage, contestants)


def test_they_are_nearer_to_the_truth_than_counting_and_cover_it(
    found: tuple[Stage, list[Contestant], EvaluationRecord], world: World
) -> None:
    stage, contestants, record = found
    truth = {
        each.name: true_values(world, each.scores, stage.seen, metrics=("hit",))["hit", 10]
        for each in contestants
    }
    said = {
        name: {each.candidate: each for each in record.estimates if each.estimator == name}
        for name in SHOWN
    }
    error = {
        name: np.mean([abs(each.value - truth[who]) for who, each in by.items()])
        for name, by in said.items()
    }
    assert error["impressions"] < error["standard"] / 3
    assert error["doubly-robust"] < error["standard"] / 3
    overstated = {who: each.value / truth[who] for who, each in said["standard"].items()}
    assert overstated["old"] > 2 * overstated["taste"]
    for name in SHOWN[1:]:
        assert max(said[name], key=lambda who: said[name][who].value) == "taste"
        for who, each in said[name].items():
            assert each.low is not None
            assert each.high is not None
            assert each.low < each.value < each.high
            assert abs(each.value - truth[who]) < 2 * (each.high - each.low)


def test_doubly_robust_values_are_the_definition(
    found: tuple[Stage, list[Contestant], EvaluationRecord],
) -> None:
    stage, contestants, record = found
    sums, case = stage.imputed(contestants), stage.shown_case(contestants)
    shown = impressions_of(stage.split, 2)
    assert len(case.rows) == (~np.isin(shown.pair, stage.seen.pair)).sum()
    n_seen = np.bincount(stage.seen.distinct_pairs // 120, minlength=500)
    users = np.unique(case.rows.user)
    assert sums.weights.sum() == pytest.approx((120 - n_seen[users]).sum())
    said = {each.candidate: each for each in record.estimates if each.estimator == "doubly-robust"}
    for name, numerators in sums.numerators.items():
        value = numerators["hit", 10].sum() / sums.denominators.sum()
        assert said[name].value == pytest.approx(value)
        assert said[name].n == len(sums.weights) == len(case.rows)
    ranks = candidate_ranks(case.personal, case.rows, stage.seen)
    q = np.exp(case.model.log_propensities(case.rows.user, case.rows.item, ranks)[0])
    assert sums.weights * q == pytest.approx(np.full(len(q), sums.weights[0] * q[0]))
    again = imputed(stage, contestants)
    assert np.array_equal(again.denominators, sums.denominators)


def test_differences_of_sums_are_those_of_rows() -> None:
    rng = np.random.default_rng(0)
    values = {name: rng.random(80) for name in "abc"}
    weights = rng.uniform(1, 2, 80)
    rows = comparisons(values, weights, np.arange(80), np.random.default_rng(1), n_resamples=300)
    sums = {name: each * weights for name, each in values.items()}
    options = {"n": 80, "n_resamples": 300}
    whole = comparisons_of_sums(sums, weights, np.random.default_rng(1), **options)
    for (first, second, one), other, pair in zip(rows, whole, combinations("abc", 2), strict=True):
        assert (first, second) == pair
        assert other.value == pytest.approx(one.value, rel=1e-9)
        assert (other.low, other.high) == pytest.approx((one.low, one.high), rel=1e-9)
        assert (other.p_value, other.n) == (one.p_value, one.n)


def test_other_fits_make_intervals_wider_by_their_variance() -> None:
    rng = np.random.default_rng(0)
    values = {name: rng.random(200) for name in "ab"}
    weights = rng.uniform(1, 2, 200)
    refits = weights * np.exp(rng.normal(size=(40, 1)) * (values["a"] - values["b"]))
    one, other = (
        comparisons(values, weights, np.arange(200), np.random.default_rng(1), refits=each)[0][2]
        for each in (None, refits)
    )
    gap = values["a"] - values["b"]
    spread = ((refits * gap).sum(1) / refits.sum(1)).var()
    base = ((gap - one.value) * weights / weights.sum()) ** 2
    expected = np.sqrt(base.sum() + spread) / np.sqrt(base.sum())
    assert expected > 1.2
    assert (other.high - other.value) / (one.high - one.value) == pytest.approx(expected)
    assert other.p_value >= one.p_value
    ends = [
        estimates(
            {("hit", 10): values["a"]}, weights, np.arange(200), np.random.default_rng(2),
            estimator="impressions", protocol="full", refits=each,
        )[0]
        for each in (None, refits)
    ]  # fmt: skip
    assert ends[1].low < ends[0].low < ends[0].value == ends[1].value < ends[0].high < ends[1].high


def test_positions_count_where_random_rows_tell_them_apart() -> None:
    world = Synthetic(n_users=800, n_items=60, n_shown=12, examination=0.6, seed=2).world()
    split = split_of(world, (1.0, 0.3, 1.0), impressions=True, random_share=0.5)
    config = Evaluation(estimators=("impressions",), n_resamples=200)
    with_rows, without = (
        Stage(split, config, explicit=False, random=random) for random in (split.random, None)
    )
    contestants = contestants_of(world, with_rows.train)
    q = [shown_case(each, contestants).propensities[0] for each in (with_rows, without)]
    position = with_rows.targets.position
    assert position is not None
    share = np.log(q[0]) - np.log(q[1])
    by_place = [share[position == place].mean() for place in (1, 2, 3)]
    assert np.diff(by_place) == pytest.approx([np.log(0.6)] * 2, abs=0.2)


def test_intervals_do_not_leave_the_range_of_their_metric(monkeypatch: pytest.MonkeyPatch) -> None:
    world = Synthetic(n_users=60, n_items=30, n_shown=6, mean_relevance=0.3, seed=1).world()

    def estimates_of() -> dict[str, list[tuple[float, float, float]]]:
        stage = stage_of(world, *SHOWN[1:], k=(27,))
        found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in SHOWN[1:]}
        for each in compared(stage, contestants_of(world, stage.train)).estimates:
            assert each.low is not None
            assert each.high is not None
            found[each.estimator].append((each.low, each.value, each.high))
        return found

    cut = estimates_of()
    monkeypatch.setattr(impressions, "range_of", lambda *_: np.array([-9.0, 9.0]))
    whole = estimates_of()
    for name in SHOWN[1:]:
        assert max(high for *_, high in whole[name]) > 1.0005
        np.testing.assert_array_equal(np.array(cut[name]), np.clip(whole[name], 0, 1))


def test_values_that_are_corrected_beyond_the_range_are_cut_off(
    found: tuple[Stage, list[Contestant], EvaluationRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    stage, contestants, _ = found
    sums = stage.imputed(contestants)
    for factor, end in ((9.0, 1.0), (-1.0, 0.0)):
        above = {
            name: dict.fromkeys(each, factor * sums.denominators)
            for name, each in sums.numerators.items()
        }
        other = impressions.Imputed(above, sums.denominators, sums.weights)
        monkeypatch.setattr(stage, "imputed", lambda _, other=other: other)
        for each in imputed_estimates(stage, contestants)["taste"]:
            assert (each.low, each.value, each.high) == (end, end, end)


@pytest.mark.parametrize("metric", row_metrics())
@pytest.mark.parametrize("k", [1, 3, 10])
def test_the_range_of_a_metric_is_that_of_all_ranks(metric: str, k: int) -> None:
    ranks = np.append(np.arange(1.0, 30), np.inf)
    values = ranking_metrics(ranks, np.arange(30), names=[metric], k=[k])[metric, k]
    assert impressions.range_of(metric, k).tolist() == [values.min(), values.max()]


def test_the_case_is_of_what_was_shown_before_and_was_not_clicked_before() -> None:
    rng = np.random.default_rng(5)
    n = 900
    shown = {
        "user": rng.integers(0, 20, n),
        "item": rng.integers(0, 15, n),
        "time": np.arange(n),
        "clicked": rng.random(n) < 0.4,
    }
    split = cp.prepare(shown, Preparation(split="time"))
    assert isinstance(split, cp.Split)
    assert split.unclicked is not None
    assert split.unclicked_part is not None
    for part, number in (("test", 2), ("validation", 1)):
        config = Evaluation.model_validate({"estimators": ("impressions",), "part": part})
        stage = Stage(split, config, explicit=False)
        case = shown_case(stage, [])
        here, before = (
            np.concatenate([split.interactions.pair[one], split.unclicked.pair[other]])
            for one, other in (
                (split.part == number, split.unclicked_part == number),
                (split.part < number, split.unclicked_part < number),
            )
        )
        known = np.isin(here, split.interactions.pair[split.part < number])
        assert known.any()
        assert sorted(case.rows.pair.tolist()) == sorted(here[~known].tolist())
        assert sorted(case.earlier.pair.tolist()) == sorted(before.tolist())
        assert case.earlier.clicked is not None
        assert case.earlier.clicked.sum() == (split.part < number).sum()
        q = case.propensities
        assert q.max(axis=1) == pytest.approx(1)
        raw = case.model.log_propensities(
            stage.targets.user, stage.targets.item, np.empty((len(stage.targets), 0))
        )
        np.testing.assert_allclose(np.log(q) - np.log(q[:, :1]), raw - raw[:, :1], atol=1e-9)


def test_what_is_not_there_is_refused(world: World) -> None:
    split = split_of(world, (1.0, 0.3, 1.0))
    for name in SHOWN[1:]:
        stage = Stage(split, Evaluation(estimators=(name,)), explicit=False)
        with pytest.raises(cp.ConfigError, match=f"the {name} estimator needs impressions"):
            compared(stage, contestants_of(world, stage.train))
    sampled = stage_of(world, "impressions", "doubly-robust", protocol="sampled", n_negatives=20)
    with pytest.raises(cp.ConfigError, match="doubly-robust"):
        _ = sampled.estimators
