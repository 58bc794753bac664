"""Bring a method of your own: its settings, its players and its step; the loop does the rest.

Here it is Bayesian personalised ranking: the observed item shall score higher than sampled ones.

Usage: python examples/own_method.py
       PYTHONPATH=examples counterplay train data --out runs/bpr --method own_method:Bpr
"""

import numpy as np
from torch import nn

import counterplay as cp
from counterplay.learning.batches import Batch
from counterplay.learning.config import Training
from counterplay.learning.fitting import fit
from counterplay.learning.method import Method
from counterplay.learning.records import Meter


class BprSettings(Training):
    """What all methods have, and a margin."""

    margin: float = 0.0


class Bpr(Method[BprSettings]):
    """min over f   mean[ softplus(margin + f(sampled) − f(observed)) ]."""

    settings = BprSettings
    searched = (("training.margin", (0.1, 2.0)),)

    def step(self, batch: Batch, meter: Meter) -> None:
        """Move f down the gradient of the mean loss."""
        f = self.candidate(*batch.query)  # [B, 1 + n_negatives], the observed item first
        loss = nn.functional.softplus(self.config.margin + f[:, 1:] - f[:, :1]).mean()
        self.optimizers["candidate"].step(loss)
        meter.add(batch, candidate_loss=loss)


def main() -> None:
    """Learn who likes which third of the items."""
    user, item = np.divmod(cp.Streams(0).numpy("pairs").permutation(60 * 90)[:3000], 90)
    liked = user % 3 == item % 3
    log = cp.read({"user": user[liked], "item": item[liked]})
    model = cp.models.build("gmf", log, dim=8, generator=cp.Streams(0).torch("model"))
    found = fit(Bpr({"candidate": model}, log, BprSettings(epochs=15, batch_size=128, margin=0.5)))
    for epoch in found.epochs[::7]:
        print(f"epoch {epoch.epoch}: loss {epoch.candidate_loss:.3f}")


if __name__ == "__main__":
    main()
