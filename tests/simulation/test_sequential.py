from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import norm

import counterplay as cp
from counterplay.simulation.sequential import always_valid, smallest_effect, users_needed

Looks = tuple[NDArray[np.float64], NDArray[np.float64]]
Z = 3.3  # two-sided false-alarm rate 0.001


def looks(
    seed: int, n_tests: int, n_users: int, n_days: int, effect: float = 0.0, levels: float = 0.3
) -> Looks:
    """Return the differences of two arms after each day and their estimated variances.

    Users have levels of their own, and their days are independent of each other.
    """
    rng = np.random.default_rng(seed)
    shape = n_tests, 2, n_users, n_days
    days = rng.standard_normal(shape) + levels * rng.standard_normal((n_tests, 2, n_users, 1))
    days[:, 1] += effect
    means = np.cumsum(days, axis=3) / np.arange(1, n_days + 1)
    level, variance = means.mean(2), means.var(2, ddof=1) / n_users
    return level[:, 1] - level[:, 0], variance.sum(1)


def test_a_look_follows_the_formulas() -> None:
    difference, variance, scale = 0.3, 0.01, 0.2
    found = always_valid(np.array([difference]), np.array([variance]), level=0.9, scale=scale)
    # The mixture's likelihood over that of no difference, both written as densities.
    mixed = norm.pdf(difference, scale=(variance + scale**2) ** 0.5)
    assert found.p_value[0] == pytest.approx(norm.pdf(difference, scale=0.1) / mixed)
    for end in (found.low[0], found.high[0]):  # there the ratio is exactly 1/α
        ratio = norm.pdf(difference - end, scale=(variance + scale**2) ** 0.5)
        ratio /= norm.pdf(difference - end, scale=0.1)
        assert ratio == pytest.approx(10)
    assert found.difference.tolist() == [difference]


@given(st.integers(0, 999), st.floats(0.01, 10), st.floats(0.5, 0.99))
def test_intervals_shrink_and_agree_with_p_values(seed: int, scale: float, level: float) -> None:
    difference, variance = looks(seed, 5, 20, 8, effect=0.5)
    found = always_valid(difference, variance, level=level, scale=scale)
    assert (np.diff(found.low, axis=1) >= 0).all()
    assert (np.diff(found.high, axis=1) <= 0).all()
    assert (np.diff(found.p_value, axis=1) <= 0).all()
    assert ((found.p_value > 0) & (found.p_value <= 1)).all()
    without_zero = (found.low > 0) | (found.high < 0)
    np.testing.assert_array_equal(found.p_value < 1 - level, without_zero)


def test_a_look_without_variance_says_nothing_and_spoils_nothing() -> None:
    difference = np.array([np.nan, 5.0, 0.4, np.nan, 0.3])
    variance = np.array([np.nan, 0.0, 0.01, 0.02, 0.005])
    found = always_valid(difference, variance, scale=0.5)
    kept = always_valid(difference[[2, 4]], variance[[2, 4]], scale=0.5)
    assert found.p_value[:2].tolist() == [1, 1]
    assert found.low[:2].tolist() == [-np.inf] * 2
    assert found.high[:2].tolist() == [np.inf] * 2
    for name in ("low", "high", "p_value"):
        expected = getattr(kept, name)[[0, 0, 1]]
        np.testing.assert_array_equal(getattr(found, name)[2:], expected)


def test_earlier_looks_vary_with_later_ones_as_the_docstring_says() -> None:
    difference, _ = looks(1, 4000, 10, 6, levels=0.7)
    covariance = np.cov(difference.T)
    days = np.arange(1, 7)
    variance = 2 / 10 * (0.7**2 + 1 / days)
    expected = variance[np.maximum(days[:, None], days) - 1]
    # A covariance of n normal pairs has the variance (V_s V_t + cov²) / n; 21 of them are looked
    # at, so 4.2 keeps all false alarms together below 0.001.
    error = np.sqrt((np.outer(variance, variance) + expected**2) / 4000)
    assert (np.abs(covariance - expected) < 4.2 * error).all()


@pytest.mark.parametrize("scale", [0.05, 0.2, 1.0])
@pytest.mark.parametrize("levels", [0.0, 0.5])
def test_daily_looks_raise_no_more_false_alarms_than_stated(scale: float, levels: float) -> None:
    n = 1000
    difference, variance = looks(2, n, 40, 30, levels=levels)
    found = always_valid(difference, variance, scale=scale)
    alarms = (found.p_value[:, -1] < 0.05).mean()
    assert alarms < 0.05 + Z * (0.05 * 0.95 / n) ** 0.5
    covered = (found.low[:, -1] <= 0) & (found.high[:, -1] >= 0)
    assert covered.mean() == pytest.approx(1 - alarms)


