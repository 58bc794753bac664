"""Distributionally robust learning (DRO): the opponent in closed form.

    min over f    max over w in a ball    mean[ w · δ(y, f) ]

w weighs observed entries, click by click within a batch, or item by item over the log, and has mean
1; sampled items come from a known distribution, and have a weight of 1. The balls:

    kl      mean[ w log w ] ≤ radius:    w ∝ e^(δ / τ), with τ such that equality holds
    cvar    w ≤ 1 + radius:              all weight on the worst 1 / (1 + radius), evenly
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack, cast

import torch
from torch import nn

from counterplay.groups import ALONE, Group
from counterplay.learning.config import Robust
from counterplay.learning.fitting import FitOptions, fit
from counterplay.learning.method import Method
from counterplay.learning.worst_case import by_cvar, in_kl_ball

if TYPE_CHECKING:
    from torch import Tensor

    from counterplay.data.interactions import Interactions
    from counterplay.learning.batches import Batch
    from counterplay.learning.records import Fit, Meter
    from counterplay.models.scorer import Scorer

_BALLS = {"kl": in_kl_ball, "cvar": by_cvar}


class ItemLosses(nn.Module):
    """A running mean of each item's loss; `memory` is what one click leaves of the mean before."""

    sums: Tensor
    known: Tensor

    def __init__(self, n_items: int, memory: float) -> None:
        super().__init__()
        self.memory = memory
        self.register_buffer("sums", torch.zeros(n_items))
        self.register_buffer("known", torch.zeros(n_items))  # the mean is sums / known

    def update(self, items: Tensor, losses: Tensor, group: Group = ALONE) -> None:
        """Take up the losses of a batch, `[B]`, with those of other workers."""
        n = len(self.sums)
        counts = items.bincount(minlength=n)  # [n_items]
        totals = items.bincount(losses.to(self.sums.dtype), minlength=n)  # [n_items]
        totals = totals.to(self.sums.dtype)  # of no rows it would be whole numbers
        group.sum(counts, totals)
        means = totals / counts.clamp(min=1)
        kept = self.memory ** counts.to(self.sums.dtype)
        self.sums.mul_(kept).add_((1 - kept) * means)
        self.known.mul_(kept).add_(1 - kept)


class Dro(Method[Robust]):
    """The candidate against the worst weights of a ball."""

    settings = Robust
    for_workers = True
    roles = ("candidate", "item_losses")
    searched = (("training.radius", (0.01, 2.0)),)
    remedy = "raise radius"

    def _made(self, role: str) -> nn.Module:
        counts = self.log.item_events
        self._shares = torch.from_numpy(counts).to(self.config.device) / counts.sum()  # [n_items]
        return ItemLosses(self.log.n_items, self.config.memory)

    def step(self, batch: Batch, meter: Meter) -> None:
        """Move f down the gradient of the loss under the worst weights for f as it is."""
        f = self.candidate(*batch.query)  # [B, K]
        losses = self.delta(batch.outcomes, f)  # [B, K]
        weights = torch.ones_like(losses)
        weights[:, 0] = self._worst(batch, losses[:, 0].detach())
        loss = batch.mean(weights * losses)
        self.optimizers["candidate"].step(loss)
        meter.add_weights(batch, weights[:, :1], inverse=False)
        meter.add(batch, candidate_loss=loss)

    def _worst(self, batch: Batch, losses: Tensor) -> Tensor:
        """Return the worst weights of observed entries, `[B]`."""
        worst, radius = _BALLS[self.config.ball], self.config.radius
        if self.config.group == "click":
            everyone, mine = batch.group.together(losses)
            return worst(everyone, torch.ones_like(everyone), radius)[mine]
        items = batch.scored[:, 0].long()
        running = cast("ItemLosses", self.players["item_losses"])
        running.update(items, losses, batch.group)
        seen = running.known > 0  # in the first epoch not all
        weights = torch.ones_like(running.sums)  # [n_items]
        means = running.sums[seen] / running.known[seen]
        weights[seen] = worst(means, self._shares[seen], radius)
        return weights[items].to(losses.dtype)


def dro(candidate: Scorer, log: Interactions, config: Robust, **options: Unpack[FitOptions]) -> Fit:
    """Minimise the loss under the worst weights of a ball; f is changed in place.

    For `options` see `erm`.
    """
    return fit(Dro({"candidate": candidate}, log, config), **options)
