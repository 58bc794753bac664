"""Plain learning from what was observed, empirical risk minimisation (ERM).

min over f    mean[ δ(y, f) ]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterplay.learning.config import Training
from counterplay.learning.fitting import Callback, Validate, fit
from counterplay.learning.method import Method

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from counterplay.data.interactions import Interactions
    from counterplay.learning.batches import Batch
    from counterplay.learning.records import Fit, Meter
    from counterplay.models.scorer import Scorer


class Erm(Method[Training]):
    """The candidate alone."""

    def step(self, batch: Batch, meter: Meter) -> None:
        """Move f down the gradient of its mean loss."""
        f = self.candidate(*batch.query)  # [B, K]
        loss = self.delta(batch.outcomes, f).mean()
        self.optimizers["candidate"].step(loss)
        meter.add(len(batch.users), candidate_loss=loss)


def erm(
    candidate: Scorer,
    log: Interactions,
    config: Training,
    *,
    validate: Validate | None = None,
    callbacks: Iterable[Callback] = (),
    checkpoint: Path | None = None,
) -> Fit:
    """Minimise `mean[δ(y, f)]`.

    Args:
        candidate: The model f; it is changed in place.
        log: Training rows; with ratings they are predicted, else rows are told from samples.
        config: How.
        validate: Judges the candidate after each epoch, larger is better; never on test rows.
        callbacks: Called after each epoch.
        checkpoint: Folder to write each epoch's state to, and to go on from.
    """
    method = Erm({"candidate": candidate}, log, config)
    return fit(method, validate=validate, callbacks=callbacks, checkpoint=checkpoint)
