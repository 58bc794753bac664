"""The methods by hand: numpy, double precision, the definitions alone.

f and g are tables of logits, a user by an item. Gradients are central differences of what is
minimised, so that nothing of the library's own calculus is repeated here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import counterplay as cp
from counterplay.learning.batches import Batch, Batches
from counterplay.learning.config import Game, Training
from counterplay.models.scorer import History, Scorer

Array = NDArray[np.float64]
Known = Callable[[Any, Any], Any]


class Table(Scorer):
    """A logit for every pair, each learnt."""

    def __init__(self, values: Array) -> None:
        super().__init__(*values.shape)
        self.table = nn.Parameter(torch.tensor(values))

    def forward(
        self,
        users: Tensor,
        items: Tensor,
        history: History | None = None,  # noqa: ARG002 - every model takes them
    ) -> Tensor:
        return self.table[users[:, None].long(), items.long()]


@contextmanager
def double_precision() -> Iterator[None]:
    """Let torch make numbers of double precision: the link's β and the batches' outcomes too."""
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


@dataclass
class Rows:
    """A batch as numbers."""

    users: NDArray[np.int64]
    items: NDArray[np.int64]  # [B, 1 + n_negatives]
    observed: Array
    y: Array  # what f is to predict, [B, K]
    y_link: Array

    @classmethod
    def of(cls, batch: Batch, log: cp.Interactions) -> Rows:
        users, items = batch.users.numpy().astype(int), batch.items.numpy().astype(int)
        observed = np.zeros(items.shape)
        observed[:, 0] = 1
        if log.rating is None or batch.ratings is None:
            return cls(users, items, observed, observed, observed)
        rating = {
            (int(u), int(i)): float(r)
            for u, i, r in zip(log.user, log.item, log.rating, strict=True)
        }
        values = np.array(list(rating.values()))
        y = np.array([[rating[int(u), int(i)]] for u, i in zip(users, items[:, 0], strict=True)])
        return cls(users, items, observed, y, (y - values.mean()) / values.std())

    def scores(self, table: Array, n: int | None = None) -> Array:
        return np.asarray(table[self.users[:, None], self.items[:, :n]])


def rows_of(
    log: cp.Interactions, config: Training, model: Scorer, epochs: int = 1
) -> list[list[Rows]]:
    """Return the batches of each epoch."""
    batches = Batches(log, config, model)
    streams = cp.Streams(config.seed)
    return [
        [Rows.of(batch, log) for batch in batches.epoch(streams, number)]
        for number in range(epochs)
    ]


def delta(name: str, y: Array, f: Array) -> Array:
    if name == "squared":
        return (y - f) ** 2
    margin = np.where(y == 1, f, -f)
    losses = {"logistic": np.log1p(np.exp(-margin)), "exponential": np.exp(-margin)}
    return np.asarray(losses[name])


def slope(function: Callable[[Array], float], at: Array) -> Array:
    """Return the gradient by central differences."""
    found = np.zeros_like(at)
    for place in np.ndindex(at.shape):
        values = []
        for step in (1e-5, -1e-5):
            moved = at.copy()
            moved[place] += step
            values.append(function(moved))
        found[place] = (values[0] - values[1]) / 2e-5
    return found


@dataclass
class Adam:
    """Adam's first and second moments, and l2 added to the gradient."""

    l2: float = 0.0
    n: int = 0
    mean: Any = 0.0
    square: Any = 0.0
    gradient: Any = None

    def step(self, value: Array, gradient: Array, rate: float) -> Array:
        self.gradient = gradient
        gradient = gradient + self.l2 * value
        self.n += 1
        self.mean = 0.9 * self.mean + 0.1 * gradient
        self.square = 0.999 * self.square + 0.001 * gradient**2
        size = np.sqrt(self.square / (1 - 0.999**self.n)) + 1e-8
        return np.asarray(value - rate * self.mean / (1 - 0.9**self.n) / size)


