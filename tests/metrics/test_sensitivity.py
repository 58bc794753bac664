from __future__ import annotations

import math
import tracemalloc
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import brentq

from counterplay.errors import ConfigError, DataError
from counterplay.metrics.sensitivity import band_of_mean, bands, smallest_flip, statement

Floats = NDArray[np.float64]
VALUE = st.one_of(st.floats(-5, 5), st.integers(-2, 2).map(float))  # integers make ties
WEIGHT = st.one_of(st.just(1.0), st.floats(1, 100))
ROWS = st.lists(st.tuples(VALUE, WEIGHT), min_size=1, max_size=8)
PAIRS = st.lists(st.tuples(VALUE, VALUE, WEIGHT), min_size=1, max_size=7)
GAMMA = st.floats(1, 20)


def band(values: Floats, weights: Floats, gamma: float) -> tuple[float, float]:
    low, high = bands(values, weights, [gamma])[0].tolist()
    return low, high


def columns(rows: list[tuple[float, ...]]) -> Floats:
    return np.array(rows).T


def corners(weights: Floats, gamma: float) -> Floats:
    """All ways to give each row the lower or the upper end of its range, `[2 ** n, n]`."""
    ends = np.stack([1 + (weights - 1) / gamma, 1 + (weights - 1) * gamma])
    choices = np.array(list(product([0, 1], repeat=len(weights))))
    found: Floats = ends[choices, np.arange(len(weights))]
    return found


@given(ROWS, GAMMA)
def test_bands_equal_the_extremes_over_all_corners(
    rows: list[tuple[float, ...]], gamma: float
) -> None:
    values, weights = columns(rows)
    drawn = corners(weights, gamma)
    normalised = drawn @ values / drawn.sum(1)
    expected = (normalised.min(), normalised.max())
    assert band(values, weights, gamma) == pytest.approx(expected, abs=1e-10)
    mean = drawn @ values / len(values)
    expected = (mean.min(), mean.max())
    assert band_of_mean(values, weights, gamma) == pytest.approx(expected, rel=1e-10, abs=1e-9)


@given(ROWS, st.lists(GAMMA, min_size=2, max_size=5))
def test_bands_nest_as_gamma_grows_and_equal_one_by_one(
    rows: list[tuple[float, ...]], gammas: list[float]
) -> None:
    values, weights = columns(rows)
    found = bands(values, weights, sorted(gammas))
    np.testing.assert_array_less(np.diff(found[:, 0]), 1e-10)
    np.testing.assert_array_less(-np.diff(found[:, 1]), 1e-10)
    np.testing.assert_array_equal(found, [band(values, weights, gamma) for gamma in sorted(gammas)])
    assert values.min() - 1e-12 <= found.min() <= found.max() <= values.max() + 1e-12


@given(ROWS)
def test_gamma_of_one_gives_the_point_estimate(rows: list[tuple[float, ...]]) -> None:
    values, weights = columns(rows)
    point = float(weights @ values / weights.sum())
    assert band(values, weights, 1.0) == pytest.approx((point, point), abs=1e-12)
    mean = float(weights @ values / len(values))
    assert band_of_mean(values, weights, 1.0) == pytest.approx((mean, mean), rel=1e-12, abs=1e-9)


@given(ROWS, GAMMA)
def test_no_width_without_doubt_or_without_variation(
    rows: list[tuple[float, ...]], gamma: float
) -> None:
    values, weights = columns(rows)
    low, high = band(values, np.ones_like(values), gamma)
    assert low == high == pytest.approx(values.mean(), abs=1e-12)
    assert band(np.full_like(values, values[0]), weights, gamma) == (values[0], values[0])


def oriented(rows: list[tuple[float, ...]]) -> tuple[Floats, Floats, Floats, Floats]:
    """Both models, the weights, and the difference with a point estimate clearly above 0."""
    first, second, weights = columns(rows)
    difference = first - second
    lead = float(weights @ difference)
    assume(abs(lead) > 1e-6)
    return first, second, weights, math.copysign(1, lead) * difference


