from __future__ import annotations

import json
import math
from collections import defaultdict
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import rankdata, spearmanr

import counterplay as cp
from counterplay.metrics.exposure import (
    _ranks,
    calibration,
    decile_shares,
    deciles_of_items,
    means_by_decile,
    popularity_deciles,
    popularity_of_lists,
    spread_of_propensities,
)
from counterplay.metrics.measures import ranking_metrics

propensities = st.lists(
    st.one_of(st.sampled_from([0.01, 0.1, 0.5, 1.0]), st.floats(1e-6, 1.0)), min_size=1, max_size=60
)
event_counts = st.lists(
    st.one_of(st.integers(0, 3), st.integers(0, 10**6)), min_size=1, max_size=40
).filter(any)


# spread_of_propensities


@given(propensities)
def test_every_row_is_in_the_histogram(drawn: list[float]) -> None:
    q = np.array(drawn)
    found = spread_of_propensities(1 / q)
    edges = np.array(found["edges"])
    assert sum(found["counts"]) == found["n"] == len(q)
    assert len(edges) == len(found["counts"]) + 1 == 25
    assert edges[0] == pytest.approx(min(0.01, q.min()))
    assert edges[-1] == 1
    np.testing.assert_allclose(np.diff(np.log(edges)), -np.log(edges[0]) / 24)
    assert found["quantiles"]["0%"] == pytest.approx(q.min())
    assert found["quantiles"]["100%"] == pytest.approx(q.max())
    assert list(found["quantiles"].values()) == sorted(found["quantiles"].values())
    assert 1 - 1e-9 <= found["ess"] <= len(q) + 1e-9
    json.dumps(found, allow_nan=False)


def test_the_histogram_counts_what_a_loop_counts() -> None:
    q = np.random.default_rng(0).uniform(0.05, 1, 500) ** 2
    found = spread_of_propensities(1 / q, floor=0.001)
    edges = found["edges"]
    expected = [
        sum(low <= 1 / (1 / each) < high for each in q.tolist()) for low, high in pairwise(edges)
    ]
    assert found["counts"] == expected
    assert edges[0] == 0.001


@pytest.mark.parametrize("q", [1.0, 0.3, 1e-9])
def test_equal_weights_are_no_special_case(q: float) -> None:
    found = spread_of_propensities(np.full(7, 1 / q))
    assert (found["n"], found["ess"], max(found["counts"])) == (7, pytest.approx(7), 7)
    assert list(found["quantiles"].values()) == [pytest.approx(q)] * 7
    assert found["top_share"] == pytest.approx(1 / 7)
    assert list(found["quantiles"]) == ["0%", "1%", "25%", "50%", "75%", "99%", "100%"]


@pytest.mark.parametrize("floor", [0.5, 1 - 1e-9, np.nextafter(1, 0)])
def test_a_floor_next_to_one_has_edges_too(floor: float) -> None:
    assert sum(spread_of_propensities(1 / np.array([floor, 1.0, 1.0]), floor=floor)["counts"]) == 3


@pytest.mark.parametrize("weights", [[], [2.0, np.inf], [2.0, np.nan], [0.5, 2.0]])
def test_what_are_no_inverse_propensities_are_refused(weights: list[float]) -> None:
    with pytest.raises(cp.DataError, match="weights must be"):
        spread_of_propensities(np.array(weights, dtype=np.float64))


# popularity_deciles


def decile_by_hand(item: int, events: list[int]) -> int:
    """Return the smallest decile that the item and all before it fit into."""
    before = sum(n for other, n in enumerate(events) if (n, other) <= (events[item], item))
    share = Fraction(before, sum(events))
    return next(decile for decile in range(1, 11) if share <= Fraction(decile, 10))


@given(event_counts)
def test_deciles_equal_those_by_hand(events: list[int]) -> None:
    found = popularity_deciles(np.array(events))
    assert found.tolist() == [decile_by_hand(item, events) for item in range(len(events))]


@given(event_counts)
def test_every_item_is_in_one_decile_and_popular_ones_are_higher(events: list[int]) -> None:
    counts = np.array(events)
    deciles = popularity_deciles(counts)
    rows = deciles_of_items(deciles, counts)
    assert [each["decile"] for each in rows] == list(range(1, 11))
    assert sum(each["items"] for each in rows) == len(events)
    assert math.fsum(each["logged"] for each in rows) == pytest.approx(1)
    assert all(each["logged"] == 0 for each in rows if each["items"] == 0)
    assert (np.diff(deciles[np.lexsort((np.arange(len(events)), counts))]) >= 0).all()
    assert deciles[counts == 0].tolist() == [1] * int((counts == 0).sum())
    assert deciles.max() == 10
    json.dumps(rows, allow_nan=False)


def test_no_events_are_all_tail() -> None:
    deciles = popularity_deciles(np.zeros(4, dtype=np.int64))
    assert deciles.tolist() == [1, 1, 1, 1]
    assert decile_shares(deciles, np.zeros(4)) == [0.0] * 10


# popularity_of_lists


@given(st.data())
def test_lists_equal_a_loop_over_their_places(data: st.DataObject) -> None:
    events = np.array(data.draw(event_counts))
    place = st.integers(-1, len(events) - 1)
    k = data.draw(st.integers(1, 4))
    drawn = data.draw(st.lists(st.lists(place, min_size=k, max_size=k), min_size=1, max_size=8))
    deciles = popularity_deciles(events)
    found = popularity_of_lists(np.array(drawn), deciles, events)
    items = [item for row in drawn for item in row if item >= 0]
    if not items:
        assert found is None
        return
    assert found is not None
    assert found["shares"] == [
        pytest.approx(sum(deciles[item] == decile for item in items) / len(items))
        for decile in range(1, 11)
    ]
    assert math.fsum(found["shares"]) == pytest.approx(1)
    assert found["mean_popularity"] == pytest.approx(np.mean([events[item] for item in items]))
    assert found["coverage"] == pytest.approx(len(set(items)) / len(events))
    assert 0 <= found["gini"] < 1
    shuffled = popularity_of_lists(np.array(drawn[::-1]), deciles, events)
    assert shuffled == found


