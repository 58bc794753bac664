"""Lists in one row: what a page showed, taken apart into impressions, one a row."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from counterplay.data.columns import FLAGS
from counterplay.data.findings import Step
from counterplay.data.roles import ABSENT, form_of
from counterplay.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_AT_ONCE = 1 << 15  # lists; some hold a hundred items
_FROM_0 = ("clickidx", "clickindex", "clickedindex")
_FROM_1 = ("clickplace", "clickedplace", "clickposition", "clickedposition")
_ITEM = ("clickeditem", "clickitem", "clickeditemid", "clickitemid")
_PLACE = "place in the list"
_WHICH = "which of its items were clicked: by a list of flags, a place or an item"
_NOWHERE = np.iinfo(np.int64).min  # no place, and nobody's item


@dataclass(slots=True)
class Lists:
    """How the rows of a table become impressions; a row without a list is one already.

    The place in the list is the position, from 1. A column of lists beside that of the items goes
    along with it; any other value holds for the whole list. What was clicked is such a list of
    flags, or for the whole list the place (`click_idx` from 0, `click_position` from 1) or the
    item, null where there was no click. An item that is listed twice is clicked at its first place.
    """

    roles: dict[str, str]  #: Of the columns as they will be.
    lists: tuple[str, ...] = ()  # columns that hold a value for each item
    steps: list[Step] = field(default_factory=list)  #: Filled as the rows are read.
    _n_empty: int = 0
    _n_strange: int = 0
    _n_repeated: int = 0
    _n_clicks: int = 0
    _may_be_flags: bool = True

    def rows(self, batches: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        """Yield the impressions, without holding all of them."""
        if not self.lists:
            yield from batches
            return
        n_lists = 0
        for batch in batches:
            for lists in batch.iter_slices(_AT_ONCE):
                arrays = [name for name in self.lists if isinstance(lists.schema[name], pl.Array)]
                yield self._apart(lists.with_columns(pl.col(arrays).arr.to_list()), n_lists)
                n_lists += lists.height
        if self._n_clicks and self._may_be_flags:
            raise DataError(
                f"a list must say {_WHICH}; found only 0 and 1, or such flags, in column "
                f"'{self.roles['clicked']}'; rename it to click_idx if it is the place from 0, or "
                "to clicked_item if it is the item, or leave it out with --clicked -"
            )
        text = f"took {n_lists:,} lists apart"
        counts = {"lists": n_lists}
        for name, n, said in (
            ("empty", self._n_empty, "of them are empty"),
            ("strange", self._n_strange, "clicks are on nothing in their list and left out"),
            ("repeated", self._n_repeated, "clicks are on an item that is listed more than once, "
             "and count at its first place"),
        ):  # fmt: skip
            if n:
                counts[name] = n
                text += f"; {n:,} {said}"
        self.steps.append(Step("lists", text, counts))

    def _apart(self, lists: pl.DataFrame, n_before: int) -> pl.DataFrame:
        length = lists[self.lists[0]].list.len().fill_null(0)
        for name in self.lists[1:]:
            differs = (lists[name].list.len().fill_null(0) != length).arg_true()
            if len(differs):
                raise DataError(
                    "columns of lists must have a value for each item; found "
                    f"{len(differs):,} lists in column '{name}' that are longer or shorter than in "
                    f"'{self.lists[0]}', the first at row {n_before + differs[0] + 1:,}; correct "
                    "those rows, or leave the column out with '-'"
                )
        filled = lists.filter(length > 0)
        self._n_empty += lists.height - filled.height
        place = pl.int_ranges(1, pl.col(self.lists[0]).list.len() + 1, dtype=pl.Int32)
        shown = filled.with_columns(place.alias(_PLACE)).explode(*self.lists, _PLACE)
        click = self.roles.get("clicked")
        if click is None or click in self.lists:
            return shown
        clicks = _there(lists[click])
        self._n_clicks += (n_clicks := len(clicks) - clicks.null_count())
        form, target = form_of(click), _there(shown[click])
        if form in (*_FROM_0, *_FROM_1):
            self._may_be_flags = False
            clicked = shown[_PLACE].cast(pl.Int64) == target.cast(pl.Int64) + (form in _FROM_0)
        else:
            named = form in _ITEM
            self._may_be_flags = self._may_be_flags and not named and _only_flags(clicks)
            items = shown[self.lists[0]]
            clicked = items == target.cast(items.dtype, strict=False)
        hits = clicked.arg_true().to_numpy()
        ends = np.cumsum(length.filter(length > 0).to_numpy())
        _, first, times = np.unique(
            np.searchsorted(ends, hits, side="right"), return_index=True, return_counts=True
        )  # of the lists that have their click
        self._n_repeated += int((times > 1).sum())
        self._n_strange += n_clicks - len(first)
        flags = np.zeros(shown.height, np.bool_)
        flags[hits[first]] = True
        return shown.with_columns(pl.Series(click, flags))


def holds_lists(dtype: pl.DataType | None) -> bool:
    """Tell whether a column has a list in each row, of any length or of one."""
    return isinstance(dtype, pl.List | pl.Array)


def _there(clicks: pl.Series) -> pl.Series:
    """Return what was clicked, null for nothing: a usual sign for it is -1, or NaN."""
    if clicks.dtype.is_float():
        clicks = clicks.fill_nan(None)
        whole = (clicks == clicks.floor()).fill_null(value=True)
        clicks = clicks.cast(pl.Int64, strict=False).set(~whole, _NOWHERE)
    if clicks.dtype.is_signed_integer():
        return clicks.set((clicks == -1).fill_null(value=False), None)
    return clicks


def _only_flags(clicks: pl.Series) -> bool:
    """Tell whether all that is there could be flags."""
    text = clicks.drop_nulls().cast(pl.String).str.to_lowercase().str.strip_chars()
    return bool(text.is_in(list(FLAGS)).all())


def one_a_row(
    schema: Mapping[str, pl.DataType], roles: Mapping[str, str], wanted: Mapping[str, str | None]
) -> Lists:
    """Tell how the rows of a table become impressions, from the types of its columns."""
    found = {role: name for role, name in roles.items() if holds_lists(schema.get(name))}
    if "item" not in found:
        return Lists(dict(roles))
    if wrong := next((role for role in found if role in ("user", "time")), None):
        raise DataError(
            f"a list must be of one {wrong}; found lists in column '{found[wrong]}'; name another "
            f"column with --{wrong}"
        )
    click = roles.get("clicked", ABSENT)
    if schema.get(click) == pl.Boolean:
        raise DataError(
            f"a list must say {_WHICH}; found one flag for the whole list in column '{click}'; "
            "leave it out with --clicked -, or name another column"
        )
    place = form_of(click) in (*_FROM_0, *_FROM_1) and "clicked" not in found
    if place and not (schema[click].is_numeric() or schema[click] == pl.Null):
        raise DataError(
            f"the place of a click must be a number; found column '{click}' of type "
            f"{schema[click]}; convert it, or leave it out with --clicked -"
        )
    named = wanted.get("position")
    if named is not None and named != ABSENT and "position" not in found:
        raise DataError(
            f"positions of lists must be lists; found column '{named}' of type {schema[named]}; "
            "leave --position out: the place in the list is taken"
        )
    lists = (found.pop("item"), *found.values())
    taken = dict(roles)
    if "position" not in found and named != ABSENT:
        taken["position"] = _PLACE
    return Lists(taken, lists)
