"""The one order of a log, made of what its rows say (docs/decisions/0001)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from counterplay.data.ordering import stable_order
from counterplay.data.vocabulary import MULTIPLIER, mixed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

    from counterplay.data.vocabulary import Vocabulary

Order = Literal["canonical", "file"]
_FIRST_KEYS = {"user", "time", "item"}
_MIX_BITS = 24  # more would need a second pass of sorting; the few that collide go by item


def canonical_order(
    columns: Mapping[str, NDArray[Any]], users: Vocabulary, items: Vocabulary
) -> NDArray[np.int64] | None:
    """Return the permutation that puts the rows of a log in canonical order; None if they are.

    By user and time; between rows of one user at one time by a fixed mix of the user's id and the
    item's; between rows of one pair at one time by the other columns. So it depends on what the
    rows say, never on the order that they came in; and no item comes last for its id.

    Args:
        columns: `user` and `item`, as indices, and whatever else the log has.
        users: The ids behind them.
        items: The same.
    """
    order = time_order(columns)
    places, group = _tied(columns, order)
    for rank in _ranks(columns, users, items):
        if not len(places):
            break
        rows = places if order is None else order[places]
        key = rank(rows)
        arranged = stable_order(group, key)
        if arranged is not None:
            order = np.arange(len(columns["user"])) if order is None else order
            order[places], key = rows[arranged], key[arranged]
        still = _repeats(group, key)
        places, group = places[still], _runs(group[still], key[still])
    return order


def time_order(columns: Mapping[str, NDArray[Any]]) -> NDArray[np.int64] | None:
    """Return the stable permutation by user and, where there are times, time."""
    return stable_order(*(columns[name] for name in ("user", "time") if name in columns))


def _tied(
    columns: Mapping[str, NDArray[Any]], order: NDArray[np.int64] | None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the places of rows that share user and time with a neighbour, and their groups."""
    keys = [columns[name] for name in ("user", "time") if name in columns]
    arranged = keys if order is None else [key[order] for key in keys]
    places = np.flatnonzero(_repeats(*arranged))
    return places, _runs(*(key[places] for key in arranged))


def _ranks(
    columns: Mapping[str, NDArray[Any]], users: Vocabulary, items: Vocabulary
) -> Iterator[Callable[[NDArray[np.int64]], NDArray[Any]]]:
    """Yield, one after the other, functions of rows that tell tied rows apart."""
    user, item = columns["user"], columns["item"]

    def mix(rows: NDArray[np.int64]) -> NDArray[np.int64]:
        pairs = users.digests()[user[rows]] * MULTIPLIER + items.digests()[item[rows]]
        return (mixed(pairs) >> np.uint64(64 - _MIX_BITS)).astype(np.int64)

    yield mix
    yield partial(_ascending, item)
    for name in sorted(columns.keys() - _FIRST_KEYS, key=lambda name: (name != "rating", name)):
        yield partial(_ascending, columns[name])


def _ascending(column: NDArray[Any], rows: NDArray[np.int64]) -> NDArray[Any]:
    """Return integers in the order of a column's values, different wherever their bits are."""
    values = column[rows]
    if values.dtype.kind != "f":
        return values
    integer = np.dtype(f"i{values.dtype.itemsize}")
    bits = values.view(integer)
    return np.where(bits < 0, bits ^ np.iinfo(integer).max, bits)


def _repeats(*keys: NDArray[Any]) -> NDArray[np.bool_]:
    """Tell which rows of sorted columns are the same as a neighbour in all of them."""
    same = ~_begins(*keys)
    same[:-1] |= same[1:]
    return same


def _runs(*keys: NDArray[Any]) -> NDArray[np.int64]:
    """Number the runs of rows that are the same in all columns."""
    return np.cumsum(_begins(*keys), dtype=np.int64)


def _begins(*keys: NDArray[Any]) -> NDArray[np.bool_]:
    begins = np.zeros(len(keys[0]), dtype=np.bool_)
    begins[:1] = True
    for key in keys:
        begins[1:] |= key[1:] != key[:-1]
    return begins
