"""One writer at a time: a lock beside each output, which ends with its process, however that ends.

    .NAME.lock    beside NAME while somebody writes it: process, machine, since when

The system keeps the lock (`flock`), the file only says whose it is. A file that a killed process
left behind holds nothing: the next writer takes it over and removes it when it is done.
"""

from __future__ import annotations

import datetime as dt
import errno
import json
import os
import platform
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from counterplay.errors import ConfigError

if sys.platform != "win32":
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_WITHOUT_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL)


def lock_of(target: Path) -> Path:
    """Return where the lock of an output is."""
    return target.with_name(f".{target.name}.lock")


@contextmanager
def locked(target: Path) -> Iterator[None]:
    """Keep other writers away from `target`, whose folder must exist; refuse if one is at work."""
    path = lock_of(target)
    file = _acquired(path, target)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)  # while it is held: nobody else can have taken it over
        os.close(file)


def _acquired(path: Path, target: Path) -> int:
    """Return the open file that holds the lock."""
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            if not _taken(file):
                raise ConfigError(
                    f"an output is written by one process at a time; found {_holder(path)} at work "
                    f"on '{target}'; wait for it, or name another place"
                )
            if _is_at(file, path):  # else its last holder removed it meanwhile: take the new one
                since = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
                mine = {"process": os.getpid(), "machine": platform.node(), "since": since}
                os.truncate(file, 0)
                os.write(file, json.dumps(mine).encode())
                return file
        except BaseException:
            os.close(file)
            raise
        os.close(file)


def _taken(file: int) -> bool:
    """Take the lock if nobody has it; where the file system has none, it is always free."""
    if sys.platform == "win32":
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _WITHOUT_LOCKS:
            raise
    return True


def _is_at(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False


def _holder(path: Path) -> str:
    """Say who has the lock."""
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
        number, machine, since = (said[key] for key in ("process", "machine", "since"))
    except (OSError, ValueError, KeyError, TypeError):  # it is just writing that down
        return "another process"
    return f"process {number} on {machine}, since {since},"
