"""Vectors of items that workers own: the rows of a step are fetched, their gradients go back.

Every worker owns the items of its shards. What a step looks up is known from its batch, so all rows
of all tables come in one exchange, and gradients go back in one for each player that moves:

    who needs which rows    item indices, once a step
    rows                    float32, from owners to who needs them; once more for who moved
    gradients               float32, from there to owners, who add them up and move their rows

A worker has the rows of its own step and those it owns, never all.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from counterplay.data.canonical import begins
from counterplay.errors import ConfigError
from counterplay.learning.touched import sparse_like
from counterplay.models.item_tables import ItemTable, Near, apart
from counterplay.models.lookups import Lookup
from counterplay.models.rows import sums

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray
    from torch import Tensor, nn

    from counterplay.data.interactions import Interactions
    from counterplay.groups import Share
    from counterplay.learning.batches import Batch


class _Route(NamedTuple):
    """Which rows go where in a step."""

    items: Tensor  # that this worker needs, ascending, [n]
    needed: list[int]  # how many of them each worker owns
    asked: Tensor  # rows of this worker's that are needed, by who needs them, [m]
    given: list[int]  # how many of them each worker needs


class OwnedItems:
    """The rows that a worker needs of tables whose rows have owners.

    Args:
        tables: All of them, of all players.
        share: Which items are whose.
        n_items: Of the whole log.
        device: Where to learn.
    """

    def __init__(
        self, tables: Sequence[ItemTable], share: Share, n_items: int, device: str
    ) -> None:
        self._tables, self._group, self._device = tables, share.group, device
        each = share.n_shards // share.group.size
        ends = [share.items_of(rank * each, n_items) for rank in range(share.group.size + 1)]
        self._ends, self._first = np.array(ends), ends[share.group.rank]
        self._n, self._n_here = n_items, ends[share.group.rank + 1] - self._first
        # Where items are among those that are needed, then where padding is; -1 for nowhere.
        self._place = torch.full((n_items + 1,), -1, dtype=torch.int32)
        self._wanted: list[Tensor] = []
        self._route: _Route | None = None
        self._near: dict[ItemTable, Tensor] = {}
        self._places: dict[int, tuple[Tensor, Tensor]] = {}  # by the identity of an index
        self._touched: dict[ItemTable, Tensor] = {}

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Let tables find their rows here for a while."""
        for table in self._tables:
            table.source = self
        try:
            yield
        finally:
            for table in self._tables:
                table.source = None
            self._forget()

    def begin(self, batch: Batch) -> None:
        """Get ready for a step."""
        self._forget()
        self._wanted = (
            [batch.items] if batch.history is None else [batch.items, batch.history.items]
        )

    def also(self, items: Tensor) -> None:
        """Fetch these too."""
        self._wanted.append(items)

    def _forget(self) -> None:
        if self._route is not None:
            self._place[self._route.items] = -1
        self._route = None
        for held in (self._near, self._places, self._touched):
            held.clear()

    def near(self, table: ItemTable, index: Tensor) -> Near:
        """Return the rows that were fetched, and where those at `index` are among them.

        All workers ask in the same order; the first to ask after a step fetches for all tables.
        """
        route = self._route = self._route or self._routed()
        if table not in self._near:
            self._fetch(route)
        if id(index) not in self._places:  # the index is kept, so no other has its identity
            self._places[id(index)] = index, self._placed(index)
        place = self._places[id(index)][1]
        rows = self._near[table]
        if table.sparse and rows.requires_grad and torch.is_grad_enabled():
            known = self._touched.setdefault(table, torch.zeros(len(rows), dtype=torch.bool))
            known[place.reshape(-1).cpu().long()] = True
        return Near(rows, place, route.items.to(self._device))

    def _placed(self, index: Tensor) -> Tensor:
        flat = index.reshape(-1).cpu()
        place = self._place.index_select(0, flat)
        if len(place) and int(place.min()) < 0:
            missing = int(flat[place < 0][0])
            raise ConfigError(
                "a method must say which items it looks up besides those of its batch, where "
                f"workers own them; found item {missing}; call self.also(items) before, or train "
                "with --copy-items"
            )
        return place.view(index.shape).to(index.device)

    def _routed(self) -> _Route:
        """Tell the owners which rows this worker needs, and hear which ones others do."""
        found = np.concatenate([each.reshape(-1).cpu().numpy() for each in self._wanted])
        found = _distinct(found)
        found = found[found < self._n]  # without padding
        items = torch.from_numpy(found)
        self._place[items] = torch.arange(len(items), dtype=torch.int32)
        self._place[self._n] = len(items)
        needed = np.diff(np.searchsorted(found, self._ends))
        ones = [1] * self._group.size
        given = self._group.exchange(torch.from_numpy(needed), ones, ones).tolist()
        sizes = needed.tolist()
        asked = self._group.exchange(items.to(torch.int32), sizes, given)
        return _Route(items, sizes, asked - self._first, given)

    def _fetch(self, route: _Route) -> None:
        """Get the rows of all tables that are not near."""
        tables = [each for each in self._tables if each not in self._near]
        asked = route.asked.to(self._device)
        given = [each.held.detach().index_select(0, asked) for each in tables]
        found = self._group.exchange(_beside(given), route.given, route.needed)
        for table, rows in zip(tables, _apart(found, given), strict=True):
            near = rows.to(table.held)
            self._near[table] = near.requires_grad_(table.held.requires_grad)

    def gradient(self, table: ItemTable) -> Tensor | None:
        """Return what this worker found for the rows that are near."""
        return self._near[table].grad if table in self._near else None

    def forget(self, tables: Sequence[ItemTable]) -> None:
        """Leave out gradients so far, before a step of these tables."""
        for table in tables:
            if table in self._near:
                self._near[table].grad = None

    def moved(self, tables: Sequence[ItemTable]) -> None:
        """Know that owners have moved their rows: what is near is out of date."""
        for table in tables:
            self._near.pop(table, None)
            self._touched.pop(table, None)

    def gradients(self, tables: Sequence[ItemTable]) -> None:
        """Give owners the sums of the gradients of their rows."""
        route = self._route
        assert route is not None
        parts = []
        for table in tables:
            near = self._near[table]
            gradient = torch.zeros_like(near) if near.grad is None else near.grad
            if table.sparse:  # only rows that were looked up by it move
                known = self._touched.get(table, torch.zeros(len(near), dtype=torch.bool))
                gradient = torch.cat([gradient, known.to(gradient)[:, None]], 1)
            parts.append(gradient)
        found = self._group.exchange(_beside(parts), route.needed, route.given)
        rows, lookups = route.asked, {False: Lookup(route.asked)}
        if any(table.sparse for table in tables):
            rows = torch.from_numpy(_distinct(route.asked.numpy()))
            among = torch.empty(self._n_here, dtype=torch.int32)
            among[rows.long()] = torch.arange(len(rows), dtype=torch.int32)
            lookups[True] = Lookup(among.index_select(0, route.asked))
        for table, values in zip(tables, _apart(found, parts), strict=True):
            n = len(rows) if table.sparse else self._n_here
            total = sums(lookups[table.sparse], values.contiguous(), n)
            if table.sparse:
                known = total[:, -1] > 0
                here = rows[known].long(), total[known, :-1]
                table.held.grad = sparse_like(table.held, *(each.to(self._device) for each in here))
            else:
                table.held.grad = total.to(table.held)


def items_of(players: Mapping[str, nn.Module], log: Interactions, device: str) -> OwnedItems | None:
    """Return the rows of items that workers own; None where each has all of them."""
    tables = [table for player in players.values() for _, table in apart(player)]
    if not tables or log.share is None:
        return None
    return OwnedItems(tables, log.share, log.n_items, device)


def _beside(parts: Sequence[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(list(parts), 1)


def _apart(rows: Tensor, like: Sequence[Tensor]) -> Sequence[Tensor]:
    return (rows,) if len(like) == 1 else rows.split([each.shape[1] for each in like], 1)


def _distinct(values: NDArray[np.integer]) -> NDArray[np.integer]:
    """Return the values, each once, ascending."""
    values = np.sort(values)
    return values[begins(values)]
