"""Item-level exposure: every item has one logit, learnt, the same for everybody."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from counterplay.models.rows import rows
from counterplay.models.scorer import History, Scorer


class ItemLevel(Scorer):
    """`b_i + c`: the smallest opponent, which cannot learn taste; an unknown item (-1) gets c."""

    def __init__(self, n_users: int, n_items: int) -> None:
        super().__init__(n_users, n_items)
        self.bias = nn.Parameter(torch.zeros(n_items, 1))
        self.constant = nn.Parameter(torch.zeros(()))

    def forward(self, users: Tensor, items: Tensor, history: History | None = None) -> Tensor:
        """Return the logits of `items`, whoever the user is."""
        own = rows(self.bias, items.clamp(min=0)).squeeze(-1)
        return own.masked_fill(items < 0, 0) + self.constant

    def score_all(self, users: Tensor, history: History | None = None) -> Tensor:
        """Return the logits of all items, one row a user."""
        return (self.bias.T + self.constant).repeat(len(users), 1)
