"""Worlds so small that what the theory says of them can be checked number by number.

Claim 1 with the library's losses, Claim 2 as a linear program beside the library's certificate,
Theorem 1 and Corollary 1 with what the certificate leaves out, and Tukey's factorization with the
library's link.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from scipy.optimize import linprog, minimize_scalar

from counterplay.learning.losses import LOSSES
from counterplay.metrics.certificate import certificates
from counterplay.models.link import Link
from counterplay.seeding import Streams

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from counterplay.learning.config import LossName
    from counterplay.metrics.certificate import Cost

    Numbers = NDArray[np.float64]

MARGINS: tuple[LossName, ...] = ("logistic", "hinge", "exponential")
# c of the f-divergence ∫ c(t) dP⁻, with t = p⁺ / p⁻, and the score that is best at t.
DIVERGENCES: dict[LossName, Callable[[Numbers], Numbers]] = {
    "logistic": lambda t: t * np.log(t / (1 + t)) - np.log1p(t),
    "hinge": lambda t: -2 * np.minimum(t, 1),
    "exponential": lambda t: -2 * np.sqrt(t),
}
BEST_SCORES: dict[LossName, Callable[[Numbers], Numbers]] = {
    "logistic": lambda t: np.log(t),
    "hinge": lambda t: np.sign(t - 1),
    "exponential": lambda t: np.log(t) / 2,
}
_FARTHEST = 30.0  # scores that are looked at: none of the best ones is as far from 0
_SHARES = 201  # values of a propensity in the linear program
FLOOR = 0.05


def example(n: int = 12) -> tuple[Numbers, Numbers]:
    """Return losses and propensities of a small world."""
    rng = Streams(0).numpy("theory", "rows")
    return rng.gamma(2, 0.5, n), rng.uniform(2 * FLOOR, 1, n)


# Claim 1


def least_loss(name: LossName, positive: float, negative: float) -> tuple[float, float]:
    """Return inf over f of p⁺ δ(1, f) + p⁻ δ(0, f), by the library's loss, and where it is."""
    delta = LOSSES[name]

    def loss(score: float) -> float:
        f = torch.tensor([score, score], dtype=torch.float64)
        each = delta(torch.tensor([1.0, 0.0], dtype=torch.float64), f)
        return float(positive * each[0] + negative * each[1])

    found = minimize_scalar(
        loss, bounds=(-_FARTHEST, _FARTHEST), method="bounded", options={"xatol": 1e-9}
    )
    return float(found.fun), float(found.x)


def divergence(name: LossName, positive: Numbers, negative: Numbers) -> float:
    """Return D_c(P⁺ ‖ P⁻), the sum of p⁻ c(p⁺ / p⁻)."""
    return float(negative @ DIVERGENCES[name](positive / negative))


class Pair(NamedTuple):
    """One pair of a user and an item: how likely it is seen, and liked if it is seen."""

    exposure: float
    relevance: float

    def clicks(self, *, seen: bool) -> tuple[float, float]:
        """Return p⁺ and p⁻: of what was seen, or of a log that does not say what was."""
        if seen:
            return self.exposure * self.relevance, self.exposure * (1 - self.relevance)
        click = self.exposure * self.relevance
        return click, 1 - click


def best_score(
    name: LossName, pair: Pair, *, seen: bool, weights: tuple[float, float] = (1.0, 1.0)
) -> float:
    """Return the score that is best for a pair, by the loss; weights are of clicks and others."""
    positive, negative = pair.clicks(seen=seen)
    return least_loss(name, weights[0] * positive, weights[1] * negative)[1]


# Claim 2


def primal(
    losses: Numbers, propensities: Numbers, rho: float, cost: Cost, floor: float = FLOOR
) -> tuple[float, float]:
    """Return the largest weighted loss within ρ as a linear program, and the price of ρ.

    A row's mass may go to any propensity of a grid, its own and the floor among them:

        max  mean_i Σ_j π_ij δ_i / v_j     Σ_j π_ij = 1,  mean_i Σ_j π_ij c(q_i, v_j) ≤ ρ,  π ≥ 0

    This is the supremum of Claim 2 over a Wasserstein ball of (row, propensity), in which it costs
    infinitely much to turn one row into another.
    """
    n = len(losses)
    values = np.unique(np.concatenate([np.linspace(floor, 1, _SHARES), propensities]))  # v, [m]
    moved = _costs(propensities[:, None], values[None], cost)
    gain = (losses[:, None] / values[None]).ravel() / n
    found = linprog(
        -gain,
        A_ub=moved.reshape(1, -1) / n,
        b_ub=[rho],
        A_eq=np.kron(np.eye(n), np.ones(len(values))),
        b_eq=np.ones(n),
        method="highs",
    )
    return -float(found.fun), -float(found.ineqlin.marginals[0])


def _costs(one: Numbers, other: Numbers, cost: Cost) -> Numbers:
    if cost == "weight":
        return np.abs(1 / one - 1 / other)
    return np.abs(one - other) if cost == "absolute" else (one - other) ** 2


