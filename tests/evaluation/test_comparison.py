from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from scipy.stats import binom, kstest

import counterplay as cp
from counterplay.evaluation.comparison import (
    Difference,
    compare,
    holm,
    paired_difference,
    sign_flip_test,
)
from counterplay.evaluation.intervals import cluster_sums

P_VALUES = arrays(np.float64, st.integers(1, 20), elements=st.floats(0, 1))


class Rows:
    """Random rows of two models; the first is better by `gap`."""

    def __init__(self, seed: int, n_users: int = 60, gap: float = 0.0) -> None:
        rng = np.random.default_rng(seed)
        self.users = np.append(np.arange(n_users), rng.integers(0, n_users, 4 * n_users))
        self.weights = 1 / rng.uniform(0.1, 0.9, len(self.users))
        shift = rng.normal(size=n_users)[self.users]
        self.first = gap + shift + rng.normal(size=len(self.users))
        self.second = rng.normal(size=len(self.users))

    def difference(
        self,
        *,
        swap: bool = False,
        seed: int = 0,
        n_resamples: int = 1000,
        n_flips: int = 9999,
        normalise: bool = True,
    ) -> Difference:
        models = (self.second, self.first) if swap else (self.first, self.second)
        return paired_difference(
            *models,
            self.weights,
            self.users,
            np.random.default_rng(seed),
            n_resamples=n_resamples,
            n_flips=n_flips,
            normalise=normalise,
        )


def test_the_difference_is_a_weighted_mean() -> None:
    rows = Rows(0, gap=0.5)
    gap = rows.first - rows.second
    found = rows.difference()
    assert found.value == pytest.approx(np.average(gap, weights=rows.weights))
    assert found.low < found.value < found.high
    assert (found.level, found.n, found.n_clusters) == (0.95, 300, 60)
    plain = rows.difference(normalise=False)
    assert plain.value == pytest.approx((gap * rows.weights).mean())
    assert plain.low < plain.value < plain.high
    assert plain.p_value == found.p_value
    assert rows.difference() == found  # the same stream, the same numbers


@given(st.integers(0, 99), st.sampled_from([5, 60]))
@settings(max_examples=20)
def test_swapping_the_models_flips_the_sign(seed: int, n_users: int) -> None:
    rows = Rows(seed, n_users, gap=0.2)
    found, swapped = rows.difference(n_flips=500), rows.difference(swap=True, n_flips=500)
    assert swapped.value == -found.value
    assert swapped.low == pytest.approx(-found.high, rel=1e-12)
    assert swapped.high == pytest.approx(-found.low, rel=1e-12)
    assert swapped.p_value == found.p_value


@pytest.mark.parametrize("n_users", [3, 60])
def test_identical_models_do_not_differ(n_users: int) -> None:
    rows = Rows(1, n_users)
    rows.second = rows.first
    found = rows.difference()
    assert (found.value, found.low, found.high, found.p_value) == (0, 0, 0, 1)


def every_flip(gaps: NDArray[np.float64]) -> float:
    """Return the share of all sign flips that are as extreme, one by one."""
    flips = list(product([1, -1], repeat=len(gaps)))
    reached = [abs(sum(s * d for s, d in zip(flip, gaps, strict=True))) for flip in flips]
    return float(np.mean([value >= abs(gaps.sum()) - 1e-9 for value in reached]))


@given(arrays(np.float64, st.integers(1, 8), elements=st.integers(-3, 3).map(float)))
def test_few_users_are_tested_exactly(gaps: NDArray[np.float64]) -> None:
    """Whole numbers tie often: ties count as extreme."""
    found = sign_flip_test(gaps[:, None], np.random.default_rng(0))
    assert found[0] == every_flip(gaps)


@pytest.mark.parametrize("seed", range(5))
def test_random_flips_estimate_the_exact_test(seed: int) -> None:
    """Five standard errors: one run in a million would alarm falsely, in five tests."""
    rows = Rows(seed, 10, gap=0.3)
    gaps = cluster_sums(rows.weights * (rows.first - rows.second), rows.users)
    exact = every_flip(gaps[:, 0])
    assert sign_flip_test(gaps, np.random.default_rng(0), n_flips=1024)[0] == exact
    drawn = sign_flip_test(np.tile(gaps, 3), np.random.default_rng(seed), n_flips=1023)
    assert (drawn == drawn[0]).all()  # columns share their signs
    assert abs(drawn[0] - exact) < 5 * np.sqrt(exact * (1 - exact) / 1024)


