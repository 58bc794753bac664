from __future__ import annotations

import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import counterplay as cp
from counterplay.data.splits import TEST
from counterplay.evaluation.deployment import OnlineRecord
from counterplay.runs.config import run_config
from counterplay.runs.online import online_runs
from counterplay.runs.training import load_run
from counterplay.simulation.online import OnlineTest, online_test
from counterplay.simulation.store import load_world
from counterplay.simulation.synthetic import Synthetic
from counterplay.simulation.world import World
from counterplay.simulation.writing import write_world

RATES = 1.0, 0.3, 0.5
LOOK = OnlineTest(n_days=3, k=(3, 5), seed=4, time=0.0)


def small(**settings: object) -> World:
    plain = {"n_users": 50, "n_items": 40, "n_shown": 8, "mean_relevance": 0.5}
    return Synthetic.model_validate(plain | settings).world()


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A world with a log, and two runs on it."""
    folder = tmp_path_factory.mktemp("worlds")
    write_world(small(), folder / "world", rates=RATES)
    for name, model in (("first", "gmf"), ("second", "cf")):
        settings = ("method=erm", f"candidate.name={model}", "candidate.dim=4", "training.rate=0.1",
                    "training.epochs=3", "training.batch_size=64",
                    "validation.n_negatives=3")  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cp.CounterplayWarning)
            cp.train(folder / "world" / "log", folder / name, run_config(None, settings))
    return folder


# write_world


def scores_of(folder: Path, name: str) -> tuple[cp.metrics.ModelScores, cp.Interactions]:
    split = cp.data.load_split(folder / "world" / "log")
    seen = split.interactions.take(split.part < TEST)
    model = load_run(folder / name, split.train)[0]
    return cp.metrics.ModelScores(model, seen, train=split.train), seen


def test_runs_are_deployed_as_they_are(folder: Path) -> None:
    found = online_runs(folder / "world", [folder / "first", folder / "second"], LOOK)
    seen = scores_of(folder, "first")[1]
    arms = {name: scores_of(folder, name)[0] for name in ("first", "second")}
    expected = online_test(load_world(folder / "world"), arms, seen, LOOK).to_dict()
    assert found == OnlineRecord.model_validate({**expected, "truth": found.truth})
    assert found.control == "first"


def test_the_truth_is_that_of_the_lists(folder: Path) -> None:
    """Add up by hand what each unseen item's click is worth at its place."""
    result = online_runs(folder / "world", [folder / "first", folder / "second"], LOOK)
    found = {(each.arm, each.metric, each.k): each.value for each in result.truth}
    world = load_world(folder / "world")
    relevance = world.relevance(np.arange(world.n_users))
    for name in ("first", "second"):
        scores, seen = scores_of(folder, name)
        table = scores.of_all(np.arange(world.n_users))
        hits, gains, wanted = 0.0, 0.0, 0.0
        for user in range(world.n_users):
            clicked = set(seen.item[seen.user == user].tolist())
            unseen = [item for item in range(world.n_items) if item not in clicked]
            wanted += float(relevance[user, unseen].sum())
            best = sorted(unseen, key=lambda item: (-table[user, item], item))[:3]
            for place, item in enumerate(best):  # on average over all orders of what ties
                ties = [other for other in unseen if table[user, other] == table[user, item]]
                hits += float(relevance[user, ties].mean())
                gains += float(relevance[user, ties].mean()) / np.log2(place + 2)
        assert found[name, "hit", 3] == pytest.approx(hits / wanted, rel=1e-9)
        assert found[name, "ndcg", 3] == pytest.approx(gains / wanted, rel=1e-9)


def test_a_long_test_finds_the_truth(folder: Path) -> None:
    """|z| < 4 for two arms and four metrics: a false alarm in about 2,000, with a fixed seed."""
    look = LOOK.model_copy(update={"n_days": 40, "sessions_a_day": 5.0})
    for name in ("first", "second"):  # alone: everybody's value, not that of the arm's users
        result = online_runs(folder / "world", [folder / name], look)
        truth = {(each.metric, each.k): each.value for each in result.truth}
        for each in result.arms[0].measures:
            if each.metric != "ctr":
                chance = abs(each.high - each.low) / (2 * 1.96)
                assert abs(each.value - truth[each.metric, each.k]) < 4 * chance


def test_data_elsewhere(folder: Path, tmp_path: Path) -> None:
    runs = [folder / "first"]
    shutil.copytree(folder / "world", tmp_path / "world")
    (tmp_path / "world" / "log").rename(tmp_path / "elsewhere")
    with pytest.raises(cp.DataError, match="dataset directory"):
        online_runs(tmp_path / "world", runs, LOOK)
    found = online_runs(tmp_path / "world", runs, LOOK, data=tmp_path / "elsewhere")
    assert found == online_runs(folder / "world", runs, LOOK)


def test_without_a_configuration_it_is_the_default_in_the_round_of_the_test(folder: Path) -> None:
    result = online_runs(folder / "world", [folder / "first"])
    assert result.config == OnlineTest(time=2.0)
    assert {each.k for each in result.truth} == {10}


def test_runs_of_the_same_name_are_called_by_their_paths(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "first"
    shutil.copytree(folder / "second", other)
    result = online_runs(folder / "world", [folder / "first", other], LOOK)
    assert [each.arm for each in result.arms] == [str(folder / "first"), str(other)]


def test_runs_on_other_data_are_refused(folder: Path, tmp_path: Path) -> None:
    write_world(small(seed=1), tmp_path / "other", rates=RATES)
    with pytest.raises(cp.DataError, match="trained on others, or on another split"):
        online_runs(tmp_path / "other", [folder / "first"], LOOK)


def same_runs(folder: Path, place: Path) -> list[list[Path]]:
    (place / "link").symlink_to(folder / "first")
    first = folder / "first"
    return [[first, first], [first, place / "link"], [first, folder / "second" / ".." / "first"]]


@pytest.mark.parametrize(
    "which",
    [0, 1, 2],
)
def test_the_same_run_twice_is_refused(which: int, folder: Path, tmp_path: Path) -> None:
    with pytest.raises(cp.ConfigError, match="must be different runs"):
        online_runs(folder / "world", same_runs(folder, tmp_path)[which], LOOK)


@pytest.mark.parametrize("size", [{"n_items": 55}, {"n_users": 60}, {"seed": 9}])
def test_another_world_is_refused(size: dict[str, Any], folder: Path, tmp_path: Path) -> None:
    write_world(small(**size), tmp_path / "other", rates=RATES)
    with pytest.raises(cp.DataError, match="the one that the data were drawn from"):
        online_runs(tmp_path / "other", [folder / "first"], LOOK, data=folder / "world" / "log")
