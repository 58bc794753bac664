"""The game as the authors' public code plays it, where Algorithm 1 is otherwise.

    G = σ(β0 + (β1 + β2 · y) · g)      with `product`: the link multiplies y by g
    f, β   an epoch down ℓ             with `turns`: f and g move by epochs,
    g      an epoch up ℓ − α · R(g)    not by batches

Weights are those of equation 9 to the letter, never above 1 / μ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from counterplay.learning.config import Game
from counterplay.learning.methods.acl import Acl

if TYPE_CHECKING:
    from torch import Tensor

    from counterplay.learning.batches import Batch
    from counterplay.learning.records import Meter

NAME = "reproduction.turns:Turns"  # how a run asks for it


class ByTurns(Game):
    """Which of the two the game has."""

    product: bool = False  #: Whether the link multiplies y by g.
    turns: bool = False  #: Whether f and g take turns by epochs; with both, an epoch of each.


class Turns(Acl):
    """`acl` in the recipe `paper`, with the link or the turns of the authors' code."""

    settings = ByTurns
    config: ByTurns

    def begin(self, epoch: int) -> None:
        """Say whose epoch it is: g's own ones come first, then f's and g's in turn."""
        super().begin(epoch)
        turn = (epoch - self.config.warmup) % 2 if self.config.turns else None
        self._f_moves = not self._alone and turn != 1
        self._g_moves = self._alone or turn != 0

    def step(self, batch: Batch, meter: Meter) -> None:
        """Move f and β down the weighted loss, or g up the objective, or both."""
        y, alpha = batch.outcomes, self.config.alpha  # [B, K]
        g = self.exposure(batch.users, batch.items, batch.history)  # [B, K]
        if self._f_moves:
            weights = self.weights(g.detach(), batch.link_outcomes)
            losses = self.delta(y, self.candidate(*batch.query))
            self.optimizers["candidate"].step((weights * losses).mean())
        with torch.no_grad():
            updated = self.delta(y, self.candidate(*batch.query))
        weights = self.weights(g, batch.link_outcomes, learn=False)
        worst, held = (weights * updated).mean(), self._held(batch, g)
        objective = worst - alpha * held
        if self._g_moves:
            self.optimizers["exposure"].step(alpha * held if self._alone else -objective)
        meter.add_weights(batch, weights)
        meter.add(batch, candidate_loss=worst, exposure_loss=held, objective=objective)

    def weights(self, g: Tensor, y: Tensor, *, learn: bool = True) -> Tensor:
        """Return 1 / G of scores and outcomes `[B, K]`; unless `learn`, β gets no gradient."""
        if not self.config.product:
            propensities: Tensor = self.link(g, y, learn=learn)
            return 1 / propensities
        intercept, slope, outcome = self.link.coefficients(learn=learn)
        z = intercept + (slope + (0.0 if outcome is None else outcome) * y) * g
        return 1 / torch.sigmoid(z.clamp(min=self.link.least))