@given(PAIRS)
def test_flip_is_where_the_band_of_the_difference_reaches_zero(
    rows: list[tuple[float, ...]],
) -> None:
    first, second, weights, difference = oriented(rows)
    found = smallest_flip(first, second, weights)

    def least(gamma: float) -> float:
        return band_of_mean(difference, weights, gamma)[0]

    if least(1e6) > 0:
        assert found > 1e6 * (1 - 1e-9)
    else:
        assert found == pytest.approx(brentq(least, 1.0, 1e6, xtol=1e-13, rtol=1e-14), rel=1e-5)
    if 1 < found < 1e6:  # the normalised mean changes sign at the same place
        assert band(difference, weights, max(1.0, found * (1 - 1e-5)))[0] >= 0
        assert band(difference, weights, found * (1 + 1e-5))[0] <= 1e-12


@given(PAIRS)
def test_flip_is_the_same_for_both_orders_of_models(rows: list[tuple[float, ...]]) -> None:
    first, second, weights = columns(rows)
    assert smallest_flip(first, second, weights) == smallest_flip(second, first, weights)


def test_flip_of_equal_models_is_one_and_of_a_dominated_one_infinite() -> None:
    weights = np.array([2.0, 5.0, 3.0])
    values = np.array([0.1, 0.7, 0.4])
    assert smallest_flip(values, values, weights) == 1
    assert smallest_flip(values, values - [0.0, 0.1, 0.0], weights) == math.inf
    # Equal but for rounding: 0.1 + 0.2 − 0.3 is not 0 in floating point.
    assert smallest_flip(np.array([0.1, 0.2, -0.3]), np.zeros(3), np.ones(3)) == 1
    # Certain exposure cannot be wrong: the lead of 1 to 0.5 stands at any Γ.
    assert smallest_flip(np.array([1.0, 0.0]), np.array([0.0, 0.5]), np.ones(2)) == math.inf


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ([4.6, 2.0], "B beats A unless exposure odds are off by more than 1.8×"),
        ([2.0, 4.6], "A beats B unless exposure odds are off by more than 1.8×"),
        ([2.12, 2.0], "B beats A unless exposure odds are off by more than 1.05×"),
        ([2.001, 2.0], "B beats A only if exposure odds are off by less than 1.01×"),
        ([2.0, 2.0], "A and B are equal at the fitted exposure odds"),
        ([2000.1, 1.001], "B beats A unless exposure odds are off by more than 1,413.8×"),
    ],
)
def test_statements(weights: list[float], expected: str) -> None:
    first, second = np.array([0.0, 1.0]), np.array([1.0, 0.0])
    assert statement("A", "B", first, second, np.array(weights)) == expected


def test_statement_of_a_model_that_dominates() -> None:
    said = statement("A", "B", np.array([1.0]), np.array([0.0]), np.array([2.0]))
    assert said == "A beats B however far the exposure odds are off"


def test_memory_grows_with_the_rows_only() -> None:
    """Twice the rows, about twice the memory, whatever the number of Γ: no pairs of rows."""
    rng = np.random.default_rng(0)

    def peak(n: int) -> int:
        values, weights = rng.random(n), 1 + rng.exponential(size=n)
        tracemalloc.start()
        bands(values, weights, np.linspace(1, 9, 5))
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    assert peak(20_000) < 2.1 * peak(10_000)
    assert peak(20_000) < 20 * 8 * 20_000


@pytest.mark.parametrize(
    ("values", "weights", "match"),
    [
        ([1.0], [1.0, 2.0], "of one length"),
        ([], [], "of one length"),
        ([np.nan], [2.0], "found 1 that are not"),
        ([1.0], [0.5], "1 or more; found 0.5"),
        ([1.0], [np.inf], "finite and 1 or more"),
    ],
)
def test_bad_rows_are_errors(values: list[float], weights: list[float], match: str) -> None:
    with pytest.raises(DataError, match=match):
        band(np.array(values), np.array(weights), 2.0)
    with pytest.raises(DataError, match=match):
        smallest_flip(np.array(values), np.array(values), np.array(weights))


@pytest.mark.parametrize("gamma", [0.9, np.inf, np.nan])
def test_gamma_below_one_is_an_error(gamma: float) -> None:
    with pytest.raises(ConfigError, match="factor of 1 or more"):
        band(np.ones(2), np.ones(2), gamma)
    with pytest.raises(ConfigError, match="factor of 1 or more"):
        band_of_mean(np.ones(2), np.ones(2), gamma)
