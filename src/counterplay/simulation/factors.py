"""A number for every pair, as a product of factors: a large world is two small tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from counterplay.errors import DataError

if TYPE_CHECKING:
    from counterplay.metrics.scoring import Scores

Numbers = NDArray[np.float64]
Indices = NDArray[np.integer]


@dataclass(frozen=True, eq=False)
class Factors:
    """`c + b_u + b_i + x_u(t) · z_i`, where users may drift: `x_u(t) = cos(ωt) x_u + sin(ωt) x'_u`.

    Attributes:
        user: x, `[n_users, dim]`.
        item: z, `[n_items, dim]`.
        user_bias: `[n_users]`.
        item_bias: `[n_items]`.
        constant: c.
        toward: x', `[n_users, dim]`; None if users do not drift.
        turn: ω, radians per unit of time.
    """

    user: Numbers
    item: Numbers
    user_bias: Numbers
    item_bias: Numbers
    constant: float = 0.0
    toward: Numbers | None = None
    turn: float = 0.0

    def __post_init__(self) -> None:
        shapes = self.item.ndim == 2 and self.item.shape[0] == len(self.item_bias)
        shapes = shapes and self.user.shape == (len(self.user_bias), self.item.shape[1])
        if not shapes or (self.toward is not None and self.toward.shape != self.user.shape):
            raise DataError(
                "factors must have one row per user and one row per item, all of the same length; "
                f"found {self.user.shape} with {len(self.user_bias)} biases and "
                f"{self.item.shape} with {len(self.item_bias)}; make them agree"
            )

    @property
    def n_users(self) -> int:
        """Number of users."""
        return len(self.user)

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.item)

    def of(self, users: Indices, items: Indices, time: float = 0.0) -> Numbers:
        """Return the numbers of `items` `[B, K]` for `users` `[B]`, `[B, K]`."""
        vectors = self._at(users, time)
        products: Numbers
        if items.shape[1] == 1:  # pairs, as logs ask for: half the time
            products = np.einsum("bd,bd->b", vectors, self.item.take(items[:, 0], axis=0))[:, None]
        else:
            products = np.einsum("bd,bkd->bk", vectors, self.item.take(items, axis=0))
        products += self.item_bias[items]
        products += self.user_bias[users, None] + self.constant
        return products

    def of_all(self, users: Indices, time: float = 0.0) -> Numbers:
        """Return the numbers of all items for `users` `[B]`, `[B, n_items]`."""
        products: Numbers = self._at(users, time) @ self.item.T
        products += self.item_bias
        products += self.user_bias[users, None] + self.constant
        return products

    def _at(self, users: Indices, time: float) -> Numbers:
        vectors: Numbers = self.user.take(users, axis=0)
        if self.toward is None or not time * self.turn:
            return vectors
        angle = self.turn * time
        turned: Numbers = np.cos(angle) * vectors + np.sin(angle) * self.toward[users]
        return turned


@dataclass(frozen=True, eq=False)
class Disturbed:
    """Factors plus a network of both vectors: `s(u, i) + relu(w · relu(B relu(A (x_u, z_i))))`.

    With random weights it is structured noise: the same for a pair whenever it is asked for, and
    alike for alike pairs. Layers have their biases in the last row.

    Attributes:
        factors: s, x and z.
        first: A, `[2 · dim + 1, width]`.
        second: B, `[width + 1, width]`.
        last: w, `[width + 1]`.
    """

    factors: Factors
    first: Numbers
    second: Numbers
    last: Numbers

    @property
    def n_users(self) -> int:
        """Number of users."""
        return self.factors.n_users

    @property
    def n_items(self) -> int:
        """Number of items."""
        return self.factors.n_items

    def of(self, users: Indices, items: Indices) -> Numbers:
        """Return the numbers of `items` `[B, K]` for `users` `[B]`, `[B, K]`."""
        return self.factors.of(users, items) + self._noise(users, self.factors.item[items])

    def of_all(self, users: Indices) -> Numbers:
        """Return the numbers of all items for `users` `[B]`, `[B, n_items]`."""
        return self.factors.of_all(users) + self._noise(users, self.factors.item[None])

    def _noise(self, users: Indices, items: Numbers) -> Numbers:
        """Return what the network adds, `[B, K]`; items are vectors, `[B or 1, K, dim]`."""
        dim = self.factors.user.shape[1]
        of_user = self.factors.user[users] @ self.first[:dim] + self.first[-1]
        hidden = np.maximum(of_user[:, None] + items @ self.first[dim:-1], 0)  # [B, K, width]
        hidden = np.maximum(hidden @ self.second[:-1] + self.second[-1], 0)
        noise: Numbers = np.maximum(hidden @ self.last[:-1] + self.last[-1], 0)
        return noise


def scores_of(
    scores: Factors | Disturbed | Scores, users: Indices, items: Indices | None
) -> NDArray[np.floating]:
    """Return the scores of `items` `[B, K]`, or of all items, for `users` `[B]`."""
    return scores.of_all(users) if items is None else scores.of(users, items)
