from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import counterplay as cp
from counterplay.learning.records import Epoch
from counterplay.learning.tracking import Tracker, numbers, tracked

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
    with tracked(None, tmp_path, "run") as callbacks:
        assert callbacks == []


def test_tensorboard_gets_every_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[tuple[str, float, int]] = []
    closed: list[str] = []

    class SummaryWriter:
        def __init__(self, directory: str) -> None:
            self.directory = directory

        def add_scalar(self, key: str, value: float, step: int) -> None:
            written.append((key, value, step))

        def close(self) -> None:
            closed.append(self.directory)

    stand_in = types.ModuleType("torch.utils.tensorboard.writer")
    stand_in.SummaryWriter = SummaryWriter  # type: ignore[attr-defined]
    for name in ("torch.utils.tensorboard", "torch.utils.tensorboard.writer"):
        monkeypatch.setitem(sys.modules, name, stand_in)
    with tracked("tensorboard", tmp_path, "run") as callbacks:
        callbacks[0](EPOCH)
    assert written == [(key, value, 3) for key, value in EXPECTED.items()]
    assert closed == [str(tmp_path)]


def test_mlflow_gets_every_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logged: list[object] = []
    stand_in = types.ModuleType("mlflow")

    @contextmanager
    def start_run(run_name: str) -> Iterator[None]:
        logged.append(run_name)
        yield

    stand_in.start_run = start_run  # type: ignore[attr-defined]
    stand_in.log_metrics = lambda values, step: logged.append((values, step))  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "mlflow", stand_in)
    with tracked("mlflow", tmp_path, "mine") as callbacks:
        callbacks[0](EPOCH)
    assert logged == ["mine", (EXPECTED, 3)]


@pytest.mark.parametrize("kind", ["tensorboard", "mlflow"])
def test_a_missing_package_is_one_sentence(
    kind: Tracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("mlflow", "torch.utils.tensorboard", "torch.utils.tensorboard.writer"):
        monkeypatch.setitem(sys.modules, name, None)
    with (
        pytest.raises(cp.ConfigError, match=r"install counterplay\[track\]"),
        tracked(kind, tmp_path, "run"),
    ):
        pass
