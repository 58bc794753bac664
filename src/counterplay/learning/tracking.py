"""Log metrics to TensorBoard or MLflow, where asked for."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from counterplay.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from counterplay.learning.fitting import Callback
    from counterplay.learning.records import Epoch

Tracker = Literal["tensorboard", "mlflow"]
_FOLDERS = "beta", "propensity"  # their parts stand together in a tracker, as beta/0


def numbers(epoch: Epoch) -> dict[str, float]:
    """Return what an epoch has as flat, named numbers."""
    named = ((_in_folder(name), value) for name, value in epoch.to_rows()[0].items())
    return {name: float(value) for name, value in named if name != "epoch" and value is not None}


def _in_folder(name: str) -> str:
    folder, _, part = name.partition("_")
    return f"{folder}/{part}" if folder in _FOLDERS else name


@contextmanager
def tracked(kind: Tracker | None, directory: Path, name: str) -> Iterator[list[Callback]]:
    """Give the callbacks of a tracker, none for None, and close it at the end.

    TensorBoard's events go to `directory`; MLflow has its own settings, and calls the run `name`.
    """
    if kind is None:
        yield []
    elif kind == "tensorboard":
        with _needed(kind):
            from torch.utils.tensorboard.writer import SummaryWriter
        writer = SummaryWriter(str(directory))

        def write(epoch: Epoch) -> None:
            for key, value in numbers(epoch).items():
                writer.add_scalar(key, value, epoch.epoch)

        try:
            yield [write]
        finally:
            writer.close()
    else:
        with _needed(kind):
            import mlflow
        with mlflow.start_run(run_name=name):
            yield [lambda epoch: mlflow.log_metrics(numbers(epoch), step=epoch.epoch)]


@contextmanager
def _needed(kind: Tracker) -> Iterator[None]:
    try:
        yield
    except ImportError:
        raise ConfigError(
            f"tracking with {kind} needs its package; found none; install counterplay[track]"
        ) from None
