from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import ValidationError

import counterplay as cp
from counterplay.data.splits import TEST
from counterplay.evaluation.propensities import (
    Contestant,
    fitted_propensities,
)
from counterplay.evaluation.settings import OpponentSettings
from counterplay.models.registry import ModelSettings
from counterplay.runs import training as training
from counterplay.runs.training import load_run, read_record
from counterplay.simulation.logs import oracle_propensities
from counterplay.simulation.online import OnlineTest, online_test
from counterplay.simulation.synthetic import Synthetic
from counterplay.simulation.values import true_values
from counterplay.simulation.world import World
from reproduction import trial
from reproduction.trial import CANDIDATES, CandidateName, Trial, run_trial, summarised
from reproduction.trial_summary import _shares

pytestmark = pytest.mark.filterwarnings("ignore::counterplay.CounterplayWarning")  # few epochs

CONFIG = Trial(
    candidates=("pop", "gmf-8", "acl"),
    kinds=("item",),
    floors=(0.1,),
    k=(5, 10),
    epochs=2,
    opponent=OpponentSettings(epochs=2),
    online=OnlineTest(n_days=4),
    seed=1,
)
METRICS = ["hit@5", "hit@10", "ndcg@5", "ndcg@10"]


def small(seed: int = 0, **settings: object) -> World:
    plain = {"n_users": 50, "n_items": 160, "n_shown": 20, "mean_relevance": 0.4, "skew": 0.5}
    return Synthetic.model_validate(plain | {"drift": 0.2, "seed": seed} | settings).world()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("trial")


@pytest.fixture(scope="module")
def result(folder: Path) -> dict[str, Any]:
    return run_trial(small(), folder, CONFIG)


def said_by(result: dict[str, Any], estimator: str, kind: str = "") -> dict[str, Any]:
    (found,) = (
        each for each in result["offline"] if (each["estimator"], each["kind"]) == (estimator, kind)
    )
    return dict(found)


def scores_of(folder: Path) -> tuple[dict[str, cp.metrics.ModelScores], cp.Split, cp.Interactions]:
    split = cp.data.load_split(folder / "log")
    seen = split.interactions.take(split.part < TEST)
    return (
        {
            name: cp.metrics.ModelScores(
                load_run(folder / name, split.train)[0], seen, train=split.train
            )
            for name in CONFIG.candidates
        },
        split,
        seen,
    )


def by_hand(
    scores: cp.metrics.ModelScores, split: cp.Split, seen: cp.Interactions
) -> dict[str, NDArray[np.float64]]:
    """Rank every test row among what its user has not seen, in a loop; of ties, on each place."""
    known = set(seen.pair.tolist())
    table = scores.of_all(np.arange(seen.n_users))
    rows: dict[str, list[float]] = {name: [] for name in METRICS}
    for user, item in zip(split.test.user.tolist(), split.test.item.tolist(), strict=True):
        others = [
            float(table[user, other])
            for other in range(seen.n_items)
            if other != item and user * seen.n_items + other not in known
        ]
        above = sum(other > table[user, item] for other in others)
        tied = sum(other == table[user, item] for other in others)
        ranks = range(above + 1, above + tied + 2)
        for k in CONFIG.k:
            rows[f"hit@{k}"].append(sum(rank <= k for rank in ranks) / len(ranks))
            gains = [1 / math.log2(rank + 1) for rank in ranks if rank <= k]
            rows[f"ndcg@{k}"].append(sum(gains) / len(ranks))
    return {name: np.array(values) for name, values in rows.items()}


# run_trial


def test_what_a_trial_tells(result: dict[str, Any], folder: Path) -> None:
    assert result["world"] == "synthetic-history"
    assert result["candidates"] == ["pop", "gmf-8", "acl"]
    assert result["configuration"] == CONFIG.model_dump(mode="json")
    split = cp.data.load_split(folder / "log")
    assert result["rows"] == {"train": len(split.train), "test": len(split.test)}
    said = [(each["estimator"], each["kind"], each["floor"]) for each in result["offline"]]
    assert said == [
        ("standard", "", 0.0),
        ("oracle", "", 0.0),
        ("popularity", "", 0.1),
        ("propensity", "item", 0.1),
        ("robust-shared", "item", 0.1),
        ("robust", "item", 0.1),
        ("robust", "as trained", 0.01),
    ]
    for each in result["offline"]:
        assert sorted(each["values"]) == sorted(METRICS)
        for values in (*each["values"].values(), each["ess"]):
            assert len(values) == len(each["candidates"])
            assert all(0 <= value <= 1 for value in values)
    assert sorted(result["online"]) == sorted(METRICS)
    assert json.loads(json.dumps(result, allow_nan=False)) == result


