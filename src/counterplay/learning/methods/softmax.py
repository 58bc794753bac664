"""Plain learning by a softmax: the observed item against all others, or against a sample of them.

    min over f    mean[ log( e^(f_i) + Σ over S  e^(f_j) / (n · q_j) ) − f_i ]

S has n items that are drawn with probabilities q, for a batch at a time: dividing by n·q makes the
sum unbiased for the one over all items. The observed item itself is left out of S. Where n is no
smaller than the number of items, S is all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import torch

from counterplay.errors import DataError
from counterplay.learning.config import AmongAll
from counterplay.learning.fitting import FitOptions, fit
from counterplay.learning.method import Method
from counterplay.seeding import Streams

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from counterplay.data.interactions import Interactions
    from counterplay.learning.batches import Batch
    from counterplay.learning.records import Fit, Meter
    from counterplay.models.scorer import Scorer


class Softmax(Method[AmongAll]):
    """The candidate alone."""

    settings = AmongAll
    for_workers = True
    searched = (("training.n_shared", (64, 4096)),)
    unsearched = ("training.n_negatives",)

    def __init__(self, players: Mapping[str, Scorer], log: Interactions, config: AmongAll) -> None:
        if log.rating is not None:
            raise DataError(
                "the method softmax ranks items, and predicts no ratings; found a log with "
                "ratings; drop them, or choose another method"
            )
        super().__init__(players, log, config)
        counts = log.item_events + 1.0
        chances = counts**config.negatives_exponent
        chances /= chances.sum()
        self._upto = np.cumsum(chances)  # [n_items]
        self._weights = 1 / (config.n_shared * chances)  # of an item for each time it is drawn

    def begin(self, epoch: int) -> None:
        """Draw from a stream of the epoch's own."""
        self._rng = Streams(self.config.seed).numpy("shared items", epoch)

    def step(self, batch: Batch, meter: Meter) -> None:
        """Move f down the gradient of its mean loss."""
        shared, weights = self._drawn()  # [N], [N]
        self.also(shared)
        own = batch.items[:, :1]  # [B, 1]
        f, others = self.candidate.beside(batch.users, own, shared, batch.history)  # [B, 1], [B, N]
        place = torch.full((self.log.n_items,), -1, device=shared.device)  # in the sample
        place[shared] = torch.arange(len(shared), device=shared.device)
        args = (f[:, 0].float(), others.float(), weights, place[own[:, 0]])
        loss = batch.mean(_NegativeLogShare.apply(*args))  # type: ignore[no-untyped-call]
        self.optimizers["candidate"].step(loss)
        meter.add(batch, candidate_loss=loss)

    def _drawn(self) -> tuple[Tensor, Tensor]:
        """Return the distinct items of a batch's sample, and how many items each stands for."""
        n_items, device = self.log.n_items, self.config.device
        if self.config.n_shared >= n_items:
            return torch.arange(n_items, device=device), torch.ones(n_items, device=device)
        points = self._rng.random(self.config.n_shared)
        drawn = np.searchsorted(self._upto[:-1], points, side="right")
        items, times = np.unique(drawn, return_counts=True)
        weights = torch.from_numpy(times * self._weights[items]).float()
        return torch.from_numpy(items).to(device), weights.to(device)


class _NegativeLogShare(torch.autograd.Function):
    """`log(e^own + Σ w_j e^other_j) − own` of each row, without the place where it is itself.

    The exponentials are computed once and become the gradient in place, which takes half the time.
    """

    @staticmethod
    def forward(ctx: Any, own: Tensor, others: Tensor, weights: Tensor, place: Tensor) -> Tensor:
        """Take `own` `[B]`, `others` `[B, N]`, `weights` `[N]`, `place` `[B]`, -1 for nowhere."""
        top = torch.maximum(own, others.amax(1))
        parts = (others - top[:, None]).exp_().mul_(weights)
        row = torch.nonzero(place >= 0)[:, 0]
        parts[row, place[row]] = 0
        mine = (own - top).exp_()
        total = parts.sum(1) + mine
        ctx.save_for_backward(parts, mine, total)
        return total.log() + top - own

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients: each item's share, and for the own one its share less 1."""
        parts, mine, total = ctx.saved_tensors
        (gradient,) = gradients
        return gradient * (mine / total - 1), parts.mul_((gradient / total)[:, None]), None, None


def softmax(
    candidate: Scorer, log: Interactions, config: AmongAll, **options: Unpack[FitOptions]
) -> Fit:
    """Tell the items of a log from all others by a softmax; f is changed in place.

    For `options` see `erm`.
    """
    return fit(Softmax({"candidate": candidate}, log, config), **options)
