"""The one order of a log, made of what its rows say (docs/decisions/0001), and how it is sorted."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from counterplay.data.vocabulary import MULTIPLIER, mixed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

    from counterplay.data.vocabulary import Vocabulary

Order = Literal["canonical", "file"]
AT_ONCE = 1 << 20  # rows that are worked on at a time, where there may be very many
_FIRST_KEYS = {"user", "time", "item"}
_MIX_BITS = 24  # more would need a second pass of sorting; the few that collide go by item


def canonical_order(
    columns: Mapping[str, NDArray[Any]], users: Vocabulary, items: Vocabulary
) -> NDArray[np.int64] | None:
    """Return the permutation that puts the rows of a log in canonical order; None if they are.

    By user and time; between rows of one user at one time by a fixed mix of the user's id and the
    item's; between rows of one pair at one time by the other columns. So it depends on what the
    rows say, never on the order that they came in; and no item comes last for its id.
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


def arranged(
    columns: dict[str, NDArray[Any]],
    users: Vocabulary,
    items: Vocabulary,
    order: Order,
    *,
    at_once: int = AT_ONCE,
) -> dict[str, NDArray[Any]]:
    """Return columns in order; those given are given up, so that only one is held twice.

    Rows are moved to blocks of users, column by column, and then sorted within each block.
    """
    offsets = np.zeros(len(users) + 1, dtype=np.int64)
    for part in slices(len(columns["user"]), at_once):
        offsets[1:] += np.bincount(columns["user"][part], minlength=len(users))
    np.cumsum(offsets, out=offsets)
    blocks = user_blocks(offsets, at_once)
    target = None
    if len(blocks) > 1 and not in_order(columns["user"]):
        target = _targets(columns["user"], offsets, blocks, at_once)
    found: dict[str, NDArray[Any]] = {}
    for name in list(columns):
        column = columns.pop(name)
        if target is None:
            found[name] = column if column.flags.writeable else column.copy()
            continue
        found[name] = np.empty_like(column)
        for part in slices(len(column), at_once):
            found[name][target[part]] = column[part]
        del column
    del target
    for first, last in blocks:
        rows = slice(int(offsets[first]), int(offsets[last]))
        block = {name: column[rows] for name, column in found.items()}
        block["user"] = block["user"] - np.int32(first)
        if order == "file":
            places = time_order(block)
        else:
            own = type(users)(users.ids[first:last])
            places = canonical_order(block, own, items)
        if places is not None:
            for column in found.values():
                column[rows] = column[rows][places]
    return found


def _targets(
    user: NDArray[np.int32], offsets: NDArray[np.int64], blocks: list[tuple[int, int]], at_once: int
) -> NDArray[Any]:
    """Return where each row goes, so that the rows of each block of users lie together, `[n]`."""
    firsts = np.array([first for first, _ in blocks])
    block_of = np.zeros(len(offsets) - 1, dtype=np.uint16 if len(blocks) < 1 << 16 else np.int64)
    block_of[firsts[1:]] = 1
    np.cumsum(block_of, out=block_of)
    free = offsets[firsts]  # the next place in each block
    target = np.empty(len(user), dtype=np.uint32 if len(user) < 1 << 32 else np.int64)
    for part in slices(len(user), at_once):
        block = block_of[user[part]]
        order = np.argsort(block, kind="stable")
        counts = np.bincount(block, minlength=len(blocks))
        place = np.repeat(free - np.cumsum(counts) + counts, counts) + np.arange(len(block))
        target[part][order] = place
        free += counts
    return target


def slices(n_rows: int, at_once: int = AT_ONCE) -> Iterator[slice]:
    """Yield the parts of so many rows, in order."""
    for begin in range(0, n_rows, at_once):
        yield slice(begin, min(begin + at_once, n_rows))


def user_blocks(offsets: NDArray[np.int64], at_once: int = AT_ONCE) -> list[tuple[int, int]]:
    """Return ranges of users that have about so many rows together, none of them without rows."""
    n_users, n_rows = len(offsets) - 1, int(offsets[-1])
    cuts = np.searchsorted(offsets, np.arange(at_once, n_rows, at_once))
    edges = np.unique(np.concatenate([[0], cuts, [n_users]])).tolist()
    return [(first, last) for first, last in pairwise(edges) if offsets[first] < offsets[last]]


