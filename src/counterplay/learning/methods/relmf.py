"""Relevance from clicks (Rel-MF): what was not clicked may not have been shown.

    min over f    mean[ (y / q) · δ(1, f) + (1 − y / q) · δ(0, f) ]

q is the propensity of an observed item: popularity, `(clicks / most clicks)^exponent`, or what the
log states, and never below the floor. Of a sampled item y is 0. Over exposures the mean is that of
relevance itself. An observed item with q < 1 has a negative weight on δ(0, f).

Saito et al., Unbiased Recommender Learning from Missing-Not-At-Random Implicit Feedback, WSDM 2020
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

import numpy as np
import torch

from counterplay.errors import DataError
from counterplay.learning.config import Relevance
from counterplay.learning.fitting import FitOptions, fit
from counterplay.learning.losses import LOSSES
from counterplay.learning.method import Method
from counterplay.learning.weighting import logged_are_used

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import Tensor

    from counterplay.data.interactions import Interactions
    from counterplay.learning.batches import Batch
    from counterplay.learning.records import Fit, Meter
    from counterplay.models.scorer import Scorer

_LABELS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {  # δ of a label, which is 1 or 0
    "logistic": LOSSES["logistic"],
    "squared": lambda label, f: (label - torch.sigmoid(f)) ** 2,
}


class Relmf(Method[Relevance]):
    """The candidate, with labels divided by propensities."""

    settings = Relevance
    for_workers = True
    searched = (("training.exponent", (0.1, 1.0)), ("training.floor", (0.01, 1.0)))
    remedy = "raise exponent, or lower floor"

    def __init__(self, players: Mapping[str, Scorer], log: Interactions, config: Relevance) -> None:
        if log.rating is not None:
            raise DataError(
                "the method relmf learns relevance from clicks; found ratings to predict; leave "
                "them out with dataclasses.replace(log, rating=None), or choose the method dr"
            )
        super().__init__(players, log, config)
        self._logged = logged_are_used(config.propensities, log)
        counts = log.item_events
        popularity = (counts / max(counts.max(), 1)) ** config.exponent
        self._popularity = torch.from_numpy(popularity.astype(np.float32)).to(config.device)

    def step(self, batch: Batch, meter: Meter) -> None:
        """Move f down the gradient of the mean loss of relevance."""
        f = self.candidate(*batch.query)  # [B, K]
        inverse = 1 / self._propensity(batch).clamp(min=self.config.floor)  # [B]
        relevance = batch.observed.clone()  # y / q, [B, K]
        relevance[:, 0] = inverse
        losses = relevance_loss(relevance, f, self.config.label_loss)  # [B, K]
        if self.config.nonnegative:
            losses = losses.clamp(min=0)
        loss = batch.mean(losses)
        self.optimizers["candidate"].step(loss)
        meter.add_weights(batch, inverse[:, None])
        meter.add(batch, candidate_loss=loss)

    def _propensity(self, batch: Batch) -> Tensor:
        """Return the propensities of observed items, `[B]`."""
        if self._logged:
            assert batch.propensity is not None
            return batch.propensity
        return self._popularity[batch.items[:, 0].long()]


def relevance_loss(relevance: Tensor, f: Tensor, label_loss: str) -> Tensor:
    """Return `(y / q) · δ(1, f) + (1 − y / q) · δ(0, f)`, with y / q as relevance."""
    delta = _LABELS[label_loss]
    ones, zeros = torch.ones_like(f), torch.zeros_like(f)
    return relevance * delta(ones, f) + (1 - relevance) * delta(zeros, f)


def relmf(
    candidate: Scorer, log: Interactions, config: Relevance, **options: Unpack[FitOptions]
) -> Fit:
    """Learn relevance from clicks and propensities; f is changed in place.

    For `options` see `erm`.
    """
    return fit(Relmf({"candidate": candidate}, log, config), **options)
