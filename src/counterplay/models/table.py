"""A candidate that is only known by its scores, given pair by pair."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from counterplay.models.scorer import History, Scorer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class ScoreTable(Scorer):
    """Looks scores up; a pair that is not given has the logit −inf.

    Args:
        n_users: Number of users.
        n_items: Number of items.
        pairs: `user · n_items + item` of the given scores, ascending, `[n]`.
        logits: Their logits, `[n]`.
    """

    pairs: Tensor
    logits: Tensor

    def __init__(
        self,
        n_users: int,
        n_items: int,
        pairs: NDArray[np.int64],
        logits: NDArray[np.float32],
    ) -> None:
        super().__init__(n_users, n_items)
        self.register_buffer("pairs", torch.from_numpy(pairs))
        self.register_buffer("logits", torch.from_numpy(logits))

    def forward(self, users: Tensor, items: Tensor, history: History | None = None) -> Tensor:
        """Return the logits of `items` `[B, K]`."""
        wanted = users[:, None].long() * self.n_items + items
        place = torch.searchsorted(self.pairs, wanted).clamp(max=len(self.pairs) - 1)
        there = (self.pairs[place] == wanted) & (items >= 0)
        return torch.where(there, self.logits[place], -torch.inf)
