from __future__ import annotations

import math
from itertools import pairwise
from typing import get_args

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linprog

from counterplay.errors import ConfigError, DataError
from counterplay.metrics.certificate import Certificate, Cost, _drops, certificates

Floats = NDArray[np.float64]
Rows = list[tuple[float, float]]
COSTS = get_args(Cost)
COST = st.sampled_from(COSTS)
LOSS = st.one_of(st.just(0.0), st.floats(0.01, 5))
SHARE = st.one_of(st.just(0.0), st.just(1.0), st.floats(0.001, 1))  # from the floor to 1
ROWS = st.lists(st.tuples(LOSS, SHARE), min_size=1, max_size=6)
FLOOR = st.floats(0.02, 0.5)
FACTOR = st.floats(0.01, 2)


def problem(rows: Rows, floor: float) -> tuple[Floats, Floats]:
    losses, shares = np.array(rows).T
    return losses, floor + (1 - floor) * shares


def gamma_near(losses: Floats, q: Floats, floor: float, factor: float) -> float:
    """A γ of the size at which rows begin to move."""
    return factor * float(losses.max()) / (floor * float(q.mean())) + 0.001


def between(q: Floats, moved: Floats, cost: Cost) -> Floats:
    """The transport costs, as they are stated."""
    if cost == "weight":
        return np.abs(1 / q - 1 / moved)
    return np.abs(q - moved) if cost == "absolute" else (q - moved) ** 2


def certificate(
    losses: Floats, q: Floats, rho: float, *, floor: float, cost: Cost = "absolute"
) -> Certificate:
    return certificates(losses, q, [rho], floor=floor, cost=cost)[0]


def regulated(
    losses: Floats, q: Floats, gamma: float, *, floor: float, cost: Cost
) -> tuple[Floats, Floats]:
    """Δ_γ of each row and T_γ, where it is attained; but for the squared cost, all or nothing."""
    if cost == "squared":
        moved = q - _drops(losses, q, gamma, floor)
    else:
        moved = np.where(losses > gamma * (floor * q if cost == "absolute" else 1), floor, q)
    return losses / moved - gamma * between(q, moved, cost), moved


def largest_by_program(losses: Floats, grid: Floats, costs: Floats, rho: float) -> float:
    """The primal: each row spreads over its grid `[n, m]`, within a mean cost of ρ."""
    n, m = grid.shape
    found = linprog(
        -(losses[:, None] / grid).ravel() / n,
        A_ub=costs.reshape(1, -1) / (n * rho),
        b_ub=[1.0],
        A_eq=np.kron(np.eye(n), np.ones(m)),
        b_eq=np.ones(n),
    )
    assert found.status == 0
    return -float(found.fun)


@pytest.mark.parametrize("cost", COSTS)
@given(ROWS, FLOOR, st.floats(0.01, 0.99))
def test_certificate_equals_the_worst_transport(
    cost: Cost, rows: Rows, floor: float, share: float
) -> None:
    """Strong duality. The grid holds T_γ on both sides of γ: there, the program loses nothing."""
    losses, q = problem(rows, floor)
    saturation = certificate(losses, q, 0, floor=floor, cost=cost).saturation
    assume(saturation > 1e-3)  # below it, the program's own tolerance shows
    rho = share * saturation
    found = certificate(losses, q, rho, floor=floor, cost=cost)
    near = [
        regulated(losses, q, found.gamma * (1 + sign * 1e-9), floor=floor, cost=cost)[1]
        for sign in (-1, 1)
    ]
    even = np.broadcast_to(np.linspace(floor, 1, 40), (len(q), 40))
    grid = np.column_stack([q, *near, even])
    primal = largest_by_program(losses, grid, between(q[:, None], grid, cost), rho)
    assert found.value == pytest.approx(primal, rel=1e-6)


