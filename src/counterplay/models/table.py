"""Candidates known by their scores: given pair by pair, or of another scale than a loss wants."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from counterplay.models.scorer import History, Scorer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class ScoreTable(Scorer):
    """Looks up logits `[n]` by their pairs, `user · n_items + item`, ascending, `[n]`.

    A pair that is not given has the logit −inf.
    """

    pairs: Tensor
    logits: Tensor

    def __init__(
        self, n_users: int, n_items: int, pairs: NDArray[np.int64], logits: NDArray[np.float32]
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


class Calibrated(Scorer):
    """`slope · f + intercept` of a model f, which stays as it is: the same order, another scale."""

    def __init__(self, model: Scorer, slope: float, intercept: float) -> None:
        super().__init__(model.n_users, model.n_items, history_length=model.history_length)
        self.model, self.slope, self.intercept = model, slope, intercept

    def forward(self, users: Tensor, items: Tensor, history: History | None = None) -> Tensor:
        """Return the logits of `items` `[B, K]`."""
        logits: Tensor = self.slope * self.model(users, items, history) + self.intercept
        return logits
