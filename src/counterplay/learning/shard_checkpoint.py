"""Checkpoints of several workers: a file a shard, one for what they share, and one commit.

    checkpoint/000012/shared.safetensors     what all workers have the same of
    checkpoint/000012/shard-00003.safetensors   what a shard's users have, and its moments
    checkpoint/000012/items-00003.safetensors   the same of its items
    checkpoint/state.json                    which of the folders counts, with the digests

The first worker replaces state.json when all files of an epoch are there, so no epoch is mixed with
another. Files belong to shards and not to workers: another number of workers can go on, and whether
each of them has all items or owns a part makes no difference.
"""

from __future__ import annotations

import json
import shutil
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from counterplay.data.files import check_digest, digest_of, write_json
from counterplay.data.publishing import new_file
from counterplay.errors import CheckpointError
from counterplay.learning.checkpoint import REMEDY, STATE, parts_of, resumed, stored
from counterplay.models.embedding import FEATURES
from counterplay.models.item_tables import tables_of_items
from counterplay.models.shares import tables_of_users

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from torch import Tensor, nn

    from counterplay.groups import Share
    from counterplay.learning.checkpoint import Progress
    from counterplay.learning.optimizers import Optimizer

_SHARED = "shared.safetensors"


def save_shards(
    directory: Path,
    about: Mapping[str, Any],
    players: Mapping[str, nn.Module],
    optimizers: Sequence[Optimizer],
    progress: Progress,
    share: Share,
) -> None:
    """Write a checkpoint together; see `save_checkpoint`."""
    tensors, description = stored(about, players, optimizers, progress)
    names = _names(players, optimizers)
    folder = directory / f"{len(progress.epochs):06d}"
    folder.mkdir(parents=True, exist_ok=True)
    files: dict[str, str] = {}

    def write(name: str, values: dict[str, Tensor]) -> None:
        with new_file(folder / name) as path:
            save_file({key: value.clone() for key, value in values.items()}, path)
        files[name] = digest_of(folder / name)

    for shard, (begin, end) in zip(share.shards, pairwise(share.bounds), strict=True):
        own = {key: value[begin:end] for key, value in tensors.items() if key in names.users}
        write(_file("shard", shard), own)
        parts = {
            key: value[slice(*_items(share, shard, n, len(value)))]
            for key, value in tensors.items()
            if (n := names.items.get(key)) is not None
        }
        write(_file("items", shard), parts)
    if share.group.rank == 0:
        left = names.users | names.items.keys() | names.constant.keys()
        write(_SHARED, {key: value for key, value in tensors.items() if key not in left})
    said = np.frombuffer((json.dumps(files) + "\n").encode(), dtype=np.uint8)
    lines = share.group.gathered(said).tobytes().decode().splitlines()  # all files are there now
    if share.group.rank == 0:
        description["folder"] = folder.name
        description["files"] = {name: it for line in lines for name, it in json.loads(line).items()}
        write_json(description, directory / STATE, indent=None)
        for other in directory.iterdir():
            if other.is_dir() and other != folder:
                shutil.rmtree(other, ignore_errors=True)
    share.group.barrier()


def load_shards(
    directory: Path,
    about: Mapping[str, Any],
    players: Mapping[str, nn.Module],
    optimizers: Sequence[Optimizer],
    share: Share,
) -> Progress:
    """Go on from a checkpoint, whatever number of workers wrote it; see `load_checkpoint`."""
    constant = _names(players, optimizers).constant
    of_items = share.shards if share.owns_items else range(share.n_shards)

    def read(description: dict[str, Any]) -> dict[str, Tensor]:
        folder = directory / description["folder"]

        def found(name: str) -> dict[str, Tensor]:
            check_digest(folder / name, description["files"], remedy=REMEDY)
            return load_file(folder / name)

        values = found(_SHARED)
        for kind, shards in (("shard", share.shards), ("items", of_items)):
            parts = [found(_file(kind, shard)) for shard in shards]
            values |= {key: torch.cat([part[key] for part in parts]) for key in parts[0]}
        return values | constant

    progress = resumed(directory, about, players, optimizers, read)
    n = float(len(progress.epochs))
    most, least = share.group.most(n, -n)
    if most != -least:
        raise CheckpointError(
            f"all workers must go on from the same epoch; found {-least:.0f} and {most:.0f} in "
            f"'{directory}'; see that all of them read the same files, and try again"
        )
    return progress


def _file(kind: str, shard: int) -> str:
    return f"{kind}-{shard:05d}.safetensors"


def _items(share: Share, shard: int, n_items: int, n_held: int) -> tuple[int, int]:
    """Return which rows of a table that is held, of all items or of a worker's, are a shard's."""
    first = 0 if n_held == n_items else share.items_of(share.shards.start, n_items)
    return share.items_of(shard, n_items) - first, share.items_of(shard + 1, n_items) - first


class _Names(NamedTuple):
    """Which tensors of a checkpoint are whose; all others are shared."""

    users: set[str]  # with a row a user
    items: dict[str, int]  # with a row an item: how many all workers have
    constant: dict[str, Tensor]  # that the data give


def _names(players: Mapping[str, nn.Module], optimizers: Sequence[Optimizer]) -> _Names:
    names = _Names(set(), {}, {})
    of_users, of_items = set(), {}
    for role, player in players.items():
        for path, table in tables_of_users(player):
            of_users.add(id(table.own))
            for when in ("now", "best"):
                place = f"{when}.{role}.{path}"
                names.users.add(f"{place}own")
                if table.features is not None:
                    for name in FEATURES:
                        names.constant[f"{place}features.{name}"] = getattr(table.features, name)
        for name, items in tables_of_items(player):
            n = of_items[id(items.held)] = items.n_of_all or len(items.held)
            names.items.update({f"{when}.{role}.{name}": n for when in ("now", "best")})
    for label, part in parts_of(optimizers):
        learnt = [value for group in part.param_groups for value in group["params"]]
        for number, value in enumerate(learnt):
            moments = (key for key, it in part.state.get(value, {}).items() if it.dim())
            keys = [f"{label}.{number}.{key}" for key in moments]
            if id(value) in of_users:
                names.users.update(keys)
            elif id(value) in of_items:
                names.items.update(dict.fromkeys(keys, of_items[id(value)]))
    return names
