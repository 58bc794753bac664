"""The opponent alone: the worst exposure for candidates that stand still.

    max over g    mean[ δ(y, f) / G_β(g, y) ] − α · R(g)

This is the inner problem of the game with f held still. It evaluates a candidate that was not
trained by the game, or is only known by its scores; against several candidates, g wants the mean
of their losses to be large. β, which is the candidate's to choose, stays where it starts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import torch

from counterplay.learning.batches import Batches
from counterplay.learning.fitting import Callback, fit
from counterplay.learning.losses import LOSSES
from counterplay.learning.optimizers import Optimizer
from counterplay.learning.records import Epoch, Fit, Meter
from counterplay.learning.regularizers import regularizer_of
from counterplay.learning.weighting import weighted_loss
from counterplay.models.link import Link
from counterplay.seeding import Streams

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from counterplay.data.interactions import Interactions
    from counterplay.learning.batches import Batch
    from counterplay.learning.config import Game
    from counterplay.models.scorer import Scorer


class Epochs(Protocol):
    """Where batches come from."""

    def epoch(self, streams: Streams, epoch: int) -> Iterator[Batch]:
        """Yield the batches of one epoch."""


def opponent(
    candidates: Sequence[Scorer],
    exposure: Scorer,
    log: Interactions,
    config: Game,
    *,
    batches: Epochs | None = None,
    callbacks: Iterable[Callback] = (),
) -> Fit:
    """Fit the exposure model g against the candidates; the fit's `candidate` is g itself.

    Args:
        candidates: Models f, which stay as they are.
        exposure: Their opponent g; it is changed in place.
        log: Training rows.
        config: How; of its rates only g's counts.
        batches: Rows to play on; by default the log's with sampled negatives.
        callbacks: Called after each epoch.
    """
    delta, streams, stable = LOSSES[config.loss], Streams(config.seed), config.recipe == "stable"
    regularizer = regularizer_of(config, log)
    link = Link(**config.link_options()).to(config.device).requires_grad_(requires_grad=False)
    batches = batches or Batches.of(log, config, exposure, *candidates)
    optimizer = Optimizer(
        exposure.to(config.device), rate=config.exposure_rate, l2=config.l2, kind=config.optimizer
    )
    for candidate in candidates:
        candidate.to(config.device).eval()

    def run_epoch(number: int) -> Epoch:
        optimizer.set_rate(config.exposure_rate / config.exposure_discount**number)
        meter = Meter()
        for batch in batches.epoch(streams, number):
            query = batch.users, batch.scored, batch.history
            with torch.no_grad():
                losses = [delta(batch.outcomes, each(*query)) for each in candidates]
                f_losses = torch.stack(losses).mean(0)
            g_all = exposure(batch.users, batch.items, batch.history)
            g = g_all if batch.ratings is None else g_all[:, :1]
            groups = (g.shape[1],) if stable else ()
            worst, weights = weighted_loss(f_losses, link, g, batch.link_outcomes, groups)
            held = regularizer(batch, g_all, link)
            objective = worst - config.alpha * held
            optimizer.step(-objective)
            meter.add_weights(weights, groups)
            n = len(batch.users)
            meter.add(n, candidate_loss=worst, exposure_loss=held, objective=objective)
        return meter.epoch(number, exposure=optimizer, link=link)

    return fit(
        run_epoch,
        exposure,
        log,
        config,
        [optimizer],
        link=link,
        callbacks=callbacks,
        stop_by_objective=True,
    )
