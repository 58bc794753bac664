"""The gradients of several workers: those of what they share are added up.

Tables of items go in their own precision, in which each worker's sums are rounded already; all else
goes in float64.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from counterplay.learning.touched import sparse_like, touched

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from counterplay.groups import Group
    from counterplay.learning.owned import OwnedItems
    from counterplay.models.item_tables import ItemTable


class Exchange:
    """Adds up gradients.

    Args:
        group: The workers.
        parameters: What is learnt.
        lazy: Those of them with sparse gradients.
        own: Those that are a worker's own: tables of its users, and of items that it owns.
        items: Who gives owners the gradients of items.
        tables: The tables of items.
    """

    def __init__(
        self,
        group: Group,
        parameters: Sequence[Tensor],
        lazy: Sequence[Tensor],
        own: Sequence[Tensor],
        items: OwnedItems | None = None,
        tables: Sequence[ItemTable] = (),
    ) -> None:
        self._group, self._items = group, items
        self._apart = {id(each.held): each for each in tables if each.n_of_all is not None}
        copied = {id(each.held) for each in tables} - self._apart.keys()
        self._lazy, self._own = {id(value) for value in lazy}, {id(value) for value in own}
        self._learning = [value for value in parameters if value.requires_grad]
        kept = self._lazy | self._own
        dense = [value for value in self._learning if id(value) not in kept]
        self._dense = [value for value in dense if id(value) not in copied]
        self._tables = [value for value in dense if id(value) in copied]

    def gradients(self) -> None:
        """Give every worker the same gradients of what is shared.

        A worker without rows has none; what no worker has a gradient for keeps none.
        """
        parts = [torch.tensor([self._has(value) for value in self._learning]).double()]
        for value in self._dense:
            gradient = torch.zeros_like(value) if value.grad is None else value.grad
            parts.append(gradient.detach().reshape(-1).double().cpu())
        together = torch.cat(parts)
        self._group.sum(together)
        sizes = [len(self._learning), *(value.numel() for value in self._dense)]
        known, *sums = together.split(sizes)
        for value, total in zip(self._dense, sums, strict=True):
            value.grad = total.view(value.shape).to(value)
        moving = []
        n_known = dict(zip(map(id, self._learning), known.tolist(), strict=True))
        for value in self._tables:
            if n_known[id(value)]:
                mine = torch.zeros_like(value) if value.grad is None else value.grad
                self._group.add(mine)
                value.grad = mine
        for value, n in zip(self._learning, known.tolist(), strict=True):
            if n and id(value) in self._apart:
                moving.append(self._apart[id(value)])
            elif not n:
                value.grad = None
            elif id(value) in self._lazy:
                mine = sparse_like(value) if value.grad is None else value.grad
                value.grad = mine if id(value) in self._own else self._of_all(value, mine)
            elif value.grad is None:
                value.grad = torch.zeros_like(value)
        if moving and self._items is not None:
            self._items.gradients(moving)

    def _has(self, value: Tensor) -> bool:
        """Tell whether this worker has a gradient of it, for itself or for the owners."""
        if self._items is not None and id(value) in self._apart:
            return self._items.gradient(self._apart[id(value)]) is not None
        return value.grad is not None

    def _of_all(self, table: Tensor, gradient: Tensor) -> Tensor:
        """Return the gradient of the rows that any worker touched."""
        rows, values = touched(gradient)
        rows, values = (self._group.together(each)[0] for each in (rows, values))
        found, place = rows.unique(return_inverse=True)
        sums = values.new_zeros(len(found), values.shape[1]).index_add_(0, place, values)
        return sparse_like(table, found, sums)

    def sum_of_squares(self) -> float:
        """Return the sum of the squares of all gradients, of users' tables on all workers."""
        sums = torch.zeros(2, dtype=torch.float64)  # what is shared, and what is not
        for value in self._learning:
            if value.grad is not None:
                entries = touched(value.grad)[1] if value.grad.is_sparse else value.grad
                sums[int(id(value) in self._own)] += entries.double().square().sum().cpu()
        self._group.sum(sums[1:])
        return float(sums.sum())