def test_standard_oracle_and_popularity_are_weighted_means(
    result: dict[str, Any], folder: Path
) -> None:
    models, split, seen = scores_of(folder)
    oracle = 1 / oracle_propensities(small(), split.test)
    counts = np.bincount(split.train.item, minlength=seen.n_items)
    popularity = 1 / np.maximum(counts / counts.max(), 0.1)[split.test.item]
    for estimator, weights in (
        ("standard", np.ones(len(oracle))),
        ("oracle", oracle),
        ("popularity", popularity),
    ):
        said = said_by(result, estimator)
        for place, name in enumerate(CONFIG.candidates):
            rows = by_hand(models[name], split, seen)
            for metric in METRICS:
                expected = (rows[metric] * weights).sum() / weights.sum()
                assert said["values"][metric][place] == pytest.approx(expected, rel=1e-9)
            expected = weights.sum() ** 2 / (weights**2).sum() / len(weights)
            assert said["ess"][place] == pytest.approx(expected, rel=1e-9)


def test_the_truth_and_the_online_test_are_those_of_the_last_round(
    result: dict[str, Any], folder: Path
) -> None:
    models, _, seen = scores_of(folder)
    how = OnlineTest(n_days=4, k=CONFIG.k, time=float(len(CONFIG.rates) - 1))
    for place, name in enumerate(CONFIG.candidates):
        truth = true_values(small(), models[name], seen, k=CONFIG.k, time=how.time)
        online = online_test(small(), {name: models[name]}, seen, how).measures[name]
        for (metric, k), value in truth.items():
            assert result["truth"][f"{metric}@{k}"][place] == pytest.approx(value, rel=1e-12)
            if metric != "ctr":
                found = result["online"][f"{metric}@{k}"][place]
                assert found == pytest.approx(online[metric, k].value, rel=1e-12)


def test_as_trained_is_of_those_who_played(result: dict[str, Any], folder: Path) -> None:
    """Weight by G of the run's own opponent and link, without its helpers."""
    said = said_by(result, "robust", "as trained")
    assert said["candidates"] == ["acl"]
    models, split, seen = scores_of(folder)
    _, exposure, link = load_run(folder / "acl", split.train)
    assert exposure is not None
    assert link is not None
    g = cp.metrics.ModelScores(exposure, seen).of(split.test.user, split.test.item[:, None])[:, 0]
    beta = [float(each) for each in link.beta]
    q = np.maximum(1 / (1 + np.exp(-(beta[0] + beta[1] * g + beta[2]))), 0.01)
    rows = by_hand(models["acl"], split, seen)["hit@10"]
    assert said["values"]["hit@10"] == [pytest.approx((rows / q).sum() / (1 / q).sum(), rel=1e-5)]


def test_each_kind_and_floor_is_an_opponent_of_its_own(
    folder: Path, result: dict[str, Any]
) -> None:
    """The opponent that acl was trained against has no part in it."""
    asked = {"candidates": ("acl",), "kinds": ("item", "own"), "floors": (0.2, 0.6)}
    config = CONFIG.model_copy(update=asked)
    found = run_trial(small(), folder, config)
    models, split, seen = scores_of(folder)
    train = replace(split.train, rating=None)
    rows = by_hand(models["acl"], split, seen)["hit@10"]
    settings = CANDIDATES["acl"].get("candidate", ModelSettings())
    alone = Contestant("acl", models["acl"], load_run(folder / "acl", train)[0], settings=settings)
    values = []
    for kind, floor in itertools.product(config.kinds, config.floors):
        opponent = OpponentSettings(epochs=2, kind=kind, floor=floor)
        q = fitted_propensities("opponent", [alone], train, seen, split.test, opponent, 1)
        (said,) = (
            each["values"]["hit@10"][0]
            for each in found["offline"]
            if (each["estimator"], each["kind"], each["floor"]) == ("robust", kind, floor)
        )
        values.append(said)
        assert said == pytest.approx((rows / q).sum() / (1 / q).sum(), rel=1e-9)
    assert len(set(values)) == 4


