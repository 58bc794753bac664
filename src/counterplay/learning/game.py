"""The game (ACL): a candidate f against an exposure model g that plays the worst exposure.

    min over f, β   max over g    mean[ δ(y, f) / G_β(g, y) ] − α · R(g)        (equation 9)

R is the regularizer, by default g's own loss on the feedback, `mean[δ(y, g)]`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from counterplay.learning.batches import Batches
from counterplay.learning.fitting import Callback, Validate, fit
from counterplay.learning.losses import LOSSES
from counterplay.learning.optimizers import Optimizer
from counterplay.learning.precision import precision
from counterplay.learning.records import Epoch, Fit, Meter
from counterplay.learning.regularizers import regularizer_of
from counterplay.learning.weighting import groups_of, weighted_loss
from counterplay.models.link import Link
from counterplay.models.lookups import shared_lookups
from counterplay.seeding import Streams

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from counterplay.data.interactions import Interactions
    from counterplay.learning.batches import Batch
    from counterplay.learning.config import Game
    from counterplay.learning.regularizers import KnownExposure
    from counterplay.models.scorer import Scorer


def acl(
    candidate: Scorer,
    exposure: Scorer,
    log: Interactions,
    config: Game,
    *,
    validate: Validate | None = None,
    callbacks: Iterable[Callback] = (),
    checkpoint: Path | None = None,
    known: KnownExposure | None = None,
) -> Fit:
    """Train the candidate against the worst exposure that the data still allow (Algorithm 1).

    Args:
        candidate: The model f; it is changed in place.
        exposure: Its opponent g; it is changed in place.
        log: Training rows.
        config: How.
        validate: Judges a model after each epoch, larger is better; never on test rows.
        callbacks: Called after each epoch.
        checkpoint: Folder to write each epoch's state to, and to go on from.
        known: The true exposure, for the regularizer `known`: users `[B]` and items `[B, K]` to
            propensities `[B, K]`, as a world has them.
    """
    delta, streams = LOSSES[config.loss], Streams(config.seed)
    regularizer = regularizer_of(config, log, known)
    link = Link(**config.link_options()).to(config.device)
    batches = Batches.of(log, config, candidate, exposure)
    f_optimizer = Optimizer(
        candidate.to(config.device),
        free=[link] if config.link.learn else [],
        rate=config.rate,
        l2=config.l2,
        kind=config.optimizer,
    )
    g_optimizer = Optimizer(
        exposure.to(config.device),
        rate=config.exposure_rate,
        l2=config.l2,
        kind=config.optimizer,
    )

    def play(batch: Batch, meter: Meter, *, alone: bool) -> None:
        query = batch.users, batch.scored, batch.history
        y, y_link = batch.outcomes, batch.link_outcomes
        groups = groups_of(config.recipe, y.shape[1])
        with precision(config):
            # g's scores are the same before and after f's step: one forward serves both.
            g_all = exposure(batch.users, batch.items, batch.history)  # [B, 1 + n_negatives]
            g = g_all if batch.ratings is None else g_all[:, :1]  # of what f scores
            if not alone:
                f_losses = delta(y, candidate(*query))
                f_loss, _ = weighted_loss(f_losses, link, g.detach(), y_link, groups)
        if not alone:
            f_optimizer.step(f_loss)
        with precision(config):
            with torch.no_grad():
                updated = delta(y, candidate(*query))  # by the candidate after its step
            worst, weights = weighted_loss(updated, link, g, y_link, groups, learn_link=False)
            held = regularizer(batch, g_all, link)
            objective = worst - config.alpha * held
        g_optimizer.step(config.alpha * held if alone else -objective)
        meter.add_weights(weights, groups)
        n = len(batch.users)
        meter.add(n, candidate_loss=worst, exposure_loss=held, objective=objective)

    def run_epoch(number: int) -> Epoch:
        f_optimizer.set_rate(config.rate / config.discount**number)
        g_optimizer.set_rate(config.exposure_rate / config.exposure_discount**number)
        meter = Meter()
        for batch in batches.epoch(streams, number):
            with shared_lookups():  # f and g look the same users and items up
                play(batch, meter, alone=number < config.warmup)
        return meter.epoch(number, candidate=f_optimizer, exposure=g_optimizer, link=link)

    return fit(
        run_epoch,
        candidate,
        log,
        config,
        [f_optimizer, g_optimizer],
        exposure=exposure,
        link=link,
        validate=validate,
        callbacks=callbacks,
        checkpoint=checkpoint,
        stop_by_objective=config.stop_by == "objective",
        first_epoch_that_counts=config.warmup,
    )
