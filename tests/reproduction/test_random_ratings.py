from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import counterplay as cp
from counterplay.data.datasets.randomized import read_coat
from counterplay.evaluation.settings import OpponentSettings
from counterplay.learning.config import Training
from reproduction.random_ratings import judge_by_random_ratings, summarise_ratings
from reproduction.rating_candidates import RatingCandidate, RatingComparison

N_USERS, N_ITEMS = 60, 40
QUICK = RatingComparison(
    candidates=(
        RatingCandidate(name="cf", method="erm", model="cf"),
        RatingCandidate(name="weighted", method="ps", model="cf"),
        RatingCandidate(name="game", method="acl", model="gmf"),
    ),
    dims=(2,),
    l2=(0.001, 0.1),
    training=Training(loss="squared", batch_size=256, epochs=4, patience=2, rate=0.03),
    exposure=OpponentSettings(epochs=2),
    opponents=(
        OpponentSettings(floor=0.05, epochs=2),
        OpponentSettings(kind="own", floor=0.2, epochs=2),
    ),
)
ONLY_MEAN = RatingComparison(candidates=(), opponents=())
BARE = QUICK.model_copy(update={"candidates": QUICK.candidates[:1], "opponents": ()})


def logs(
    *, selective: bool, seed: int = 0, per_cell: float = 0.4
) -> tuple[cp.Interactions, cp.Interactions]:
    """Return ratings of chosen and of random items; the choice may follow the rating."""
    rng = np.random.default_rng(seed)
    user, item = (each.ravel() for each in np.indices((N_USERS, N_ITEMS)))
    taste = rng.normal(size=N_USERS)[user] + rng.normal(size=N_ITEMS)[item]
    rating = np.clip(np.round(3 + taste + rng.normal(size=len(user)) / 2), 1, 5)
    propensity = np.where(rating > 3, 0.8, 0.2) if selective else np.full(len(user), per_cell)
    chosen = rng.random(len(user)) < propensity
    drawn = rng.random(len(user)) < per_cell
    everything = cp.read({"user": user, "item": item, "rating": rating, "propensity": propensity})
    assert (len(everything), everything.n_users) == (N_USERS * N_ITEMS, N_USERS)
    return everything.take(chosen), everything.take(drawn)


def cell(result: dict[str, Any], estimator: str, candidate: str, metric: str = "mse") -> float:
    (found,) = [
        one["value"]
        for one in result["estimates"]
        if (one["estimator"], one["candidate"], one["metric"]) == (estimator, candidate, metric)
    ]
    return float(found)


@pytest.fixture(scope="module")
def quick() -> dict[str, Any]:
    return judge_by_random_ratings(*logs(selective=True), QUICK, seed=3)


def parts_of_mean(
    chosen: cp.Interactions, drawn: cp.Interactions, seed: int
) -> tuple[cp.Interactions, cp.Interactions, NDArray[np.float64], float]:
    """Return the held-out rows, the random rows that count, how much, and the mean of training."""
    split = cp.data.split_at_random(chosen, cp.Streams(seed).numpy("split"), fractions=(0.1, 0.2))
    assert split.train.rating is not None
    seen = np.concatenate([split.train.pair, split.validation.pair])
    judged = drawn.take(~np.isin(drawn.pair, seen))
    held_out = set(split.test.pair.tolist())
    factor = len(chosen) / len(split.test)
    counts = np.array([factor if pair in held_out else 1 for pair in judged.pair.tolist()])
    return split.test, judged, counts, float(split.train.rating.mean())


def squares(rows: cp.Interactions, mean: float) -> NDArray[np.float64]:
    assert rows.rating is not None
    return (rows.rating.astype(np.float64) - mean) ** 2


def test_standard_is_the_plain_mean_logged_the_weighted_one_and_truth_that_of_random_rows(
    quick: dict[str, Any],
) -> None:
    held_out, judged, counts, mean = parts_of_mean(*logs(selective=True), 3)
    errors = squares(held_out, mean)
    assert held_out.propensity is not None
    weights = 1 / held_out.propensity
    truth = next(one for one in quick["candidates"] if one["name"] == "mean")["truth"]
    assert cell(quick, "standard", "mean") == pytest.approx(errors.mean(), rel=1e-5)
    assert cell(quick, "logged", "mean") == pytest.approx(
        (weights * errors).sum() / weights.sum(), rel=1e-5
    )
    apart = squares(judged, mean)
    assert truth["mse"]["value"] == pytest.approx(counts @ apart / counts.sum(), rel=1e-5)
    assert truth["mae"]["value"] == pytest.approx(counts @ np.sqrt(apart) / counts.sum(), rel=1e-5)
    assert 0 < (counts > 1).sum() < len(counts)
    assert truth["mse"]["low"] < truth["mse"]["value"] < truth["mse"]["high"]
    assert quick["rows"]["held_out"] == len(held_out)
    assert quick["rows"]["random"] == len(judged)


