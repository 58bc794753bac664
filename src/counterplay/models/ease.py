"""EASE: every item is predicted from a user's other items, in closed form.

    min over B    ‖W ∘ X − XB‖² + λ‖B‖²,    diag(B) = 0

X is 1 for a user's items, W their weights (1 without). With P = (X'X + λI)⁻¹ and T = P X'(W ∘ X)

    B = T − P diag(γ),    γ_i = T_ii / P_ii

which without weights is `B_ij = −P_ij / P_jj` off the diagonal (Steck, 2019).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from scipy.linalg import lapack
from torch import Tensor, nn
from torch.nn import functional as F

from counterplay.errors import ConfigError
from counterplay.models.solved import FromOwnItems, clicks_of, item_products

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy import sparse

    from counterplay.data.interactions import Interactions
    from counterplay.models.registry import ModelSettings
    from counterplay.models.scorer import History

_A_PAIR = 8 + 4  # bytes of two items: the inverse, and what is kept
_GIB = 2**30
_COLUMNS = 256  # that are computed at a time


class Ease(FromOwnItems):
    """A linear model from items to items, `[n_items, n_items]`."""

    made_for_some = True
    name = "ease"
    searched = (("candidate.ridge", (1.0, 10_000.0)),)

    def __init__(self, log: Interactions, *, ridge: float) -> None:
        super().__init__(log)
        self.ridge = ridge
        self.between = nn.Parameter(torch.zeros(log.n_items, log.n_items), requires_grad=False)

    @classmethod
    def of(
        cls, log: Interactions, size: ModelSettings, generator: torch.Generator | None = None
    ) -> Self:
        """Return an empty model with the items of the users of a log."""
        cls.check_size(log.n_items, size)
        ridge = cls.usual(log)["ridge"] if size.ridge is None else size.ridge
        return cls(log, ridge=ridge)

    @classmethod
    def check_size(cls, n_items: int, size: ModelSettings) -> None:
        """Refuse more items than the matrix has room for."""
        needed = _A_PAIR * n_items**2 / _GIB
        if needed > size.memory:
            raise ConfigError(
                f"ease must hold {_A_PAIR} bytes for every two items; found {n_items:,} items, "
                f"which need {needed:.1f} GiB, above candidate.memory={size.memory:g}; raise it, "
                "keep fewer items with prepare --core, or choose the model knn"
            )

    @classmethod
    def usual(cls, log: Interactions) -> dict[str, float]:
        """Return the ridge λ that grows with a log as the best one does on public logs."""
        return {"ridge": 0.5 * float(np.sqrt(len(log)))}

    def solve(self, log: Interactions, weights: NDArray[np.float64] | None = None) -> None:
        """Invert the products of items, and compute B from them."""
        clicks = clicks_of(log)
        inverse = _inverse(clicks, self.ridge)
        found, n_items = self.between.data.cpu().numpy(), self.n_items
        diagonal = inverse.diagonal().copy()
        _fill(inverse)
        if weights is None:
            for begin in range(0, n_items, _COLUMNS):
                rows = slice(begin, begin + _COLUMNS)
                found[rows] = inverse.T[rows] / -diagonal  # symmetric: rows are faster so
        else:
            targets = clicks_of(log, weights).tocsc()
            for begin in range(0, n_items, _COLUMNS):
                columns = slice(begin, begin + _COLUMNS)
                wanted = inverse @ (clicks.T @ targets[:, columns]).toarray()  # T
                own = np.arange(begin, begin + wanted.shape[1])
                wanted -= inverse[:, columns] * (wanted[own, own - begin] / diagonal[columns])
                found[:, columns] = wanted
        np.fill_diagonal(found, 0)
        self.between.data.copy_(torch.from_numpy(found))

    def effects(self, sources: Tensor, items: Tensor) -> Tensor:
        """Return entries of B."""
        return self.between[sources[:, None], items]

    def score_all(self, users: Tensor, history: History | None = None) -> Tensor:
        """Return the sums of the rows of B of each user's items."""
        sources, _, begins = self.sources(users)
        return F.embedding_bag(sources, self.between, begins, mode="sum")


def _inverse(clicks: sparse.csr_array, ridge: float) -> NDArray[np.float64]:
    """Return the lower triangle of `(X'X + λI)⁻¹`; what is above it means nothing."""
    n_items = clicks.shape[1]
    products = np.zeros((n_items, n_items))  # its upper triangle: transposed, in LAPACK's order

    def put(rows: slice, found: Any) -> None:
        products[rows, rows.start :] = found

    item_products(clicks, put, half=True)
    products[np.diag_indices(n_items)] += ridge
    factor, failed = lapack.dpotrf(products.T, lower=1, clean=0, overwrite_a=1)
    if not failed:
        factor, failed = lapack.dpotri(factor, lower=1, overwrite_c=1)
    if failed:
        raise ConfigError(
            f"the ridge of ease must make its matrix invertible; found {ridge:g}, which is too "
            "little; raise candidate.ridge"
        )
    inverse: NDArray[np.float64] = factor
    return inverse


def _fill(lower: NDArray[np.float64]) -> None:
    """Copy what is below the diagonal above it, in place."""
    n = len(lower)
    for begin in range(0, n, _COLUMNS):
        rows = slice(begin, min(begin + _COLUMNS, n))
        block = lower[rows, rows]
        lower[rows, rows] = np.tril(block) + np.tril(block, -1).T
        lower[rows, rows.stop :] = lower[rows.stop :, rows].T
