"""Write beside, then rename: whoever looks sees all of a result or nothing of it."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from counterplay.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def new_directory(target: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """Give a temporary folder next to `target` that becomes `target` when all went well."""
    check_free(target, overwrite=overwrite)
    target.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        folder.chmod(0o755)
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


def check_free(target: Path, *, overwrite: bool) -> None:
    """Refuse to write over something that is there already."""
    if target.is_file() or (target.is_dir() and any(target.iterdir()) and not overwrite):
        raise ConfigError(
            f"the output must be a new or empty folder; found something at '{target}'; name "
            "another one, or say that it may be replaced"
        )