def in_order(column: NDArray[Any]) -> bool:
    """Tell whether a column ascends."""
    return bool((column[1:] >= column[:-1]).all())


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


def begins(*keys: NDArray[Any]) -> NDArray[np.bool_]:
    """Tell which rows of sorted columns differ from the row before in any of them."""
    first = np.zeros(len(keys[0]), dtype=np.bool_)
    first[:1] = True
    for key in keys:
        first[1:] |= key[1:] != key[:-1]
    return first


def _repeats(*keys: NDArray[Any]) -> NDArray[np.bool_]:
    """Tell which rows of sorted columns are the same as a neighbour in all of them."""
    same = ~begins(*keys)
    same[:-1] |= same[1:]
    return same


def _runs(*keys: NDArray[Any]) -> NDArray[np.int64]:
    """Number the runs of rows that are the same in all columns."""
    return np.cumsum(begins(*keys), dtype=np.int64)


def stable_order(*keys: NDArray[np.integer]) -> NDArray[np.int64] | None:
    """Return the stable permutation that sorts by `keys`, most significant first.

    None means that the rows are in order already. The keys' bits, strung together, are cut
    from the low end into digits; each pass packs one digit above the row's position and sorts
    plain int64 numbers, which is several times faster than an indirect stable sort.

    Example:
        >>> stable_order(np.array([1, 0, 1]), np.array([5, 9, 5]))
        array([1, 0, 2])
    """
    n_rows = len(keys[0])
    if n_rows < 2:
        return None
    position_bits = int(n_rows - 1).bit_length()
    position_mask = np.int64((1 << position_bits) - 1)
    offsets = [_coarsest(key.astype(np.int64) - np.int64(key.min())) for key in keys]
    order: NDArray[np.int64] | None = None
    for digit in _digits(offsets, room=63 - position_bits):
        arranged = digit if order is None else digit[order]
        if bool((arranged[1:] >= arranged[:-1]).all()):
            continue
        packed = (arranged << np.int64(position_bits)) | np.arange(n_rows)
        packed.sort()
        packed &= position_mask
        order = packed if order is None else order[packed]
    return order


def _coarsest(offset: NDArray[np.int64]) -> NDArray[np.int64]:
    """Drop trailing zeros that all numbers share: whole seconds need fewer bits."""
    for unit in (1_000_000, 1_000):
        if bool((offset[:1000] % unit == 0).all()) and len(offset) > 1000:
            coarse = offset // unit
            if bool((coarse * unit == offset).all()):
                return coarse
    return offset


def _digits(keys: list[NDArray[np.int64]], room: int) -> Iterator[NDArray[np.int64]]:
    """Cut the concatenated bits of `keys` into digits of `room` bits, least significant first."""
    digit, used = np.zeros_like(keys[0]), 0
    for key in reversed(keys):
        taken, width = 0, int(key.max()).bit_length()
        while taken < width:
            bits = min(room - used, width - taken)
            part = (key >> np.int64(taken)) & np.int64((1 << bits) - 1)
            digit |= part << np.int64(used)
            taken, used = taken + bits, used + bits
            if used == room:
                yield digit
                digit, used = np.zeros_like(keys[0]), 0
    if used:
        yield digit


def offsets_of(groups: NDArray[np.int32], n_groups: int) -> NDArray[np.int64]:
    """Return where each group begins and ends in the sorted column `groups`, `[n_groups + 1]`."""
    offsets = np.zeros(n_groups + 1, dtype=np.int64)
    np.cumsum(np.bincount(groups, minlength=n_groups), out=offsets[1:])
    return offsets


def ranges(begins: NDArray[np.integer], ends: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the places from each beginning up to its end, one range after the other.

    Example:
        >>> ranges(np.array([2, 7]), np.array([4, 8]))
        array([2, 3, 7])
    """
    lengths = ends - begins
    found: NDArray[np.int64] = np.repeat(begins - np.cumsum(lengths) + lengths, lengths)
    return found + np.arange(len(found))
