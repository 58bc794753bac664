"""CF and GMF: a user's vector times an item's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from counterplay.models.embedding import Embedding
from counterplay.models.rows import dots
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

    def user_vectors(self, vectors: Tensor) -> Tensor:
        """Turn a user's embedding into the user's side of the product."""
        raise NotImplementedError

    def item_vectors(self, vectors: Tensor) -> Tensor:
        """Turn an item's embedding into the item's side of the product."""
        raise NotImplementedError

    def forward(self, users: Tensor, items: Tensor, history: History | None = None) -> Tensor:
        """Return the logits of `items` `[B, K]`."""
        left, right = self.user_vectors(self.user(users)), self.item_vectors(self.item(items))
        return dots(left, right) + self.constant

    def score_all(self, users: Tensor, history: History | None = None) -> Tensor:
        """Return the logits of all items: one matrix product."""
        left = self.user_vectors(self.user(users))
        return left @ self.item_vectors(self.item.table()).T + self.constant


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

    def user_vectors(self, vectors: Tensor) -> Tensor:
        """Return `(p, b, 1)`."""
        return torch.cat([vectors, torch.ones_like(vectors[..., :1])], dim=-1)

    def item_vectors(self, vectors: Tensor) -> Tensor:
        """Return `(q, 1, b)`."""
        factors, bias = vectors[..., :-1], vectors[..., -1:]
        return torch.cat([factors, torch.ones_like(bias), bias], dim=-1)


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

    def user_vectors(self, vectors: Tensor) -> Tensor:
        """Return `h ∘ p`."""
        return vectors * self.importance

    def item_vectors(self, vectors: Tensor) -> Tensor:
        """Return `q`."""
        return vectors
