"""The numbers of chance: normal, independent, and the same whoever asks.

Keys are fixed; a test at |z| < 4.5 would alarm falsely in 7 of a million other keys.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import expit, ndtr
from scipy.stats import kstest, logistic, norm

from counterplay.simulation import chance
from counterplay.simulation.chance import mean_capped, mean_sigmoid, normal

Z = 4.5
KEYS = [0, 1, 7, 2**63 - 1]


def table(key: int, n_users: int = 400, n_items: int = 500) -> NDArray[np.float64]:
    return normal(key, np.arange(n_users)[:, None], np.arange(n_items)[None])


def z_of_correlation(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    return float(np.mean(one * other) * np.sqrt(one.size))


@pytest.mark.parametrize("key", KEYS)
def test_numbers_are_standard_normal(key: int) -> None:
    """Four moments by their z, and a Kolmogorov-Smirnov test at 1e-5."""
    numbers = table(key).ravel()
    root = np.sqrt(numbers.size)
    # The variances of x, x², x³ and x⁴ are 1, 2, 15 and 96.
    assert abs(numbers.mean()) * root < Z
    assert abs((numbers**2).mean() - 1) * root / np.sqrt(2) < Z
    assert abs((numbers**3).mean()) * root / np.sqrt(15) < Z
    assert abs((numbers**4).mean() - 3) * root / np.sqrt(96) < Z
    assert kstest(numbers, "norm").pvalue > 1e-5


@pytest.mark.parametrize("key", KEYS)
def test_neighbours_are_independent(key: int) -> None:
    numbers = table(key)
    for moved in (1, 2, 64, 256):
        assert abs(z_of_correlation(numbers[moved:], numbers[:-moved])) < Z
        assert abs(z_of_correlation(numbers[:, moved:], numbers[:, :-moved])) < Z
    square = numbers[:, : len(numbers)]
    above = np.triu_indices(len(square), 1)
    assert abs(z_of_correlation(square[above], square.T[above])) < Z


def test_squares_of_neighbours_are_independent() -> None:
    """Numbers may be uncorrelated and still be large together."""
    squares = (table(3) ** 2 - 1) / np.sqrt(2)
    assert abs(z_of_correlation(squares[1:], squares[:-1])) < Z
    assert abs(z_of_correlation(squares[:, 1:], squares[:, :-1])) < Z


def test_keys_are_independent() -> None:
    tables = [table(key) for key in (*range(6), 2**32, 2**63 - 1)]
    for place, one in enumerate(tables):
        for other in tables[:place]:
            assert abs(z_of_correlation(one, other)) < Z


def test_a_large_world_has_no_two_equal_numbers() -> None:
    """Users near 1 million and items near 100,000: all bits of both count."""
    users, items = np.arange(999_700, 1_000_000), np.arange(99_000, 100_000)
    numbers = normal(5, users[:, None], items[None])
    assert np.unique(numbers).size == numbers.size
    assert kstest(numbers.ravel(), "norm").pvalue > 1e-5


@given(
    st.integers(0, 2**63 - 1),
    st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=5),
    st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=5),
)
def test_a_number_does_not_depend_on_who_is_asked_with_it(
    key: int, users: list[int], items: list[int]
) -> None:
    together = normal(key, np.array(users)[:, None], np.array(items)[None])
    assert together.shape == (len(users), len(items))
    assert np.isfinite(together).all()
    for row, user in enumerate(users):
        for column, item in enumerate(items):
            assert together[row, column] == normal(key, np.array(user), np.array(item))
    narrow = normal(key, np.array(users, dtype=np.int32)[:, None], np.array(items, np.int32)[None])
    assert (narrow == together).all()


@pytest.mark.parametrize("bits", [0, 2**64 - 1])
def test_no_number_is_infinite(bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither hash of the extremes: a uniform number of 0 or 1 would be infinitely far out."""
    monkeypatch.setattr(chance, "mixed", lambda hashed: np.full_like(hashed, bits))
    number = normal(0, np.array([3]), np.array([4]))
    assert 8 < abs(number[0]) < 9
    assert (number[0] > 0) == (bits > 0)


DEVIATIONS = [0.01, 0.3, 0.99, 1.0, 1.5, 3.0, 4.0, 5.0, 30.0, 1e4]


def by_summing(z: NDArray[np.float64], deviation: float) -> NDArray[np.float64]:
    """Return the mean over a fine grid of normal numbers, or of logistic ones if that is finer."""
    grid = np.linspace(-12, 12, 4801)
    if deviation < 2:
        share, values = norm.pdf(grid), expit(z[:, None] + deviation * grid)
    else:
        grid = 7 * grid
        share, values = logistic.pdf(grid), ndtr((z[:, None] - grid) / deviation)
    found: NDArray[np.float64] = values @ (share / share.sum())
    return found


@pytest.mark.parametrize("deviation", DEVIATIONS)
def test_the_mean_of_sigmoids_has_nine_digits(deviation: float) -> None:
    reach = 38 * max(1.0, deviation / 4)
    z = np.concatenate([np.linspace(-reach, reach, 1501), np.linspace(-5, 5, 301)])
    found, expected = mean_sigmoid(z, deviation), by_summing(z, deviation)
    large = expected > 1e-9
    np.testing.assert_allclose(found[large], expected[large], rtol=1e-9)
    np.testing.assert_allclose(found[~large], expected[~large], rtol=0, atol=1e-13)
    assert ((found >= 0) & (found <= 1)).all()


@pytest.mark.parametrize("deviation", DEVIATIONS)
def test_far_out_the_mean_is_certain(deviation: float) -> None:
    far = 100 * max(1.0, deviation)
    found = mean_sigmoid(np.array([-1e300, -far, far, 1e300]), deviation)
    np.testing.assert_allclose(found, [0, 0, 1, 1], atol=1e-13)


@given(
    st.sampled_from([0.0, 0.5, 2.0]), st.lists(st.floats(-50, 50), min_size=1, max_size=9),
    st.integers(1, 4),
)  # fmt: skip
def test_a_mean_does_not_depend_on_what_is_asked_with_it(
    deviation: float, logits: list[float], block: int
) -> None:
    together = mean_sigmoid(np.array(logits)[:, None], deviation)
    assert together.shape == (len(logits), 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chance, "_BLOCK", block)
        assert (mean_sigmoid(np.array(logits)[:, None], deviation) == together).all()
    for logit, mean in zip(logits, together[:, 0], strict=True):
        assert mean_sigmoid(np.array([logit]), deviation) == mean
        opposite = mean_sigmoid(np.array([-logit]), deviation)[0]
        assert opposite + mean == pytest.approx(1, abs=1e-9)


def test_the_mean_leaves_its_logits_as_they_are() -> None:
    logits = np.linspace(-3, 3, 7).reshape(7, 1).T
    for deviation in (0.0, 1.0):
        mean_sigmoid(logits, deviation)[:] = np.nan
    np.testing.assert_array_equal(logits, np.linspace(-3, 3, 7)[None])


@given(st.floats(-6, 3), st.floats(0, 2))
@example(-1.0, 5e-324)
@example(0.0, 1e-12)
def test_the_mean_of_a_capped_exponential(mean: float, deviation: float) -> None:
    nodes = np.linspace(-9, 9, 20_001)
    density = np.exp(-(nodes**2) / 2)
    values = np.exp(np.minimum(mean + deviation * nodes, 0))
    expected = float(values @ density / density.sum())
    assert float(mean_capped(np.array([mean]), deviation)[0]) == pytest.approx(expected, rel=1e-4)
