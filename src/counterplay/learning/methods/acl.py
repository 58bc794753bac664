"""The game (ACL): a candidate f against an exposure model g that plays the worst exposure.

    min over f, β   max over g    ℓ = mean[ δ(y, f) / G_β(g, y) ] − α · R(g)        (equation 9)

R is the regularizer, by default g's own loss on the feedback, `mean[δ(y, g)]`; where the log has
impressions, it may be g's loss on what was shown (`exposure_from`). Algorithm 1, for each batch,
with rates that are divided by their discounts after every epoch:

    θ, β ← θ, β − r_θ ∇ℓ         f moves first
    ψ    ← ψ + r_ψ ∇ℓ            g answers the updated f
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

import torch

from counterplay.errors import ConfigError
from counterplay.learning.batches import Batches
from counterplay.learning.config import Game
from counterplay.learning.fitting import FitOptions, fit
from counterplay.learning.method import Method
from counterplay.learning.regularizers import regularizer_of
from counterplay.learning.weighting import groups_of, weighted_loss
from counterplay.seeding import Streams

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from counterplay.data.interactions import Interactions
    from counterplay.learning.batches import Batch
    from counterplay.learning.records import Fit, Meter
    from counterplay.learning.regularizers import KnownExposure
    from counterplay.models.scorer import Scorer


class Acl(Method[Game]):
    """The candidate against an exposure model."""

    settings = Game
    for_workers = True
    roles = ("candidate", "exposure", "link")
    searched = (
        ("training.alpha", "alpha"),
        ("training.exposure_rate", "exposure_rate"),
        ("exposure.dim", "exposure_dim"),
    )

    def __init__(
        self,
        players: Mapping[str, Scorer],
        log: Interactions,
        config: Game,
        known: KnownExposure | None = None,
    ) -> None:
        super().__init__(players, log, config)
        if log.share is not None:
            _check_parts(config)
        self._known = known
        self.first_epoch_that_counts = config.warmup
        self.stops_by_objective = config.stop_by == "objective"

    def prepare(self) -> None:
        """Let f and β learn together, and g on its own, near clicks or near impressions."""
        shown, config = self.exposures(), self.config
        self._regularizer = regularizer_of(config, self.log, self._known, shown)
        self._shown = None
        if shown is not None and config.regularizer in ("feedback", "exposure"):
            self._shown = Batches(shown, config, self.exposure)
        self.learns("candidate", self.config.rate, free=self.free)
        self.learns("exposure", self.config.exposure_rate)

    def begin(self, epoch: int) -> None:
        """Lower the rates by their discounts; in the first epochs g may warm up alone."""
        config = self.config
        self.optimizers["candidate"].set_rate(config.rate / config.discount**epoch)
        self.optimizers["exposure"].set_rate(config.exposure_rate / config.exposure_discount**epoch)
        self._alone = epoch < config.warmup
        self._shown_rng = Streams(config.seed).numpy("impressions", epoch)

    def step(self, batch: Batch, meter: Meter) -> None:
        """Move f and β down the weighted loss, then g up the objective against the updated f."""
        config, link, alone = self.config, self.link, self._alone
        y, y_link = batch.outcomes, batch.link_outcomes  # [B, K]
        n_weighted = config.n_weighted(y.shape[1])  # W
        groups = groups_of(config.recipe, n_weighted)
        # g's scores are the same before and after f's step: one forward pass serves both.
        g_all = self.exposure(batch.users, batch.items, batch.history)  # [B, 1 + n_negatives]
        g, y_link = g_all[:, :n_weighted], y_link[:, :n_weighted]  # [B, W]
        if not alone:
            f_losses = self.delta(y, self.candidate(*batch.query))  # [B, K]
            f_loss, _ = weighted_loss(f_losses, link, g.detach(), y_link, groups, batch)
            self.optimizers["candidate"].step(f_loss)
        with torch.no_grad():
            updated = self.delta(y, self.candidate(*batch.query))  # [B, K], by f after its step
        worst, weights = weighted_loss(updated, link, g, y_link, groups, batch, learn_link=False)
        held = self._held(batch, g_all)
        objective = worst - config.alpha * held
        self.optimizers["exposure"].step(config.alpha * held if alone else -objective)
        meter.add_weights(batch, weights, groups)
        meter.add(batch, candidate_loss=worst, exposure_loss=held, objective=objective)

    def _held(self, batch: Batch, g: Tensor) -> Tensor:
        """Return R(g), on the batch or on as many impressions."""
        if self._shown is not None:
            batch = self._shown.draw(len(batch.users), self._shown_rng)
            g = self.exposure(batch.users, batch.items, batch.history)
        return self._regularizer(batch, g, self.link)


def _check_parts(config: Game) -> None:
    """Refuse what needs more of a batch than the part of it that one of several workers has."""
    for name, wrong in (
        ("regularizer", "popularity"),
        ("regularizer", "known"),
        ("exposure_from", "impressions"),
    ):
        if getattr(config, name) == wrong:
            raise ConfigError(
                f"several workers cannot play with training.{name}={wrong}, which looks at a whole "
                "batch; choose another, or train without --workers"
            )


def acl(
    candidate: Scorer,
    exposure: Scorer,
    log: Interactions,
    config: Game,
    *,
    known: KnownExposure | None = None,
    impressions: Interactions | None = None,
    **options: Unpack[FitOptions],
) -> Fit:
    """Train the candidate f against the worst exposure that the data still allow (Algorithm 1).

    Both f and its opponent g are changed in place. The regularizer `known` needs the true exposure:
    users `[B]` and items `[B, K]` to propensities `[B, K]`. With `exposure_from="impressions"` g
    stays near `impressions`, a log with `clicked` in the ids of the clicks. For `options` see
    `erm`.
    """
    method = Acl({"candidate": candidate, "exposure": exposure}, log, config, known)
    method.impressions = impressions
    return fit(method, **options)
