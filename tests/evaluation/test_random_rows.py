"""Random rows: an estimate without bias, dials that follow, and every row accounted for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from counterplay.data.interactions import Interactions
from counterplay.data.readers import read, read_impressions
from counterplay.data.splits import Split
from counterplay.errors import ConfigError, CounterplayWarning, DataError
from counterplay.evaluation.estimators import ESTIMATORS, RANDOMISED, trusted
from counterplay.evaluation.evaluator import compared, evaluated
from counterplay.evaluation.propensities import Contestant
from counterplay.evaluation.random_rows import read_random_rows, unseen_random_rows
from counterplay.evaluation.records import EvaluationRecord
from counterplay.evaluation.stage import Evaluation, Stage
from counterplay.metrics.item_sums import candidate_ranks
from counterplay.metrics.random_rows import true_dials
from counterplay.models.registry import ModelSettings
from counterplay.simulation.synthetic import Synthetic
from counterplay.simulation.values import true_values
from counterplay.simulation.world import World
from counterplay.simulation.writing import split_by_rounds

N_USERS, N_ITEMS = 400, 120
HOW: dict[str, Any] = {"n_resamples": 200, "metrics": ("hit",), "estimators": ("standard",)}
LEFT_OUT_SEEN = pytest.mark.filterwarnings("ignore:left out .* had clicked these items before")


class Matrix:
    """Scores `[n_users, n_items]` that are all there."""

    def __init__(self, matrix: NDArray[np.float64]) -> None:
        self.matrix = matrix

    def of(self, users: NDArray[np.integer], items: NDArray[np.integer]) -> NDArray[np.float64]:
        found: NDArray[np.float64] = self.matrix[users[:, None], items]
        return found

    def of_all(self, users: NDArray[np.integer]) -> NDArray[np.float64]:
        found: NDArray[np.float64] = self.matrix[users]
        return found


@pytest.fixture(scope="module")
def world() -> World:
    return Synthetic(n_users=N_USERS, n_items=N_ITEMS, n_shown=10, seed=1).world()


@pytest.fixture(scope="module")
def relevance(world: World) -> NDArray[np.float64]:
    return world.relevance(np.arange(N_USERS))


@pytest.fixture(scope="module")
def split(world: World) -> Split:
    return split_by_rounds(world.log((1.0, 0.5, 0.5)), 3)


@pytest.fixture(scope="module")
def contestants(split: Split, relevance: NDArray[np.float64]) -> list[Contestant]:
    """Taste, taste seen through noise, and popularity."""
    rng = np.random.default_rng(0)
    logits = np.log(relevance / (1 - relevance))
    events = np.bincount(split.train.item, minlength=N_ITEMS) + 0.1 * rng.random(N_ITEMS)
    noisy = logits + 1.5 * rng.normal(size=logits.shape)
    pop = Contestant(
        "pop", Matrix(np.tile(events, (N_USERS, 1))), None, settings=ModelSettings(name="pop")
    )
    return [
        Contestant("taste", Matrix(logits), None),
        Contestant("noisy", Matrix(noisy), None),
        pop,
    ]


def drawn(relevance: NDArray[np.float64], n: int, seed: int = 0) -> pl.DataFrame:
    """Show `n` pairs, drawn at random from all."""
    rng = np.random.default_rng(seed)
    user, item = rng.integers(N_USERS, size=n), rng.integers(N_ITEMS, size=n)
    clicked = rng.random(n) < relevance[user, item]
    return pl.DataFrame({"user": user, "item": item, "clicked": clicked})


def stage_of(split: Split, rows: pl.DataFrame | None, **settings: Any) -> Stage:
    random = None if rows is None else read_random_rows(rows, split.interactions)
    return Stage(split, Evaluation(**HOW | settings), explicit=False, random=random)


def by_name(found: EvaluationRecord, estimator: str) -> dict[str, Any]:
    return {each.candidate: each for each in found.estimates if each.estimator == estimator}


@LEFT_OUT_SEEN
def test_the_estimate_has_no_bias(
    world: World, split: Split, relevance: NDArray[np.float64], contestants: list[Contestant]
) -> None:
    """Six values within four standard errors: a false alarm in 3,000 draws."""
    stage = stage_of(split, drawn(relevance, 40_000), metrics=("hit", "ndcg"))
    found, away = evaluated(stage, contestants), {}
    for contestant in contestants:
        truth = true_values(world, contestant.scores, stage.seen, metrics=("hit", "ndcg"))
        for each in found.estimates:
            if each.candidate == contestant.name:
                assert each.low is not None
                assert each.high is not None
                error = (each.high - each.low) / 2 / 1.96
                name = each.estimator, each.candidate, each.metric
                away[name] = (each.value - truth[each.key]) / error
    assert all(abs(z) < 4 for (estimator, *_), z in away.items() if estimator == RANDOMISED)
    assert away["standard", "pop", "hit"] > 4  # the test rows are biased


@LEFT_OUT_SEEN
def test_the_estimate_is_the_mean_over_clicked_rows(
    split: Split, relevance: NDArray[np.float64], contestants: list[Contestant]
) -> None:
    rows = drawn(relevance, 900)
    stage = stage_of(split, rows)
    found = by_name(evaluated(stage, contestants), RANDOMISED)
    seen = set(zip(stage.seen.user.tolist(), stage.seen.item.tolist(), strict=True))
    for contestant in contestants:
        scores = contestant.scores.of_all(np.arange(N_USERS))
        hits = []
        for user, item, clicked in rows.iter_rows():
            if clicked and (user, item) not in seen:
                unseen = [each for each in range(N_ITEMS) if (user, each) not in seen]
                before = sum(scores[user, each] > scores[user, item] for each in unseen)
                hits.append(before < 10)
        each = found[contestant.name]
        assert each.value == pytest.approx(np.mean(hits))
        assert (each.n, each.ess, each.protocol) == (len(hits), pytest.approx(len(hits)), "full")


@LEFT_OUT_SEEN
def test_candidates_are_compared_on_them(
    split: Split, relevance: NDArray[np.float64], contestants: list[Contestant]
) -> None:
    found = compared(stage_of(split, drawn(relevance, 6000)), contestants)
    alone = by_name(found, RANDOMISED)
    pairs = [each for each in found.comparisons if each.estimator == RANDOMISED]
    assert len(pairs) == 3
    for each in pairs:
        assert each.value == pytest.approx(alone[each.first].value - alone[each.second].value)
        assert each.n == alone["pop"].n
        assert each.flip is None  # no odds that could be off
    assert next(each for each in pairs if each.second == "pop").decided


@LEFT_OUT_SEEN
def test_what_is_not_random_stays_as_it_was(
    split: Split, relevance: NDArray[np.float64], contestants: list[Contestant]
) -> None:
    """The standard estimate and training do not see random rows."""
    before = evaluated(stage_of(split, None), contestants)
    stage = stage_of(split, drawn(relevance, 500))
    after = evaluated(stage, contestants)
    assert before.estimates == tuple(
        each for each in after.estimates if each.estimator != RANDOMISED
    )
    assert stage.train.fingerprint == stage_of(split, None).train.fingerprint
    assert len(stage.targets) == len(split.test)


@LEFT_OUT_SEEN
def test_the_dials_of_the_world_are_found_and_make_the_box(
    split: Split, relevance: NDArray[np.float64], contestants: list[Contestant]
) -> None:
    how = {"estimators": ("standard", "dials", "robust")}
    stage = stage_of(split, drawn(relevance, 30_000), **how)
    found = compared(stage, contestants).dials
    assert found is not None
    assert found.random is not None
    assert stage.random is not None
    assert stage.random.clicked is not None
    assert (found.random.n, found.random.n_clicks) == (
        len(stage.random), int(stage.random.clicked.sum()),
    )  # fmt: skip
    model = stage.worst_case(contestants).model
    user, item = (each.ravel() for each in np.indices(relevance.shape))
    unseen = ~np.isin(user * N_ITEMS + item, stage.seen.pair)
    pairs = replace(
        read({"user": user[unseen], "item": item[unseen]}),
        users=stage.seen.users,
        items=stage.seen.items,
    )
    ranks = candidate_ranks([each.scores for each in contestants[:2]], pairs, stage.seen)
    truth = true_dials(model.at(pairs.user, pairs.item, ranks), relevance[pairs.user, pairs.item])
    assert found.random.gamma == pytest.approx(truth.gamma, abs=0.11)
    assert found.random.lam == pytest.approx(truth.lam, abs=0.11)
    assert (found.random.gamma, found.random.lam) == found.point
    assert not found.random.exposure_only
    assert set(found.box) <= set(found.dials)
    assert (0.0, 0.0) in found.dials  # the map is shown around the box
    few = compared(stage_of(split, drawn(relevance, 500), **how), contestants).dials
    assert few is not None
    assert len(few.box) > 2 * len(found.box)


@LEFT_OUT_SEEN
def test_the_box_decides_what_robust_says(
    split: Split, relevance: NDArray[np.float64], contestants: list[Contestant]
) -> None:
    how = {"estimators": ("dials", "robust")}
    stage = stage_of(split, drawn(relevance, 5000), **how)
    found = compared(stage, contestants)
    case = stage.worst_case(contestants)
    over = case.surface(("hit", 10))
    assert found.dials is not None
    assert over.box.dials == found.dials.box == case.box.dials
    point, robust = by_name(found, "dials"), by_name(found, "robust")
    for name, mean in over.mean().items():
        assert robust[name].value == pytest.approx(mean)
        assert point[name].value == pytest.approx(over.at(*found.dials.point)[name])


@LEFT_OUT_SEEN
def test_a_share_that_is_known_stays(
    split: Split, relevance: NDArray[np.float64], contestants: list[Contestant]
) -> None:
    how = {"estimators": ("robust",), "dials": {"personal_share": 0.15}}
    found = compared(stage_of(split, drawn(relevance, 2000), **how), contestants).dials
    assert found is not None
    assert {lam for _, lam in found.box} == {0.15}
    assert len({gamma for gamma, _ in found.box}) > 1


@LEFT_OUT_SEEN
def test_clicks_that_show_exposure_alone_are_flagged(
    split: Split, relevance: NDArray[np.float64], contestants: list[Contestant]
) -> None:
    """Users who click on anything alike: what was personal in the log was what was shown."""
    rows = drawn(np.full_like(relevance, 0.2), 20_000)
    found = compared(stage_of(split, rows, estimators=("robust",)), contestants).dials
    assert found is not None
    assert found.random is not None
    assert found.random.exposure_only
    assert found.random.lam > 0.8


@LEFT_OUT_SEEN
def test_the_sampled_protocol_ranks_them_too(
    split: Split, relevance: NDArray[np.float64], contestants: list[Contestant]
) -> None:
    stage = stage_of(split, drawn(relevance, 500), protocol="sampled", n_negatives=20)
    found = by_name(evaluated(stage, contestants), RANDOMISED)["taste"]
    assert found.protocol == "sampled-20"
    assert 0.4 < found.value < 1


LOG = read({"user": [1, 1, 2, 3], "item": [10, 11, 10, 12]})
TEXT_LOG = read({"user": ["1", "b"], "item": ["10", "x"]})


def test_ids_are_those_of_the_data() -> None:
    rows = {"uid": [3, 1, 1, 9, 2], "sku": [10, 12, 12, 10, 99], "click": [1, 0, 1, 1, 0]}
    with pytest.warns(
        CounterplayWarning, match="left out 2 of 5 random rows: their users or items"
    ):
        found = read_random_rows(rows, LOG)
    assert found.user.tolist() == [0, 0, 2]
    assert found.item.tolist() == [2, 2, 0]
    assert found.clicked is not None
    assert found.clicked.tolist() == [False, True, True]
    assert read_random_rows(found, LOG) == found  # what was read once is as it was


def test_ids_are_looked_up_whatever_their_type() -> None:
    numbers = read_random_rows({"user": [1, 1, 2], "item": [10, 11, 10], "label": [1, 0, 0]}, LOG)
    texts = {"user": ["1", "1", "2"], "item": ["10", "11", "10"], "label": ["yes", "no", "no"]}
    assert read_random_rows(texts, LOG) == numbers
    mixed = {"user": [1, 1, 2], "item": [10, 10, 11], "click": [1, 0, 0]}
    with pytest.warns(CounterplayWarning, match="left out 1 of 3"):
        assert read_random_rows(mixed, TEXT_LOG).user.tolist() == [0, 0]


def test_files_and_named_columns_are_read(tmp_path: Path) -> None:
    path = tmp_path / "random.csv"
    path.write_text("who,user,what,Is_Click\n1,x,10,TRUE\n2,x,10,FALSE\n2,y,11,0\n")
    found = read_random_rows(path, LOG, user="who", item="what")
    assert found.user.tolist() == [0, 1, 1]
    assert found.source == str(path)


def test_pairs_that_were_seen_are_left_out_with_a_count() -> None:
    rows = {"user": [1, 1, 2, 3], "item": [10, 12, 12, 12], "clicked": [1, 1, 0, 0]}
    found = read_random_rows(rows, LOG)
    with pytest.warns(CounterplayWarning, match="left out 2 of 4 random rows: their users had"):
        left = unseen_random_rows(found, LOG)
    assert left.pair.tolist() == [2, 5]
    one_seen = read_random_rows({"user": [1, 2], "item": [10, 12], "clicked": [1, 0]}, LOG)
    with (
        pytest.warns(CounterplayWarning, match="left out 1 of 2"),
        pytest.raises(DataError, match="found 0 clicks in 1 rows"),
    ):
        unseen_random_rows(one_seen, LOG)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"clicked": [0, 0]}, "found 0 clicks in 2 rows"),
        ({"clicked": [1, 1]}, "found 2 clicks in 2 rows"),
        ({"clicked": [1, -2]}, "clicks must be true or false .* found 1 of 2 rows .* with -2"),
        ({"clicked": None}, "must say in a column 'clicked'.* found the columns 'user', 'item'"),
        ({"user": None}, "a column for the user"),
    ],
)
def test_what_says_nothing_is_refused(changed: dict[str, Any], said: str) -> None:
    rows = {"user": [1, 2], "item": [10, 11], "clicked": [0, 1]} | changed
    given = {name: values for name, values in rows.items() if values is not None}
    with pytest.raises(DataError, match=said):
        read_random_rows(given, LOG)


@pytest.mark.filterwarnings("ignore:left out")
def test_ids_that_are_all_unknown_are_refused() -> None:
    with pytest.raises(DataError, match="found 0 clicks in 0 rows"):
        read_random_rows({"user": [7, 8], "item": [10, 11], "clicked": [0, 1]}, LOG)


def test_a_log_of_clicks_has_no_clicked_column() -> None:
    columns = {"user": [1, 2], "item": [10, 11], "label": ["a", "b"], "clicked": [0, 1]}
    assert read(columns).clicked is None
    assert read_impressions(columns).clicked is not None
    with pytest.raises(DataError, match="found 0 clicks"):
        read_random_rows(read(columns), LOG)  # it does not say what was clicked


def test_the_estimator_needs_them_and_is_trusted_most(split: Split) -> None:
    found = ESTIMATORS[RANDOMISED]
    assert trusted()[0] == RANDOMISED
    assert not found.applies(split.test, world=True)
    assert found.applies(split.test, world=False, random=True)
    with pytest.raises(ConfigError, match="needs random rows; found none; give them with --random"):
        stage_of(split, None, estimators=(RANDOMISED,)).of(RANDOMISED)


@LEFT_OUT_SEEN
def test_predicted_ratings_have_none(split: Split, relevance: NDArray[np.float64]) -> None:
    random = read_random_rows(drawn(relevance, 100), split.interactions)
    assert isinstance(random, Interactions)
    with pytest.raises(ConfigError, match="found predicted ratings"):
        Stage(split, Evaluation(), explicit=True, random=random)
