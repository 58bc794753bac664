from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

import counterplay as cp
from counterplay.evaluation import propensities
from counterplay.evaluation.records import EvaluationRecord
from counterplay.evaluation.stage import Evaluation
from counterplay.learning.batches import PairBatches
from counterplay.learning.methods.opponent import opponent
from counterplay.metrics.ranks import full_ranks
from counterplay.metrics.scoring import ModelScores
from counterplay.models.scorer import Scorer
from counterplay.runs.candidates import evaluate_run, evaluate_scores
from counterplay.runs.config import run_config
from counterplay.runs.training import load_run

pytestmark = [  # few epochs
    pytest.mark.filterwarnings("ignore:.*the opponent was still moving"),
    pytest.mark.filterwarnings("ignore:.*the opponent has no effect"),
]

FAST = ("candidate.dim=4", "exposure.dim=4", "training.epochs=3", "training.batch_size=128",
        "training.rate=0.05", "validation.n_negatives=20")  # fmt: skip
QUICK = {"epochs": 3, "batch_size": 256}
FITTED = ("propensity", "opponent")
ALL = ("standard", "popularity", *FITTED)


def how(*estimators: str, **settings: object) -> Evaluation:
    plain = {"estimators": estimators or ALL, "n_resamples": 200, "k": (5, 10), "opponent": QUICK}
    return Evaluation.model_validate(plain | settings)


def trained(data: Path, out: Path, *settings: str) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cp.CounterplayWarning)  # of links, after three epochs
        cp.train(data, out, run_config(None, [*FAST, *settings]))
    return out


