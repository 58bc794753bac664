from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import poisson

import counterplay as cp
from counterplay.metrics import intervals
from counterplay.metrics.intervals import (
    bootstrap,
    cluster_sums,
    effective_sample_size,
    interval,
    resamples_needed,
    top_share,
    weight_warning,
)

Log = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]


def small_log(seed: int, n: int = 300, n_users: int = 40) -> Log:
    """Return values, weights and users of random rows."""
    rng = np.random.default_rng(seed)
    users = rng.integers(0, n_users, n)
    values = rng.normal(size=n_users)[users] + rng.normal(size=n)
    return values, 1 / rng.uniform(0.1, 0.9, n), users


@given(st.integers(0, 99), st.floats(-1e6, 1e6))
@settings(max_examples=20)
def test_a_constant_has_an_interval_of_width_zero(seed: int, constant: float) -> None:
    _, weights, users = small_log(seed)
    resamples = bootstrap(constant * weights, weights, users, np.random.default_rng(seed))
    low, high = interval(resamples)
    np.testing.assert_allclose([low, high], constant, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("block", [7, 40, 4096])
def test_equals_a_loop_over_rows(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intervals, "_BLOCK", block)
    values, weights, users = small_log(1)
    users = users * 1000  # ids need not be dense
    columns = np.stack([weights * values, weights * values**2], axis=1)
    found = bootstrap(columns, weights, users, np.random.default_rng(5), n_resamples=30)

    ids, rng = np.unique(users), np.random.default_rng(5)
    counts = np.concatenate(
        [
            intervals.poisson_counts(30, min(block, len(ids) - begin), rng)
            for begin in range(0, len(ids), block)
        ],
        axis=1,
    )
    for resample, row in zip(found, counts, strict=True):
        count_of = dict(zip(ids.tolist(), row.tolist(), strict=True))
        above, below = np.zeros(2), 0.0
        for user, numerators, weight in zip(users.tolist(), columns, weights, strict=True):
            above += count_of[user] * numerators
            below += count_of[user] * weight
        np.testing.assert_allclose(resample, above / below, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("n_users", [40, 9000])
def test_memory_changes_no_bit(n_users: int) -> None:
    values, weights, users = small_log(2, 20_000, n_users)
    columns = np.stack([weights * values, weights], axis=1)
    expected = bootstrap(columns, weights, users, np.random.default_rng(3), n_resamples=101)
    for memory in (1, 10**4, 10**5, 10**6, 10**9):
        found = bootstrap(
            columns, weights, users, np.random.default_rng(3), n_resamples=101, memory=memory
        )
        np.testing.assert_array_equal(found, expected)


def test_the_table_of_counts_is_poisson() -> None:
    share = np.array(intervals._POISSON) / 2**16
    count = np.arange(len(share))
    assert sum(intervals._POISSON) == 2**16
    assert share @ count == 1
    assert share @ (count - 1) ** 2 == 1
    np.testing.assert_allclose(share, poisson.pmf(count, 1), atol=2e-5)


def test_users_are_the_unit() -> None:
    values, weights, users = small_log(5, 400, 200)
    twice = np.tile(np.stack([weights * values, weights], axis=1), (2, 1))
    width = {}
    for name, clusters in {
        "once": users,
        "same user": np.tile(users, 2),
        "other user": np.append(users, users + 200),
    }.items():
        rows = twice[: len(clusters)]
        resamples = bootstrap(rows[:, 0], rows[:, 1], clusters, np.random.default_rng(0))
        low, high = interval(resamples)
        width[name] = float(high[0] - low[0])
    assert width["same user"] == pytest.approx(width["once"], rel=1e-12)
    assert 0.6 < width["other user"] / width["once"] < 0.82  # 1 / √2, give or take 15%


def test_columns_are_paired() -> None:
    values, weights, users = small_log(6)
    columns = np.stack([weights * values, weights * (values + 1)], axis=1)
    resamples = bootstrap(columns, weights, users, np.random.default_rng(0))
    np.testing.assert_allclose(resamples[:, 1] - resamples[:, 0], 1, rtol=1e-12)
    each = bootstrap(columns, weights[:, None] * np.ones(2), users, np.random.default_rng(0))
    np.testing.assert_allclose(each, resamples, rtol=1e-12, atol=1e-12)


def test_intervals_cover_the_truth() -> None:
    """Of 600 logs 95% are covered give or take 0.9%: the bounds are three of those away.

    A user likes a share of items, and what is liked is shown more: values are seen where they
    were shown, with a weight of 1 / propensity. The truth is the mean over all pairs, 0.4.
    """
    rng, covered, n_logs = np.random.default_rng(7), 0, 600
    for _ in range(n_logs):
        relevance = rng.beta(2, 3, 120)[:, None]  # of users; its mean is 0.4
        values = (rng.random((120, 10)) < relevance).astype(np.float64)
        propensity = np.clip(0.1 + 0.8 * relevance * rng.beta(2, 1, 10), 0.1, 0.9)
        user, item = np.nonzero(rng.random((120, 10)) < propensity)
        weights = 1 / propensity[user, item]
        resamples = bootstrap(weights * values[user, item], weights, user, rng, n_resamples=500)
        low, high = interval(resamples)
        covered += int(low[0] <= 0.4 <= high[0])
    assert 0.92 < covered / n_logs < 0.98


def test_a_denominator_of_zero_is_left_out() -> None:
    rng, users = np.random.default_rng(0), np.arange(3)
    resamples = bootstrap(np.array([2.0, 2, 0]), np.array([1.0, 1, 0]), users, rng)
    missing = np.isnan(resamples).mean()
    assert abs(missing - np.exp(-2)) < 4 * np.sqrt(np.exp(-2) / 1000)
    np.testing.assert_array_equal(interval(resamples), [[2], [2]])


def test_a_single_user_has_no_spread_to_speak_of() -> None:
    one = bootstrap(np.ones(4), np.ones(4), np.full(4, 9), np.random.default_rng(0))
    assert one.shape == (1000, 1)
    assert np.isnan(one).all()
    assert np.isnan(interval(one)).all()


def test_cluster_sums_add_rows_up() -> None:
    far = np.array([10**12, 3, 10**12])
    np.testing.assert_array_equal(cluster_sums(np.array([1, 2, 4]), far), [[2], [5]])
    np.testing.assert_array_equal(
        cluster_sums(np.array([[1.0, 2], [3, 4], [5, 6]]), np.array([2, 0, 2])), [[3, 4], [6, 8]]
    )


@pytest.mark.parametrize(
    ("values", "clusters", "message"),
    [
        ([1.0, 2.0], [0], "must have the same rows"),
        ([], [], "at least one"),
        ([1.0], [-1], "integers of 0 or more"),
        ([1.0], [0.5], "integers of 0 or more"),
        ([np.nan, 1.0], [0, 1], "in the sums of 1 clusters"),
    ],
)
def test_rows_that_cannot_be_added_up(
    values: list[float], clusters: list[int], message: str
) -> None:
    with pytest.raises(cp.DataError, match=message):
        cluster_sums(np.array(values), np.array(clusters))


def test_options_without_sense() -> None:
    with pytest.raises(cp.ConfigError, match="level of an interval"):
        interval(np.ones(3), level=95)
    with pytest.raises(cp.ConfigError, match="at least one draw"):
        bootstrap(np.ones(2), np.ones(2), np.arange(2), np.random.default_rng(), n_resamples=0)


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=50), st.floats(1e-3, 1e200))
def test_effective_sample_size_lies_between_one_and_all(weights: list[float], by: float) -> None:
    effective = effective_sample_size(np.array(weights))
    assert 1 - 1e-9 <= effective <= len(weights) * (1 + 1e-9)
    assert effective_sample_size(by * np.array(weights)) == pytest.approx(effective)


