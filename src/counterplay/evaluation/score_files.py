"""Scores from another library: a table of user, item and score, in the dataset's own ids."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from counterplay.data.canonical import begins
from counterplay.data.formats import format_of
from counterplay.data.identifiers import stands_for_none
from counterplay.data.refusals import readable
from counterplay.data.scans import scan
from counterplay.errors import CounterplayWarning
from counterplay.evaluation.columns import check_names, must

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from counterplay.data.interactions import Interactions
    from counterplay.data.vocabulary import Vocabulary
    from counterplay.metrics.scoring import TableScores


def read_scores(
    table: str | Path | pl.DataFrame, log: Interactions, users: NDArray[np.integer]
) -> TableScores:
    """Read scores and hold them against the dataset.

    Args:
        table: Parquet, CSV or another readable file, or a frame.
        log: The dataset: its ids.
        users: The users who are to be ranked for; every one of them must have scores.
    """
    frame = table if isinstance(table, pl.DataFrame) else _read(Path(table))
    name = "the frame" if isinstance(table, pl.DataFrame) else f"'{table}'"
    check_names(frame.columns)
    user, item = (
        vocabulary.encode(_ids(frame[name], vocabulary))
        for name, vocabulary in (("user", log.users), ("item", log.items))
    )
    must(
        not frame["score"].dtype.is_nested(),
        f"a column 'score' of {frame['score'].dtype}",
        "give one number a row",
    )
    score = frame["score"].cast(pl.Float64, strict=False).to_numpy()
    _none(~np.isfinite(score), "no finite number as their score", "leave them out, or score them")
    _none(item < 0, "an item that the dataset does not know", "leave them out")
    known = user >= 0  # others may well be scored too; they are not asked for
    user, item, score = user[known], item[known], score[known]
    from counterplay.metrics.scoring import TableScores

    found = TableScores(user, item, score, log.n_items)
    n_repeated = len(found.pairs) - int(begins(found.pairs).sum())
    must(n_repeated == 0, f"{n_repeated:,} rows that repeat a pair", "keep one score for each pair")
    wanted, scored = np.zeros((2, log.n_users), dtype=np.bool_)
    wanted[users], scored[user] = True, True
    n_absent = int((wanted & ~scored).sum())
    must(
        n_absent == 0,
        f"none for {n_absent:,} of {int(wanted.sum()):,} users with test rows or random rows",
        "score them too, or leave their rows out of the dataset",
    )
    if not known.all():
        first = frame["user"][int(np.flatnonzero(~known)[0])]
        _warn(
            f"left out {int((~known).sum()):,} of {len(known):,} scores in {name}: their users are "
            f"not in the dataset, the first is {first!r}"
        )
    return found


def _read(path: Path) -> pl.DataFrame:
    """Read a file, and say what had to be repaired; blanks around ids of CSV and TSV are none."""
    kind = format_of(path)
    with readable(path, kind):
        found = scan(path, kind)
        frame = found.collect()
    for step in found.steps:
        _warn(f"scores in '{path}': {step}")
    if kind not in ("csv", "tsv"):
        return frame
    for name in {"user", "item"} & set(frame.columns):
        bare = frame[name].str.strip_chars()
        n_padded = int((bare != frame[name]).sum())
        if n_padded:
            _warn(f"scores in '{path}': took off the blanks around {n_padded:,} ids of '{name}'")
            frame = frame.with_columns(bare)
    return frame


def _ids(column: pl.Series, vocabulary: Vocabulary) -> pl.Series:
    """Read numbers that came as text, and the reverse, as the dataset has them."""
    must(
        not column.dtype.is_nested(),
        f"a column '{column.name}' of {column.dtype}",
        "give one id a row",
    )
    if vocabulary.is_text or isinstance(column.dtype, pl.Categorical | pl.Enum):
        column = column.cast(pl.String)
    missing = column.is_null()
    if column.dtype == pl.String:
        missing |= (column == "").fill_null(value=False) | stands_for_none(column).fill_null(
            value=False
        )
    _none(missing.to_numpy(), f"no id in column '{column.name}'", "leave them out, or name them")
    if vocabulary.is_text:
        return column
    whole = column.cast(pl.Int64, strict=False)  # what is no number is unknown
    if column.dtype.is_float():
        return pl.select(pl.when(whole.cast(column.dtype) == column).then(whole)).to_series()
    return whole


def _warn(text: str) -> None:
    warnings.warn(text, CounterplayWarning, stacklevel=4)


def _none(bad: NDArray[np.bool_], what: str, what_next: str) -> None:
    n = int(bad.sum())
    must(n == 0, f"{n:,} of {len(bad):,} rows with {what}", what_next)