@pytest.mark.parametrize("cost", COSTS)
@given(ROWS, FLOOR, FACTOR)
def test_regulated_losses_are_suprema(cost: Cost, rows: Rows, floor: float, factor: float) -> None:
    losses, q = problem(rows, floor)
    gamma = gamma_near(losses, q, floor, factor)
    found, moved = regulated(losses, q, gamma, floor=floor, cost=cost)
    scale = 1e-9 * (1 + losses.max() / floor + gamma)
    attained = losses / moved - gamma * between(q, moved, cost)
    np.testing.assert_allclose(found, attained, atol=scale)
    grid = np.linspace(floor, 1, 2001)[None, :]
    tried = losses[:, None] / grid - gamma * between(q[:, None], grid, cost)
    assert (found >= tried.max(1) - scale).all()
    assert (moved >= floor - 1e-12).all()
    assert (moved <= q).all()


@given(ROWS, FLOOR, COST, FACTOR, st.floats(0, 1))
def test_every_gamma_bounds_the_certificate(
    rows: Rows, floor: float, cost: Cost, factor: float, rho: float
) -> None:
    losses, q = problem(rows, floor)
    gamma = gamma_near(losses, q, floor, factor)
    found = certificate(losses, q, rho, floor=floor, cost=cost)
    height = regulated(losses, q, gamma, floor=floor, cost=cost)[0].mean()
    assert found.value <= (gamma * rho + height) * (1 + 1e-10)
    if math.isfinite(found.gamma):
        height = regulated(losses, q, found.gamma, floor=floor, cost=cost)[0].mean()
        assert found.value == pytest.approx(found.gamma * rho + height, rel=1e-9)


@given(ROWS, FLOOR, COST, st.integers(0, 99))
def test_true_propensities_within_rho_never_exceed_it(
    rows: Rows, floor: float, cost: Cost, seed: int
) -> None:
    losses, q = problem(rows, floor)
    true = np.random.default_rng(seed).uniform(floor, 1, (20, len(q)))
    true[::2] = np.where(true[::2] > 0.5, q, true[::2])
    radii = between(q, true, cost).mean(1)
    found = certificates(losses, q, radii, floor=floor, cost=cost)
    risks = (losses / true).mean(1)
    assert all(risk <= point.value * (1 + 1e-9) for risk, point in zip(risks, found, strict=True))


@given(ROWS, FLOOR, COST)
def test_it_runs_from_the_plain_mean_to_the_mean_at_the_floor(
    rows: Rows, floor: float, cost: Cost
) -> None:
    losses, q = problem(rows, floor)
    at_zero, near_zero, far = certificates(losses, q, [0, 1e-18, np.inf], floor=floor, cost=cost)
    plain, ceiling = float((losses / q).mean()), float(losses.mean() / floor)
    assert at_zero.value == at_zero.plain == pytest.approx(plain)
    assert near_zero.value == pytest.approx(plain, rel=1e-4, abs=1e-9)
    assert far.value == far.ceiling == pytest.approx(ceiling)
    assert far.gamma == 0
    full = certificate(losses, q, at_zero.saturation, floor=floor, cost=cost)
    assert full.value == pytest.approx(ceiling)


@given(ROWS, FLOOR, COST, st.lists(st.floats(0, 1), min_size=3, max_size=8, unique=True))
def test_the_curve_rises_and_is_concave(
    rows: Rows, floor: float, cost: Cost, radii: list[float]
) -> None:
    losses, q = problem(rows, floor)
    radii = sorted(radii)
    curve = certificates(losses, q, radii, floor=floor, cost=cost)
    scale = 1e-9 * (1 + losses.max() / floor)
    for left, right in pairwise(curve):
        step, rise = right.rho - left.rho, right.value - left.value
        assert right.gamma * step - scale <= rise  # γ is a slope of the curve: it falls
        assert math.isinf(left.gamma) or rise <= left.gamma * step + scale
    assert curve == [certificate(losses, q, rho, floor=floor, cost=cost) for rho in radii]