@dataclass
class ByHand:
    """f, β and g, and how they move."""

    f: Array
    g: Array
    config: Game
    log: cp.Interactions
    known: Known | None = None
    beta: Array = field(init=False)  # as they are learnt: of a monotone link log(e^β1 − 1)
    together: bool = False  # whether the stable recipe has one group, as the opponent alone has

    def __post_init__(self) -> None:
        start = 1.0 if self.config.recipe == "paper" else np.log(np.e - 1)
        self.beta = np.array([self.config.link.intercept, start, 0.0])
        self.steps = {"f": Adam(self.config.l2), "beta": Adam(), "g": Adam(self.config.l2)}

    def betas(self, beta: Array) -> Array:
        """Return β0, β1, β2."""
        b1 = beta[1] if self.config.recipe == "paper" else np.log1p(np.exp(beta[1]))
        return np.array([beta[0], b1, beta[2] * self.config.link.with_outcome])

    def propensities(self, rows: Rows, g: Array, beta: Array, y: Array) -> Array:
        b0, b1, b2 = self.betas(beta)
        scores = rows.scores(g, y.shape[1])
        exposed = 1 / (1 + np.exp(-(b0 + b1 * scores + b2 * y)))
        return np.asarray(np.maximum(self.config.link.floor, exposed))

    def scaled_weights(self, rows: Rows, g: Array, beta: Array) -> Array:
        w = 1 / self.propensities(rows, g, beta, rows.y_link)
        if self.config.recipe == "paper":
            return np.asarray(w)
        if self.together:
            return np.asarray(w / w.mean())
        parts = [w[:, :1] / w[:, :1].mean()]
        if w.shape[1] > 1:
            parts.append(w[:, 1:] / w[:, 1:].mean())
        return np.concatenate(parts, axis=1)

    def loss(self, rows: Rows, fs: Array, g: Array, beta: Array) -> float:
        """Return the weighted loss; of several candidates the mean of their losses is weighted."""
        tables = fs if fs.ndim == 3 else fs[None]
        losses = [delta(self.config.loss, rows.y, rows.scores(f, rows.y.shape[1])) for f in tables]
        return float((self.scaled_weights(rows, g, beta) * np.mean(losses, axis=0)).mean())

    def held(self, rows: Rows, g: Array, beta: Array) -> float:
        """Return R(g)."""
        kind, scores = self.config.regularizer, rows.scores(g)
        if kind == "exposure" or (self.log.is_explicit and kind == "feedback"):
            return float(delta("logistic", rows.observed, scores).mean())
        if kind == "feedback":
            return float(delta(self.config.loss, rows.observed, scores).mean())
        propensities = self.propensities(rows, g, beta, rows.observed)
        if kind == "known":
            assert self.known is not None
            theirs = self.known(torch.tensor(rows.users), torch.tensor(rows.items)).numpy()
            return float(np.abs(propensities - theirs).mean())
        here = sorted(set(rows.items.flatten().tolist()))
        means = [propensities[rows.items == item].mean() for item in here]
        users = [len(set(self.log.user[self.log.item == item].tolist())) for item in here]
        return 1 - float(np.corrcoef(means, users)[0, 1])

    def objective(self, rows: Rows, f: Array, g: Array, beta: Array) -> float:
        return self.loss(rows, f, g, beta) - self.config.alpha * self.held(rows, g, beta)

    def move_f(self, rows: Rows, epoch: int = 0) -> None:
        """Let f and β step down the weighted loss, together."""
        rate = self.config.rate / self.config.discount**epoch
        of_f = slope(lambda f: self.loss(rows, f, self.g, self.beta), self.f)
        of_beta = slope(lambda beta: self.loss(rows, self.f, self.g, beta), self.beta)
        self.f = self.steps["f"].step(self.f, of_f, rate)
        if self.config.link.learn:
            self.beta = self.steps["beta"].step(self.beta, of_beta, rate)

    def move_g(self, rows: Rows, epoch: int = 0, *, alone: bool = False) -> None:
        """Let g step up the objective, or alone down its regularizer."""
        rate = self.config.exposure_rate / self.config.exposure_discount**epoch

        def wanted_small(g: Array) -> float:
            if alone:
                return self.config.alpha * self.held(rows, g, self.beta)
            return -self.objective(rows, self.f, g, self.beta)

        self.g = self.steps["g"].step(self.g, slope(wanted_small, self.g), rate)

    def effective_share(self, rows: Rows) -> float:
        """Return the lowest effective share of the groups that the loss scales by themselves."""
        w = self.scaled_weights(rows, self.g, self.beta)
        whole = self.config.recipe == "paper" or self.together or w.shape[1] == 1
        groups = [w] if whole else [w[:, :1], w[:, 1:]]
        return float(min(each.sum() ** 2 / each.size / (each**2).sum() for each in groups))
