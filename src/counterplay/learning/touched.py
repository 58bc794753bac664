"""Sparse gradients of tables: the rows that were touched, and their values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor


def touched(gradient: Tensor) -> tuple[Tensor, Tensor]:
    """Return the rows of a sparse gradient, each once, and their values.

    Where a table was looked up once, they are so already, and there is nothing to add up.
    """
    rows = gradient._indices()[0]
    if bool((rows[1:] > rows[:-1]).all()):
        return rows, gradient._values()
    gradient = gradient.coalesce()
    return gradient.indices()[0], gradient.values()


def sparse_like(table: Tensor, rows: Tensor | None = None, values: Tensor | None = None) -> Tensor:
    """Return a sparse gradient of a table, with rows that ascend; without them, an empty one."""
    if rows is None or values is None:
        rows = torch.empty(0, dtype=torch.int64, device=table.device)
        values = table.detach().new_zeros(0, table.shape[1])
    return torch.sparse_coo_tensor(
        rows[None], values, table.shape, is_coalesced=True, check_invariants=False
    )
