from __future__ import annotations

import json
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import counterplay as cp
from counterplay.learning.records import Epoch
from counterplay.learning.tracking import (
    PACKAGES,
    check_tracker,
    numbers,
    track_values,
    tracked,
)

EPOCH = Epoch(3, candidate_loss=0.5, beta=(1.0, 2.0, 3.0), propensity=(0.1, 0.2, 0.3))
EXPECTED = {
    "candidate_loss": 0.5,
    "beta/0": 1.0,
    "beta/1": 2.0,
    "beta/2": 3.0,
    "propensity/low": 0.1,
    "propensity/mean": 0.2,
    "propensity/high": 0.3,
}


def test_an_epoch_as_named_numbers() -> None:
    assert numbers(EPOCH) == EXPECTED


def test_nothing_is_tracked_by_default(tmp_path: Path) -> None:
    check_tracker(None)
    track_values(None, tmp_path / "events", "run", {"a": 1.0})
    with tracked(None, tmp_path, "run") as callbacks:
        assert callbacks == []
    assert not list(tmp_path.iterdir())


SETTINGS = {"method": "erm", "training": {"epochs": 3, "rate": 0.01}}
FLAT = {"method": "erm", "training.epochs": 3, "training.rate": 0.01}
Said = list[Any]


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Said:
    """What stand-ins for all trackers are told."""
    told: Said = []

    class SummaryWriter:
        def __init__(self, directory: str) -> None:
            told.append(("open", Path(directory)))

        def __enter__(self) -> SummaryWriter:
            return self

        def __exit__(self, *_: object) -> None:
            told.append("close")

        def add_text(self, key: str, text: str, step: int) -> None:
            told.append((key, json.loads(text), step))

        def add_scalar(self, key: str, value: float, step: int) -> None:
            told.append((key, value, step))

    @contextmanager
    def start_run(run_name: str, nested: bool) -> Iterator[None]:
        told.append(("open", run_name, nested))
        yield
        told.append("close")

    class Run:
        def __enter__(self) -> Run:
            return self

        def __exit__(self, kind: object, *_: object) -> None:
            told.append("close" if kind is None else "failed")

        def log(self, values: dict[str, float], step: int) -> None:
            told.append((values, step))

    def init(**options: Any) -> Run:
        told.append(("open", options))
        return Run()

    def params(values: dict[str, Any]) -> None:
        told.append(("params", values))

    functions: dict[str, dict[str, Any]] = {
        "torch.utils.tensorboard": {},
        "torch.utils.tensorboard.writer": {"SummaryWriter": SummaryWriter},
        "mlflow": {
            "start_run": start_run,
            "log_params": params,
            "log_metrics": lambda values, step: told.append((values, step)),
            "set_tracking_uri": lambda uri: told.append(("uri", uri)),
        },
        "wandb": {"init": init},
    }
    for name, has in functions.items():
        stand_in = types.ModuleType(name)
        stand_in.__dict__.update(has)
        monkeypatch.setitem(sys.modules, name, stand_in)
    return told


def tell(track: str, directory: Path) -> None:
    with tracked(track, directory, "mine", SETTINGS) as callbacks:
        callbacks[0](EPOCH)


def test_tensorboard_gets_every_number(tmp_path: Path, said: Said) -> None:
    tell("tensorboard", tmp_path / "run.events")
    scalars = [(key, value, 3) for key, value in EXPECTED.items()]
    whole = [("open", tmp_path / "run.events"), ("settings", FLAT, 0), *scalars, "close"]
    assert said == whole
    said.clear()
    tell("tensorboard:logs/here", tmp_path / "run.events")
    assert said == [("open", Path("logs/here/run.events")), *whole[1:]]


def test_mlflow_gets_every_number(tmp_path: Path, said: Said) -> None:
    tell("mlflow", tmp_path)
    whole = [("open", "mine", True), ("params", FLAT), (EXPECTED, 3), "close"]
    assert said == whole
    said.clear()
    tell("mlflow:http://host:5000", tmp_path)
    assert said == [("uri", "http://host:5000"), *whole]


@pytest.mark.parametrize(
    ("where", "entity", "project"),
    [("", None, None), (":shop", None, "shop"), (":team/shop", "team", "shop")],
)
def test_wandb_gets_every_number(
    where: str, entity: str | None, project: str | None, tmp_path: Path, said: Said
) -> None:
    tell(f"wandb{where}", tmp_path)
    options = {"name": "mine", "config": FLAT, "entity": entity, "project": project}
    assert said == [("open", options), (EXPECTED, 3), "close"]


def test_a_training_that_breaks_off_is_told_to_the_tracker(tmp_path: Path, said: Said) -> None:
    with pytest.raises(KeyboardInterrupt), tracked("wandb", tmp_path, "mine"):
        raise KeyboardInterrupt
    assert said[-1] == "failed"


@pytest.mark.parametrize("function", ["start_run", "log_metrics"])
def test_what_a_tracker_refuses_is_one_sentence(
    function: str, tmp_path: Path, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("no route\nto host")

    monkeypatch.setattr(f"mlflow.{function}", refuse)
    with pytest.raises(cp.CounterplayError, match=r"mlflow to refuse it \(no route to host\)"):
        tell("mlflow", tmp_path)


@pytest.mark.parametrize("kind", PACKAGES)
def test_numbers_that_are_no_epochs_have_names_that_all_take(
    kind: str, tmp_path: Path, said: Said
) -> None:
    track_values(kind, tmp_path, "study", {"a&b/robust/hit_10": 0.5})
    assert any("a_b/robust/hit_10" in str(each) and "0.5" in str(each) for each in said)
    assert said[-1] == "close"


@pytest.mark.parametrize("kind", PACKAGES)
def test_a_missing_package_is_one_sentence(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("mlflow", "wandb", "torch.utils.tensorboard", "torch.utils.tensorboard.writer"):
        monkeypatch.setitem(sys.modules, name, None)
    sentence = rf"with {kind} needs its package; found none; install counterplay\[track\]"
    with pytest.raises(cp.ConfigError, match=sentence):
        check_tracker(f"{kind}:somewhere")
    with pytest.raises(cp.ConfigError, match=sentence), tracked(kind, tmp_path, "run"):
        pass


@pytest.mark.parametrize(
    ("track", "advice"), [("mlflw", "did you mean 'mlflow'"), ("http://x", "choose one"), ("", "")]
)
def test_an_unknown_tracker_is_one_sentence(track: str, advice: str) -> None:
    with pytest.raises(cp.ConfigError, match=rf"found '{track}'; .*{advice}"):
        check_tracker(track)
