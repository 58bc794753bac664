"""A file of impressions beside a log of clicks: which click belongs to which impression."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from counterplay.data.features import FeatureTable
from counterplay.data.findings import Step
from counterplay.data.vocabulary import Vocabulary
from counterplay.errors import ConfigError, DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from counterplay.data.assembly import Table

_PAIR = ("user", "item")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def microseconds_of(window: str) -> int:
    """Return a length of time such as 45s, 30m, 2h or 1d in microseconds.

    Example:
        >>> microseconds_of("30m")
        1800000000
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smhd])\s*", window)
    if found is None or not float(found[1]):
        raise ConfigError(
            "a window must be a number above 0 and a unit: s, m, h or d; found "
            f"'{window}'; write it as 30m or 2h"
        )
    return round(float(found[1]) * _SECONDS[found[2]] * 1e6)


def join(clicks: Table, shown: Table, window: int) -> Table:
    """Return clicks and impressions as one table that tells which rows were clicked.

    A click belongs to the last impression of its user and item at most `window` microseconds before
    it, and takes time, position and propensity from it, so that all of a page is in one part;
    without times, to the impressions of its pair in turn. A click without one is organic; an
    impression without one was not clicked. Where the impressions say themselves what was clicked,
    those that are marked and have no click are left out: they are neither. Those that are marked as
    not exposed are no impressions.
    """
    _leave_out_hidden(shown)
    for role, plural in (("user", "users"), ("item", "items")):
        _share_ids(clicks, shown, role, plural)
    timed = "time" in clicks.columns and "time" in shown.columns
    found = _in_time(clicks, shown, window) if timed else _in_turn(clicks, shown)
    joined = found >= 0
    n_clicks, n_joined = len(found), int(joined.sum())
    if not n_joined:
        near = "at most the window before them" if timed else "of their user and item"
        raise DataError(
            f"clicks must have impressions {near}; found none for {n_clicks:,} clicks among "
            f"{len(shown.columns['user']):,} impressions; check the ids and times of both files, "
            "or widen --window"
        )
    left = np.ones(len(shown.columns["user"]), np.bool_)
    left[found[joined]] = False
    if (marked := shown.columns.pop("clicked", None)) is not None:
        shown.steps.append(_agreement(marked, left))
        left &= ~marked
    columns: dict[str, Any] = {}
    for name in ("user", "item", *(("time",) if timed else ())):
        own = clicks.columns[name].copy()
        own[joined] = shown.columns[name][found[joined]]
        columns[name] = np.concatenate([own, shown.columns[name][left]])
    for name, organic in (("position", 0), ("propensity", 1.0), ("random", False)):
        if name in shown.columns:
            column = shown.columns[name]
            own = np.full(n_clicks, organic, dtype=column.dtype)
            own[joined] = column[found[joined]]
            columns[name] = np.concatenate([own, column[left]])
    n_left = int(left.sum())
    if "rating" in clicks.columns:
        nothing = np.zeros(n_left, clicks.columns["rating"].dtype)
        columns["rating"] = np.concatenate([clicks.columns["rating"], nothing])
    columns["clicked"] = np.arange(n_clicks + n_left) < n_clicks
    columns["exposed"] = np.concatenate([joined, np.ones(n_left, np.bool_)])
    n_several = n_joined - len(np.unique(found[joined]))
    clicks.steps.append(_told(n_clicks, n_joined, n_several, n_left))
    if "exposed" in clicks.columns:
        n_other = int((clicks.columns["exposed"] != joined).sum())
        text = f"{n_other:,} clicks are marked as exposed and have no impression, or the other way "
        text += "round: the impressions decide"
        clicks.steps.append(Step("join", text, {"marks": n_other}))
    for name in (*(() if timed else ("time",)), "position", "propensity"):
        if name in clicks.columns and name not in shown.columns:
            text = f"column {name} of the clicks is left out, because the impressions have none"
            clicks.steps.append(Step("join", text))
    clicks.steps.extend(replace(step, text=f"impressions: {step.text}") for step in shown.steps)
    clicks.columns = columns
    return clicks


def _leave_out_hidden(shown: Table) -> None:
    """Leave out the rows of a file of impressions that were not shown."""
    exposed = shown.columns.pop("exposed", None)
    if exposed is None or exposed.all():
        return
    n, total = len(exposed) - int(exposed.sum()), len(exposed)
    if n == total:
        raise DataError(
            f"impressions must have been shown; found {total:,}, all of them marked as not "
            "exposed; give another file, or leave the column out with --exposed -"
        )
    shown.columns = {name: column[exposed] for name, column in shown.columns.items()}
    text = f"left out {n:,} of {total:,} rows that were not shown: they are marked as not exposed"
    shown.steps.append(Step("hidden", text, {"rows": n}))


