"""Robust deconfounder (RD): weights within Γ of fitted ones, the worst of them in closed form.

    min over f, β    max over w    mean[ w · δ(y, f) ],    1 + (ŵ − 1) / Γ ≤ w ≤ 1 + (ŵ − 1) · Γ

ŵ = 1 / G_β(g, y) are the weights of `ps`: what nobody measured may change the odds of exposure by a
factor of Γ. In the benchmarked form, a benchmark b is learnt by `ps` first, and w is the worst for
the difference to it:

    min over f, β    max over w    mean[ w · (δ(y, f) − δ(y, b)) ]

Ding et al., Addressing Unmeasured Confounder for Recommendation with Sensitivity Analysis, KDD 2022
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any, Unpack, cast

import torch
from torch import nn

from counterplay.learning.config import Bounded, Weighted
from counterplay.learning.fitting import FitOptions, fit
from counterplay.learning.methods.ps import Ps
from counterplay.learning.worst_case import of_odds

if TYPE_CHECKING:
    from torch import Tensor

    from counterplay.data.interactions import Interactions
    from counterplay.learning.batches import Batch
    from counterplay.learning.config import Training
    from counterplay.learning.method import Method
    from counterplay.learning.records import Fit
    from counterplay.learning.weighting import Groups
    from counterplay.models.scorer import Scorer


class Rd(Ps):
    """The candidate against the worst weights near those of a frozen exposure model."""

    settings = Bounded
    roles = ("candidate", "exposure", "link", "benchmark")
    searched = (("training.gamma", (1.0, 10.0)), ("exposure.name", "exposure"))
    remedy = "raise gamma"
    config: Bounded
    step = Ps.step  # weights go with the candidate's losses: a row has none of its own

    def _made(self, role: str) -> nn.Module:
        if role == "benchmark":  # begins where the candidate begins
            return deepcopy(self.candidate) if self.config.benchmarked else nn.Identity()
        return super()._made(role)

    def first(self) -> Method[Any] | None:
        """Fit g alone; where there is a benchmark, by `ps`, which fits g first."""
        if not self.config.benchmarked:
            return super().first()
        players = {
            "candidate": cast("Scorer", self.players["benchmark"]),
            "exposure": self.exposure,
        }
        given = {name: getattr(self.config, name) for name in Weighted.model_fields}
        method = Ps(players, self.log, Weighted(**given))
        method.exposure_config, method.impressions = self.exposure_config, self.impressions
        return method

    def prepare(self) -> None:
        """Freeze g and the benchmark; f and β learn together."""
        super().prepare()
        self.players["benchmark"].requires_grad_(requires_grad=False)

    def begin(self, epoch: int) -> None:
        """Keep g and the benchmark as they are, without dropout."""
        super().begin(epoch)
        self.players["benchmark"].eval()

    def worst(
        self, batch: Batch, losses: Tensor, g: Tensor, y: Tensor, groups: Groups
    ) -> tuple[Tensor, Tensor]:
        """Return losses or differences, `[B, K]`, and the worst factors of the odds, `[B, W]`."""
        if self.config.benchmarked:
            with torch.no_grad():
                b = self.players["benchmark"](*batch.query)  # [B, K]
                theirs = self.delta(batch.outcomes, b)
            losses = losses - theirs
        with torch.no_grad():
            odds = torch.exp(-self.link.logit(g, y))  # ŵ − 1, [B, W]
        observed = losses.detach()[:, : g.shape[1]]
        (observed, mine), (odds, _) = (batch.group.together(each) for each in (observed, odds))
        return losses, of_odds(observed, odds, self.config.gamma, groups)[mine]


def rd(
    candidate: Scorer,
    exposure: Scorer,
    log: Interactions,
    config: Bounded,
    *,
    exposure_config: Training | None = None,
    impressions: Interactions | None = None,
    **options: Unpack[FitOptions],
) -> Fit:
    """Fit g alone, then minimise the loss under the worst weights within Γ of those of g.

    Models, `exposure_config`, `impressions` and `options` are as for `ps`.
    """
    method = Rd({"candidate": candidate, "exposure": exposure}, log, config)
    method.exposure_config, method.impressions = exposure_config, impressions
    return fit(method, **options)
