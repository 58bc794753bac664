"""Write beside, then rename: whoever looks sees all of a result or nothing of it."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from counterplay.errors import ConfigError, DataError

if TYPE_CHECKING:
    from collections.abc import Iterator, Set


@dataclass(frozen=True, slots=True)
class Replaceable:
    """A folder that may be replaced: it holds all of `required` and nothing but `known`."""

    required: Set[str]
    known: Set[str]

    def matches(self, folder: Path) -> bool:
        """Tell whether `folder` is such a one."""
        return self.required <= {entry.name for entry in folder.iterdir()} <= self.known


@contextmanager
def new_directory(target: Path, *, replacing: Replaceable | None = None) -> Iterator[Path]:
    """Give a temporary folder next to `target` that becomes `target` when all went well."""
    target = target.resolve()
    check_free(target, replacing=replacing)
    target.parent.mkdir(parents=True, exist_ok=True)
    folder = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        folder.mkdir()
        yield folder
        _put(folder, target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _put(folder: Path, target: Path) -> None:
    """Move `folder` to `target`; what was there is deleted only after that."""
    previous = folder.with_name(f"{folder.name}.previous")
    if target.exists():
        target.rename(previous)
    try:
        folder.rename(target)
    except BaseException:
        if previous.exists():
            previous.rename(target)
        raise
    shutil.rmtree(previous, ignore_errors=True)


def check_free(target: Path, *, replacing: Replaceable | None = None) -> None:
    """Refuse a target that cannot be written, or where something is that must not be replaced."""
    target = target.resolve()
    if target.is_dir() and target.samefile(Path.cwd()):
        raise ConfigError(
            f"the output must not be the folder that one stands in; found '{target}'; name another "
            "one"
        )
    parent = next(each for each in target.parents if each.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise ConfigError(
            f"the output must be in a folder that can be written to; found '{parent}'; name "
            "another place"
        )
    if not target.exists():
        return
    if target.is_dir() and (
        not any(target.iterdir()) or (replacing is not None and replacing.matches(target))
    ):
        return
    only = " or one that was written by this command" if replacing else ""
    raise ConfigError(
        f"the output must be a new or empty folder{only}; found something at '{target}'; name "
        "another one, or remove it"
    )


def write_json(value: object, path: Path, *, indent: int | None = 2) -> None:
    """Write plain values, all of them or nothing; without an indent on one line."""
    beside = path.with_name(f"{path.name}.part")
    try:
        text = json.dumps(value, indent=indent, ensure_ascii=False)
        beside.write_text(f"{text}\n", encoding="utf-8")
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def read_json(path: Path, what: str, *, remedy: str = "name another") -> dict[str, Any]:
    """Return the plain values of a file, which must be `what`."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        found = None if isinstance(value, dict) else "something else"
    except FileNotFoundError:
        found = "nothing there"
    except (OSError, ValueError) as error:
        found = str(error)
    if found is not None:
        raise DataError(f"'{path}' must be {what}; found {found}; {remedy}")
    return dict(value)
