"""What columns files beside a dataset must have; whether they do is told at a glance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterplay.data.headers import check_columns, header_of
from counterplay.data.roles import SHOWN
from counterplay.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

_SCORES = ("user", "item", "score")


def check_beside(scores: Iterable[Path], random_rows: Path | None) -> None:
    """Refuse files of scores, or of random rows, that lack a column."""
    for path in scores:
        names = header_of(path)
        if names is not None:
            check_names(names)
    if random_rows is not None:
        check_columns(random_rows, SHOWN)


def check_names(names: Sequence[str]) -> None:
    """Refuse scores whose columns are not called as they must be."""
    must(
        all(name in names for name in _SCORES),
        f"columns {', '.join(names)}",
        "name the columns user, item and score",
    )


def must(holds: bool, found: str, what_next: str) -> None:
    """Refuse scores that are not as they must be."""
    if not holds:
        raise DataError(
            "scores must give every user with test rows one number for each of some known items; "
            f"found {found}; {what_next}"
        )
