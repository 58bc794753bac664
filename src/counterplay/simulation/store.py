"""World directories: what a world looks like on disk.

world.json          name, seed, counts, options, kind and numbers of every part, digests
world.safetensors   the arrays of the parts
users.parquet       id, one row a user; the row's number is the index
items.parquet       the same for items
log/                a log that was drawn from it, a dataset directory (where there is one)
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from counterplay.data.files import check_digest, digests_of, read_json, sealed
from counterplay.data.publishing import Replaceable, new_directory
from counterplay.data.refusals import first_line
from counterplay.data.vocabulary import Vocabulary
from counterplay.errors import ConfigError, DataError
from counterplay.places import check_world
from counterplay.seeding import Streams
from counterplay.simulation.factors import Disturbed, Factors
from counterplay.simulation.policies import Exponential, Mixture, Scored
from counterplay.simulation.world import World

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Arrays = dict[str, NDArray[Any]]

FORMAT = 2
DESCRIPTION = "world.json"
_PARTS_ON_DISK = ("world.safetensors", "users.parquet", "items.parquet")
_REMEDY = "simulate it again"
FILES = Replaceable({DESCRIPTION, *_PARTS_ON_DISK}, {DESCRIPTION, *_PARTS_ON_DISK, "log"})
_OPTIONS = {
    "noise": float,
    "exposure_noise": float,
    "confounding": float,
    "examination": float,
    "list_length": int,
}
_POLICIES = "scored", "exponential", "mixture"


class _Kind(NamedTuple):
    """A kind of part: what makes it, and the names of its numbers, arrays and inner parts."""

    made: type[Any]
    numbers: tuple[str, ...] = ()
    arrays: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()


_KINDS = {
    "factors": _Kind(
        Factors, ("constant", "turn"), ("user", "item", "user_bias", "item_bias", "toward")
    ),
    "disturbed": _Kind(Disturbed, arrays=("first", "second", "last"), parts=("factors",)),
    "scored": _Kind(Scored, ("sharpness", "offset"), ("caps", "activity"), ("scores",)),
    "exponential": _Kind(
        Exponential, ("exponent", "strength", "offset"), parts=("logits", "extra")
    ),
    "mixture": _Kind(Mixture),
}


def save_world(world: World, directory: str | Path, *, overwrite: bool = False) -> None:
    """Write a world directory, all of it or nothing.

    Args:
        world: With factors for tastes, and with policies whose scores are factors.
        directory: A new or empty folder.
        overwrite: Replace a world that is there, together with its log.
    """
    write = world_writer(world)
    with new_directory(Path(directory), replacing=FILES if overwrite else None) as folder:
        write(folder)


def world_writer(world: World) -> Callable[[Path], None]:
    """Return what writes the files of a world; a world that cannot be saved is refused here."""
    if type(world) is not World:
        raise _unsavable("world", world)
    arrays: Arrays = {}
    description = {
        "format": FORMAT,
        "name": world.name,
        "seed": int(world.seed),
        "counts": {"users": world.n_users, "items": world.n_items},
        "options": {name: kind(getattr(world, name)) for name, kind in _OPTIONS.items()},
        "taste": _described(world.taste, "taste", ("factors",), arrays),
        "policy": _described(world.policy, "policy", _POLICIES, arrays),
    }

    def write(folder: Path) -> None:
        for plural, vocabulary in (("users", world.users), ("items", world.items)):
            pl.DataFrame({"id": vocabulary.ids}).write_parquet(folder / f"{plural}.parquet")
        save_file(arrays, folder / "world.safetensors")
        description["fingerprint"] = _fingerprint(folder, description)
        complete = description | {"files": digests_of(folder)}
        (folder / DESCRIPTION).write_bytes(sealed(complete))

    return write


def load_world(directory: str | Path) -> World:
    """Load a world directory: the world draws the same logs as the saved one, byte by byte."""
    folder = Path(directory)
    description = _read(folder)
    files = description.pop("files", None)
    if not isinstance(files, dict):
        raise _damaged(folder, "a world.json without digests")
    for name in _PARTS_ON_DISK:
        check_digest(folder / name, files, remedy=_REMEDY)
    try:
        same = description.pop("fingerprint") == _fingerprint(folder, description)
        arrays = load_file(folder / "world.safetensors")
        options = {name: kind(description["options"][name]) for name, kind in _OPTIONS.items()}
        world = World(
            _made(description["taste"], "taste", arrays),
            _made(description["policy"], "policy", arrays),
            **options,
            seed=Streams(description["seed"]).seed,
            name=str(description["name"]),
            users=_ids(folder / "users.parquet"),
            items=_ids(folder / "items.parquet"),
        )
        announced = description["counts"]
    except (KeyError, AttributeError) as error:
        raise _damaged(folder, f"no {first_line(error)} where one belongs") from None
    except (OSError, ValueError, TypeError, SafetensorError, pl.exceptions.PolarsError) as error:
        raise _damaged(folder, first_line(error)) from None
    sizes = {"users": world.n_users, "items": world.n_items}
    if sizes != announced:
        raise _damaged(folder, f"tastes of {sizes} where it announces {announced}")
    if not same:
        raise _damaged(folder, "parts that do not match their fingerprint")
    return world


def source_of(directory: str | Path) -> str:
    """Return the `source` of logs that were drawn from the world in a directory."""
    return f"world {_read(Path(directory)).get('fingerprint')}"


def _read(folder: Path) -> dict[str, Any]:
    check_world(folder)
    path = folder / DESCRIPTION
    return read_json(path, "of a world directory", remedy=_REMEDY, format=FORMAT)


def _described(part: Any, place: str, allowed: tuple[str, ...], arrays: Arrays) -> dict[str, Any]:
    """Return a part's kind and numbers; its arrays are added to `arrays`, by their place."""
    name = next((name for name, kind in _KINDS.items() if type(part) is kind.made), "")
    if name not in allowed:
        raise _unsavable(place, part)
    if name == "mixture":
        policies = [
            _described(each, f"{place}.{number}", _POLICIES, arrays)
            for number, each in enumerate(part.policies)
        ]
        return {"kind": name, "shares": [float(each) for each in part.shares], "policies": policies}
    kind = _KINDS[name]
    description: dict[str, Any] = {"kind": name}
    description |= {each: float(getattr(part, each)) for each in kind.numbers}
    for each in kind.arrays:
        array = getattr(part, each)
        if array is not None:  # safetensors writes memory as it lies
            arrays[f"{place}.{each}"] = np.ascontiguousarray(array)
    for each in kind.parts:
        inside = getattr(part, each)
        kinds = ("factors", "disturbed") if each == "logits" else ("factors",)
        description[each] = inside and _described(inside, f"{place}.{each}", kinds, arrays)
    return description


