"""Propensity scoring (PS): an exposure model g is fitted and frozen, and weighs the candidate.

min over f, β    mean[ δ(y, f) / G_β(g, y) ]
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from counterplay.learning.config import Training, Weighted
from counterplay.learning.fitting import Callback, Validate, fit
from counterplay.learning.method import Method
from counterplay.learning.methods.erm import Erm
from counterplay.learning.weighting import groups_of, weighted_loss

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from counterplay.data.interactions import Interactions
    from counterplay.learning.batches import Batch
    from counterplay.learning.records import Fit, Meter
    from counterplay.models.scorer import Scorer


class Ps(Method[Weighted]):
    """The candidate, weighted by a frozen exposure model."""

    settings = Weighted
    roles = ("candidate", "exposure", "link")
    searched = (("exposure.name", "exposure"),)

    def __init__(
        self,
        players: Mapping[str, Scorer],
        log: Interactions,
        config: Weighted,
        exposure_config: Training | None = None,
    ) -> None:
        super().__init__(players, log, config)
        self._alone = exposure_config or config.plain()

    def first(self) -> Erm | None:
        """Fit g alone, unless it has nothing to learn."""
        if not any(True for _ in self.exposure.parameters()):
            return None
        return Erm({"candidate": self.exposure}, replace(self.log, rating=None), self._alone)

    def prepare(self) -> None:
        """Freeze g; f and β learn together."""
        self.exposure.requires_grad_(requires_grad=False)
        free = (self.link,) if self.config.link.learn else ()
        self.learns("candidate", self.config.rate, free=free)

    def begin(self, epoch: int) -> None:
        """Keep g as it is, without dropout."""
        self.exposure.eval()

    def step(self, batch: Batch, meter: Meter) -> None:
        """Move f and β down the gradient of the weighted loss."""
        with torch.no_grad():
            g = self.exposure(*batch.query)  # [B, K]
        f = self.candidate(*batch.query)  # [B, K]
        groups = groups_of(self.config.recipe, f.shape[1])
        losses = self.delta(batch.outcomes, f)  # [B, K]
        loss, weights = weighted_loss(losses, self.link, g, batch.link_outcomes, groups)
        self.optimizers["candidate"].step(loss)
        meter.add_weights(weights, groups)
        meter.add(len(batch.users), candidate_loss=loss)


def ps(
    candidate: Scorer,
    exposure: Scorer,
    log: Interactions,
    config: Weighted,
    *,
    exposure_config: Training | None = None,
    validate: Validate | None = None,
    callbacks: Iterable[Callback] = (),
    checkpoint: Path | None = None,
) -> Fit:
    """Fit g alone, then minimise `mean[δ(y, f) / G_β(g, y)]` over f and β with g frozen.

    Args:
        candidate: The model f; it is changed in place.
        exposure: The model g; one without parameters (popularity, given propensities) is taken as
            it is.
        log: Training rows.
        config: How to learn f and β.
        exposure_config: How to learn g; by default as f.
        validate: Judges a model after each epoch, larger is better; never on test rows.
        callbacks: Called after each epoch of the second stage.
        checkpoint: Folder to write each epoch's state to, and to go on from, in either stage.
    """
    players = {"candidate": candidate, "exposure": exposure}
    method = Ps(players, log, config, exposure_config)
    return fit(method, validate=validate, callbacks=callbacks, checkpoint=checkpoint)
