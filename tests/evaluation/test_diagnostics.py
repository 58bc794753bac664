from __future__ import annotations

import copy
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import ArrayLike, NDArray

import counterplay as cp
from counterplay.evaluation import diagnostics as module
from counterplay.evaluation.propensities import Contestant, popularity
from counterplay.evaluation.stage import Evaluation, Stage
from counterplay.metrics.exposure import calibration, popularity_deciles
from counterplay.metrics.ranks import _BYTES_A_SCORE
from counterplay.models.link import Link
from counterplay.models.popularity import ItemLevel
from counterplay.simulation.logs import oracle_propensities
from counterplay.simulation.synthetic import Synthetic
from counterplay.simulation.world import World
from counterplay.simulation.writing import split_by_rounds

pytestmark = pytest.mark.filterwarnings("ignore::counterplay.CounterplayWarning")  # tiny logs

RATES = 1.0, 0.3, 0.5


def diagnostics(stage: Stage, contestants: list[Contestant], **options: Any) -> dict[str, Any]:
    """Return the diagnostics as JSON has them."""
    plain = module.diagnostics(stage, contestants, **options).to_dict()
    found: dict[str, Any] = json.loads(json.dumps(plain))
    return found


@dataclass
class Matrix:
    """Scores `[n_users, n_items]` that are all there; notes the most that are asked for at once."""

    scores: NDArray[np.float32]
    most: int = 0

    def of(self, users: NDArray[np.integer], items: NDArray[np.integer]) -> NDArray[np.float32]:
        found: NDArray[np.float32] = self.scores[users[:, None], items]
        return found

    def of_all(self, users: NDArray[np.integer]) -> NDArray[np.float32]:
        self.most = max(self.most, len(users))
        found: NDArray[np.float32] = self.scores[users]
        return found


def contestant(name: str, scores: ArrayLike, exposure: ItemLevel | None = None) -> Contestant:
    """Return a candidate with given scores; with an exposure model, as the game would leave it."""
    link = Link(floor=0.02, monotone=True, initial=(0.4, 1.5, -0.6))
    matrix = Matrix(np.array(scores, dtype=np.float32))
    method = "given" if exposure is None else "acl"
    return Contestant(name, matrix, None, exposure, link, method)


def two(log: cp.Interactions, seed: int = 0) -> list[Contestant]:
    rng = np.random.default_rng(seed)
    found = []
    for name in ("one", "other"):
        exposure = ItemLevel(log.n_users, log.n_items)
        with torch.no_grad():
            for parameter in exposure.parameters():
                parameter.copy_(torch.from_numpy(rng.normal(size=tuple(parameter.shape))))
        found.append(contestant(name, rng.normal(size=(log.n_users, log.n_items)), exposure))
    return found


def how(*estimators: str, **settings: object) -> Evaluation:
    plain: dict[str, object] = {
        "estimators": estimators or ("standard", "popularity", "opponent"),
        "k": (5, 10),
    }
    plain["opponent"] = "own"
    return Evaluation.model_validate(plain | settings)


def stage_of(
    pairs: Iterable[tuple[int, int, int]], n_users: int, n_items: int, config: Evaluation
) -> Stage:
    """Return the stage of a log of (user, item, part)."""
    user, item, part = np.array(sorted(pairs)).T
    users, items = (cp.data.Vocabulary.of(np.arange(n)) for n in (n_users, n_items))
    log = cp.Interactions(users, items, user.astype(np.int32), item.astype(np.int32))
    return Stage(cp.Split(log, part.astype(np.int8), "given"), config, explicit=False)


def small(**settings: object) -> World:
    plain = {"n_users": 50, "n_items": 40, "n_shown": 8, "mean_relevance": 0.5}
    return Synthetic.model_validate(plain | settings).world()


@pytest.fixture(scope="module")
def world() -> World:
    return small()


@pytest.fixture(scope="module")
def split(world: World) -> cp.Split:
    return split_by_rounds(world.log(RATES), len(RATES))


