"""Where an index points, laid out for the passes over a table: once, even for several models.

A batch of the game is looked up by the candidate twice, by its opponent once, and goes back through
both. What depends on the index alone is computed when it is first needed.
"""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from scipy.sparse import csc_array

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor


class Groups(NamedTuple):
    """The entries of an index by the row of the table that they name."""

    begins: Tensor  # where each row's entries begin, and where the last one's end, [n + 1]
    entries: Tensor  # the entries, flat, by row and in order within it
    queries: Tensor  # the query of each, which is the index's first dimension


class Lookup:
    """An index of any shape into tables, with what is known of it; for CPU."""

    def __init__(self, index: Tensor) -> None:
        self.index = index
        self._groups: dict[int, Groups] = {}
        self._patterns: dict[tuple[int, torch.dtype], Tensor] = {}

    def groups(self, n: int) -> Groups:
        """Return the entries by row, of a table with `n` rows."""
        if n not in self._groups:
            self._groups[n] = self._grouped(n)
        return self._groups[n]

    def pattern(self, n: int, dtype: torch.dtype) -> Tensor:
        """Return a sparse matrix `[len(index), n]` of zeros where the index points, `[B, K]`."""
        if (n, dtype) not in self._patterns:
            if self.index.numel():
                low, high = (int(each) for each in self.index.aminmax())
                if low < 0 or high >= n:  # nobody else looks: it would read any memory
                    raise IndexError(f"rows must be from 0 to {n - 1}; found {low} to {high}")
            be_quiet_about_beta()
            flat = self.index.reshape(-1)
            self._patterns[n, dtype] = torch.sparse_csr_tensor(
                torch.arange(0, len(flat) + 1, self.index.shape[1], dtype=flat.dtype),
                flat,
                torch.zeros(len(flat), dtype=dtype),
                size=(len(self.index), n),
                check_invariants=False,  # an item may occur twice
            )
        return self._patterns[n, dtype]

    @cached_property
    def touched(self) -> tuple[Tensor, Lookup]:
        """The rows that it names, each once, ascending, and a lookup among them."""
        alike = torch.unique_consecutive if self._ascends else torch.unique
        rows, place = alike(self.index, return_inverse=True)
        return rows, Lookup(place)

    @cached_property
    def _ascends(self) -> bool:  # as users may; items that are sampled do not
        flat = self.index
        return flat.ndim == 1 and bool((flat[1:] >= flat[:-1]).all())

    def _grouped(self, n: int) -> Groups:
        flat = self.index.reshape(-1).numpy()
        entries = np.arange(len(flat), dtype=flat.dtype)
        if self._ascends:
            begins = np.zeros(n + 1, dtype=flat.dtype)
            np.cumsum(np.bincount(flat, minlength=n), out=begins[1:])
            groups = begins, entries, entries  # each is a query
        else:
            a_query = self.index[:1].numel() or 1
            ends = np.arange(0, len(flat) + 1, a_query, dtype=flat.dtype)  # scipy converts others
            by_row = csc_array((entries, flat, ends), shape=(n, len(self.index))).tocsr()
            groups = by_row.indptr, by_row.data, by_row.indices
        return Groups(*(torch.from_numpy(each) for each in groups))


_shared: ContextVar[dict[int, Lookup] | None] = ContextVar("shared lookups", default=None)


@contextmanager
def shared_lookups() -> Iterator[None]:
    """Let everything in this block that looks the same index up share what is known of it.

    It is known by identity: an index must not be changed in the block.
    """
    token = _shared.set({})
    try:
        yield
    finally:
        _shared.reset(token)


def lookup(index: Tensor) -> Lookup:
    """Return a lookup of an index, the same one as before within `shared_lookups`."""
    known = _shared.get()
    if known is None:
        return Lookup(index)
    found = known.get(id(index))  # which no other has: the lookup keeps the index alive
    if found is None:
        found = known[id(index)] = Lookup(index)
    return found


@cache
def be_quiet_about_beta() -> None:
    """Let torch warn, once and unheard, that its sparse rows are in beta state."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.sparse_csr_tensor([0, 0], [], [], size=(1, 1), check_invariants=False)