# means_by_decile


Rows = tuple[
    dict[tuple[str, int], NDArray[np.float64]], NDArray[np.int64], NDArray[np.int64]
]  # values, deciles, users


def rows_of(seed: int, n: int, n_users: int) -> Rows:
    rng = np.random.default_rng(seed)
    ranks = rng.integers(1, 15, n).astype(np.float64)
    values = ranking_metrics(ranks, np.arange(n), names=("hit", "mrr"), k=(3, 10))
    return values, rng.choice([1, 2, 7, 10], n), rng.integers(0, n_users, n)


@given(st.integers(0, 99), st.integers(1, 60), st.integers(1, 8))
def test_means_equal_a_loop_over_rows(seed: int, n: int, n_users: int) -> None:
    values, deciles, users = rows_of(seed, n, n_users)
    found = means_by_decile(values, deciles, users, np.random.default_rng(0), n_resamples=200)
    assert [(each["metric"], each["k"], each["decile"]) for each in found] == [
        (*key, decile) for key in values for decile in range(1, 11)
    ]
    for each in found:
        of_decile, of_users = [], set()
        for row, value in enumerate(values[each["metric"], each["k"]].tolist()):
            if deciles[row] == each["decile"]:
                of_decile.append(value)
                of_users.add(int(users[row]))
        assert each["n"] == len(of_decile)
        expected = None if not of_decile else pytest.approx(np.mean(of_decile))
        assert each["value"] == expected
        known = len(of_users) > 1
        assert (each["low"] is not None, each["high"] is not None) == (known, known)
    for key in values:
        assert sum(each["n"] for each in found if (each["metric"], each["k"]) == key) == n
    json.dumps(found, allow_nan=False)


# calibration


@given(propensities, st.integers(0, 9))
def test_the_truth_is_on_the_diagonal(drawn: list[float], seed: int) -> None:
    q = np.array(drawn)
    found = calibration(q, q)
    assert sum(each["n"] for each in found["bins"]) == len(q)
    assert 1 <= len(found["bins"]) <= 10
    assert all(each["estimated"] == each["true"] for each in found["bins"])
    assert found["correlation"] == (pytest.approx(1) if len(set(drawn)) > 1 else None)
    order = np.random.default_rng(seed).permutation(len(q))
    for one, other in zip(found["bins"], calibration(q[order], q[order])["bins"], strict=True):
        assert one == pytest.approx(other)
    json.dumps(found, allow_nan=False)


@given(st.integers(1, 80), st.integers(0, 9))
def test_bins_equal_a_loop_over_sorted_rows(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    estimated, true = rng.permutation(n) / n + 1 / n, rng.uniform(0.1, 1, n)
    by_bin = defaultdict(list)
    for place, row in enumerate(sorted(range(n), key=lambda row: estimated[row])):
        by_bin[10 * (2 * place + 1) // (2 * n)].append(row)
    found = calibration(estimated, true)
    assert found["bins"] == [
        {
            "n": len(rows),
            "estimated": pytest.approx(estimated[rows].mean()),
            "true": pytest.approx(true[rows].mean()),
        }
        for rows in by_bin.values()
    ]
    sizes = [each["n"] for each in found["bins"]]
    assert len(sizes) == min(n, 10)
    assert max(sizes) - min(sizes) <= 1


def test_the_correlation_is_spearmans() -> None:
    rng = np.random.default_rng(0)
    estimated, true = rng.integers(1, 9, 100) / 10, rng.integers(1, 9, 100) / 10
    expected = spearmanr(estimated, true).statistic
    assert calibration(estimated, true)["correlation"] == pytest.approx(expected)
    assert calibration(true**3 / 7, true)["correlation"] == pytest.approx(1)
    assert calibration(1 - true, true)["correlation"] == pytest.approx(-1)


def test_what_is_constant_has_one_bin_and_no_correlation() -> None:
    true = np.array([0.1, 0.2, 0.9])
    found = calibration(np.full(3, 0.5), true)
    assert found == {
        "correlation": None,
        "bins": [{"n": 3, "estimated": 0.5, "true": pytest.approx(0.4)}],
    }
    assert calibration(true, np.full(3, 0.5))["correlation"] is None
    assert calibration(true[:1], true[:1])["correlation"] is None


def test_equal_estimates_stay_together() -> None:
    """As at a floor: which of them comes first says nothing."""
    estimated = np.array([0.01] * 50 + [0.2 + i / 100 for i in range(50)])
    sizes = [each["n"] for each in calibration(estimated, estimated)["bins"]]
    assert sizes == [50, 10, 10, 10, 10, 10]


def test_calibration_needs_both_of_each_row() -> None:
    for estimated, true in ((np.ones(3), np.ones(2)), (np.ones(0), np.ones(0))):
        with pytest.raises(cp.DataError, match="of one length, 1 or more"):
            calibration(estimated, true)


@given(propensities)
def test_ranks_are_those_of_scipy(values: list[float]) -> None:
    np.testing.assert_array_equal(_ranks(np.array(values)), rankdata(values))