def test_top_share_takes_the_heaviest_rows() -> None:
    weights = np.random.default_rng(0).permutation(np.append(np.ones(196), [98.0, 58, 24, 24]))
    assert top_share(weights) == pytest.approx(156 / 400)  # two rows of 200


def test_weights_are_warned_of_when_a_handful_carries_them() -> None:
    assert weight_warning(np.ones(10)) is None
    assert weight_warning(np.append(np.ones(999), 10.0)) is None
    found = weight_warning(np.append(np.ones(9999), 1e5))
    assert found is not None
    assert "about 1 of 10,000 rows" in found
    assert "clip the weights" in found
    large = weight_warning(np.append(np.full(10**5, 1e-4), np.ones(500)))
    assert large is not None
    assert "about 520 of 100,500 rows" in large


@pytest.mark.parametrize("weights", [[], [0.0], [1.0, -1.0], [np.nan], [np.inf]])
def test_weights_must_be_weights(weights: list[float]) -> None:
    with pytest.raises(cp.DataError, match="weights must be finite"):
        effective_sample_size(np.array(weights))


@pytest.mark.parametrize(
    ("level", "needed"), [(0.5, 20), (0.8, 50), (0.9, 100), (0.95, 200), (0.99, 1000)]
)
def test_the_level_says_how_many_resamples_it_needs(level: float, needed: int) -> None:
    assert resamples_needed(level) == needed
    interval(np.arange(float(needed)), level)
    with pytest.raises(
        cp.ConfigError,
        match=f"level {level} needs n_resamples of {needed:,} or more, so that 5 lie beyond each "
        f"end; found {needed - 1:,}; raise n_resamples, or lower the level",
    ):
        interval(np.arange(float(needed - 1)), level)


def test_a_level_next_to_1_is_refused() -> None:
    with pytest.raises(cp.ConfigError, match="needs n_resamples of 100,000,000 or more"):
        interval(np.arange(1000.0), level=0.9999999)