def _made(description: dict[str, Any], place: str, arrays: Arrays) -> Any:
    """Return the part that was described."""
    kind = _KINDS[description["kind"]]
    if kind.made is Mixture:
        policies = [
            _made(each, f"{place}.{number}", arrays)
            for number, each in enumerate(description["policies"])
        ]
        return Mixture(policies, description["shares"])
    values: dict[str, Any] = {name: float(description[name]) for name in kind.numbers}
    values |= {name: arrays.get(f"{place}.{name}") for name in kind.arrays}
    for name in kind.parts:
        inside = description[name]
        values[name] = inside and _made(inside, f"{place}.{name}", arrays)
    return kind.made(**values)


def _ids(path: Path) -> Vocabulary:
    return Vocabulary(pl.read_parquet(path, glob=False)["id"])


def _fingerprint(folder: Path, description: dict[str, Any]) -> str:
    """Return a digest of the arrays and of all else that `world.json` says."""
    with (folder / "world.safetensors").open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
    digest.update(json.dumps(description, sort_keys=True).encode())
    return f"sha256:{digest.hexdigest()}"


def _unsavable(place: str, part: object) -> ConfigError:
    return ConfigError(
        "a world can be saved if it is made of Factors and of Scored, Exponential and Mixture "
        f"policies; found {type(part).__name__} as {place}; turn a CF or GMF into factors with "
        "factors_of, or save the world's log"
    )


def _damaged(folder: Path, found: str) -> DataError:
    return DataError(
        f"a world directory must be as it was written; found in '{folder}' {found}; simulate it "
        "again"
    )
