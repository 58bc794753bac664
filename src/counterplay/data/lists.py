"""Lists in one row: what a page showed, taken apart into impressions, one a row."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import polars as pl

from counterplay.data.findings import Step
from counterplay.data.roles import ABSENT, form_of
from counterplay.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_AT_ONCE = 1 << 15  # lists; some hold a hundred items
_FROM_0 = ("clickidx", "clickindex", "clickedindex")
_FROM_1 = ("clickplace", "clickedplace", "clickposition", "clickedposition")
_PLACE = "place in the list"


@dataclass(slots=True)
class Lists:
    """How the rows of a table become impressions; a row without a list is one already.

    The place in the list is the position, from 1. A column of lists beside that of the items goes
    along with it; any other value holds for the whole list. What was clicked is such a list of
    flags, or for the whole list the place (`click_idx` from 0, `click_position` from 1) or the
    item, null where there was no click.
    """

    roles: dict[str, str]  #: Of the columns as they will be.
    lists: tuple[str, ...] = ()  # columns that hold a value for each item
    steps: list[Step] = field(default_factory=list)  #: Filled as the rows are read.
    _n_empty: int = 0
    _n_strange: int = 0

    def rows(self, batches: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        """Yield the impressions, without holding all of them."""
        if not self.lists:
            yield from batches
            return
        n_lists = 0
        for batch in batches:
            for lists in batch.iter_slices(_AT_ONCE):
                yield self._apart(lists, n_lists)
                n_lists += lists.height
        text = f"took {n_lists:,} lists apart"
        counts = {"lists": n_lists}
        if self._n_empty:
            counts["empty"] = self._n_empty
            text += f"; {self._n_empty:,} of them are empty"
        if self._n_strange:
            counts["strange"] = self._n_strange
            text += f"; {self._n_strange:,} clicks are on nothing in their list and left out"
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
        click = self.roles.get("clicked")
        if click is not None and filled[click].dtype.is_numeric():
            filled = filled.with_columns(pl.col(click).cast(pl.Int64, strict=False))  # NaN is none
        place = pl.int_ranges(1, pl.col(self.lists[0]).list.len() + 1, dtype=pl.Int32)
        shown = filled.with_columns(place.alias(_PLACE)).explode(*self.lists, _PLACE)
        if click is None or click in self.lists:
            return shown
        form, target = form_of(click), pl.col(click)
        if form in (*_FROM_0, *_FROM_1):
            clicked = pl.col(_PLACE) == target + (form in _FROM_0)
        else:
            clicked = pl.col(self.lists[0]) == target
        shown = shown.with_columns(clicked.fill_null(value=False).alias(click))
        n_clicks = int(filled[click].is_not_null().sum())
        if filled[click].dtype.is_numeric():
            n_clicks -= int((filled[click] == -1).sum())  # a usual sign for none
        self._n_strange += max(0, n_clicks - int(shown[click].sum()))
        return shown


def one_a_row(
    schema: Mapping[str, pl.DataType], roles: Mapping[str, str], wanted: Mapping[str, str | None]
) -> Lists:
    """Tell how the rows of a table become impressions, from the types of its columns."""
    found = {role: name for role, name in roles.items() if isinstance(schema.get(name), pl.List)}
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
            "a list must say which of its items were clicked: by a list of flags, a place or an "
            f"item; found one flag for the whole list in column '{click}'; leave it out with "
            "--clicked -, or name another column"
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
