"""Plain learning from what was observed, empirical risk minimisation (ERM).

min over f    mean[ δ(y, f) ]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from counterplay.learning.config import Training
from counterplay.learning.fitting import FitOptions, fit
from counterplay.learning.method import Method

if TYPE_CHECKING:
    from counterplay.data.interactions import Interactions
    from counterplay.learning.batches import Batch
    from counterplay.learning.records import Fit, Meter
    from counterplay.models.scorer import Scorer


class Erm(Method[Training]):
    """The candidate alone."""

    for_workers = True

    def step(self, batch: Batch, meter: Meter) -> None:
        """Move f down the gradient of its mean loss."""
        f = self.candidate(*batch.query)  # [B, K]
        loss = batch.mean(self.delta(batch.outcomes, f))
        self.optimizers["candidate"].step(loss)
        meter.add(batch, candidate_loss=loss)

    def row_weights(self) -> None:
        """Count all rows alike."""


def erm(
    candidate: Scorer, log: Interactions, config: Training, **options: Unpack[FitOptions]
) -> Fit:
    """Minimise `mean[δ(y, f)]` over the candidate f, which is changed in place.

    With ratings, f predicts them; otherwise f tells the rows of the log from sampled pairs.
    `options` are `validate`, `callbacks` and `checkpoint`, see `counterplay.learning.fitting.fit`.
    """
    return fit(Erm({"candidate": candidate}, log, config), **options)