@pytest.fixture(scope="module")
def found(split: cp.Split) -> dict[str, Any]:
    return diagnostics(Stage(split, how(), explicit=False), two(split.train))


def test_the_result_is_plain_and_complete(found: dict[str, Any], split: cp.Split) -> None:
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    parts = ["propensities", "popularity", "by_decile", "calibration", "segments", "gallery"]
    assert list(found) == parts
    assert found["segments"] is found["gallery"] is None, "they were not asked for"
    assert found["calibration"] == []
    assert [(each["estimator"], each["candidate"]) for each in found["propensities"]] == [
        ("popularity", None),
        ("opponent", "one"),
        ("opponent", "other"),
    ]
    for each in found["propensities"]:
        assert list(each) == [
            "estimator", "candidate", "n", "ess", "top_share", "quantiles", "edges", "counts",
        ]  # fmt: skip
        assert sum(each["counts"]) == each["n"] == len(split.test)
        assert each["edges"][0] == 0.01
    for each in found["popularity"]["recommended"]:
        assert list(each) == [
            "candidate", "k", "n_users", "shares", "mean_popularity", "coverage", "gini",
            "measures",
        ]  # fmt: skip
    for each in found["by_decile"]:
        assert list(each) == [
            "candidate", "metric", "k", "decile", "n", "value", "low", "high",
        ]  # fmt: skip
    assert len(found["by_decile"]) == 2 * 3 * 2 * 10


def test_propensities_are_those_of_the_estimators(split: cp.Split) -> None:
    stage = Stage(split, how("standard", "popularity", clip=0.2), explicit=False)
    (each,) = diagnostics(stage, two(split.train))["propensities"]
    q = np.maximum(popularity(stage.train, stage.targets, 1.0, 0.01), 0.2)
    assert each["quantiles"]["50%"] == pytest.approx(np.median(q))
    assert each["quantiles"]["0%"] == pytest.approx(q.min())
    assert each["ess"] == pytest.approx((1 / q).sum() ** 2 / (1 / q**2).sum())


def test_lists_equal_a_loop_over_users(found: dict[str, Any], split: cp.Split) -> None:
    seen = set(split.interactions.take(split.part < 2).pair.tolist())
    n_items = split.train.n_items
    events = np.bincount(split.train.item, minlength=n_items)
    deciles = popularity_deciles(events)
    users = sorted(set(split.test.user.tolist()))
    for each, candidate in zip(found["popularity"]["recommended"], two(split.train), strict=True):
        assert isinstance(candidate.scores, Matrix)
        items: list[int] = []
        for user in users:
            best_first = np.argsort(-candidate.scores.scores[user], kind="stable").tolist()
            items += [item for item in best_first if user * n_items + item not in seen][:10]
        assert (each["candidate"], each["k"], each["n_users"]) == (candidate.name, 10, len(users))
        shares = np.bincount(deciles[items], minlength=11)[1:] / len(items)
        assert each["shares"] == pytest.approx(shares.tolist())
        assert each["mean_popularity"] == pytest.approx(events[items].mean())
        assert each["coverage"] == pytest.approx(len(set(items)) / n_items)
    logged = found["popularity"]["logged_mean_popularity"]
    assert logged == pytest.approx(np.mean([events[item] for item in split.train.item.tolist()]))


def test_rows_are_grouped_by_the_decile_of_their_item(
    found: dict[str, Any], split: cp.Split
) -> None:
    stage = Stage(split, how(), explicit=False)
    events = np.bincount(split.train.item, minlength=split.train.n_items)
    deciles = popularity_deciles(events)
    rows = iter(found["by_decile"])
    for candidate in two(split.train):
        for (metric, k), values in stage.values(candidate).items():
            for decile in range(1, 11):
                mine = [
                    value
                    for value, item in zip(values.tolist(), split.test.item.tolist(), strict=True)
                    if deciles[item] == decile
                ]
                each = next(rows)
                assert (each["candidate"], each["metric"], each["k"], each["decile"]) == (
                    candidate.name, metric, k, decile,
                )  # fmt: skip
                assert each["n"] == len(mine)
                assert each["value"] == (pytest.approx(np.mean(mine)) if mine else None)
    assert next(rows, None) is None


