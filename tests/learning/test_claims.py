"""The paper's Claim 2 on small discrete spaces: primal and dual agree.

The worst distribution P̂ within transport distance ρ of the exposure-eliminated P* = P / Q₀
(scaled) is a linear program over couplings. Its dual is a minimum over α ≥ 0 of
α ρ + Σ p*(h) max over h' of { δ(h') − α c(h, h') }, which is the supremum over reweightings:
a coupling that moves mass from h to h' is a propensity q̂ ≠ q₀, paid for by the cost.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linprog

Problem = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], float]


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Draw P, Q₀ bounded away from 0, losses, points with their distances, and ρ."""
    n = draw(st.integers(2, 5))
    numbers = st.lists(st.floats(0.05, 1), min_size=n, max_size=n)
    data, propensity = np.array(draw(numbers)), np.array(draw(numbers))
    ideal = data / propensity
    places = np.array(draw(st.lists(st.floats(0, 3), min_size=n, max_size=n)))
    losses = np.array(draw(st.lists(st.floats(0, 4), min_size=n, max_size=n)))
    cost = np.abs(places[:, None] - places)
    return ideal / ideal.sum(), losses, cost, draw(st.floats(0, 2))


def primal(
    ideal: NDArray[np.float64], losses: NDArray[np.float64], cost: NDArray[np.float64], rho: float
) -> float:
    n = len(ideal)
    from_each = np.kron(np.eye(n), np.ones(n))  # the mass that leaves h is p*(h)
    solved = linprog(
        -np.tile(losses, n),
        A_ub=cost.reshape(1, -1),
        b_ub=[rho],
        A_eq=from_each,
        b_eq=ideal,
        method="highs",
    )
    return -float(solved.fun)


def dual(
    ideal: NDArray[np.float64], losses: NDArray[np.float64], cost: NDArray[np.float64], rho: float
) -> float:
    """Minimise over α: the function is convex and piecewise linear, so its kinks suffice."""
    positive = cost > 1e-9
    gains = (losses[None, :] - losses[:, None])[positive] / cost[positive]
    pairs = losses[None, :, None] - losses[None, None, :]
    gaps = cost[:, :, None] - cost[:, None, :]
    crossings = (pairs / np.where(np.abs(gaps) > 1e-9, gaps, np.inf)).ravel()
    candidates = np.concatenate([[0.0], gains, crossings])
    values = [
        alpha * rho + ideal @ (losses[None, :] - alpha * cost).max(1)
        for alpha in candidates[candidates >= 0]
    ]
    return float(min(values))


@given(problems())
def test_claim_2_primal_and_dual_agree(problem: Problem) -> None:
    assert primal(*problem) == pytest.approx(dual(*problem), abs=1e-6)


@given(problems())
def test_the_worst_case_grows_with_the_distance_from_the_ideal_risk(problem: Problem) -> None:
    ideal, losses, cost, rho = problem
    values = [primal(ideal, losses, cost, each) for each in (0.0, rho / 2, rho)]
    assert values[0] == pytest.approx(
        float(ideal @ np.where(cost < 1e-12, losses[None, :], -np.inf).max(1)), abs=1e-6
    )
    assert values[0] <= values[1] + 1e-9
    assert values[1] <= values[2] + 1e-9
    assert values[2] <= losses.max() + 1e-9