def test_many_users_are_tested_block_by_block() -> None:
    """Of U differences of ±1, 2B − U with B ~ Binomial(U, ½) is left; five standard errors."""
    gaps = np.where(np.arange(9000) < 4560, 1.0, -1.0)[:, None] * [1.0, 1.0]  # a sum of 120
    gaps[:500, 1] = gaps[-500:, 1] = 0  # the same sum of 8,000 users
    found = sign_flip_test(gaps, np.random.default_rng(0), n_flips=4000)
    for p_value, n in zip(found, [9000, 8000], strict=True):
        expected = 2 * binom.sf((n + 120) // 2 - 1, n, 0.5)
        assert abs(p_value - expected) < 5 * np.sqrt(expected * (1 - expected) / 4000)


def test_p_is_uniform_without_a_difference() -> None:
    """A Kolmogorov-Smirnov test at 1e-3: one run in 1,000 would alarm falsely."""
    found = [
        Rows(seed, 30).difference(seed=seed, n_resamples=1, n_flips=999).p_value
        for seed in range(500)
    ]
    assert kstest(found, "uniform").pvalue > 1e-3


def test_a_real_difference_is_found() -> None:
    found = Rows(3, 200, gap=1.0).difference()
    assert found.low > 0
    assert found.p_value == 1 / 10_000


def test_holm_by_hand() -> None:
    """Sorted 0.005, 0.01, 0.03, 0.04 times 4, 3, 2, 1 is 0.02, 0.03, 0.06, 0.04; then upwards."""
    np.testing.assert_allclose(holm(np.array([0.01, 0.04, 0.03, 0.005])), [0.03, 0.06, 0.06, 0.02])


@given(P_VALUES)
def test_holm_keeps_the_order_and_never_lowers(p_values: NDArray[np.float64]) -> None:
    adjusted = holm(p_values)
    assert (adjusted >= p_values).all()
    assert (adjusted <= np.minimum(1, len(p_values) * p_values)).all()
    assert (np.diff(adjusted[np.argsort(p_values)]) >= 0).all()


@given(P_VALUES, st.integers(0, 99))
def test_holm_does_not_mind_the_order(p_values: NDArray[np.float64], seed: int) -> None:
    order = np.random.default_rng(seed).permutation(len(p_values))
    np.testing.assert_array_equal(holm(p_values[order]), holm(p_values)[order])


def test_models_are_compared_in_pairs_or_with_a_reference() -> None:
    rows = Rows(4)
    models = {"a": rows.first, "b": rows.second, "c": rows.first + rows.second}

    def made(reference: str | None) -> list[tuple[str, str, Difference]]:
        rng = np.random.default_rng(0)
        return compare(models, rows.weights, rows.users, rng, reference=reference)

    assert [names[:2] for names in made(None)] == [("a", "b"), ("a", "c"), ("b", "c")]
    against = made("b")
    assert [names[:2] for names in against] == [("a", "b"), ("c", "b")]
    alone = [
        paired_difference(
            models[one], models[other], rows.weights, rows.users, np.random.default_rng(0)
        )
        for one, other, _ in against
    ]
    adjusted = holm(np.array([difference.p_value for difference in alone]))
    for (_, _, found), expected, p_value in zip(against, alone, adjusted, strict=True):
        assert found.value == pytest.approx(expected.value)
        assert found.low == pytest.approx(expected.low)
        assert found.high == pytest.approx(expected.high)
        assert found.p_value == pytest.approx(p_value)


def test_what_cannot_be_compared() -> None:
    rng, ones, users = np.random.default_rng(0), np.ones(3), np.arange(3)
    with pytest.raises(cp.ConfigError, match="two models or more"):
        compare({"a": ones}, ones, users, rng)
    with pytest.raises(cp.ConfigError, match="found a, b with reference c"):
        compare({"a": ones, "b": ones}, ones, users, rng, reference="c")
    with pytest.raises(cp.DataError, match="same rows"):
        paired_difference(ones, np.ones(4), ones, users, rng)
    with pytest.raises(cp.DataError, match="one weight"):
        paired_difference(ones, ones, np.ones(2), users, rng)
    with pytest.raises(cp.DataError, match="weights must be finite"):
        paired_difference(ones, ones, -ones, users, rng)
    with pytest.raises(cp.DataError, match="between 0 and 1"):
        holm(np.array([0.5, np.nan]))


def test_a_difference_shows_itself() -> None:
    found = Difference(0.5, -0.25, 0.75, 0.95, 1000, 50, 0.0123)
    assert repr(found) == (
        "<Difference +0.5000 [-0.2500, +0.7500] at 95%, p 0.0123; 1,000 rows of 50 users>"
    )
    assert ">1,000</td>" in found._repr_html_()
    assert found.to_polars().row(0, named=True) == found.to_dict()
    assert Difference(0, np.nan, np.nan, 0.95, 1, 1, 1).to_dict()["low"] is None
