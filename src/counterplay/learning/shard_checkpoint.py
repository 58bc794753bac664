"""Checkpoints of several workers: a file a shard, one for what they share, and one commit.

    checkpoint/000012/shared.safetensors     what all workers have the same of
    checkpoint/000012/shard-00003.safetensors   what a shard's users have, and its moments
    checkpoint/state.json                    which of the folders counts, with the digests

The first worker replaces state.json when all files of an epoch are there, so no epoch is mixed with
another. Files belong to shards and not to workers: another number of workers can go on.
"""

from __future__ import annotations

import json
import shutil
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from counterplay.data.files import check_digest, digest_of, write_json
from counterplay.data.publishing import new_file
from counterplay.errors import CheckpointError
from counterplay.learning.checkpoint import REMEDY, STATE, parts_of, resumed, stored
from counterplay.models.embedding import FEATURES
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
    of_users, constant = _names(players, optimizers)
    folder = directory / f"{len(progress.epochs):06d}"
    folder.mkdir(parents=True, exist_ok=True)
    files: dict[str, str] = {}
    own = {name: value for name, value in tensors.items() if name in of_users}
    for shard, (begin, end) in zip(share.shards, pairwise(share.bounds), strict=True):
        name = _file(shard)
        with new_file(folder / name) as path:
            save_file({key: value[begin:end].clone() for key, value in own.items()}, path)
        files[name] = digest_of(folder / name)
    if share.group.rank == 0:
        left = own.keys() | constant.keys()
        with new_file(folder / _SHARED) as path:
            save_file({key: value for key, value in tensors.items() if key not in left}, path)
        files[_SHARED] = digest_of(folder / _SHARED)
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
    _, constant = _names(players, optimizers)

    def read(description: dict[str, Any]) -> dict[str, Tensor]:
        folder = directory / description["folder"]
        names = [_SHARED, *map(_file, share.shards)]
        for name in names:
            check_digest(folder / name, description["files"], remedy=REMEDY)
        shared, *parts = (load_file(folder / name) for name in names)
        for name in parts[0]:
            shared[name] = torch.cat([part[name] for part in parts])
        return shared | constant

    progress = resumed(directory, about, players, optimizers, read)
    n = float(len(progress.epochs))
    most, least = share.group.most(n, -n)
    if most != -least:
        raise CheckpointError(
            f"all workers must go on from the same epoch; found {-least:.0f} and {most:.0f} in "
            f"'{directory}'; see that all of them read the same files, and try again"
        )
    return progress


def _file(shard: int) -> str:
    return f"shard-{shard:05d}.safetensors"


def _names(
    players: Mapping[str, nn.Module], optimizers: Sequence[Optimizer]
) -> tuple[set[str], dict[str, Tensor]]:
    """Return which tensors of a checkpoint have a row a user, and those that the data give."""
    tables: set[str] = set()
    constant: dict[str, Tensor] = {}
    own = set()
    for role, player in players.items():
        for path, table in tables_of_users(player):
            own.add(id(table.own))
            for when in ("now", "best"):
                place = f"{when}.{role}.{path}"
                tables.add(f"{place}own")
                if table.features is not None:
                    for name in FEATURES:
                        constant[f"{place}features.{name}"] = getattr(table.features, name)
    for label, part in parts_of(optimizers):
        learnt = [value for group in part.param_groups for value in group["params"]]
        for number, value in enumerate(learnt):
            if id(value) in own:
                moments = (key for key, it in part.state.get(value, {}).items() if it.dim())
                tables |= {f"{label}.{number}.{key}" for key in moments}
    return tables, constant
