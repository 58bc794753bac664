"""Rows of a table by index, with a backward pass that is fast on CPU.

The usual backward adds every gathered row to the table one by one. Here the index is sorted
and the gradients of equal rows are added up as segments, which is tens of times faster and
always adds in the same order.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F


class _Rows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, index: Tensor, sparse: bool) -> Tensor:
        ctx.save_for_backward(index)
        ctx.shape, ctx.sparse = table.shape, sparse
        return F.embedding(index, table)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (index,) = ctx.saved_tensors
        gradient = gradients[0].reshape(-1, ctx.shape[1])
        return _summed(index, gradient, ctx.shape, ctx.sparse), None, None


class _Products(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, vectors: Tensor, table: Tensor, index: Tensor, sparse: bool) -> Tensor:
        ctx.save_for_backward(vectors, table, index)
        ctx.sparse = sparse
        return dots(vectors, F.embedding(index, table))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None]:
        vectors, table, index = ctx.saved_tensors
        gradient = gradients[0].contiguous().to(table.dtype)
        to_vectors = F.embedding_bag(index, table, mode="sum", per_sample_weights=gradient)
        to_table = _summed(index, vectors, table.shape, ctx.sparse, gradient)
        return to_vectors, to_table, None, None


def _summed(
    index: Tensor,
    values: Tensor,
    shape: torch.Size,
    sparse: bool,
    weights: Tensor | None = None,
) -> Tensor:
    """Return the sum of the values of each row that `index` names, dense or sparse.

    Without weights, `values` has one row an entry of `index`; with them, one row a row of
    `index`, to be weighted entry by entry.
    """
    ordered, order = torch.sort(index.reshape(-1).int(), stable=True)
    if sparse:
        touched, counts = torch.unique_consecutive(ordered, return_counts=True)
        begins = torch.cumsum(counts, 0) - counts
    else:
        every_row = torch.arange(shape[0], device=index.device, dtype=torch.int32)
        begins = torch.searchsorted(ordered, every_row)
    if weights is None:
        sums = F.embedding_bag(order, values, begins, mode="sum")
    else:
        each = weights.reshape(-1)[order]
        from_row = order // index.shape[1]
        sums = F.embedding_bag(from_row, values, begins, mode="sum", per_sample_weights=each)
    if not sparse:
        return sums
    return torch.sparse_coo_tensor(
        touched[None].long(), sums, shape, is_coalesced=True, check_invariants=False
    )


def rows(table: Tensor, index: Tensor, *, sparse: bool = False) -> Tensor:
    """Return `table[index]`, `[*index.shape, width]`; its gradient is sparse on request.

    Example:
        >>> rows(torch.tensor([[1.0], [2.0]]), torch.tensor([[1, 1, 0]])).tolist()
        [[[2.0], [2.0], [1.0]]]
    """
    if index.numel() == 0:
        return table.new_zeros(*index.shape, table.shape[1])
    gathered: Tensor = _Rows.apply(table, index.long(), sparse)  # type: ignore[no-untyped-call]
    return gathered


def products(vectors: Tensor, table: Tensor, index: Tensor, *, sparse: bool = False) -> Tensor:
    """Return the inner products of `vectors` `[B, D]` with `table[index]` `[B, K, D]`, `[B, K]`.

    The gathered rows and their gradients are never held: the backward pass is two weighted sums.

    Example:
        >>> table = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
        >>> products(torch.tensor([[2.0, 3.0]]), table, torch.tensor([[1, 0]])).tolist()
        [[3.0, 2.0]]
    """
    found: Tensor = _Products.apply(  # type: ignore[no-untyped-call]
        vectors.to(table.dtype), table, index.long(), sparse
    )
    return found


def dots(vectors: Tensor, others: Tensor) -> Tensor:
    """Return the inner products of `vectors` `[B, D]` with `others` `[B, K, D]`, `[B, K]`."""
    return torch.bmm(others, vectors.unsqueeze(2)).squeeze(2)