def test_without_players_nobody_is_as_trained(folder: Path, result: dict[str, Any]) -> None:
    config = CONFIG.model_copy(update={"candidates": ("pop", "gmf-8")})
    found = run_trial(small(), folder, config)
    assert "as trained" not in {each["kind"] for each in found["offline"]}
    assert found["truth"]["hit@10"] == result["truth"]["hit@10"][:2]


def test_shared_weights_are_the_same_for_all(result: dict[str, Any]) -> None:
    for estimator, kind in (("propensity", "item"), ("robust-shared", "item"), ("oracle", "")):
        assert len(set(said_by(result, estimator, kind)["ess"])) == 1
    assert len(set(said_by(result, "robust", "item")["ess"])) == 3  # an opponent each


def test_a_trial_goes_on_from_its_folder(
    result: dict[str, Any], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("trained again")

    monkeypatch.setattr(training, "fit", refuse)
    assert run_trial(small(), folder, CONFIG) == result
    assert before == {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def test_what_broke_off_goes_on(
    result: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []

    def stop(what: str) -> None:
        told.append(what)
        if what == "train acl":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_trial(small(), tmp_path, CONFIG, progress=stop)
    assert told == ["train pop", "train gmf-8", "train acl"]
    assert {path.name for path in tmp_path.iterdir()} == {"log", "pop", "gmf-8"}
    again: list[str] = []
    assert run_trial(small(), tmp_path, CONFIG, progress=again.append) == result
    assert again == [*told, "online", *(f"{name}, item, floor 0.1" for name in
                                        ("propensity", "robust-shared", "robust"))]  # fmt: skip


@pytest.mark.parametrize(
    "change", [{"epochs": 3}, {"seed": 2}, {"rates": (1.0, 0.2, 0.5)}], ids=str
)
def test_a_folder_of_another_trial_is_refused(
    change: dict[str, Any], result: dict[str, Any], folder: Path
) -> None:
    with pytest.raises(cp.CounterplayError):
        run_trial(small(), folder, CONFIG.model_copy(update=change))


def test_a_folder_of_another_world_is_refused(result: dict[str, Any], folder: Path) -> None:
    with pytest.raises(cp.CounterplayError):
        run_trial(small(seed=1), folder, CONFIG)


@pytest.mark.parametrize("name", CANDIDATES)
def test_every_candidate_can_be_trained(
    name: CandidateName, folder: Path, result: dict[str, Any]
) -> None:
    train = cp.data.load_split(folder / "log").train
    config = trial._run_config(name, train, CONFIG)
    how = config.of_method()  # refuses what does not go with the method
    assert (how.epochs, how.seed) == (2, 1)
    assert how.batch_size == 256  # a short log has the smallest batches
    assert how.l2 == pytest.approx(2 / len(train))
    assert config.training.recipe == ("paper" if name == "acl-paper" else "stable")
    assert "training" not in CANDIDATES[name] or name == "acl-paper"  # the table is not changed


def test_the_runs_are_what_was_asked_for(result: dict[str, Any], folder: Path) -> None:
    for name in CONFIG.candidates:
        found = read_record(folder / name).to_dict()["configuration"]
        train = cp.data.load_split(folder / "log").train
        assert found == trial._run_config(name, train, CONFIG).model_dump(mode="json")


@pytest.mark.parametrize(
    "setting",
    [
        {"rates": (1.0, 0.5)},
        {"floors": (0.0,)},
        {"floors": (1.0,)},
        {"kinds": ("deep",)},
        {"metrics": ("mrr",)},
        {"seed": -1},
        {"epoch": 3},
        {"candidates": ("gfm",)},
        {"k": (0,)},
        {"k": ()},
        {"candidates": ()},
    ],
    ids=str,
)
def test_what_cannot_be_tried_is_refused(setting: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Trial.model_validate(setting)


# summarised


def told(
    names: list[str], online: list[float], truth: list[float], *said: tuple[str, list[float]]
) -> dict[str, Any]:
    """Make a trial in which estimators said something of hit@10."""
    return {
        "candidates": names,
        "online": {"hit@10": online},
        "truth": {"hit@10": truth, "ctr@10": truth},
        "offline": [
            {"estimator": estimator, "kind": "", "floor": 0.0, "values": {"hit@10": values},
             "candidates": names[: len(values)], "ess": [1.0] * len(values)}
            for estimator, values in said
        ],
    }  # fmt: skip


def test_a_summary_by_hand() -> None:
    names = ["a", "b", "c"]
    trials = [
        told(names, [0.1, 0.2, 0.3], [0.1, 0.2, 0.4], ("standard", [0.2, 0.4, 0.3])),
        told(names, [0.3, 0.2, 0.1], [0.5, 0.2, 0.1], ("standard", [0.4, 0.1, 0.0])),
    ]
    (found,) = summarised(trials)
    assert {key: found[key] for key in ("estimator", "kind", "floor", "metric", "n")} == {
        "estimator": "standard",
        "kind": "",
        "floor": 0.0,
        "metric": "hit@10",
        "n": 2,
    }
    # errors 0.1, 0.2, 0 and 0.1, −0.1, −0.1; ranks 1 3 2 against 1 2 3, and the same
    by_hand = {
        "mse": (0.05 / 3, 0.03 / 3),
        "bias": (0.1, -0.1 / 3),
        "rank": (0.5, 1.0),
        "wins": (0.0, 1.0),
        "regret": (0.5, 0.0),
    }
    for name, (one, two) in by_hand.items():
        mean, low, high = found[name]
        assert mean == pytest.approx((one + two) / 2)
        if name == "wins":  # a share has Wilson's interval
            assert (low, high) == (pytest.approx(0.0945312), pytest.approx(0.9054688))
            continue
        # t of one degree of freedom at 97.5 %, times |difference| / 2
        half = 12.7062047 * abs(one - two) / 2
        assert (low, high) == (pytest.approx(mean - half), pytest.approx(mean + half))
    assert set(found) == {"estimator", "kind", "floor", "metric", "n", *by_hand}


def test_a_subset_is_compared_with_its_own_results() -> None:
    """Two of three candidates, in another order: too few for an order of their own."""
    whole = told(["a", "b", "c"], [0.1, 0.2, 0.3], [0.1, 0.2, 0.3])
    part = {"estimator": "robust", "kind": "as trained", "floor": 0.01, "candidates": ["c", "a"],
            "values": {"hit@10": [0.4, 0.1]}, "ess": [1.0, 1.0]}  # fmt: skip
    (found,) = summarised([whole | {"offline": [part]}])
    assert found["mse"][0] == pytest.approx(0.01 / 2)
    assert found["bias"][0] == pytest.approx(0.1 / 2)
    assert not found.keys() & {"rank", "wins", "regret"}


def test_estimators_metrics_and_floors_are_apart() -> None:
    one = told(["a", "b", "c"], [0.1, 0.2, 0.3], [0.1, 0.2, 0.3],
               ("standard", [0.1, 0.2, 0.3]), ("oracle", [0.2, 0.3, 0.4]))  # fmt: skip
    other = json.loads(json.dumps(one))
    other["offline"][0]["floor"] = 0.1
    found = {(each["estimator"], each["floor"]): each for each in summarised([one, other])}
    assert {key: each["n"] for key, each in found.items()} == {
        ("standard", 0.0): 1,
        ("oracle", 0.0): 2,
        ("standard", 0.1): 1,
    }
    assert found["oracle", 0.0]["bias"] == (pytest.approx(0.1),) * 3


@pytest.mark.parametrize(("n", "known"), [(0, False), (19, False), (20, True)])
def test_a_share_has_an_interval_from_20_worlds_on(n: int, known: bool) -> None:
    found = _shares(np.ones(n), np.full(n, 2.0))
    assert np.array_equal(found, np.full(len(found), 0.5 if known else np.nan), equal_nan=True)
