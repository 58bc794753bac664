"""Scores that are the same for everybody: popularity, counted (Pop), or a learnt logit an item."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import torch
from torch import Tensor, nn

from counterplay.errors import ConfigError
from counterplay.models.rows import rows
from counterplay.models.scorer import History, Scorer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from counterplay.data.interactions import Interactions
    from counterplay.models.registry import ModelSettings


class Popularity(Scorer):
    """`exponent · log((events + 1) / mean(events + 1))`, from the events `[n_items]` of each item.

    It has no parameters. An unknown item (-1) counts as one that never occurred. An exponent below
    1 tempers popularity, 0 makes all items equal.
    """

    made_for_some = True
    logits: Tensor
    searched = ()  # an exponent changes no order

    def __init__(
        self, n_users: int, n_items: int, events: NDArray[np.number], *, exponent: float = 1.0
    ) -> None:
        super().__init__(n_users, n_items)
        if len(events) != n_items:
            raise ConfigError(
                f"popularity must be counted for all {n_items:,} items; found {len(events):,} "
                "counts; count the rows of the training part"
            )
        smoothed = torch.as_tensor(events, dtype=torch.float32) + 1
        logits = exponent * torch.log(smoothed / smoothed.mean())
        never = -exponent * torch.log(smoothed.mean())
        self.register_buffer("logits", torch.cat([logits, never[None]]))  # [-1] is unknown

    @classmethod
    def of(
        cls, log: Interactions, size: ModelSettings, generator: torch.Generator | None = None
    ) -> Self:
        """Count the rows of a training log."""
        events = log.item_events
        return cls(log.n_users, log.n_items, events, exponent=size.exponent)

    def forward(self, users: Tensor, items: Tensor, history: History | None = None) -> Tensor:
        """Return the logits of `items`, whoever the user is."""
        return self.logits[items]

    def score_all(self, users: Tensor, history: History | None = None) -> Tensor:
        """Return the logits of all items, one row a user."""
        return self.logits[:-1].repeat(len(users), 1)


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
