"""Write beside, then rename: whoever looks sees all of a result or nothing of it.

    .NAME.xxxxxxxx.part    what is being written, beside NAME
    .NAME.previous         what NAME was, where two folders cannot be exchanged in one step

Everything is on the disk before it gets its name. Only who holds the lock of NAME writes such
files, so whoever gets it next may remove those that a killed process left behind.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import secrets
import shutil
import sys
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from counterplay.data.locks import locked
from counterplay.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Set

_LEFT = re.compile(r"\.(?P<name>.+)\.([0-9a-f]{8}\.part|lock|previous)", re.DOTALL)
_DESCRIPTIONS = {
    "dataset.json", "run.json", "begun.json", "plan.json", "trials.json", "world.json",
    "export.json", "state.json",
}  # fmt: skip
_PARTS = _DESCRIPTIONS | {
    "interactions.parquet", "users.parquet", "items.parquet", "split.parquet", "model.safetensors",
    "world.safetensors", "state.safetensors", "evaluation.json", "online.json", "study.json",
    "tuning.json", "user_ids.parquet", "item_ids.parquet", "model.onnx",
}  # fmt: skip
_EXCHANGE = 2  # RENAME_EXCHANGE of Linux, RENAME_SWAP of macOS
_NO_EXCHANGE = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EXDEV)
_IN_THE_WAY = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR, errno.EISDIR)


@dataclass(frozen=True, slots=True)
class Replaceable:
    """A folder that may be replaced: it holds all of `required` and nothing but `known`."""

    required: Set[str]
    known: Set[str]

    def matches(self, folder: Path) -> bool:
        """Tell whether `folder` is such a one."""
        return self.required <= {entry.name for entry in folder.iterdir()} <= self.known


@contextmanager
def new_directory(
    target: Path, *, replacing: Replaceable | None = None, durable: bool = True
) -> Iterator[Path]:
    """Give a temporary folder next to `target` that becomes `target` when all went well.

    `replacing` says what may be there already, to be replaced. `durable` waits for the disk, so
    that not even a power cut leaves the folder half-written.
    """
    target = target.resolve()
    check_free(target, replacing=replacing)
    target.parent.mkdir(parents=True, exist_ok=True)
    with locked(target):
        _recover(target)
        folder = _beside(target)
        try:
            folder.mkdir()
            yield folder
            _settle(folder, durable)
            _publish(folder, target, replacing)
            if durable:
                _sync(target.parent)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def new_file(target: Path) -> Iterator[Path]:
    """Give a temporary file next to `target` that becomes `target` when all went well."""
    target = target.resolve()
    if target.exists():
        check_output(target, parts=False)
    with locked(target):
        _recover(target)
        path = _beside(target)
        try:
            path.touch()
            mode = path.stat().st_mode  # what the user's mask makes of it; some writers narrow it
            yield path
            path.chmod(mode)
            _sync(path)
            path.replace(target)
            _sync(target.parent)
        finally:
            path.unlink(missing_ok=True)


@contextmanager
def own_file(target: Path) -> Iterator[Path]:
    """Give a temporary file that becomes `target`, for who holds the lock of what it belongs to.

    It does not wait for the disk: after a power cut it may be damaged, so it is to be checked.
    """
    path = target.with_name(f".{target.name}.00000000.part")
    try:
        yield path
        path.replace(target)
    finally:
        path.unlink(missing_ok=True)


@contextmanager
def working_directory(target: Path) -> Iterator[Path]:
    """Give the folder `target`, made if need be, to work in for long; for nobody else meanwhile.

    What a killed process left unfinished in it is removed, and so is a new one that stays empty.
    """
    target = target.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    with locked(target):
        _recover(target)
        is_new = not target.exists()
        target.mkdir(exist_ok=True)
        left = [(path, _LEFT.fullmatch(path.name)) for path in target.rglob(".*")]
        for unfinished in {path.with_name(found["name"]) for path, found in left if found}:
            with suppress(ConfigError, FileNotFoundError), locked(unfinished):  # unless it lives
                _recover(unfinished)
        try:
            yield target
        finally:
            if is_new:
                with suppress(OSError):  # which it is, if there is something in it
                    target.rmdir()


def check_output(path: Path, *inputs: Path | None, parts: bool = True) -> None:
    """Refuse to write over what is no file, over one of the `inputs`, or over a part of ours.

    `parts` tells whether parts of datasets, runs, studies, worlds and exports are refused.
    """
    path = path.resolve()
    there = path.exists()
    if there and not path.is_file():
        raise _misplaced(f"be a file, or nothing yet; found something else at '{path}'")
    if there and any(given and given.exists() and path.samefile(given) for given in inputs):
        raise _misplaced(f"not replace what it is made of; found '{path}' to be both")
    described = any((path.parent / name).exists() for name in _DESCRIPTIONS)
    if parts and path.name in _PARTS and described:
        raise _misplaced(
            "not replace a part of a dataset, run, study, world or export; found "
            f"'{path}' to be one"
        )


def _misplaced(what: str) -> ConfigError:
    return ConfigError(f"the output must {what}; name another place")


def check_free(target: Path, *, replacing: Replaceable | None = None) -> None:
    """Refuse a target that cannot be written, or where something is that must not be replaced.

    What a writer left that was killed just after it had published is removed before the refusal.
    """
    target = target.resolve()
    if target.is_dir() and target.samefile(Path.cwd()):
        raise _misplaced(f"not be the current working directory; found '{target}'")
    parent = next(each for each in target.parents if each.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise _misplaced(f"be in a folder that can be written to; found '{parent}'")
    if not target.exists():
        return
    if target.is_dir() and (
        all(_LEFT.fullmatch(each.name) for each in target.iterdir())  # or there is nothing
        or (replacing is not None and replacing.matches(target))
    ):
        return
    with suppress(ConfigError, OSError), locked(target):  # unless somebody is at work there
        _recover(target)
    raise _in_the_way(target, replacing)


def _in_the_way(target: Path, replacing: Replaceable | None) -> ConfigError:
    only = " or one that was written by this command" if replacing else ""
    return ConfigError(
        f"the output must be a new or empty folder{only}; found something at '{target}'; name "
        "another one, or remove it"
    )


def _publish(folder: Path, target: Path, replacing: Replaceable | None) -> None:
    """Give `folder` the name `target` in one step; refuse if something came there meanwhile."""
    try:
        folder.rename(target)  # the system refuses a folder that is not empty, and a file
    except OSError as error:
        if error.errno not in _IN_THE_WAY:
            raise
        check_free(target, replacing=replacing)
        if replacing is None or not target.is_dir():
            raise _in_the_way(target, replacing) from None
        _replace(folder, target, replacing)


def _replace(folder: Path, target: Path, replacing: Replaceable) -> None:
    """Put `folder` where the folder `target` is; what was there is deleted only after that."""
    if _exchanged(folder, target):
        if not replacing.matches(folder):  # something was added since we looked
            _exchanged(folder, target)
            raise _in_the_way(target, replacing)
        return  # what was there is now the temporary folder, and goes with it
    previous = target.with_name(f".{target.name}.previous")
    target.rename(previous)
    try:
        folder.rename(target)
    except BaseException:
        previous.rename(target)
        raise
    shutil.rmtree(previous, ignore_errors=True)


def _exchanged(one: Path, other: Path) -> bool:
    """Exchange two folders in one step; tell whether the system can do that."""
    rename = _rename()
    if rename is None:
        return False
    if rename(os.fsencode(one), os.fsencode(other)) == 0:
        return True
    number = ctypes.get_errno()
    if number in _NO_EXCHANGE:
        return False
    raise OSError(number, os.strerror(number), str(other))


@lru_cache(maxsize=1)
def _rename() -> Any:
    """Return the system's function that exchanges two paths, if it has one."""
    here = ctypes.c_int(-2 if sys.platform == "darwin" else -100)  # AT_FDCWD
    flags = ctypes.c_uint(_EXCHANGE)
    name = {"linux": "renameat2", "darwin": "renameatx_np"}.get(sys.platform)
    try:
        function = getattr(ctypes.CDLL(None, use_errno=True), name or "")
    except (OSError, AttributeError, TypeError):
        return None
    return lambda one, other: function(here, one, here, other, flags)


def _beside(target: Path) -> Path:
    return target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")


def _recover(target: Path) -> None:
    """Remove what a killed writer of `target` left; put back what it had moved away."""
    previous = target.with_name(f".{target.name}.previous")
    if previous.exists() and not target.exists():
        previous.rename(target)
    for path in target.parent.iterdir():
        found = path.name.startswith(f".{target.name}.") and _LEFT.fullmatch(path.name)
        if not found or found["name"] != target.name or path.name.endswith(".lock"):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _settle(folder: Path, durable: bool) -> None:
    """Bring a folder to the disk, with files that whoever may read the folder may read too."""
    readable = folder.stat().st_mode & 0o666
    for place, _, names in os.walk(folder, topdown=False):
        for name in names:
            path = Path(place, name)
            path.chmod(readable)
            if durable:
                _sync(path)
        if durable:
            _sync(Path(place))


def _sync(path: Path) -> None:
    """Wait until a file or a folder is on the disk."""
    if sys.platform == "win32" and path.is_dir():
        return
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