def test_all_candidates_meet_all_estimators(quick: dict[str, Any]) -> None:
    names = ["cf", "weighted", "game", "mean"]
    assert [one["name"] for one in quick["candidates"]] == names
    labels = list(dict.fromkeys(one["estimator"] for one in quick["estimates"]))
    assert labels == [
        "standard",
        "popularity",
        "logged",
        "propensity (item, floor 0.05)",
        "robust (item, floor 0.05)",
        "robust-shared (item, floor 0.05)",
        "propensity (own, floor 0.2)",
        "robust (own, floor 0.2)",
        "robust-shared (own, floor 0.2)",
    ]
    assert len(quick["estimates"]) == len(names) * len(labels) * 2
    for one in quick["candidates"][:3]:
        assert one["l2"] in QUICK.l2
        assert one["validation"] < 1.05 * quick["candidates"][3]["validation"]
    robust = {name: cell(quick, "robust (own, floor 0.2)", name) for name in names}
    shared = {name: cell(quick, "robust-shared (own, floor 0.2)", name) for name in names}
    assert any(robust[name] != shared[name] for name in names)
    assert any("still moving" in text for text in quick["warnings"])  # two epochs are few


def test_one_seed_gives_one_result_and_another_another() -> None:
    chosen, drawn = logs(selective=True)
    first, again, other = (
        judge_by_random_ratings(chosen, drawn, BARE, seed=seed) for seed in (5, 5, 6)
    )
    assert first == again
    assert first["estimates"] != other["estimates"]


def test_the_choice_of_a_candidate_sees_validation_rows_only() -> None:
    chosen, drawn = logs(selective=True)
    assert drawn.rating is not None
    turned = replace(drawn, rating=6 - drawn.rating)
    first, second = (judge_by_random_ratings(chosen, rows, BARE) for rows in (drawn, turned))
    assert first["estimates"] == second["estimates"]
    for one, other in zip(first["candidates"], second["candidates"], strict=True):
        assert (one["l2"], one["validation"]) == (other["l2"], other["validation"])
        assert one["truth"] != other["truth"]


def test_what_cannot_be_judged_is_refused() -> None:
    chosen, drawn = logs(selective=True)
    with pytest.raises(cp.DataError, match="found one without a rating column"):
        judge_by_random_ratings(replace(chosen, rating=None), drawn, BARE)
    with pytest.raises(cp.DataError, match="must have the same items"):
        judge_by_random_ratings(chosen, drawn.take(drawn.item < 30).compact(), BARE)
    with pytest.raises(cp.DataError, match="pairs that nobody learned from"):
        judge_by_random_ratings(chosen, drawn.take(np.zeros(len(drawn), bool)), BARE)


def hand_made(seed: int, estimates: list[float], truth: list[float]) -> dict[str, Any]:
    names = ["a", "b", "c"]
    return {
        "seed": seed,
        "candidates": [
            {"name": name, "truth": {"mse": {"value": value}}}
            for name, value in zip(names, truth, strict=True)
        ],
        "estimates": [
            {"estimator": "standard", "candidate": name, "metric": "mse", "value": value, "ess": 7}
            for name, value in zip(names, estimates, strict=True)
        ],
    }


def test_a_summary_equals_what_a_hand_computes() -> None:
    results = [
        hand_made(0, [1.0, 2.0, 4.0], [2.0, 1.0, 3.0]),  # errors −1, 1, 1; picks a: regret 1
        hand_made(1, [2.0, 3.0, 1.0], [2.0, 3.0, 1.0]),  # exact
        hand_made(2, [3.0, 3.0, 4.0], [1.0, 3.0, 2.0]),  # errors 2, 0, 2; a tie, the first wins
    ]
    summary = summarise_ratings(results)
    (found,) = summary["estimators"]
    assert found["squared_error"]["value"] == pytest.approx((1 + 0 + 8 / 3) / 3)
    assert found["bias"]["value"] == pytest.approx((1 / 3 + 0 + 4 / 3) / 3)
    assert found["rank_correlation"]["value"] == pytest.approx((0.5 + 1 + 0) / 3)
    assert found["win_rate"]["value"] == pytest.approx(2 / 3)
    assert found["regret"]["value"] == pytest.approx(1 / 3)
    assert found["ess"] == 7
    # Student's t of 2 degrees is 4.3027 at 95%; the regrets 1, 0, 0 deviate by √(1/3).
    reach = 4.302653 * np.sqrt(1 / 3) / np.sqrt(3)
    assert found["regret"]["high"] == pytest.approx(1 / 3 + reach)
    assert found["regret"]["low"] == pytest.approx(1 / 3 - reach)
    assert (found["metric"], found["estimator"], summary["n_seeds"]) == ("mse", "standard", 3)
    assert summary["truth"][1]["value"] == pytest.approx(7 / 3)


def test_a_summary_is_of_comparable_seeds() -> None:
    one, other = hand_made(0, [1, 2, 3], [1, 2, 3]), hand_made(1, [1, 2, 3], [1, 2, 3])
    other["estimates"].pop()
    for results, match in (
        ([], "of one seed each"),
        ([one, one], "of one seed each"),
        ([one, other], "same candidates and estimators"),
    ):
        with pytest.raises(cp.DataError, match=match):
            summarise_ratings(results)


def test_coat_as_it_is(real_data: Callable[[str], Path]) -> None:
    split = read_coat(real_data("coat"))
    found = judge_by_random_ratings(split.train, split.test, BARE)
    assert found["rows"]["train"] + found["rows"]["validation"] + found["rows"]["held_out"] == 6960
    assert 4200 < found["rows"]["random"] < 4640  # without the pairs that were seen
    assert "logged" not in {one["estimator"] for one in found["estimates"]}
    assert found["candidates"][0]["validation"] < found["candidates"][1]["validation"]
    low, high = (found["candidates"][1]["truth"]["mse"][end] for end in ("low", "high"))
    assert 1.4 < low < high < 2.0
