"""Callbacks that hand each epoch on to TensorBoard or MLflow; off unless asked for."""

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
_PARTS = {"beta": ("0", "1", "2"), "propensity": ("low", "mean", "high")}


def numbers(epoch: Epoch) -> dict[str, float]:
    """Return what an epoch has as flat, named numbers."""
    flat: dict[str, float] = {}
    for name, value in epoch.to_dict().items():
        if name in _PARTS and value is not None:
            flat |= {f"{name}/{part}": each for part, each in zip(_PARTS[name], value, strict=True)}
        elif name != "epoch" and value is not None:
            flat[name] = float(value)
    return flat


@contextmanager
def tracked(kind: Tracker | None, directory: Path, name: str) -> Iterator[list[Callback]]:
    """Give the callbacks of a tracker, none for None, and close it at the end.

    Args:
        kind: Which tracker.
        directory: Where TensorBoard's events go; MLflow goes by its own settings.
        name: What to call the run.
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
