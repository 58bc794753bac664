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
def new_directory(target: Path, *, replacing: str | None = None) -> Iterator[Path]:
    """Give a temporary folder next to `target` that becomes `target` when all went well.

    With `replacing`, a folder that holds a file of that name may be replaced; no other may.
    """
    check_free(target, replacing=replacing)
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


def check_free(target: Path, *, replacing: str | None = None) -> None:
    """Refuse to write over something that is there already and is not to be replaced."""
    if target.is_dir() and target.samefile(Path.cwd()):
        raise ConfigError(
            f"the output must not be the folder that one stands in; found '{target}'; name another "
            "one"
        )
    if target.is_dir():
        if not any(target.iterdir()) or (replacing and (target / replacing).is_file()):
            return
    elif not target.exists() and not target.is_symlink():
        return
    may = f"; only a folder with a {replacing} in it may be replaced" if replacing else ""
    raise ConfigError(
        f"the output must be a new or empty folder{may}; found something at '{target}'; name "
        "another one, or remove it"
    )
