"""Propensity scoring (PS): an exposure model is fitted and frozen, and weighs the candidate."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from counterplay.learning.batches import Batches
from counterplay.learning.erm import erm
from counterplay.learning.fitting import Callback, Validate, fit
from counterplay.learning.losses import LOSSES
from counterplay.learning.optimizers import Optimizer
from counterplay.learning.precision import precision
from counterplay.learning.records import Epoch, Fit, Meter
from counterplay.learning.weighting import groups_of, weighted_loss
from counterplay.models.link import Link
from counterplay.seeding import Streams

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from counterplay.data.interactions import Interactions
    from counterplay.learning.config import Training, Weighted
    from counterplay.models.scorer import Scorer


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
    if any(True for _ in exposure.parameters()):
        erm(
            exposure,
            replace(log, rating=None),
            exposure_config or config.plain(),
            validate=None if log.is_explicit else validate,  # g does not predict ratings
            checkpoint=checkpoint and checkpoint / "exposure",
        )
    delta, streams = LOSSES[config.loss], Streams(config.seed)
    link = Link(**config.link_options()).to(config.device)
    batches = Batches.of(log, config, candidate, exposure)
    exposure.to(config.device).requires_grad_(requires_grad=False)
    optimizer = Optimizer(
        candidate.to(config.device),
        free=[link] if config.link.learn else [],
        rate=config.rate,
        l2=config.l2,
        kind=config.optimizer,
    )

    def run_epoch(number: int) -> Epoch:
        exposure.eval()
        meter = Meter()
        for batch in batches.epoch(streams, number):
            with precision(config):
                with torch.no_grad():
                    g = exposure(batch.users, batch.scored, batch.history)  # [B, K]
                f = candidate(batch.users, batch.scored, batch.history)
                groups = groups_of(config.recipe, f.shape[1])
                f_losses = delta(batch.outcomes, f)
                loss, weights = weighted_loss(f_losses, link, g, batch.link_outcomes, groups)
            optimizer.step(loss)
            meter.add_weights(weights, groups)
            meter.add(len(batch.users), candidate_loss=loss)
        return meter.epoch(number, candidate=optimizer, link=link)

    return fit(
        run_epoch,
        candidate,
        log,
        config,
        [optimizer],
        exposure=exposure,
        link=link,
        validate=validate,
        callbacks=callbacks,
        checkpoint=checkpoint and checkpoint / "candidate",
    )
