"""Rows of a table by index, with a backward pass that is fast on CPU.

The usual backward adds every gathered row to the table one by one. Here the gradients of equal
rows are added up as the product of a sparse matrix with them, which is tens of times faster and,
on CPU, always adds in the same order.
"""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import numpy as np
import torch
from scipy.sparse import csc_array
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
        return _gradient(index, gradient, ctx.shape, ctx.sparse), None, None


class _Products(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, vectors: Tensor, table: Tensor, index: Tensor, sparse: bool) -> Tensor:
        ctx.save_for_backward(vectors, table, index)
        ctx.sparse = sparse
        return _sampled(vectors, table, index)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None]:
        vectors, table, index = ctx.saved_tensors
        gradient = gradients[0].contiguous().to(table.dtype)
        to_vectors = F.embedding_bag(index, table, mode="sum", per_sample_weights=gradient)
        to_table = _gradient(index, vectors, table.shape, ctx.sparse, gradient)
        return to_vectors, to_table, None, None


def _sampled(vectors: Tensor, table: Tensor, index: Tensor) -> Tensor:
    """Return some entries of `vectors @ table.T`, `index` in each row, without gathering rows."""
    if index.device.type != "cpu" or index.shape[1] > len(table):
        return dots(vectors, F.embedding(index, table))
    if index.numel():
        low, high = (int(each) for each in index.aminmax())
        if low < 0 or high >= len(table):  # nobody else looks: it would read any memory
            raise IndexError(f"rows must be from 0 to {len(table) - 1}; found {low} to {high}")
    _be_quiet_about_beta()
    begins = torch.arange(0, index.numel() + 1, index.shape[1], dtype=index.dtype)
    wanted = torch.sparse_csr_tensor(
        begins,
        index.reshape(-1),
        table.new_zeros(index.numel()),
        size=(len(vectors), len(table)),
        check_invariants=False,  # an item may occur twice
    )
    found = torch.sparse.sampled_addmm(wanted, vectors.contiguous(), table.T, beta=0.0)
    entries: Tensor = found.values().view(index.shape)
    return entries


@cache
def _be_quiet_about_beta() -> None:
    """Let torch warn, once and unheard, that its sparse rows are in beta state."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.sparse_csr_tensor([0, 0], [], [], size=(1, 1), check_invariants=False)


def _gradient(
    index: Tensor, values: Tensor, shape: torch.Size, sparse: bool, weights: Tensor | None = None
) -> Tensor:
    """Return the gradient of a table, dense, or sparse with only the rows that `index` names."""
    if not sparse:
        return _sums(index, values, shape[0], weights)
    touched, place = torch.unique(index, return_inverse=True)
    sums = _sums(place, values, len(touched), weights)
    return torch.sparse_coo_tensor(
        touched[None].long(), sums, shape, is_coalesced=True, check_invariants=False
    )


def _sums(index: Tensor, values: Tensor, n: int, weights: Tensor | None) -> Tensor:
    """Return the sum of the values of each of `n` rows, `[n, width]`.

    Without weights, `values` has one row an entry of `index`; with them, one row a row of
    `index`, to be weighted entry by entry. Either way it is a sparse matrix times `values`.
    """
    a_row = 1 if weights is None else index.shape[1]
    if index.device.type != "cpu":
        each = values if weights is None else (weights[..., None] * values[:, None]).flatten(0, 1)
        return values.new_zeros(n, values.shape[1]).index_add_(0, index.reshape(-1), each)
    entries = index.reshape(-1).numpy()
    begins = np.arange(0, len(entries) + 1, a_row, dtype=entries.dtype)  # scipy converts others
    by = values.new_ones(len(entries)) if weights is None else weights.reshape(-1)
    matrix = csc_array((by.numpy(), entries, begins), shape=(n, len(values)))
    return torch.from_numpy(matrix @ values.numpy())


def rows(table: Tensor, index: Tensor, *, sparse: bool = False) -> Tensor:
    """Return `table[index]`, `[*index.shape, width]`; its gradient is sparse on request.

    Example:
        >>> rows(torch.tensor([[1.0], [2.0]]), torch.tensor([[1, 1, 0]])).tolist()
        [[[2.0], [2.0], [1.0]]]
    """
    if index.numel() == 0:
        return table.new_zeros(*index.shape, table.shape[1])
    if not torch.is_grad_enabled():
        return F.embedding(index, table)
    gathered: Tensor = _Rows.apply(table, index, sparse)  # type: ignore[no-untyped-call]
    return gathered


def products(vectors: Tensor, table: Tensor, index: Tensor, *, sparse: bool = False) -> Tensor:
    """Return the inner products of `vectors` `[B, D]` with `table[index]` `[B, K, D]`, `[B, K]`.

    The gathered rows and their gradients are never held: the backward pass is two weighted sums.

    Example:
        >>> table = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
        >>> products(torch.tensor([[2.0, 3.0]]), table, torch.tensor([[1, 0]])).tolist()
        [[3.0, 2.0]]
    """
    vectors = vectors.to(table.dtype)
    if not torch.is_grad_enabled():
        return _sampled(vectors, table, index)
    found: Tensor = _Products.apply(  # type: ignore[no-untyped-call]
        vectors, table, index, sparse
    )
    return found


def dots(vectors: Tensor, others: Tensor) -> Tensor:
    """Return the inner products of `vectors` `[B, D]` with `others` `[B, K, D]`, `[B, K]`."""
    return torch.bmm(others, vectors.unsqueeze(2)).squeeze(2)