def test_an_effect_is_covered_and_found() -> None:
    difference, variance = looks(3, 500, 60, 20, effect=0.3)
    found = always_valid(difference, variance, scale=0.3)
    covered = ((found.low <= 0.3) & (found.high >= 0.3)).all(1).mean()
    assert covered > 0.95 - Z * (0.05 * 0.95 / 500) ** 0.5
    assert (found.p_value[:, -1] < 0.05).mean() > 0.6


@pytest.mark.parametrize("scale", [None, 0.02])
def test_planned_users_find_the_effect_with_the_planned_power(scale: float | None) -> None:
    mean, variance, n_tests = 0.2, 0.02, 4000
    needed = users_needed(mean, variance, 0.1, power=0.7, scale=scale)
    rng = np.random.default_rng(4)
    # Click rates between 0 and 1: means of beta distributions with the stated moments.
    spread = mean * (1 - mean) / variance - 1
    arms = []
    for level in (mean, 1.1 * mean):
        shape = (n_tests, needed)
        rates = rng.beta(level * spread, (1 - level) * spread, shape).astype(np.float32)
        arms.append((rates.mean(1, dtype=np.float64), rates.var(1, dtype=np.float64) / needed))
    difference, error = arms[1][0] - arms[0][0], arms[0][1] + arms[1][1]
    if scale is None:
        found = np.abs(difference) > 1.96 * np.sqrt(error)
    else:
        looked = always_valid(difference[:, None], error[:, None], scale=scale)
        found = looked.p_value[:, 0] < 0.05
    # The other arm varies a little more than the control: 2% of power beside the chance of it.
    assert abs(found.mean() - 0.7) < Z * (0.7 * 0.3 / n_tests) ** 0.5 + 0.02


@given(
    st.floats(0.01, 0.9),
    st.floats(0.001, 1),
    st.integers(10, 10**7),
    st.booleans(),
    st.sampled_from([None, 0.001, 0.02, 1.0]),
)
def test_the_smallest_effect_needs_the_users_it_is_the_smallest_of(
    mean: float, variance: float, n_users: int, relative: bool, scale: float | None
) -> None:
    effect = smallest_effect(mean, variance, n_users, relative=relative, scale=scale)
    needed = users_needed(mean, variance, effect, relative=relative, scale=scale)
    assert abs(needed - n_users) <= 1 + 1e-9 * n_users  # rounded up
    if scale is not None:
        assert effect > smallest_effect(mean, variance, n_users, relative=relative)


def test_the_textbook_number_of_users() -> None:
    # 2 · 0.25 · (1.96 + 0.8416)² / 0.05² = 1569.8 for half of the users clicking, ± 5 points
    assert users_needed(0.5, 0.25, 0.05, relative=False) == 1570
    assert users_needed(0.5, 0.25, -0.1) == 1570
    assert users_needed(0.5, 1e-9, 0.1) == 2


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: always_valid(np.zeros(2), np.ones(2), scale=0.0), "scale"),
        (lambda: always_valid(np.zeros(2), np.ones(2), scale=1.0, level=95.0), "level"),
        (lambda: always_valid(np.zeros(2), np.ones(3), scale=1.0), "(3,) variances"),
        (lambda: always_valid(np.zeros(2), -np.ones(2), scale=1.0), "0 or more"),
        (lambda: users_needed(0.2, 0.1, 0.0), "effect"),
        (lambda: users_needed(0.0, 0.1, 0.1), "relative=False"),
        (lambda: users_needed(0.2, -0.1, 0.1), "variance"),
        (lambda: users_needed(0.2, 0.1, 0.1, power=80.0), "power"),
        (lambda: users_needed(0.2, 0.1, 0.1, scale=-1.0), "scale"),
        (lambda: smallest_effect(0.2, 0.1, 0), "n_users"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_sentence(call: object, words: str) -> None:
    with pytest.raises((cp.ConfigError, cp.DataError)) as caught:
        call()  # type: ignore[operator]
    message = str(caught.value)
    assert words in message
    assert message.count(";") == 2
    assert "found" in message
