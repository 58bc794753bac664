"""A user's vector times an item's: CF and GMF."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

import torch
from torch import Tensor, nn

from counterplay.models.embedding import PairOptions, PairScorer

if TYPE_CHECKING:
    from counterplay.models.scorer import History


class Factorized(PairScorer):
    """A score that is an inner product of a user's and an item's vector, plus the user's bias."""

    def user_side(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """Turn embeddings of users into their vectors `[B, width]` and biases, `[B or 1, 1]`."""
        return vectors, vectors.new_zeros(1, 1)

    def forward(self, users: Tensor, items: Tensor, history: History | None = None) -> Tensor:
        """Return the logits of `items` `[B, K]`."""
        vectors, biases = self.user_side(self.user(users))
        return self.item.products(vectors, items) + biases

    def beside(
        self, users: Tensor, items: Tensor, shared: Tensor, history: History | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the logits of `items` `[B, K]` and of `shared` `[N]`, by a matrix product."""
        vectors, biases = self.user_side(self.user(users))
        of_shared = torch.addmm(biases, vectors, self.item(shared).T)
        return self.item.products(vectors, items) + biases, of_shared

    def score_all(self, users: Tensor, history: History | None = None) -> Tensor:
        """Return the logits of all items: one matrix product."""
        vectors, biases = self.user_side(self.user(users))
        return torch.addmm(biases, vectors, self.item.table().T)


class _WithConstant(Factorized):
    """The same with a learnt constant c."""

    def __init__(self, n_users: int, n_items: int, **options: Unpack[PairOptions]) -> None:
        super().__init__(n_users, n_items, **options)
        self.constant = nn.Parameter(torch.zeros(()))


class CF(_WithConstant):
    """Matrix factorization with biases: `p_u · q_i + b_u + b_i + c`; the last place is the bias."""

    made_for_some = True
    extra = 1

    def user_side(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """Return `(p, 1)`, which meets `(q, b_i)`, and `b_u + c`."""
        factors, bias = vectors[..., :-1], vectors[..., -1:]
        return torch.cat([factors, torch.ones_like(bias)], dim=-1), bias + self.constant


class GMF(_WithConstant):
    """Generalised matrix factorization: `h · (p_u ∘ q_i) + c`, with a learnt `h`."""

    made_for_some = True

    def __init__(self, n_users: int, n_items: int, **options: Unpack[PairOptions]) -> None:
        super().__init__(n_users, n_items, **options)
        self.importance = nn.Parameter(torch.ones(self.dim))

    def user_side(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """Return `h ∘ p` and `c`."""
        return vectors * self.importance, self.constant.expand(1, 1)
