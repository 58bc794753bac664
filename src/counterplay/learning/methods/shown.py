"""Learning from impressions: what users did with what they were shown.

    min over f, ρ    mean[ −log P(y | shown at p) ]  +  w · mean[ δ(0, f) ]
    P(click | shown at p) = ρ_p · σ(f)

Rows that were shown and not clicked say what a user does not want; in clicks alone they look like
all that nobody showed. The second mean, of weight w, is over sampled items that the user was never
shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack, cast

import numpy as np
import torch
from torch.nn import functional as F

from counterplay.errors import ConfigError, DataError
from counterplay.learning.config import FromShown
from counterplay.learning.fitting import FitOptions, fit
from counterplay.learning.method import Method
from counterplay.models.examination import Examination, examination_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor, nn

    from counterplay.data.interactions import Interactions
    from counterplay.learning.batches import Batch
    from counterplay.learning.records import Fit, Meter
    from counterplay.models.scorer import Scorer


class Shown(Method[FromShown]):
    """The candidate, and how far down a list users look."""

    settings = FromShown
    for_workers = True
    roles = ("candidate", "examination")
    needs = "impressions"
    searched = (("training.unseen_weight", (0.001, 1.0)),)

    def __init__(self, players: Mapping[str, Scorer], log: Interactions, config: FromShown) -> None:
        if log.clicked is None:
            raise DataError(
                "the method shown learns from impressions, clicked or not; found a log of clicks "
                "alone; give a log with a column 'clicked', or choose another method"
            )
        if not config.unseen_weight:
            config = config.model_copy(update={"n_negatives": 0})
        super().__init__(players, log, config)

    def _made(self, role: str) -> nn.Module:
        """Return ρ, from the positions of the log where they count; else the first place alone."""
        counts = self.log.position is not None and self.config.examination != "none"
        if counts and self.log.share is not None:
            raise ConfigError(
                "several workers cannot learn how far users look; found "
                f"training.examination={self.config.examination}; leave it out, or train without "
                "--workers"
            )
        return Examination(examination_of(self.log) if counts else np.ones(1))

    def prepare(self) -> None:
        """Let f learn, and ρ with it."""
        joint = self.config.examination == "joint" and self.log.position is not None
        free = (self.players["examination"],) if joint else ()
        self.learns("candidate", self.config.rate, free=free)

    def step(self, batch: Batch, meter: Meter) -> None:
        """Move f and ρ down the gradient of the loss."""
        f = self.candidate(*batch.query)  # [B, 1 + n_negatives]
        y = batch.observed[:, 0]  # [B], whether the impression was clicked
        examined = f.new_zeros(len(f))  # log ρ, [B]
        if batch.position is not None and self.config.examination != "none":
            examined = cast("Examination", self.players["examination"])(batch.position)
        loss = batch.mean(click_loss(y, f[:, 0], examined))
        if batch.unseen is not None:
            unseen = F.softplus(f[:, 1:]).mean(1)  # [B], δ(0, f)
            loss = loss + self.config.unseen_weight * batch.mean(unseen * batch.unseen)
        self.optimizers["candidate"].step(loss)
        meter.add(batch, candidate_loss=loss)


def click_loss(clicked: Tensor, f: Tensor, examined: Tensor) -> Tensor:
    """Return `−log P(y)` with `P(click) = e^examined · σ(f)`, `[B]`; examined is log ρ ≤ 0."""
    click = examined - F.softplus(-f)
    missed = torch.log(-torch.expm1(examined.clamp(max=-1e-12)))  # log(1 − ρ)
    no_click = torch.logaddexp(missed, examined - F.softplus(f))  # not examined, or not wanted
    return -torch.where(clicked > 0, click, no_click)


def shown(
    candidate: Scorer, log: Interactions, config: FromShown, **options: Unpack[FitOptions]
) -> Fit:
    """Learn P(click | shown) from impressions: a log with `clicked`; f is changed in place.

    For `options` see `erm`.
    """
    return fit(Shown({"candidate": candidate}, log, config), **options)
