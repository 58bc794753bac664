"""Inverse propensity scoring (IPS) by the propensities that the log itself states.

    min over f    mean[ w · δ(y, f) ],    w ∝ 1 / max(q, floor · mean(q)) of an observed item

Sampled items are drawn from a known distribution, and are not weighted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

import numpy as np
import torch

from counterplay.errors import DataError
from counterplay.learning.config import Inverse
from counterplay.learning.fitting import FitOptions, fit
from counterplay.learning.method import Method

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from counterplay.data.interactions import Interactions
    from counterplay.learning.batches import Batch
    from counterplay.learning.records import Fit, Meter
    from counterplay.models.scorer import Scorer


class Ips(Method[Inverse]):
    """The candidate, weighted by logged propensities."""

    settings = Inverse
    for_workers = True
    needs = "propensities"
    searched = (("training.floor", (0.01, 1.0)),)

    def __init__(self, players: Mapping[str, Scorer], log: Interactions, config: Inverse) -> None:
        if log.propensity is None:
            raise DataError(
                "the method ips needs logged propensities; found a log without; name the column "
                "with --propensity, or choose another method"
            )
        super().__init__(players, log, config)
        self._least = config.floor * _mean(log, log.propensity)
        self._scale = 1 / _mean(log, 1 / np.maximum(log.propensity, self._least))

    def step(self, batch: Batch, meter: Meter) -> None:
        """Move f down the gradient of the weighted loss."""
        assert batch.propensity is not None
        f = self.candidate(*batch.query)  # [B, K]
        losses = self.delta(batch.outcomes, f)  # [B, K]
        weights = torch.ones_like(losses)
        weights[:, 0] = self._scale / batch.propensity.clamp(min=self._least)  # mean 1 over the log
        loss = batch.mean(weights * losses)
        self.optimizers["candidate"].step(loss)
        meter.add_weights(batch, weights[:, :1] / self._scale)
        meter.add(batch, candidate_loss=loss)

    def row_weights(self) -> NDArray[np.float64]:
        """Return the inverse logged propensities, `[n]`."""
        assert self.log.propensity is not None
        weights: NDArray[np.float64] = 1 / np.maximum(self.log.propensity, self._least)
        return weights


def _mean(log: Interactions, values: NDArray[np.float64]) -> float:
    """Return the mean of a value of each row, over the rows of all workers."""
    if log.share is None:
        return float(values.mean())
    total, n = log.group.total(np.array([values.sum(), len(values)]))
    return float(total / n)


def ips(
    candidate: Scorer, log: Interactions, config: Inverse, **options: Unpack[FitOptions]
) -> Fit:
    """Weight observed rows by inverse logged propensities; f is changed in place.

    For `options` see `erm`.
    """
    return fit(Ips({"candidate": candidate}, log, config), **options)
