"""MLP and NCF: layers on top of a user's and an item's vector."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from counterplay.models.embedding import PairOptions, PairScorer
from counterplay.models.rows import rows

if TYPE_CHECKING:
    from counterplay.models.scorer import History


_BLOCK = 1 << 18  # values of the first layer at a time, when all items are scored


class MLP(PairScorer):
    """A multi-layer perceptron on `(p_u, q_i)`: layers of 2·dim, dim and dim / 2.

    The first layer is split into a user's and an item's half, `W (p, q) = W_u p + W_i q`, so that
    each half is computed once a user and once an item, not once a pair.
    """

    def __init__(self, n_users: int, n_items: int, **options: Unpack[PairOptions]) -> None:
        super().__init__(n_users, n_items, **options)
        dim, generator = self.dim, options.get("generator")
        half = max(1, dim // 2)
        self.user_half = linear(dim, 2 * dim, generator)
        self.item_half = linear(dim, 2 * dim, generator, bias=False)
        self.layers = nn.ModuleList([linear(2 * dim, dim, generator), linear(dim, half, generator)])
        self.output = linear(half, 1, generator)

    def forward(self, users: Tensor, items: Tensor, history: History | None = None) -> Tensor:
        """Return the logits of `items` `[B, K]`."""
        left = self.user_half(self.user(users))
        whole_table = items.numel() > self.n_items and not self.item.sparse
        if whole_table and not bool((items < 0).any()):
            right = rows(self.item_half(self.item.table()), items)
        else:
            right = self.item_half(self.item(items))
        hidden = left[:, None] + right  # [B, K, 2 · dim]
        for layer in (*self.layers, self.output):
            hidden = layer(F.relu(hidden, inplace=True))
        logits: Tensor = hidden.squeeze(-1)
        return logits

    def score_all(self, users: Tensor, history: History | None = None) -> Tensor:
        """Return the logits of all items, in blocks of users, with pairs as columns."""
        left = self.user_half(self.user(users)).T  # [2 · dim, B]
        right = self.item_half(self.item.table()).T.contiguous()  # [2 · dim, n_items]
        logits = []
        for part in left.split(max(1, _BLOCK // right.numel()), dim=1):
            hidden = (part[:, :, None] + right[:, None]).flatten(1)
            for layer in (*self.layers, self.output):
                activated = F.relu(hidden, inplace=True)
                hidden = torch.addmm(layer.bias[:, None], layer.weight, activated)
            logits.append(hidden.view(-1, self.n_items))
        return torch.cat(logits)


class NCF(PairScorer):
    """NeuMF: GMF and MLP, each with vectors of its own, added up at the end."""

    def __init__(self, n_users: int, n_items: int, **options: Unpack[PairOptions]) -> None:
        super().__init__(n_users, n_items, **options)
        self.importance = nn.Parameter(torch.ones(self.dim))
        self.perceptron = MLP(n_users, n_items, **options)

    def forward(self, users: Tensor, items: Tensor, history: History | None = None) -> Tensor:
        """Return the logits of `items` `[B, K]`."""
        product = self.item.products(self.user(users) * self.importance, items)
        logits: Tensor = product + self.perceptron(users, items)
        return logits

    def score_all(self, users: Tensor, history: History | None = None) -> Tensor:
        """Return the logits of all items."""
        product = (self.user(users) * self.importance) @ self.item.table().T
        logits: Tensor = product + self.perceptron.score_all(users)
        return logits


def linear(
    n_in: int,
    n_out: int,
    generator: torch.Generator | None,
    *,
    bias: bool = True,
    gain: float = 2,
) -> nn.Linear:
    """Return a linear layer; its weights start with variance `gain / n_in` (2 goes with ReLU)."""
    layer = nn.Linear(n_in, n_out, bias=bias)
    with torch.no_grad():
        layer.weight.normal_(0, (gain / n_in) ** 0.5, generator=generator)
        if bias:
            layer.bias.zero_()
    return layer
