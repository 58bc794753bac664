"""Pop: every item by how often it occurred."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from counterplay.errors import ConfigError
from counterplay.models.scorer import History, Scorer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Popularity(Scorer):
    """The same logits for everybody: `exponent · log((events + 1) / mean(events + 1))`.

    It has no parameters: counting is all its learning. An unknown item (-1) counts as one
    that never occurred.

    Args:
        n_users: Number of users.
        n_items: Number of items.
        events: How often each item occurred, `[n_items]`.
        exponent: Below 1 it tempers popularity, 0 makes all items equal.
    """

    logits: Tensor

    def __init__(
        self, n_users: int, n_items: int, events: NDArray[np.integer], *, exponent: float = 1.0
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

    def forward(self, users: Tensor, items: Tensor, history: History | None = None) -> Tensor:
        """Return the logits of `items`, whoever the user is."""
        return self.logits[items]

    def score_all(self, users: Tensor, history: History | None = None) -> Tensor:
        """Return the logits of all items, one row a user."""
        return self.logits[:-1].repeat(len(users), 1)