def _agreement(marked: NDArray[np.bool_], left: NDArray[np.bool_]) -> Step:
    """Count the impressions that are marked as clicked, and what the clicks say of them."""
    n_alone, n_unmarked = int((marked & left).sum()), int((~marked & ~left).sum())
    text = f"{int((marked & ~left).sum()):,} of {int(marked.sum()):,} that are marked as clicked "
    text += "have a click"
    if n_alone:
        text += f"; left out the other {n_alone:,}: widen --window, or add their clicks to the log"
    if n_unmarked:
        text += f"; {n_unmarked:,} have a click and no mark, and count as clicked"
    return Step("marked", text, {"rows": n_alone, "unmarked": n_unmarked})


def _told(n_clicks: int, n_joined: int, n_several: int, n_left: int) -> Step:
    """Count what was joined and what was not."""
    text = (
        f"{n_joined:,} of {n_clicks:,} clicks belong to an impression, "
        f"{n_clicks - n_joined:,} do not; {n_left:,} impressions have no click"
    )
    counts = {"joined": n_joined, "organic": n_clicks - n_joined, "unclicked": n_left}
    if n_several:
        counts["again"] = n_several
        text += f"; {n_several:,} clicks share their impression with another"
    return Step("join", text, counts)


def _share_ids(clicks: Table, shown: Table, role: str, plural: str) -> None:
    """Give both tables one vocabulary; where one has no types, that of the other decides."""
    own, other = getattr(clicks, plural).ids, getattr(shown, plural).ids
    if own.dtype != other.dtype:
        own, other = own.cast(pl.String), other.cast(pl.String)
    both = Vocabulary.of(pl.concat([own, other]))
    for table, ids in ((clicks, own), (shown, other)):
        table.columns[role] = both.encode(ids)[table.columns[role]]
        setattr(table, plural, both)
    features = getattr(clicks, f"{role}_features")
    if features is not None:  # of ids that are shown and never clicked nothing is known
        places = pl.Series(Vocabulary(own).encode(both.ids)).replace(-1, None)
        spread = features.frame.select(pl.all().gather(places))
        setattr(clicks, f"{role}_features", FeatureTable(spread))


def _in_time(clicks: Table, shown: Table, window: int) -> NDArray[np.int64]:
    """Return the impression of each click, -1 without one, `[n]`."""
    found = _rows(clicks, "time").join_asof(
        _rows(shown, "time").rename({"row": "shown"}),
        on="time",
        by=_PAIR,
        strategy="backward",
        tolerance=window,
        check_sortedness=False,  # they are sorted
    )
    return _places(found)


def _in_turn(clicks: Table, shown: Table) -> NDArray[np.int64]:
    """Return the impression of each click: a pair's first its first, and the last for the rest."""
    turn = pl.int_range(pl.len()).over(_PAIR).alias("turn")
    ours, theirs = (_rows(table).with_columns(turn) for table in (clicks, shown))
    last = theirs.group_by(_PAIR).agg(last=pl.col("turn").max())
    ours = ours.join(last, on=_PAIR, how="left").filter(pl.col("last").is_not_null())
    ours = ours.with_columns(pl.min_horizontal("turn", "last").alias("turn"))
    found = ours.join(theirs.rename({"row": "shown"}), on=[*_PAIR, "turn"], how="left")
    everything = pl.DataFrame({"row": pl.int_range(len(clicks.columns["user"]), eager=True)})
    return _places(
        everything.join(found.select(pl.col("row").cast(pl.Int64), "shown"), on="row", how="left")
    )


def _rows(table: Table, *keys: str) -> pl.DataFrame:
    """Return pairs and keys in an order that depends on what the rows say alone."""
    others = [
        name
        for name in ("position", "propensity", "random", "rating", "exposed")
        if name in table.columns
    ]
    frame = pl.DataFrame({name: table.columns[name] for name in (*_PAIR, *keys, *others)})
    ordered = frame.with_row_index("row").sort(*keys, *others, "row")
    return ordered.select("row", *_PAIR, *keys)


def _places(found: pl.DataFrame) -> NDArray[np.int64]:
    return found.sort("row")["shown"].cast(pl.Int64).fill_null(-1).to_numpy()