def test_the_same_seed_gives_the_same_and_another_other_intervals(
    found: dict[str, Any], split: cp.Split
) -> None:
    again, other = (
        diagnostics(Stage(split, how(seed=seed), explicit=False), two(split.train))
        for seed in (0, 1)
    )
    assert again == found
    found = copy.deepcopy(found)
    assert other["by_decile"] != found["by_decile"]
    for one, another in zip(
        found["popularity"]["recommended"], other["popularity"]["recommended"], strict=True
    ):
        measures, others = one.pop("measures"), another.pop("measures")
        assert [each["value"] for each in measures] == [each["value"] for each in others]
        assert measures != others
        assert one == another


def test_alike_candidates_have_alike_diagnostics(split: cp.Split) -> None:
    """Resamples and sampled users are the same for all."""
    one, _ = two(split.train)
    stage = Stage(split, how(), explicit=False)
    found = diagnostics(stage, [one, replace(one, name="twin")])
    rows = found["by_decile"]
    half = len(rows) // 2
    assert [each | {"candidate": "one"} for each in rows[half:]] == rows[:half]
    first, second = found["popularity"]["recommended"]
    assert second | {"candidate": "one"} == first


def test_of_many_users_some_are_looked_at(
    split: cp.Split, found: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST_USERS", 7)
    stages = [Stage(split, how("standard", seed=seed), explicit=False) for seed in (0, 0, 1)]
    a, b, c = (diagnostics(each, two(split.train))["popularity"] for each in stages)
    assert [each["n_users"] for each in a["recommended"]] == [7, 7]
    assert a == b
    assert a["recommended"] != c["recommended"]
    assert a["deciles"] == found["popularity"]["deciles"]


def test_memory_changes_nothing_but_how_many_are_scored_at_once(
    split: cp.Split, found: dict[str, Any]
) -> None:
    memory = 3 * split.train.n_items * _BYTES_A_SCORE
    candidates = two(split.train)
    again = diagnostics(Stage(split, how(memory=memory), explicit=False), candidates)
    assert again == found
    assert [each.scores.most for each in candidates if isinstance(each.scores, Matrix)] == [3, 3]


# worlds


def test_calibration_is_against_the_worlds_propensities(world: World, split: cp.Split) -> None:
    config = how("standard", "oracle", "popularity", "opponent")
    stage = Stage(split, config, explicit=False, world=world)
    found = diagnostics(stage, two(split.train))
    assert [(each["estimator"], each["candidate"]) for each in found["calibration"]] == [
        ("popularity", None),
        ("opponent", "one"),
        ("opponent", "other"),
    ]
    assert found["propensities"][0]["estimator"] == "oracle"
    true = oracle_propensities(world, stage.targets)
    q = popularity(stage.train, stage.targets, 1.0, 0.01)
    expected = calibration(q, true)
    first = found["calibration"][0]
    assert first["correlation"] == pytest.approx(expected["correlation"])
    assert first["bins"] == [pytest.approx(each) for each in expected["bins"]]
    assert np.average(
        [each["true"] for each in first["bins"]], weights=[each["n"] for each in first["bins"]]
    ) == pytest.approx(true.mean())
    json.dumps(found, allow_nan=False)


def test_logged_true_propensities_are_on_the_diagonal() -> None:
    world = small(examination=1.0)  # else the log knows the place too
    split = split_by_rounds(world.log((1.0, 1.0, 1.0), with_truth=True), 3)
    stage = Stage(split, how("logged"), explicit=False, world=world)
    (each,) = diagnostics(stage, two(split.train))["calibration"]
    assert each["correlation"] == pytest.approx(1)
    assert len(each["bins"]) == 10
    for one in each["bins"]:
        assert one["estimated"] == pytest.approx(one["true"])


# odd logs


def test_ratings_rank_nothing(dataset: Path) -> None:
    split = cp.data.load_split(dataset)
    stage = Stage(split, how("standard", "popularity"), explicit=True)
    found = diagnostics(stage, two(split.train))
    assert found["popularity"]["recommended"] == []
    assert {(each["metric"], each["k"]) for each in found["by_decile"]} == {("mse", 0), ("mae", 0)}
    assert sum(each["n"] for each in found["by_decile"]) == 4 * len(split.test)
    json.dumps(found, allow_nan=False)


def test_one_item_that_all_have_seen() -> None:
    pairs = [(user, 0, part) for user in range(3) for part in (0, 2)]
    stage = stage_of(pairs, 3, 1, how("standard", "popularity"))
    found = diagnostics(stage, [contestant("one", np.ones((3, 1)))])
    assert found["popularity"]["recommended"] == []  # nothing is left to recommend
    assert [each["items"] for each in found["popularity"]["deciles"]] == [*[0] * 9, 1]
    assert [each["logged"] for each in found["popularity"]["deciles"]] == [*[0.0] * 9, 1.0]
    assert found["popularity"]["logged_mean_popularity"] == 3
    (equal,) = found["propensities"]
    assert (equal["ess"], equal["counts"][-1]) == (pytest.approx(3), 3)
    assert {each["decile"] for each in found["by_decile"] if each["n"]} == {10}


def test_items_that_training_never_saw_are_in_the_tail() -> None:
    pairs = [(0, 0, 0), (0, 1, 2), (1, 0, 0), (1, 2, 2), (2, 2, 0), (2, 3, 2)]
    stage = stage_of(pairs, 3, 4, how("standard", k=(1,), metrics=("hit",)))
    scores = np.array([[0, 9, 0, 0], [0, 0, 0, 0], [0, 0, 0, 9]])  # finds two of three, and guesses
    found = diagnostics(stage, [contestant("one", scores)], k=1)
    rows = {each["decile"]: each for each in found["by_decile"]}
    assert (rows[1]["n"], rows[1]["value"]) == (2, 1.0)  # items 1 and 3, of two users
    assert (rows[1]["low"], rows[1]["high"]) == (1.0, 1.0)
    assert (rows[4]["n"], rows[4]["value"], rows[4]["low"]) == (1, 1 / 3, None)  # item 2, of one
    assert (rows[10]["n"], rows[10]["value"], rows[10]["low"]) == (0, None, None)
    assert found["popularity"]["deciles"][0] == {"decile": 1, "items": 2, "logged": 0.0}
    (each,) = found["popularity"]["recommended"]
    assert each["shares"][0] == pytest.approx(1)  # items 1, 1 and 3: of equals the first


def test_scores_of_few_pairs_leave_places_empty() -> None:
    pairs = [(0, 0, 0), (0, 1, 2), (1, 0, 0), (1, 2, 2)]
    stage = stage_of(pairs, 2, 3, how("standard"))
    scores = np.full((2, 3), -np.inf)
    scores[:, 1] = 1
    (each,) = diagnostics(stage, [contestant("few", scores)])["popularity"]["recommended"]
    assert (each["n_users"], each["coverage"]) == (2, pytest.approx(1 / 3))
    assert sum(each["shares"]) == pytest.approx(1)


def test_no_cutoff_below_one(split: cp.Split) -> None:
    with pytest.raises(cp.ConfigError, match="k must be 1 or more; found 0"):
        diagnostics(Stage(split, how("standard"), explicit=False), two(split.train), k=0)


def test_validation_rows_have_diagnostics_too(split: cp.Split) -> None:
    stage = Stage(split, how("popularity", part="validation"), explicit=False)
    found = diagnostics(stage, two(split.train))
    assert found["propensities"][0]["n"] == len(split.validation)
