"""The link: from an exposure score and an outcome to a propensity."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from counterplay.errors import ConfigError


class Link(nn.Module):
    """`G_β(g, y) = σ(β0 + β1 · g + β2 · y)`, never below the floor μ.

    Without `with_outcome` there is no β2; `monotone` keeps β1 at 0 or more, as a softplus.
    """

    def __init__(
        self,
        *,
        with_outcome: bool = True,
        monotone: bool = False,
        floor: float = 0.01,
        initial: tuple[float, float, float] = (0.0, 1.0, 0.0),
    ) -> None:
        super().__init__()
        if not 0 < floor < 1:
            raise ConfigError(
                f"the floor of propensities must be between 0 and 1; found {floor:g}; take one "
                "such as 0.01"
            )
        slope = math.log(math.expm1(initial[1])) if monotone else initial[1]
        self.intercept = nn.Parameter(torch.tensor(initial[0]))
        self.slope = nn.Parameter(torch.tensor(slope))
        self.outcome = nn.Parameter(torch.tensor(initial[2])) if with_outcome else None
        self.monotone = monotone
        self.floor = floor
        self.least = math.log(floor / (1 - floor))  # the smallest logit

    @property
    def beta(self) -> tuple[float, float, float]:
        """β0, β1 and β2 as numbers."""
        intercept, slope, outcome = self.coefficients(learn=False)
        return float(intercept), float(slope), 0.0 if outcome is None else float(outcome)

    def coefficients(self, *, learn: bool = True) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return β0, β1 and β2, which is None without the outcome; unless `learn`, as constants."""
        slope = F.softplus(self.slope) if self.monotone else self.slope
        if learn:
            return self.intercept, slope, self.outcome
        outcome = None if self.outcome is None else self.outcome.detach()
        return self.intercept.detach(), slope.detach(), outcome

    def logit(self, scores: Tensor, outcomes: Tensor, *, learn: bool = True) -> Tensor:
        """Return z, clamped so that the propensity is not below the floor."""
        intercept, slope, outcome = self.coefficients(learn=learn)
        z = torch.addcmul(intercept, slope, scores)
        if outcome is not None:
            z = torch.addcmul(z, outcome, outcomes)
        return z.clamp(min=self.least)

    def forward(self, scores: Tensor, outcomes: Tensor, *, learn: bool = True) -> Tensor:
        """Return propensities in [μ, 1]; unless `learn`, β gets no gradient from them."""
        return torch.sigmoid(self.logit(scores, outcomes, learn=learn))
