"""Log metrics to TensorBoard, MLflow or Weights & Biases, where asked for.

It is asked for by one text, the kind of tracker and, after a colon, where it is:

    tensorboard:FOLDER    events of each run in a folder of its own; by default beside the run
    mlflow:URI            a tracking server or a store; by default that of your MLflow settings
    wandb:PROJECT         or wandb:ENTITY/PROJECT; by default that of your Weights & Biases settings
"""

from __future__ import annotations

import json
import re
from contextlib import ExitStack, contextmanager
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from counterplay.errors import ConfigError, CounterplayError
from counterplay.settings import leaves

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from counterplay.learning.fitting import Callback
    from counterplay.learning.records import Epoch

    Log = Callable[[Mapping[str, float], int], None]  # named numbers, and the step they are of

PACKAGES = {
    "tensorboard": "torch.utils.tensorboard.writer",
    "mlflow": "mlflow",
    "wandb": "wandb",
}
_FOLDERS = "beta", "propensity"  # their parts stand together in a tracker, as beta/0
_ODD = re.compile(r"[^\w\-. /]")  # which not all trackers take in a name


def numbers(epoch: Epoch) -> dict[str, float]:
    """Return what an epoch has as flat, named numbers."""
    named = ((_in_folder(name), value) for name, value in epoch.to_rows()[0].items())
    return {name: float(value) for name, value in named if name != "epoch" and value is not None}


def _in_folder(name: str) -> str:
    folder, _, part = name.partition("_")
    return f"{folder}/{part}" if folder in _FOLDERS else name


def check_tracker(track: str | None) -> None:
    """Refuse, before any work, a tracker that is not known or not installed."""
    if track is not None:
        _package(_read(track)[0])


@contextmanager
def tracked(
    track: str | None, directory: Path, name: str, settings: Mapping[str, Any] | None = None
) -> Iterator[list[Callback]]:
    """Give the callbacks of a tracker, none for None, and close it at the end.

    TensorBoard's events go to `directory`, unless `track` says where; other trackers call the run
    `name`, and show its `settings`.
    """
    if track is None:
        yield []
        return
    with _opened(track, directory, name, settings) as log:
        yield [lambda epoch: log(numbers(epoch), epoch.epoch)]


def track_values(
    track: str | None, directory: Path, name: str, values: Mapping[str, float]
) -> None:
    """Log named numbers that are no epoch's, as a run of their own; see `tracked`."""
    if track is not None:
        with _opened(track, directory, name, None) as log:
            log({_ODD.sub("_", key): value for key, value in values.items()}, 0)


@contextmanager
def _opened(
    track: str, directory: Path, name: str, settings: Mapping[str, Any] | None
) -> Iterator[Log]:
    """Give what logs numbers to a run of a tracker."""
    kind, where = _read(track)
    package, shown = _package(kind), leaves(dict(settings or {}))
    with ExitStack() as stack:
        with _taken(kind):
            log = stack.enter_context(_log_of(kind, package, where, directory, name, shown))

        def write(values: Mapping[str, float], step: int) -> None:
            with _taken(kind):
                log(values, step)

        yield write


@contextmanager
def _log_of(
    kind: str, package: Any, where: str | None, directory: Path, name: str, shown: dict[str, Any]
) -> Iterator[Log]:
    """Give what logs numbers by a tracker's own functions."""
    if kind == "tensorboard":
        place = Path(where) / directory.name if where else directory
        with package.SummaryWriter(str(place)) as writer:
            if shown:
                writer.add_text("settings", json.dumps(shown, indent=2), 0)

            def write(values: Mapping[str, float], step: int) -> None:
                for key, value in values.items():
                    writer.add_scalar(key, value, step)

            yield write
    elif kind == "mlflow":
        if where:
            package.set_tracking_uri(where)
        with package.start_run(run_name=name, nested=True):
            package.log_params(shown)
            yield lambda values, step: package.log_metrics(dict(values), step=step)
    else:
        entity, _, project = (where or "").rpartition("/")
        options = {"entity": entity or None, "project": project or None}
        with package.init(name=name, config=shown, **options) as run:
            yield lambda values, step: run.log(dict(values), step=step)


def _read(track: str) -> tuple[str, str | None]:
    """Return the kind of tracker and where it is, None where that is not said."""
    kind, _, where = track.partition(":")
    if kind not in PACKAGES:
        near = get_close_matches(kind, PACKAGES, n=1)
        advice = f"did you mean '{near[0]}'" if near else "choose one of them"
        raise ConfigError(
            f"a tracker must be one of {', '.join(PACKAGES)}, and where it is after a colon; found "
            f"'{track}'; {advice}"
        )
    return kind, where or None


@contextmanager
def _taken(kind: str) -> Iterator[None]:
    """Say in one sentence what a tracker did not take, such as a server out of reach."""
    try:
        yield
    except Exception as error:
        said = " ".join(str(error).split()) or type(error).__name__
        raise CounterplayError(
            f"a tracker must take what is logged; found {kind} to refuse it ({said[:300]}); check "
            "its settings and give the same command again, or leave --track out"
        ) from error


def _package(kind: str) -> Any:
    try:
        return import_module(PACKAGES[kind])
    except ImportError:
        raise ConfigError(
            f"tracking with {kind} needs its package; found none; install counterplay[track]"
        ) from None
