"""The opponent alone: the worst exposure for candidates that are not trained.

    max over g    mean[ δ(y, f) / G_β(g, y) ] − α · R(g)

This is the inner problem of the game. It evaluates a candidate that was not trained by the game, or
is only known by its scores. Against several candidates, g maximises the mean of their losses. β is
the candidate's to choose, so it stays where it starts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from counterplay.learning.config import Game
from counterplay.learning.fitting import Callback, Epochs, fit
from counterplay.learning.method import Method
from counterplay.learning.regularizers import regularizer_of
from counterplay.learning.weighting import weighted_loss

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from counterplay.data.interactions import Interactions
    from counterplay.learning.batches import Batch
    from counterplay.learning.records import Fit, Meter
    from counterplay.models.scorer import Scorer


class Opponent(Method[Game]):
    """An exposure model against fixed candidates."""

    settings = Game
    roles = ("exposure", "link")
    judges = True
    stops_by_objective = True  # there is nothing else to stop by

    def __init__(
        self, exposure: Scorer, log: Interactions, config: Game, candidates: Sequence[Scorer]
    ) -> None:
        super().__init__({"exposure": exposure}, log, config)
        self.link.requires_grad_(requires_grad=False)
        self._candidates = tuple(each.to(config.device).eval() for each in candidates)
        self._regularizer = regularizer_of(config, log, None, self.exposures())

    def prepare(self) -> None:
        """Let g learn."""
        self.learns("exposure", self.config.exposure_rate)

    def begin(self, epoch: int) -> None:
        """Lower g's rate by its discount."""
        config = self.config
        self.optimizers["exposure"].set_rate(config.exposure_rate / config.exposure_discount**epoch)

    def step(self, batch: Batch, meter: Meter) -> None:
        """Move g up the objective."""
        with torch.no_grad():
            losses = [self.delta(batch.outcomes, f(*batch.query)) for f in self._candidates]
            f_losses = torch.stack(losses).mean(0)  # [B, K]
        g_all = self.exposure(batch.users, batch.items, batch.history)  # [B, 1 + n_negatives]
        n_weighted = self.config.n_weighted(f_losses.shape[1])  # W
        g, y_link = g_all[:, :n_weighted], batch.link_outcomes[:, :n_weighted]  # [B, W]
        groups = (n_weighted,) if self.config.recipe == "stable" else ()
        worst, weights = weighted_loss(f_losses, self.link, g, y_link, groups, batch)
        held = self._regularizer(batch, g_all, self.link)  # R(g)
        objective = worst - self.config.alpha * held
        self.optimizers["exposure"].step(-objective)
        meter.add_weights(batch, weights, groups)
        meter.add(batch, candidate_loss=worst, exposure_loss=held, objective=objective)

    @property
    def scorers(self) -> tuple[Scorer, ...]:
        """Candidates read the same batches."""
        return (*super().scorers, *self._candidates)


def opponent(
    candidates: Sequence[Scorer],
    exposure: Scorer,
    log: Interactions,
    config: Game,
    *,
    batches: Epochs | None = None,
    callbacks: Iterable[Callback] = (),
) -> Fit:
    """Fit the exposure model g, in place, against candidates that stay as they are.

    Of the rates of `config` only g's counts. The rows to play on are those of the log with sampled
    negatives, unless `batches` are given.
    """
    method = Opponent(exposure, log, config, candidates)
    return fit(method, batches=batches, callbacks=callbacks)
