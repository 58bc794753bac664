"""Implicit ALS: vectors of users and items by alternating least squares.

    min over p, q    Σ_ui c_ui (x_ui − p_u · q_i)² + λ (Σ_u |p_u|² + Σ_i |q_i|²)

over all pairs, with x 1 for a user's items and 0 elsewhere, and the confidence c = 1 + α w there
(w is a weight, 1 without) and 1 elsewhere (Hu, Koren and Volinsky, 2008). A sweep solves for all
users, then for all items, by a few steps of conjugate gradients from where they are. Each vector is
computed by one thread, so their number does not change a result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self, Unpack

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from counterplay.models.factorization import Factorized
from counterplay.models.lookups import be_quiet_about_beta
from counterplay.models.solved import Solved, clicks_of
from counterplay.threads import in_threads

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray
    from scipy import sparse

    from counterplay.data.interactions import Interactions
    from counterplay.models.embedding import PairOptions
    from counterplay.models.registry import ModelSettings

_STEPS = 3  # of conjugate gradients
_BLOCK = 1 << 16  # pairs that are solved for together: few enough for a processor's cache
_TINY = 1e-20  # keeps what has converged from dividing 0 by 0


class Als(Factorized, Solved):
    """`p_u · q_i`."""

    made_for_some = True
    name = "ials"
    searched = (
        ("candidate.dim", "dim"),
        ("candidate.ridge", (0.1, 1000.0)),
        ("candidate.confidence", (0.1, 100.0)),
        ("candidate.sweeps", (2, 40)),
    )

    def __init__(
        self,
        n_users: int,
        n_items: int,
        *,
        ridge: float,
        confidence: float,
        sweeps: int,
        **options: Unpack[PairOptions],
    ) -> None:
        super().__init__(n_users, n_items, **options)
        self.ridge, self.confidence, self.sweeps = ridge, confidence, sweeps

    @classmethod
    def of(
        cls, log: Interactions, size: ModelSettings, generator: torch.Generator | None = None
    ) -> Self:
        """Return a model whose vectors are where sweeps begin; it reads no features."""
        ridge = cls.usual(log)["ridge"] if size.ridge is None else size.ridge
        return cls(
            log.n_users, log.n_items, dim=size.dim, ridge=ridge, confidence=size.confidence,
            sweeps=size.sweeps, generator=generator,
        )  # fmt: skip

    @classmethod
    def usual(cls, log: Interactions) -> dict[str, float]:
        """Return the ridge λ."""
        return {"ridge": 10.0}

    @torch.no_grad()
    def solve(self, log: Interactions, weights: NDArray[np.float64] | None = None) -> None:
        """Solve for users and items in turn."""
        be_quiet_about_beta()
        clicks = clicks_of(log, weights)
        clicks.data *= self.confidence
        sides = _Side(clicks), _Side(clicks.T.tocsr())
        users, items = (each.own.detach().cpu() for each in (self.user, self.item))
        for _ in range(self.sweeps):
            sides[0].solve(users, items, self.ridge)
            sides[1].solve(items, users, self.ridge)
        for table, found in ((self.user.own, users), (self.item.own, items)):
            table.copy_(found)


class _Side:
    """The pairs of users with items, or of items with users, and their α w."""

    def __init__(self, pairs: sparse.csr_array) -> None:
        self._begins, self._others = (
            torch.from_numpy(each.astype(np.int64)) for each in (pairs.indptr, pairs.indices)
        )
        self._extra = torch.from_numpy(pairs.data)
        self._blocks = list(_blocks(pairs.indptr))

    def solve(self, vectors: Tensor, others: Tensor, ridge: float) -> None:
        """Move `vectors` towards the best for the vectors of `others`, in place."""
        shared: list[Tensor] = []

        def product(_: None) -> None:
            shared.append((others.T @ others).add_(torch.eye(others.shape[1]), alpha=ridge))

        def block(rows: slice) -> None:
            begins = self._begins[rows.start : rows.stop + 1]
            pairs = slice(int(begins[0]), int(begins[-1]))
            index, extra = self._others[pairs], self._extra[pairs]
            _descend(vectors[rows], others, shared[0], begins - begins[0], index, extra)

        for job, parts in ((product, [None]), (block, self._blocks)):
            for _ in in_threads(job, parts, most=len(self._blocks)):  # type: ignore[arg-type]
                pass


def _descend(
    vectors: Tensor, others: Tensor, shared: Tensor, begins: Tensor, index: Tensor, extra: Tensor
) -> None:
    """Take some steps of conjugate gradients on `(Q'Q + λI + Σ α w q q') p = Σ (1 + α w) q`."""
    shape = len(vectors), len(others)
    pattern = torch.sparse_csr_tensor(
        begins, index, torch.zeros_like(extra), shape, check_invariants=False
    )

    def summed(values: Tensor) -> Tensor:
        return F.embedding_bag(
            index, others, begins, mode="sum", per_sample_weights=values, include_last_offset=True
        )

    def extra_products(p: Tensor) -> Tensor:
        torch.sparse.sampled_addmm(pattern, p, others.T, beta=0.0, out=pattern)
        products: Tensor = pattern.values()
        return products.mul_(extra)

    residual = summed(extra + 1 - extra_products(vectors)) - vectors @ shared
    direction = residual.clone()
    square = residual.square().sum(1, keepdim=True)
    for _ in range(_STEPS):
        curved = torch.addmm(summed(extra_products(direction)), direction, shared)
        length = square / ((direction * curved).sum(1, keepdim=True) + _TINY)
        vectors.addcmul_(length, direction)
        residual.addcmul_(length, curved, value=-1)
        smaller = residual.square().sum(1, keepdim=True)
        direction = torch.addcmul(residual, smaller / (square + _TINY), direction)
        square = smaller


def _blocks(begins: NDArray[np.integer]) -> Iterator[slice]:
    """Yield rows that have `_BLOCK` pairs together, or one that has more."""
    begin, n = 0, len(begins) - 1
    while begin < n:
        end = int(np.searchsorted(begins, begins[begin] + _BLOCK, side="right")) - 1
        end = min(max(end, begin + 1), n)
        yield slice(begin, end)
        begin = end
