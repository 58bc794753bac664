"""Exposure that is given, not learnt: logged propensities, or a world's truth."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from counterplay.models.scorer import History, Scorer

if TYPE_CHECKING:
    from collections.abc import Callable


class GivenExposure(Scorer):
    """Scores that a link of β = (0, 1, 0) turns back into the given propensities.

    Args:
        n_users: Number of users.
        n_items: Number of items.
        propensity: Takes users `[B]` and items `[B, K]`, returns propensities in (0, 1], `[B, K]`.
    """

    def __init__(
        self, n_users: int, n_items: int, propensity: Callable[[Tensor, Tensor], Tensor]
    ) -> None:
        super().__init__(n_users, n_items)
        self.propensity = propensity

    def forward(self, users: Tensor, items: Tensor, history: History | None = None) -> Tensor:
        """Return the logits of the propensities; certainty is infinite."""
        return torch.logit(self.propensity(users, items))
