"""Empirical risk minimisation: plain learning from what was observed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterplay.learning.batches import Batches
from counterplay.learning.fitting import Callback, Validate, fit
from counterplay.learning.losses import LOSSES
from counterplay.learning.optimizers import Optimizer
from counterplay.learning.precision import precision
from counterplay.learning.records import Epoch, Fit, Meter
from counterplay.seeding import Streams

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from counterplay.data.interactions import Interactions
    from counterplay.learning.config import Training
    from counterplay.models.scorer import Scorer


def erm(
    candidate: Scorer,
    log: Interactions,
    config: Training,
    *,
    validate: Validate | None = None,
    callbacks: Iterable[Callback] = (),
    checkpoint: Path | None = None,
) -> Fit:
    """Minimise `mean[δ(y, f)]`.

    Args:
        candidate: The model f; it is changed in place.
        log: Training rows; with ratings they are predicted, else rows are told from samples.
        config: How.
        validate: Judges the candidate after each epoch, larger is better; never on test rows.
        callbacks: Called after each epoch.
        checkpoint: Folder to write each epoch's state to, and to go on from.
    """
    delta, streams = LOSSES[config.loss], Streams(config.seed)
    batches = Batches.of(log, config, candidate)
    candidate.to(config.device)
    optimizer = Optimizer(candidate, rate=config.rate, l2=config.l2, kind=config.optimizer)

    def run_epoch(number: int) -> Epoch:
        meter = Meter()
        for batch in batches.epoch(streams, number):
            with precision(config):
                scores = candidate(batch.users, batch.scored, batch.history)  # [B, K]
                loss = delta(batch.outcomes, scores).mean()
            optimizer.step(loss)
            meter.add(len(batch.users), candidate_loss=loss)
        return meter.epoch(number, candidate=optimizer)

    return fit(
        run_epoch,
        candidate,
        log,
        config,
        [optimizer],
        validate=validate,
        callbacks=callbacks,
        checkpoint=checkpoint,
    )
