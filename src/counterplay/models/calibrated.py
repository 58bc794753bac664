"""A model whose scores are turned into logits of another scale."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterplay.models.scorer import Scorer

if TYPE_CHECKING:
    from torch import Tensor

    from counterplay.models.scorer import History


class Calibrated(Scorer):
    """`slope · f + intercept`: the same order, another scale.

    Args:
        model: f, which stays as it is.
        slope: What its scores are multiplied with.
        intercept: What is added.
    """

    def __init__(self, model: Scorer, slope: float, intercept: float) -> None:
        super().__init__(model.n_users, model.n_items, history_length=model.history_length)
        self.model = model
        self.slope = slope
        self.intercept = intercept

    def forward(self, users: Tensor, items: Tensor, history: History | None = None) -> Tensor:
        """Return the logits of `items` `[B, K]`."""
        logits: Tensor = self.slope * self.model(users, items, history) + self.intercept
        return logits
