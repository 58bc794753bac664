"""Stable ordering of long integer columns, in time that grows with the rows alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray


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
    widths = [int(offset.max()).bit_length() for offset in offsets]
    order: NDArray[np.int64] | None = None
    for digit in _digits(offsets, widths, room=63 - position_bits):
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


def _digits(
    keys: list[NDArray[np.int64]], widths: list[int], room: int
) -> Iterator[NDArray[np.int64]]:
    """Cut the concatenated bits of `keys` into digits of `room` bits, least significant first."""
    digit, used = np.zeros_like(keys[0]), 0
    for key, width in zip(reversed(keys), reversed(widths), strict=True):
        taken = 0
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
