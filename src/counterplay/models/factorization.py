"""CF and GMF: a user's vector times an item's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from counterplay.models.embedding import Embedding
from counterplay.models.scorer import History, Scorer

if TYPE_CHECKING:
    from counterplay.data.features import FeatureTable


class _Factorized(Scorer):
    """A score that is an inner product of a user's and an item's vector, plus a constant."""

    def __init__(
        self,
        n_users: int,
        n_items: int,
        width: int,
        *,
        user_features: FeatureTable | None,
        item_features: FeatureTable | None,
        generator: torch.Generator | None,
    ) -> None:
        super().__init__(n_users, n_items)
        self.user = Embedding(n_users, width, features=user_features, generator=generator)
        self.item = Embedding(n_items, width, features=item_features, generator=generator)
        self.constant = nn.Parameter(torch.zeros(()))

    def user_side(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """Turn embeddings of users into their vectors `[B, width]` and biases `[B, 1]`."""
        raise NotImplementedError

    def forward(self, users: Tensor, items: Tensor, history: History | None = None) -> Tensor:
        """Return the logits of `items` `[B, K]`."""
        vectors, biases = self.user_side(self.user(users))
        return self.item.products(vectors, items) + biases

    def score_all(self, users: Tensor, history: History | None = None) -> Tensor:
        """Return the logits of all items: one matrix product."""
        vectors, biases = self.user_side(self.user(users))
        return vectors @ self.item.table().T + biases


class CF(_Factorized):
    """Matrix factorization with biases: `p_u · q_i + b_u + b_i + c`."""

    def __init__(
        self,
        n_users: int,
        n_items: int,
        *,
        dim: int = 32,
        user_features: FeatureTable | None = None,
        item_features: FeatureTable | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(
            n_users,
            n_items,
            dim + 1,  # the last place is the bias
            user_features=user_features,
            item_features=item_features,
            generator=generator,
        )

    def user_side(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """Return `(p, 1)`, which meets `(q, b_i)`, and `b_u + c`."""
        factors, bias = vectors[..., :-1], vectors[..., -1:]
        return torch.cat([factors, torch.ones_like(bias)], dim=-1), bias + self.constant


class GMF(_Factorized):
    """Generalised matrix factorization: `h · (p_u ∘ q_i) + c`, with a learnt `h`."""

    def __init__(
        self,
        n_users: int,
        n_items: int,
        *,
        dim: int = 32,
        user_features: FeatureTable | None = None,
        item_features: FeatureTable | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(
            n_users,
            n_items,
            dim,
            user_features=user_features,
            item_features=item_features,
            generator=generator,
        )
        self.importance = nn.Parameter(torch.ones(dim))

    def user_side(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """Return `h ∘ p` and `c`."""
        return vectors * self.importance, self.constant.expand(1, 1)