@pytest.fixture(scope="module")
def runs(dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of every method, one with histories, and two that predict ratings."""
    folder, floor = tmp_path_factory.mktemp("runs"), "training.link.floor=0.2"
    trained(dataset, folder / "erm", "method=erm")
    trained(dataset, folder / "ps", "method=ps", floor)
    trained(dataset, folder / "acl", "method=acl")
    names = "candidate.name=attn", "exposure.name=attn"
    trained(dataset, folder / "attn", "method=acl", *names, floor)
    for method in ("erm", "acl"):
        trained(dataset, folder / f"ratings-{method}", f"method={method}", "training.loss=squared")
    return folder


def values_of(result: EvaluationRecord, *keys: str) -> dict[tuple[Any, ...], float]:
    """Return the values of a result's estimates by estimator, metric and k."""
    return {
        tuple(getattr(each, key) for key in (*keys, "estimator", "metric", "k")): each.value
        for each in result.estimates
    }


def by_hand(
    scores: NDArray[np.float32], split: cp.Split
) -> dict[tuple[str, int], NDArray[np.float64]]:
    """Rank every test row among what its user has not seen, in a loop."""
    seen = set(split.interactions.take(split.part < 2).pair.tolist())
    rows: dict[tuple[str, int], list[float]] = {}
    for user, item in zip(split.test.user.tolist(), split.test.item.tolist(), strict=True):
        others = [
            float(scores[user, other])
            for other in range(split.test.n_items)
            if other != item and user * split.test.n_items + other not in seen
        ]
        mine = float(scores[user, item])
        above = sum(x > mine for x in others)
        rank = np.arange(above + 1, above + 2 + sum(x == mine for x in others))  # as likely each
        for k in (5, 10):
            rows.setdefault(("hit", k), []).append((rank <= k).mean())
            rows.setdefault(("ndcg", k), []).append(((rank <= k) / np.log2(1 + rank)).mean())
            rows.setdefault(("mrr", k), []).append(((rank <= k) / rank).mean())
    return {key: np.array(values) for key, values in rows.items()}


def matrix_of(run: Path, split: cp.Split) -> NDArray[np.float32]:
    """Return the scores of a run's candidate for all pairs."""
    candidate, _, _ = load_run(run, replace(split.train, rating=None))
    scores = ModelScores(candidate, split.interactions.take(split.part < 2))
    return np.array(scores.of_all(np.arange(split.train.n_users)))


def frame_of(matrix: NDArray[np.floating], split: cp.Split) -> pl.DataFrame:
    """Return scores of all pairs as another library would hand them over."""
    user, item = np.divmod(np.arange(matrix.size), matrix.shape[1])
    log = split.interactions
    return pl.DataFrame(
        {"user": log.users.decode(user), "item": log.items.decode(item), "score": matrix.ravel()}
    )


def pairs_of(frame: pl.DataFrame, log: cp.Interactions) -> NDArray[np.int64]:
    user, item = log.users.encode(frame["user"]), log.items.encode(frame["item"])
    return user.astype(np.int64) * log.n_items + item


@pytest.mark.parametrize("name", ["erm", "ps", "acl", "attn"])
@pytest.mark.parametrize("protocol", ["full", "sampled"])
def test_every_estimator_of_every_method(name: str, protocol: str, runs: Path) -> None:
    result = evaluate_run(runs / name, config=how(protocol=protocol, n_negatives=20))
    assert len(result.estimates) == len(ALL) * 3 * 2
    assert (result.dataset, result.part, result.bands) == ("log", "test", ())
    for each in result.estimates:
        assert each.candidate == name
        assert each.protocol == {"full": "full", "sampled": "sampled-20"}[protocol]
        assert each.low is not None
        assert each.high is not None
        assert 0 <= each.low <= each.value <= each.high <= 1 + 1e-12
        assert (each.n, each.level) == (40, 0.95)
        assert each.ess <= 40 + 1e-9
        assert (each.ess == pytest.approx(40)) == (each.estimator == "standard")
    by_estimator = {each.estimator for each in result.estimates}
    assert by_estimator == set(ALL)


@pytest.mark.parametrize("name", ["erm", "acl", "attn"])
def test_standard_is_the_mean_over_ranks_by_hand(name: str, runs: Path, dataset: Path) -> None:
    split = cp.data.load_split(dataset)
    expected = by_hand(matrix_of(runs / name, split), split)
    found = values_of(evaluate_run(runs / name, config=how("standard")))
    assert found == {
        ("standard", *key): pytest.approx(rows.mean()) for key, rows in expected.items()
    }
    candidate, _, _ = load_run(runs / name, replace(split.train, rating=None))
    seen = split.interactions.take(split.part < 2)
    places = full_ranks(ModelScores(candidate, seen), split.test, seen)
    assert not places.tied.any()
    ranks = places.above + 1
    assert found["standard", "hit", 5] == pytest.approx((ranks <= 5).mean())
    assert found["standard", "mrr", 10] == pytest.approx(((ranks <= 10) / ranks).mean())


@pytest.mark.parametrize("normalise", [True, False])
def test_weighted_estimates_by_hand(normalise: bool, runs: Path, dataset: Path) -> None:
    """The game's own opponent, and popularity: Σ wv / Σ w, or the paper's mean[wv]."""
    split = cp.data.load_split(dataset)
    expected = by_hand(matrix_of(runs / "acl", split), split)
    train = replace(split.train, rating=None)
    _, exposure, link = load_run(runs / "acl", train)
    assert exposure is not None
    assert link is not None
    users, items = (torch.from_numpy(np.array(x)) for x in (split.test.user, split.test.item))
    with torch.no_grad():
        g = exposure(users, items[:, None])
        robust = (1 / link(g, torch.ones_like(g)))[:, 0].double().numpy()
    events = np.bincount(train.item, minlength=train.n_items)
    popular = events.max() / events[split.test.item]
    result = evaluate_run(
        runs / "acl", config=how("popularity", "opponent", opponent="own", normalise=normalise)
    )
    found = values_of(result)
    for estimator, weights in (("popularity", popular), ("opponent", robust)):
        bottom = weights.sum() if normalise else len(weights)
        for key, rows in expected.items():
            value = (weights * rows).sum() / bottom
            assert found[estimator, *key] == pytest.approx(value, rel=1e-5)
    assert {each.normalised for each in result.estimates} == {normalise}


def test_clipping_raises_the_smallest_propensities(runs: Path) -> None:
    plain, clipped, level = (
        evaluate_run(runs / "erm", config=how("popularity", clip=clip, floor=0.2)).estimates
        for clip in (None, 0.6, 0.999)
    )
    assert plain[0].ess < clipped[0].ess < level[0].ess
    standard = evaluate_run(runs / "erm", config=how("standard")).estimates
    assert level[0].value == pytest.approx(standard[0].value, abs=1e-3)


def test_a_runs_own_opponent_is_asked_for_and_never_inferred(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted = watch(monkeypatch)
    own = evaluate_run(runs / "acl", config=how("opponent", opponent="own"))
    assert fitted == []
    other = evaluate_run(runs / "acl", config=how("opponent"))
    assert len(fitted) == 1
    assert own.estimates[0].value != other.estimates[0].value
    with pytest.raises(cp.ConfigError, match="found 'erm', which has none"):
        evaluate_run(runs / "erm", config=how("opponent", opponent="own"))
    both = cp.compare(
        [runs / "acl", runs / "ps"], config=how("standard", "opponent", opponent="own")
    )
    assert {each.estimator for each in both.comparisons} == {"standard"}  # weights of their own
    assert both.estimates[-1].estimator == "opponent"


def test_the_same_evaluation_gives_the_same_json(runs: Path) -> None:
    first, again, other = (
        json.dumps(evaluate_run(runs / "ps", config=how(gamma=(1.5,), seed=seed)).to_dict())
        for seed in (0, 0, 1)
    )
    assert first == again
    assert first != other


@pytest.mark.parametrize("protocol", ["full", "sampled"])
def test_the_memory_changes_nothing(protocol: str, runs: Path) -> None:
    """A budget of one or two users' scores at a time."""
    large, small = (
        evaluate_run(
            runs / "attn",
            config=how("standard", "opponent", protocol=protocol, n_negatives=20, memory=memory),
        )
        for memory in (1 << 28, 4000)
    )
    assert large.estimates == small.estimates


@pytest.mark.parametrize("name", ["erm", "attn"])
def test_validation_rows_are_ranked_by_what_came_before(
    name: str, runs: Path, dataset: Path
) -> None:
    split = cp.data.load_split(dataset)
    other = cp.Split(  # what was validation is the test now, and the test was never there
        split.interactions.take(split.part < 2),
        np.where(split.part[split.part < 2] == 1, 2, 0).astype(np.int8),
        "earlier",
    )
    candidate, _, _ = load_run(runs / name, replace(split.train, rating=None))
    scores = ModelScores(candidate, other.train).of_all(np.arange(40))
    expected = by_hand(np.array(scores), other)
    result = evaluate_run(runs / name, config=how("standard", part="validation"))
    assert result.part == "validation"
    for key, value in values_of(result).items():
        assert value == pytest.approx(expected[key[1], key[2]].mean())


def test_bands_hold_the_estimate_and_widen(runs: Path) -> None:
    result = evaluate_run(runs / "acl", config=how("popularity", "opponent", gamma=(1, 1.5, 3)))
    values = values_of(result)
    assert len(result.bands) == 3 * len(values)
    limits = {
        (each.estimator, each.metric, each.k, each.gamma): (each.low, each.high)
        for each in result.bands
    }
    for key, value in values.items():
        assert limits[*key, 1.0] == pytest.approx((value, value))
        low, high = limits[*key, 1.5]
        lowest, highest = limits[*key, 3.0]
        assert lowest < low < value < high < highest


def test_bands_are_of_the_estimate_that_was_asked_for(runs: Path) -> None:
    config = how("popularity", gamma=(1,), normalise=False)
    result = evaluate_run(runs / "acl", config=config)
    values = [each.value for each in result.estimates]
    assert [each.low for each in result.bands] == pytest.approx(values)


def test_ratings_have_errors_instead_of_ranks(runs: Path, dataset: Path) -> None:
    split = cp.data.load_split(dataset)
    for name in ("ratings-erm", "ratings-acl"):
        result = evaluate_run(runs / name, config=how())
        assert {each.protocol for each in result.estimates} == {"ratings"}
        found = values_of(result)
        assert set(found) == {(each, name, 0) for each in ALL for name in ("mse", "mae", "rmse")}
        candidate, _, _ = load_run(runs / name, split.train)
        users, items = (torch.from_numpy(np.array(x)) for x in (split.test.user, split.test.item))
        with torch.no_grad():
            predicted = candidate(users, items[:, None])[:, 0].numpy()
        assert split.test.rating is not None
        gaps = predicted - split.test.rating
        assert found["standard", "mse", 0] == pytest.approx((gaps**2).mean(), rel=1e-5)
        assert found["standard", "rmse", 0] == found["standard", "mse", 0] ** 0.5
        assert found["standard", "mae", 0] == pytest.approx(np.abs(gaps).mean(), rel=1e-5)
        assert found["opponent", "mse", 0] != pytest.approx(found["standard", "mse", 0], rel=1e-4)


def test_logged_propensities_need_to_be_there(runs: Path, dataset: Path, tmp_path: Path) -> None:
    with pytest.raises(cp.DataError, match="needs propensities in the data"):
        evaluate_run(runs / "erm", config=how("logged"))
    split = cp.data.load_split(dataset)
    given = np.random.default_rng(0).uniform(0.2, 1, len(split.part))
    cp.data.save(
        cp.Split(replace(split.interactions, propensity=given), split.part, split.kind),
        tmp_path / "data",
    )
    run = trained(tmp_path / "data", tmp_path / "run", "method=erm")
    found = values_of(evaluate_run(run, config=how("standard", "logged")))
    weights = 1 / given[split.part == 2]
    for key, rows in by_hand(matrix_of(run, cp.data.load_split(tmp_path / "data")), split).items():
        assert found["logged", *key] == pytest.approx((weights * rows).sum() / weights.sum())
        assert found["standard", *key] == pytest.approx(rows.mean())


def test_an_estimate_that_rests_on_a_handful_says_so(runs: Path) -> None:
    """Popularity to the tenth: the rarest of forty test rows carry it."""
    with pytest.warns(cp.CounterplayWarning, match="popularity: weights must spread"):
        evaluate_run(runs / "erm", config=how("popularity", exponent=10, floor=1e-6))


def test_the_oracle_is_for_worlds(runs: Path) -> None:
    with pytest.raises(cp.ConfigError, match="needs the world"):
        evaluate_run(runs / "erm", config=how("oracle"))


def test_other_data_and_another_split_are_refused(
    runs: Path, dataset: Path, tmp_path: Path
) -> None:
    split = cp.data.load_split(dataset)
    moved = np.array(split.part)
    moved[np.flatnonzero(moved == 2)[0]] = 0
    other = replace(split.interactions, time=None)
    cp.data.save(cp.Split(split.interactions, moved, "other"), tmp_path / "split")
    cp.data.save(cp.Split(other, split.part, split.kind), tmp_path / "log")
    for folder in ("split", "log"):
        with pytest.raises(cp.DataError, match=r"erm' was trained on others, or on another"):
            evaluate_run(runs / "erm", tmp_path / folder, how("standard"))
    cp.data.save(split, tmp_path / "same")
    moved_folder = evaluate_run(runs / "erm", tmp_path / "same", how("standard"))
    assert moved_folder == evaluate_run(runs / "erm", config=how("standard"))


def test_what_was_never_held_out_cannot_be_judged_by(dataset: Path, tmp_path: Path) -> None:
    split = cp.data.load_split(dataset)
    part = np.minimum(split.part, 1)
    cp.data.save(cp.Split(split.interactions, part, "no test"), tmp_path / "data")
    run = trained(tmp_path / "data", tmp_path / "run", "method=erm")
    with pytest.raises(cp.DataError, match="needs test rows; found none"):
        evaluate_run(run, config=how("standard"))
    assert evaluate_run(run, config=how("standard", part="validation")).estimates[0].n == 80


def test_popularity_itself_can_be_ranked(dataset: Path, tmp_path: Path) -> None:
    run = trained(dataset, tmp_path / "pop", "method=erm", "candidate.name=pop")
    split = cp.data.load_split(dataset)
    events = np.bincount(split.train.item, minlength=split.train.n_items)
    expected = by_hand(np.tile(events.astype(np.float32), (40, 1)), split)
    for key, value in values_of(evaluate_run(run, config=how("standard", "opponent"))).items():
        if key[0] == "standard":
            assert value == pytest.approx(expected[key[1], key[2]].mean())


def test_what_is_written_is_json_even_for_one_user(dataset: Path, tmp_path: Path) -> None:
    split = cp.data.load_split(dataset)
    part = np.where(split.interactions.user == 0, split.part, 0).astype(np.int8)
    cp.data.save(cp.Split(split.interactions, part, "one user"), tmp_path / "data")
    run = trained(tmp_path / "data", tmp_path / "run", "method=erm")
    json.dumps(evaluate_run(run, config=how("standard")).to_dict(), allow_nan=False)


# Scores that were computed elsewhere.


@pytest.mark.parametrize("name", ["erm", "attn"])
@pytest.mark.parametrize("protocol", ["full", "sampled"])
def test_exported_scores_give_the_standard_estimates_of_their_run(
    name: str, protocol: str, runs: Path, dataset: Path, tmp_path: Path
) -> None:
    split = cp.data.load_split(dataset)
    frame = frame_of(matrix_of(runs / name, split), split)
    frame.sample(fraction=1, shuffle=True, seed=0).write_parquet(tmp_path / "mine.parquet")
    frame.write_csv(tmp_path / "mine.csv")
    config = how("standard", "popularity", "propensity", protocol=protocol, n_negatives=20)
    run = evaluate_run(runs / name, config=config).estimates
    for table, said in (
        (frame, "scores"),
        (tmp_path / "mine.parquet", "mine"),
        (tmp_path / "mine.csv", "mine"),
    ):
        given = evaluate_scores(table, dataset, config).estimates
        assert given == tuple(each.model_copy(update={"candidate": said}) for each in run)


def test_given_scores_have_an_opponent_of_their_own(runs: Path, dataset: Path) -> None:
    """It wants the items that the scores get wrong: other scores have another opponent."""
    split = cp.data.load_split(dataset)
    matrix = matrix_of(runs / "erm", split)
    worse = matrix.copy()
    worse[:, 1::2] *= -1
    config = how("standard", "opponent", opponent=QUICK | {"alpha": 0.1})
    found = [
        evaluate_scores(frame_of(each, split), dataset, config).estimates
        for each in (matrix, worse)
    ]
    for estimates in found:
        assert estimates[-1].estimator == "opponent"
        assert estimates[-1].ess < 40
        low, value, high = estimates[-1].low, estimates[-1].value, estimates[-1].high
        assert low is not None
        assert high is not None
        assert 0 <= low <= value <= high <= 1
    assert found[0][-1].ess != found[1][-1].ess


def test_scores_of_unseen_pairs_alone_have_no_opponent(runs: Path, dataset: Path) -> None:
    split = cp.data.load_split(dataset)
    frame = frame_of(matrix_of(runs / "erm", split), split)
    seen = split.interactions.take(split.part < 2)
    unseen = frame.filter(~np.isin(pairs_of(frame, seen), seen.pair))
    config = how("standard")
    whole, part = (evaluate_scores(each, dataset, config) for each in (frame, unseen))
    assert whole.estimates == part.estimates
    sentence = "needs a candidate's scores of training pairs, and of others; found none with 's"
    for estimator in ("opponent",):
        with pytest.raises(cp.DataError, match=sentence):
            evaluate_scores(unseen, dataset, how(estimator))


def test_validation_pairs_are_no_training_pairs(runs: Path, dataset: Path) -> None:
    split = cp.data.load_split(dataset)
    frame = frame_of(matrix_of(runs / "erm", split), split)
    untrained = frame.filter(~np.isin(pairs_of(frame, split.train), split.train.pair))
    with pytest.raises(cp.DataError, match="needs a candidate's scores of training pairs"):
        evaluate_scores(untrained, dataset, how("opponent"))


def test_scores_may_hide_what_was_seen_behind_minus_infinity(runs: Path, dataset: Path) -> None:
    """As implicit and others do; either one sentence, or as if they were not given."""
    split = cp.data.load_split(dataset)
    matrix = matrix_of(runs / "erm", split)
    matrix[split.train.user, split.train.item] = -np.inf
    with pytest.raises(cp.DataError):
        evaluate_scores(frame_of(matrix, split), dataset, how("standard", "opponent"))


def test_the_opponent_meets_logits_that_fit_the_pairs_it_plays_on(
    runs: Path, dataset: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one other pair for each observed one, half of what it meets was observed."""
    met: list[tuple[float, float]] = []

    def spy(
        candidates: Sequence[Scorer], *rest: Any, batches: PairBatches, **options: Any
    ) -> object:
        for batch in batches.epoch(cp.Streams(0), 0):
            said = torch.sigmoid(candidates[0](batch.users, batch.items)).mean()
            met.append((float(said), float(batch.observed.mean())))
        return opponent(candidates, *rest, batches=batches, **options)

    monkeypatch.setattr(propensities, "opponent", spy)
    split = cp.data.load_split(dataset)
    config = how("opponent", opponent=QUICK | {"n_negatives": 1})
    evaluate_scores(frame_of(matrix_of(runs / "erm", split), split), dataset, config)
    said, observed = np.mean(met, axis=0)
    assert observed == pytest.approx(0.5, abs=0.01)
    assert said == pytest.approx(observed, abs=0.05)


# The test rows never reach the opponent.


def watch(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Tensor]]:
    """Keep the state of every exposure model that is fitted."""
    states: list[dict[str, Tensor]] = []

    def watched(original: Callable[..., Any]) -> Callable[..., Any]:
        def spy(*arguments: Any, **options: Any) -> Any:
            fit = original(*arguments, **options)
            model = fit.players.get("exposure") or fit.candidate  # of one that learns plainly
            states.append({key: each.clone() for key, each in model.state_dict().items()})
            return fit

        return spy

    for name in ("opponent", "erm"):
        monkeypatch.setattr(propensities, name, watched(getattr(propensities, name)))
    return states


def with_other_test_rows(split: cp.Split) -> cp.Split:
    """Give every user another test item that is nowhere in the user's log."""
    log, rng = split.interactions, np.random.default_rng(0)
    item = np.array(log.item)
    for row in np.flatnonzero(split.part == 2):
        own = set(log.item[log.user == log.user[row]].tolist())
        item[row] = rng.choice([each for each in range(log.n_items) if each not in own])
    return cp.Split(replace(log, item=item), split.part, split.kind)


def equal(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return all(torch.equal(value, other[key]) for key, value in one.items())


@pytest.mark.parametrize("kind", ["item", "low-rank"])
def test_other_test_rows_leave_the_exposure_models_of_a_run_as_they_are(
    kind: str, dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cp.data.save(with_other_test_rows(cp.data.load_split(dataset)), tmp_path / "other")
    states = watch(monkeypatch)
    results = [
        evaluate_run(
            trained(data, tmp_path / f"run-{place}", "method=erm"),
            config=how(*FITTED, opponent=QUICK | {"kind": kind, "floor": 0.1}),
        )
        for place, data in enumerate((dataset, tmp_path / "other"))
    ]
    assert values_of(results[0]) != values_of(results[1])  # judged on other rows
    assert len(states) == 4
    for first, second in zip(states[:2], states[2:], strict=True):
        assert equal(first, second)
    assert not equal(states[0], states[1])


def test_other_test_rows_leave_the_opponent_of_given_scores_as_it_is(
    runs: Path, dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    split = cp.data.load_split(dataset)
    cp.data.save(with_other_test_rows(split), tmp_path / "other")
    frame = frame_of(matrix_of(runs / "erm", split), split)
    states = watch(monkeypatch)
    for data in (dataset, tmp_path / "other"):
        evaluate_scores(frame, data, how("opponent"))
    assert len(states) == 2
    assert equal(*states)


# Comparisons.


def test_a_run_and_its_copy_do_not_differ(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "erm", tmp_path / "copy")
    result = cp.compare([runs / "erm", tmp_path / "copy"], config=how())
    shared = ALL
    assert len(result.comparisons) == len(shared) * 3 * 2
    assert {each.estimator for each in result.comparisons} == set(shared)
    for each in result.comparisons:
        assert (each.first, each.second) == ("erm", "copy")
        assert (each.value, each.low, each.high, each.p) == (0, 0, 0, 1)
        assert (each.n, each.level) == (40, 0.95)
        said = "erm and copy are equal at the fitted exposure odds"
        assert each.statement == (None if each.estimator == "standard" else said)
    values = values_of(result, "candidate")
    for key in (key for key in values if key[0] == "erm"):
        assert values[key] == values["copy", *key[1:]]


def test_a_difference_is_that_of_the_estimates_and_turns_with_the_order(runs: Path) -> None:
    names = ["erm", "attn"]
    config = how("standard", "popularity", "opponent")
    there, back = (
        cp.compare([runs / each for each in order], config=config) for order in (names, names[::-1])
    )
    values = values_of(there, "candidate")
    assert {each.value for each in there.comparisons} != {0}
    for one, other in zip(there.comparisons, back.comparisons, strict=True):
        key = one.estimator, one.metric, one.k
        assert one.value == pytest.approx(values["erm", *key] - values["attn", *key])
        assert other.value == pytest.approx(-one.value, abs=1e-6)
        assert one.low is not None
        assert one.high is not None
        assert other.low == pytest.approx(-one.high, abs=1e-6)
        assert other.high == pytest.approx(-one.low, abs=1e-6)
        assert other.p == one.p
        assert one.low <= one.value <= one.high
        assert (other.first, other.second) == (one.second, one.first)
        assert one.statement == other.statement


def test_who_else_is_compared_does_not_change_a_runs_own_estimates(runs: Path) -> None:
    config = how("standard", "popularity", "propensity")
    together = cp.compare([runs / "erm", runs / "acl", runs / "attn"], config=config)
    for name in ("erm", "acl", "attn"):
        own = tuple(each for each in together.estimates if each.candidate == name)
        assert own == evaluate_run(runs / name, config=config).estimates
    pairs = {(each.first, each.second) for each in together.comparisons}
    assert pairs == {("erm", "acl"), ("erm", "attn"), ("acl", "attn")}


def test_the_propensities_that_runs_share_do_not_depend_on_their_order(runs: Path) -> None:
    there, back = (
        values_of(
            cp.compare([runs / each for each in order], config=how("propensity")), "candidate"
        )
        for order in (("erm", "ps"), ("ps", "erm"))
    )
    assert there == pytest.approx(back)


@pytest.mark.parametrize("settings", [{"level": 0.5}, {"normalise": False}], ids=str)
def test_a_comparison_is_made_as_the_estimates_are(settings: dict[str, Any], runs: Path) -> None:
    config = how("popularity", **settings)
    result = cp.compare([runs / "erm", runs / "attn"], config=config)
    values = values_of(result, "candidate")
    for each in result.comparisons:
        key = each.estimator, each.metric, each.k
        assert each.value == pytest.approx(values["erm", *key] - values["attn", *key])
        assert each.level == config.level


def test_runs_of_one_name_are_called_by_their_paths(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "erm", tmp_path / "erm")
    result = cp.compare([runs / "erm", tmp_path / "erm"], config=how("standard"))
    assert {each.candidate for each in result.estimates} == {
        str(runs / "erm"),
        str(tmp_path / "erm"),
    }


def test_ratings_are_compared_by_their_errors(runs: Path) -> None:
    result = cp.compare([runs / "ratings-erm", runs / "ratings-acl"], config=how())
    assert {(each.metric, each.k) for each in result.comparisons} == {
        ("mse", 0),
        ("mae", 0),
    }
    for each in result.comparisons:  # the smaller error is the better one
        better = each.first if each.value < 0 else each.second
        said = each.statement
        assert (said is None) == (each.estimator == "standard")
        told = (each.low or 0) * (each.high or 0) > 0
        words = f"{better} beats " if told else "ratings-erm and ratings-acl are not told apart"
        assert said is None or said.startswith(words)


def test_a_flip_is_the_factor_of_the_statement(runs: Path) -> None:
    result = cp.compare([runs / "erm", runs / "attn"], config=how("standard", "popularity"))
    assert {each.estimator for each in result.comparisons if each.flip is None} <= {
        each.estimator
        for each in result.comparisons
        if each.statement is None or "however far" in each.statement
    }
    for each in result.comparisons:
        if each.flip is not None and each.flip >= 1.1:
            assert f"off by more than {int(each.flip * 10) / 10:,}×" in str(each.statement)


def test_scores_are_compared_with_runs_on_the_same_rows(runs: Path, dataset: Path) -> None:
    split = cp.data.load_split(dataset)
    frame = frame_of(matrix_of(runs / "erm", split), split)
    other = frame.with_columns(score=-pl.col("score"))
    config = how("standard", "popularity", "opponent")
    result = cp.compare([runs / "erm"], config=config, scores={"same": frame, "turned": other})
    values = values_of(result, "candidate")
    for key in (key for key in values if key[0] == "erm"):
        assert values["same", *key[1:]] == pytest.approx(values[key])
    pairs = {(each.first, each.second) for each in result.comparisons}
    assert pairs == {("erm", "same"), ("erm", "turned"), ("same", "turned")}


@pytest.mark.parametrize("why", ["unknown", "histories", "apart"])
def test_scores_that_cannot_be_played_with_the_others_stand_aside(
    why: str, runs: Path, dataset: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They lack training pairs; a model reads histories; two tables have no pairs in common."""
    split = cp.data.load_split(dataset)
    frame = frame_of(matrix_of(runs / "erm", split), split)
    pairs = pairs_of(frame, split.interactions)
    trained = np.isin(pairs, split.train.pair)
    even = pairs % 2 == 0
    scores = {
        "unknown": {"one": frame.filter(~trained)},
        "histories": {"one": frame},
        "apart": {"one": frame.filter(even), "two": frame.filter(~even)},
    }[why]
    run = runs / ("attn" if why == "histories" else "erm")
    states = watch(monkeypatch)
    with pytest.warns(cp.CounterplayWarning, match=f"not against {', '.join(scores)}, for want"):
        cp.compare([run], config=how("opponent"), scores=scores)
    evaluate_run(run, config=how("opponent"))
    assert equal(*states)  # the opponent of the run alone


def test_scores_need_a_name_of_their_own_and_predict_no_ratings(runs: Path, dataset: Path) -> None:
    split = cp.data.load_split(dataset)
    frame = frame_of(matrix_of(runs / "erm", split), split)
    with pytest.raises(cp.ConfigError, match="found 'erm' for a run and for scores"):
        cp.compare([runs / "erm"], config=how("standard"), scores={"erm": frame})
    with pytest.raises(cp.ConfigError, match="predict no ratings; found 'theirs'"):
        cp.compare([runs / "ratings-erm"], config=how("standard"), scores={"theirs": frame})
    with pytest.raises(cp.ConfigError, match="two different candidates or more; found theirs"):
        cp.compare([], config=how("standard"), scores={"theirs": frame})


def test_what_cannot_be_compared_is_refused(runs: Path) -> None:
    with pytest.raises(cp.ConfigError, match="needs two different candidates or more"):
        cp.compare([runs / "erm"])
    with pytest.raises(cp.ConfigError, match="compare like with like"):
        cp.compare([runs / "erm", runs / "ratings-erm"], config=how("standard"))
    with pytest.raises(cp.ConfigError, match="needs two different candidates or more"):
        cp.compare([runs / "erm", runs / "erm"], config=how("standard"))