def moved_mass(losses: Numbers, shares: Numbers, distances: Numbers, rho: float) -> float:
    """Return the primal of equation 5 as the paper prints it: mass moves from row to row."""
    n = len(losses)
    found = linprog(
        -np.tile(losses, n),
        A_ub=distances.reshape(1, -1),
        b_ub=[rho],
        A_eq=np.kron(np.eye(n), np.ones(n)),
        b_eq=shares,
        method="highs",
    )
    return -float(found.fun)


def moved_mass_dual(losses: Numbers, shares: Numbers, distances: Numbers, rho: float) -> float:
    """Return inf over γ of γρ + Σ_i p_i max_j (δ_j − γ c_ij)."""

    def bound(gamma: float) -> float:
        return float(gamma * rho + shares @ (losses[None] - gamma * distances).max(1))

    apart = distances[distances > 0].min()
    most = float(np.ptp(losses) / apart)  # beyond it nothing moves
    steepest = np.linspace(0, most, 20001)
    start = steepest[np.argmin([bound(each) for each in steepest])]
    step = most / 20000
    found = minimize_scalar(
        bound, bounds=(max(0.0, start - step), start + step), method="bounded",
        options={"xatol": 1e-13},
    )  # fmt: skip
    return min(bound(float(start)), float(found.fun))


# Theorem 1 and Corollary 1


def cost_regulated(
    losses: Numbers, propensities: Numbers, gamma: float, cost: Cost, floor: float = FLOOR
) -> tuple[float, float]:
    """Return mean Δ_γ and ρ_n, the mean cost of T_γ, by trying every propensity of a fine grid."""
    values = np.concatenate([np.linspace(floor, 1, 20 * _SHARES), propensities])
    moved = _costs(propensities[:, None], values[None], cost)
    net = losses[:, None] / values[None] - gamma * moved
    at = net.argmax(1)
    rows = np.arange(len(losses))
    return float(net[rows, at].mean()), float(moved[rows, at].mean())


def coverage(
    n: int, rho: float, n_draws: int, *, slack: float, seed: int = 0
) -> tuple[float, float]:
    """Return how often a sample's certificate, plus `slack` standard errors, holds for all rows.

    Samples of n rows are drawn from a population of 5,000; what must be below is the population's
    own supremum. Also returned is the mean of bound / supremum.
    """
    rng = Streams(seed).numpy("theory", "coverage")
    losses, q = rng.gamma(2, 0.5, 5000), rng.uniform(0.1, 1, 5000)
    (whole,) = certificates(losses, q, [rho], floor=FLOOR)
    held, ratios = 0, []
    for _ in range(n_draws):
        rows = rng.integers(len(losses), size=n)
        (found,) = certificates(losses[rows], q[rows], [rho], floor=FLOOR)
        # Δ_γ of a row, under the absolute cost: it stays, or goes to the floor.
        stays = losses[rows] / q[rows]
        goes = losses[rows] / FLOOR - found.gamma * (q[rows] - FLOOR)
        error = np.maximum(stays, goes).std(ddof=1) / np.sqrt(n)
        bound = found.value + slack * error
        held += bound >= whole.value
        ratios.append(bound / whole.value)
    return held / n_draws, float(np.mean(ratios))


# Tukey's factorization


class Confounded(NamedTuple):
    """A pair that an unobserved factor makes both more liked and more shown, with chance 1/2."""

    relevance: tuple[float, float]  # without and with the factor
    exposure: tuple[float, float]

    def relevant(self) -> float:
        """Return P(Y(1) = 1), what would be liked if everything were seen."""
        return sum(self.relevance) / 2

    def exposed_given(self, outcome: int) -> float:
        """Return P(O = 1 | Y(1) = outcome), what a link with the outcome stands for."""
        likes = [r if outcome else 1 - r for r in self.relevance]
        return float(np.dot(likes, self.exposure) / sum(likes))

    def seen(self) -> tuple[float, float]:
        """Return P(Y = 1, O = 1) and P(Y = 0, O = 1): all that impressions tell."""
        joint = float(np.dot(self.relevance, self.exposure)) / 2
        return joint, sum(self.exposure) / 2 - joint


def link_of(pair: Confounded, *, with_outcome: bool) -> Link:
    """Return the link that says P(O = 1 | Y(1)), or without the outcome P(O = 1), at g = 0."""
    zero, one = (pair.exposed_given(outcome) for outcome in (0, 1))
    if not with_outcome:
        zero = one = sum(pair.exposure) / 2
    intercept = float(np.log(zero / (1 - zero)))
    beta = (intercept, 1.0, float(np.log(one / (1 - one))) - intercept)
    return Link(with_outcome=with_outcome, floor=1e-6, initial=beta).double()


def weighted_relevance(pair: Confounded, link: Link) -> float:
    """Return the share of likes among what was seen, weighted by 1 / G_β(0, y)."""
    likes, others = pair.seen()
    g = torch.zeros(2, dtype=torch.float64)
    with torch.no_grad():
        q = link(g, torch.tensor([1.0, 0.0], dtype=torch.float64)).numpy()
    weights = np.array([likes, others]) / q
    return float(weights[0] / weights.sum())
