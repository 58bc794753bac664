"""Bring a model of your own: any torch module that gives logits can play the game.

Here it is a bigram model, which scores an item by the one that the user met before; its opponent
is a matrix factorization that does not look at histories at all.

Usage: python examples/own_model.py
"""

import warnings

import numpy as np
import torch
from torch import Tensor

import counterplay as cp
from counterplay.learning.config import Game
from counterplay.learning.methods.acl import acl
from counterplay.models.registry import build
from counterplay.models.scorer import History, Scorer

N_USERS, N_ITEMS, N_ROWS = 100, 80, 3_000


class Bigram(Scorer):
    """`a(last item) · b(item)`, where the last place of a history without any is a start."""

    def __init__(self, n_users: int, n_items: int, dim: int = 8) -> None:
        super().__init__(n_users, n_items, history_length=1)
        generator = torch.Generator().manual_seed(0)
        start = torch.zeros(n_items + 1, dim).normal_(0, 0.1, generator=generator)
        self.after = torch.nn.Parameter(start)
        self.item = torch.nn.Parameter(start[:-1].clone())

    def forward(self, users: Tensor, items: Tensor, history: History | None = None) -> Tensor:
        """Return the logits of `items` `[B, K]`."""
        assert history is not None
        last = history.padded(self.n_items)[torch.arange(len(users)), history.place]
        return torch.einsum("bd,bkd->bk", self.after[last], self.item[items.long()])


def make_log() -> cp.Interactions:
    """Make users who walk through the items, mostly to the next one."""
    rng = cp.Streams(0).numpy("walks")
    steps = np.where(rng.random(N_ROWS) < 0.8, 1, rng.integers(0, N_ITEMS, N_ROWS))
    user = np.arange(N_ROWS) // (N_ROWS // N_USERS)
    return cp.read({"user": user, "item": np.cumsum(steps) % N_ITEMS, "time": np.arange(N_ROWS)})


def main() -> None:
    """Play a few epochs and show what happened."""
    log = make_log()
    candidate = Bigram(log.n_users, log.n_items)
    exposure = build("gmf", log, dim=2, generator=cp.Streams(0).torch("exposure"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cp.CounterplayWarning)
        fit = acl(candidate, exposure, log, Game(epochs=8, batch_size=256, rate=0.03))
    for epoch in fit.epochs:
        assert epoch.beta is not None
        beta = ", ".join(f"{value:.2f}" for value in epoch.beta)
        print(
            f"epoch {epoch.epoch}: candidate {epoch.candidate_loss:.3f}, exposure "
            f"{epoch.exposure_loss:.3f}, β ({beta}), effective sample {epoch.ess:.0%}"
        )


if __name__ == "__main__":
    main()
