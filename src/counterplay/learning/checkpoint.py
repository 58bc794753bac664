"""Everything that is needed to go on after an interruption, written whole or not at all.

    checkpoint/state.safetensors   players now and at their best, optimizers' moments
    checkpoint/state.json          epochs so far, the best one, what the run is about, a digest

Random streams need no saving: they depend on the seed, their name and the epoch alone.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from counterplay.data.files import check_digest, difference, digest_of, read_json, sealed
from counterplay.data.publishing import Replaceable, new_directory
from counterplay.errors import CheckpointError, DataError
from counterplay.learning.records import Epoch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from torch import Tensor, nn

    from counterplay.learning.optimizers import Optimizer

FORMAT = 3
_TENSORS, STATE = "state.safetensors", "state.json"
_FILES = {_TENSORS, STATE}
_BETWEEN = 5.0  # seconds: short epochs do not wait for the disk, which a kill does not need
REMEDY = "remove its folder and begin again"


@dataclass(slots=True)
class Progress:
    """How far learning has come."""

    epochs: list[Epoch] = field(default_factory=list)
    best_epoch: int = -1  # none yet
    best_value: float = float("-inf")
    best: dict[str, dict[str, Tensor]] = field(default_factory=dict)  # the players' states then
    stopped: str | None = None  # why learning ended
    threads: int | None = None  # that computed it; they change the last digits
    synced: float = field(default_factory=time.monotonic)  # when it was last waited for on disk

    def compare(self, last: Epoch, *, first: int) -> bool:
        """Note the last epoch if it is the best from `first` on; without validation, it is."""
        value = last.epoch if last.validation is None else last.validation
        if last.epoch < first or value <= self.best_value:
            return False
        self.best_value, self.best_epoch = value, last.epoch
        return True


def save_checkpoint(
    directory: Path,
    about: Mapping[str, Any],
    players: Mapping[str, nn.Module],
    optimizers: Sequence[Optimizer],
    progress: Progress,
) -> None:
    """Write a checkpoint; `about` says as plain values which run it belongs to."""
    tensors, description = stored(about, players, optimizers, progress)
    durable = time.monotonic() - progress.synced > _BETWEEN
    known = Replaceable(_FILES, _FILES)
    with new_directory(directory, replacing=known, durable=durable) as folder:
        save_file(tensors, folder / _TENSORS)
        description["files"] = {_TENSORS: digest_of(folder / _TENSORS)}
        (folder / STATE).write_bytes(sealed(description, indent=None))
    if durable:
        progress.synced = time.monotonic()


def stored(
    about: Mapping[str, Any],
    players: Mapping[str, nn.Module],
    optimizers: Sequence[Optimizer],
    progress: Progress,
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors of a checkpoint, and what is written as JSON."""
    now = {name: player.state_dict() for name, player in players.items()}
    values: dict[str, Any] = {
        f"{when}.{name}.{key}": value
        for when, states in (("now", now), ("best", progress.best))
        for name, state in states.items()
        for key, value in state.items()
    }
    for label, part in parts_of(optimizers):
        for place, state in part.state_dict()["state"].items():
            values |= {f"{label}.{place}.{key}": value for key, value in state.items()}
    tensors = {key: value for key, value in values.items() if isinstance(value, torch.Tensor)}
    description = {
        "format": FORMAT,
        "about": about,
        "epochs": [epoch.to_dict() for epoch in progress.epochs],
        "best_epoch": progress.best_epoch,
        "best_value": progress.best_value,
        "stopped": progress.stopped,
        "threads": torch.get_num_threads(),
        "steps": {key: value for key, value in values.items() if key not in tensors},
    }
    alone = {key: value.detach().cpu().contiguous().clone() for key, value in tensors.items()}
    return alone, description


def load_checkpoint(
    directory: Path,
    about: Mapping[str, Any],
    players: Mapping[str, nn.Module],
    optimizers: Sequence[Optimizer],
) -> Progress:
    """Put players and optimizers into the state of a checkpoint, if any; return how far it was."""
    read = partial(_read, directory)
    return resumed(directory, about, players, optimizers, read)


def _read(directory: Path, description: dict[str, Any]) -> dict[str, Tensor]:
    check_digest(directory / _TENSORS, description["files"], remedy=REMEDY)
    return load_file(directory / _TENSORS)


def resumed(
    directory: Path,
    about: Mapping[str, Any],
    players: Mapping[str, nn.Module],
    optimizers: Sequence[Optimizer],
    read: Callable[[dict[str, Any]], dict[str, Tensor]],
) -> Progress:
    """Put players and optimizers into the state that `read` finds by what state.json says."""
    if not (directory / STATE).exists():
        return Progress()
    try:
        description = read_json(directory / STATE, "a checkpoint", remedy=REMEDY, format=FORMAT)
        differs = difference(description["about"], about)
        if differs:
            raise CheckpointError(
                "a checkpoint must belong to the run that goes on from it; found other settings or "
                f"data in '{directory}' ({differs}); give the same, or begin in another folder"
            )
        tensors = read(description)
        for name, player in players.items():
            player.load_state_dict(_within(tensors, f"now.{name}."))
        for label, part in parts_of(optimizers):
            _restore(part, _within(tensors | description["steps"], f"{label}."))
        kept = ("best_epoch", "best_value", "stopped", "threads")
        return Progress(
            epochs=[_epoch(each) for each in description["epochs"]],
            best={name: _within(tensors, f"best.{name}.") for name in players},
            **{name: description[name] for name in kept},
        )
    except DataError as error:
        raise CheckpointError(str(error)) from None
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as error:
        what = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise CheckpointError(
            f"a checkpoint must be whole; found {what} in '{directory}'; {REMEDY}"
        ) from None


def parts_of(optimizers: Sequence[Optimizer]) -> list[tuple[str, torch.optim.Optimizer]]:
    """Return the parts of optimizers with what they are called in a checkpoint."""
    return [
        (f"optimizer.{place}.{number}", part)
        for place, optimizer in enumerate(optimizers)
        for number, part in enumerate(optimizer.parts)
    ]


def _within(values: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {
        key.removeprefix(prefix): value for key, value in values.items() if key.startswith(prefix)
    }


def _restore(part: torch.optim.Optimizer, values: dict[str, Any]) -> None:
    state: dict[int, dict[str, Any]] = {}
    for name, value in values.items():
        place, key = name.split(".", 1)
        state.setdefault(int(place), {})[key] = value
    part.load_state_dict({"state": state, "param_groups": part.state_dict()["param_groups"]})


def _epoch(values: dict[str, Any]) -> Epoch:
    triples = {key: tuple(values[key]) for key in ("beta", "propensity") if values[key] is not None}
    return Epoch(**values | triples)