@given(ROWS, FLOOR, st.sampled_from(["absolute", "weight"]), st.floats(0, 1))
def test_first_part_of_corollary_1(rows: Rows, floor: float, cost: Cost, rho: float) -> None:
    """From γ_n on, Δ_γ is the plain weighted loss: the bound is a line through the plain mean."""
    losses, q = problem(rows, floor)
    gamma = certificate(losses, q, 0, floor=floor, cost=cost).gamma
    grid = np.linspace(floor, 1, 101)[None, :]
    gains = losses[:, None] * (1 / grid - 1 / q[:, None])
    distances = between(q[:, None], grid, cost)
    slopes = np.where(distances > 1e-9, gains / np.maximum(distances, 1e-9), 0)
    assert gamma == pytest.approx(max(0.0, float(slopes.max())), rel=1e-9)
    regular = regulated(losses, q, gamma * (1 + 1e-12), floor=floor, cost=cost)[0]
    np.testing.assert_allclose(regular, losses / q)
    found = certificate(losses, q, rho, floor=floor, cost=cost)
    assert found.value <= (found.plain + gamma * rho) * (1 + 1e-12)


@given(ROWS, FLOOR, COST, FACTOR)
def test_second_part_of_corollary_1(rows: Rows, floor: float, cost: Cost, factor: float) -> None:
    """At ρ_n, what T_γ costs, γρ + mean Δ_γ is the supremum over the ball, and T_γ attains it."""
    losses, q = problem(rows, floor)
    gamma = gamma_near(losses, q, floor, factor)
    height, moved = regulated(losses, q, gamma, floor=floor, cost=cost)
    rho = float(between(q, moved, cost).mean())
    found = certificate(losses, q, rho, floor=floor, cost=cost)
    assert found.value == pytest.approx(gamma * rho + height.mean(), rel=1e-7)
    assert found.value == pytest.approx((losses / moved).mean(), rel=1e-7)


@given(ROWS, FLOOR)
def test_under_the_squared_cost_the_curve_starts_vertically(rows: Rows, floor: float) -> None:
    losses, q = problem(rows, floor)
    assume(((q > floor) & (losses > 0)).any())
    at_zero, near = certificates(losses, q, [0, 1e-12], floor=floor, cost="squared")
    assert at_zero.gamma == math.inf
    rate = math.sqrt(float(((losses / q**2) ** 2).mean()))  # the first order in √ρ
    if near.saturation > 1e-9 and (q[losses > 0] - floor).min() > 1e-3:
        assert (near.value - near.plain) / 1e-6 == pytest.approx(rate, rel=1e-2)


@pytest.mark.parametrize("cost", COSTS)
def test_nothing_to_move_leaves_the_plain_mean(cost: Cost) -> None:
    for losses, q in ((np.zeros(2), np.array([0.5, 1.0])), (np.ones(2), np.full(2, 0.1))):
        found = certificate(losses, q, 3.0, floor=0.1, cost=cost)
        assert found.value == found.plain == found.ceiling == pytest.approx(losses.mean() / 0.1)
        assert found.gamma == found.saturation == 0


def test_single_precision_may_fall_a_little_below_the_floor() -> None:
    q = np.full(2, np.nextafter(np.float32(0.01), np.float32(0)))
    assert certificate(np.ones(2), q, 0.1, floor=0.01).value == pytest.approx(100)


@pytest.mark.parametrize(
    ("losses", "propensities", "match"),
    [
        ([1.0], [0.5, 0.5], "of one length"),
        ([], [], "of one length"),
        ([-1.0], [0.5], "0 or more; found -1"),
        ([np.nan], [0.5], "finite"),
        ([1.0], [0.05], "between the floor, 0.1, and 1; found 0.05"),
        ([1.0], [1.5], "and 1; found 1.5"),
        ([1.0], [np.nan], "between the floor"),
    ],
)
def test_bad_rows_are_errors(losses: list[float], propensities: list[float], match: str) -> None:
    with pytest.raises(DataError, match=match):
        certificate(np.array(losses), np.array(propensities), 0.1, floor=0.1)


def test_bad_options_are_errors() -> None:
    ones = np.ones(2)
    with pytest.raises(ConfigError, match="rho must be 0 or more"):
        certificate(ones, ones, -1, floor=0.1)
    with pytest.raises(ConfigError, match="floor must be between 0 and 1"):
        certificate(ones, ones, 1, floor=0)
    with pytest.raises(ConfigError, match="one of absolute, squared, weight"):
        certificate(ones, ones, 1, floor=0.1, cost="cubic")  # type: ignore[arg-type]
