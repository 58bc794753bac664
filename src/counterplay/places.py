"""What must be there for a command to begin; where it is not, one sentence says so.

Nothing is loaded for it, so that a wrong path is told at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from counterplay.errors import ConfigError, DataError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

_ELSEWHERE = ("*", "?", "[", "://")  # of names that stand for several files, or for none on a disk


def absent(path: object, must: str, advice: str) -> DataError:
    """Return the error of a path that leads nowhere."""
    return DataError(f"{must}; found nothing at '{path}'; {advice}")


def no_file(path: object) -> DataError:
    """Return the error of a file that is not there."""
    return absent(path, "a file must exist to be read", "check the path")


def check_log(source: Path) -> None:
    """Refuse to make a study of nothing."""
    if not _may_exist(source):
        raise absent(source, "a study needs a log", "name a file or a folder")


def check_files(*paths: Path | None) -> None:
    """Refuse files that are not there; None is none."""
    for path in paths:
        if path is not None and not _may_exist(path):
            raise no_file(path)


def check_dataset(folder: Path | None) -> None:
    """Refuse a folder that is no dataset directory."""
    if folder is not None and not _is_file(folder / "dataset.json"):
        raise DataError(
            f"a dataset directory must hold a readable dataset.json; found none in '{folder}'; "
            "make one with counterplay prepare"
        )


def check_world(folder: Path | None) -> None:
    """Refuse a folder that is no world directory."""
    if folder is not None and not _is_file(folder / "world.json"):
        raise DataError(
            f"a world directory must hold a readable world.json; found none in '{folder}'; make "
            "one with counterplay simulate"
        )


def check_finished(folder: Path) -> None:
    """Refuse a folder that holds no finished run."""
    if _is_file(folder / "run.json"):
        return
    found, advice = "none", "train with counterplay train, or let it go on with --resume"
    runs = sorted(each.parent.name for each in folder.glob("runs/*/run.json"))
    if runs:
        found = "a study with " + ", ".join(runs)
        advice = f"name one of its runs, such as '{folder / 'runs' / runs[0]}'"
    elif not folder.is_dir():
        found, advice = "no folder", "name another"
    raise DataError(
        f"a run directory must hold a readable run.json; found {found} in '{folder}'; {advice}"
    )


def is_study(folder: Path) -> bool:
    """Tell whether a folder is that of a study, finished or not."""
    return any(_is_file(folder / name) for name in ("plan.json", "study.json"))


def check_usable(folder: Path) -> None:
    """Refuse a folder that holds neither a study nor a finished run."""
    if not is_study(folder):
        check_finished(folder)


def check_several(runs: Sequence[str | Path], scores: Collection[str] | None) -> None:
    """Refuse to compare what is not several candidates, a run among them."""
    n_candidates = len(runs) + len(scores or ())
    if len({Path(run).resolve() for run in runs}) < len(runs) or not runs or n_candidates < 2:
        named = ", ".join([*map(str, runs), *(scores or ())]) or "none"
        raise ConfigError(
            f"a comparison needs two different candidates or more; found {named}; name another"
        )


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False


def _may_exist(path: Path) -> bool:
    """Tell whether a path exists, or is one that only its reader can judge."""
    return any(sign in str(path) for sign in _ELSEWHERE) or path.exists()
