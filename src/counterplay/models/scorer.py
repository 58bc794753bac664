"""The one interface of all models: users, candidate items and histories in, logits out."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True, slots=True)
class History:
    """What came before each query.

    Several queries may share a window, each after another place of it: so a model that reads
    windows from left to right encodes each window once.

    Attributes:
        items: Windows of item indices, `[N, L]`, padded with `n_items`.
        window: The window of each query, `[B]`.
        place: The last place that the query may see, `[B]`.
    """

    items: Tensor
    window: Tensor
    place: Tensor

    @classmethod
    def of(cls, items: Tensor) -> History:
        """Return the history in which query b sees all of window b."""
        n, length = items.shape
        window = torch.arange(n, device=items.device)
        return cls(items, window, torch.full_like(window, length - 1))

    def padded(self, padding: int) -> Tensor:
        """Return one window a query, `[B, L]`, with what it may not see replaced by padding."""
        length = self.items.shape[1]
        later = torch.arange(length, device=self.items.device) > self.place[:, None]
        return self.items[self.window].masked_fill(later, padding)


class Scorer(nn.Module):
    """A model that gives logits to items.

    A model of your own needs `n_items`, `history_length` (0 if it reads none) and `forward`;
    `score_all` may be left as it is.

    Attributes:
        n_items: Number of items it can score.
        history_length: How many earlier items it wants to see; 0 means none.
    """

    def __init__(self, n_users: int, n_items: int, *, history_length: int = 0) -> None:
        super().__init__()
        self.n_users = n_users
        self.n_items = n_items
        self.history_length = history_length

    def forward(self, users: Tensor, items: Tensor, history: History | None = None) -> Tensor:
        """Return the logits of `items` `[B, K]` for `users` `[B]`, `[B, K]`."""
        raise NotImplementedError

    def score_all(self, users: Tensor, history: History | None = None) -> Tensor:
        """Return the logits of all items for `users` `[B]`, `[B, n_items]`."""
        everything = torch.arange(self.n_items, device=users.device)
        logits: Tensor = self(users, everything.expand(len(users), -1), history)
        return logits
