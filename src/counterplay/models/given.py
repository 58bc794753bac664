"""Exposure that is given, not learnt: logged propensities, or a world's truth."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional as F

from counterplay.models.scorer import History, Scorer

if TYPE_CHECKING:
    from collections.abc import Callable

_CERTAIN = 17.0  # a logit: no propensity below 1 has a larger one in single precision


class GivenExposure(Scorer):
    """Scores that a link of β = (0, 1, 0) turns back into the given propensities.

    `propensity` takes users `[B]` and items `[B, K]`, and returns propensities in (0, 1], `[B, K]`.
    With `observed_only` it is asked only for the first item of each query, the observed one; the
    sampled ones are then as if certain, because who sampled them is known.
    """

    def __init__(
        self,
        n_users: int,
        n_items: int,
        propensity: Callable[[Tensor, Tensor], Tensor],
        *,
        observed_only: bool = False,
    ) -> None:
        super().__init__(n_users, n_items)
        self.propensity = propensity
        self.observed_only = observed_only

    def forward(self, users: Tensor, items: Tensor, history: History | None = None) -> Tensor:
        """Return the logits of the propensities; that of certainty is finite, its weight is 1."""
        given = self.propensity(users, items[:, :1] if self.observed_only else items)
        logits = torch.logit(given).clamp(-_CERTAIN, _CERTAIN)  # β · ∞ would be no number
        others = items.shape[1] - logits.shape[1]
        return F.pad(logits, (0, others), value=_CERTAIN) if others else logits
