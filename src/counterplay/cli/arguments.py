"""What the commands share in reading their arguments."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from counterplay.errors import ConfigError
from counterplay.evaluation.estimators import ESTIMATORS
from counterplay.learning.methods import METHODS
from counterplay.models.names import MODELS

if TYPE_CHECKING:
    from collections.abc import Sequence

_NUMBER = r"([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"
_NAME = "|".join(ESTIMATORS)
_OWN = r"[\w.]+:\w+"  # a method of one's own
_CANDIDATE = rf"({'|'.join(MODELS)})(-({'|'.join(METHODS)}|{_OWN}))?|{'|'.join(METHODS)}|{_OWN}"
_FILE = re.compile(r"[/\\]|\.(txt|csv|tsv|tab|parquet|pq|ndjson|jsonl)(\.(gz|zst))?$", re.I)
_SEVERAL = {
    "--k": _NUMBER,
    "--gamma": _NUMBER,
    "--rates": _NUMBER,
    "--shares": _NUMBER,
    "--estimators": _NAME,
    "--estimator": _NAME,
    "--methods": "|".join([*METHODS, _OWN]),
    "--candidates": _CANDIDATE,  # a file needs an option of its own: it could be the log
}


def spread(arguments: list[str]) -> list[str]:
    """Read `--k 5 10` as `--k 5 --k 10`: options that take several values take them in a row.

    Example:
        >>> spread(["evaluate", "--k", "5", "10", "runs/erm"])
        ['evaluate', '--k', '5', '--k', '10', 'runs/erm']
    """
    read: list[str] = []
    several, values = "", 0
    for argument in arguments:
        if argument in _SEVERAL:
            several, values = argument, 0
        elif several and re.fullmatch(_SEVERAL[several], argument):
            values += 1
            if values > 1:
                read.append(several)
        else:
            several = ""
        read.append(argument)
    return read


def check_out(out: Path | None, *inputs: Path | None, ending: str = "") -> None:
    """Refuse a place that cannot be written, or that is read, before any work is done.

    With an `ending`, a file that is there already is replaced only if its name ends so.
    """
    if out is None:
        return
    if out.is_dir() or not (out.name and out.parent.is_dir() and os.access(out.parent, os.W_OK)):
        raise ConfigError(
            f"--out must name a file in a folder that exists and can be written to; found '{out}'; "
            "name another"
        )
    from counterplay.data.publishing import check_output

    check_output(out, *inputs)
    if ending and out.is_file() and out.suffix.lower() != ending:
        raise ConfigError(
            f"--out must not replace a file of another kind; found '{out}' there already; let the "
            f"name end in {ending}, or remove it"
        )


def file_or_ids(text: str | None) -> Path | list[str] | None:
    """Read an option that names a file of ids, or the ids themselves with commas between them.

    Example:
        >>> file_or_ids("17,4"), file_or_ids("users.txt")
        (['17', '4'], PosixPath('users.txt'))
    """
    if text is None:
        return None
    path = Path(text)
    if path.is_file() or _FILE.search(text):
        return path
    return [each.strip() for each in text.split(",") if each.strip()]


def by_stem(files: Sequence[Path]) -> dict[str, Path]:
    """Name files as candidates: by their names without the ending.

    Example:
        >>> from pathlib import Path
        >>> list(by_stem([Path("scores/ours.v2.csv"), Path("theirs.parquet")]))
        ['ours.v2', 'theirs']
    """
    named: dict[str, Path] = {}
    for file in files:
        if file.stem in named:
            raise ConfigError(
                "every candidate must have a name of its own, which is its file's; found two files "
                f"named '{file.stem}'; rename one"
            )
        named[file.stem] = file
    return named
