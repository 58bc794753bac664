from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import counterplay as cp
from counterplay.metrics.estimation import (
    Estimate,
    estimates,
    popularity_propensities,
    weights_of,
)
from counterplay.metrics.intervals import bootstrap, interval

Key = tuple[str, int]

# A value and a propensity a row, the user's row by row: propensities so near to each other that
# no handful of rows carries the estimate.
VALUE = st.integers(0, 8).map(lambda eighths: eighths / 8)
ROW = st.tuples(st.integers(0, 5), VALUE, VALUE, st.floats(0.2, 1))
ROWS = st.lists(ROW, min_size=1, max_size=25)
Rows = list[tuple[int, float, float, float]]


def estimated(
    values: dict[Key, list[float]],
    weights: NDArray[np.float64],
    clusters: list[int],
    *,
    normalise: bool = True,
    seed: int = 0,
    n_resamples: int = 200,
) -> dict[Key, Estimate]:
    found = estimates(
        {key: np.array(each) for key, each in values.items()},
        weights,
        np.array(clusters),
        np.random.default_rng(seed),
        estimator="oracle",
        protocol="full",
        normalise=normalise,
        n_resamples=n_resamples,
    )
    return {(each.metric, each.k): each for each in found}


@given(st.lists(st.floats(1e-6, 1), max_size=9), st.none() | st.floats(1e-3, 1))
def test_weights_are_inverse_propensities(propensities: list[float], clip: float | None) -> None:
    found = weights_of(np.array(propensities), clip=clip)
    assert found.tolist() == [1 / max(q, clip or 0) for q in propensities]


@pytest.mark.parametrize(
    ("propensities", "message"),
    [
        ([0.5, 0.0, -1.0], "found 2 that are not, the first 0.0 at row 1"),
        ([1.5, 1.0], "found 1 that are not, the first 1.5 at row 0"),
        ([0.1, 0.2, math.nan], "found 1 that are not, the first nan at row 2"),
    ],
)
@pytest.mark.parametrize("clip", [None, 0.5])
def test_what_is_no_propensity_is_refused_clipped_or_not(
    propensities: list[float], message: str, clip: float | None
) -> None:
    with pytest.raises(cp.DataError, match=message):
        weights_of(np.array(propensities), clip=clip)


@pytest.mark.parametrize("clip", [0, -0.1, 1.01, math.nan])
def test_a_clip_that_is_no_propensity_is_refused(clip: float) -> None:
    with pytest.raises(cp.ConfigError, match=f"at most 1; found {clip}"):
        weights_of(np.ones(2), clip=clip)


@given(ROWS, st.booleans())
def test_values_equal_their_plain_twins(rows: Rows, normalise: bool) -> None:
    users, hits, gains, propensities = map(list, zip(*rows, strict=True))
    weights = weights_of(np.array(propensities))
    values = {("hit", 5): hits, ("ndcg", 10): gains}
    found = estimated(values, weights, users, normalise=normalise)
    assert list(found) == [("hit", 5), ("ndcg", 10)]
    total = sum(1 / q for q in propensities)
    ess = total**2 / sum(1 / q**2 for q in propensities)
    for key, each in values.items():
        weighted = sum(value / q for value, q in zip(each, propensities, strict=True))
        value = weighted / total if normalise else weighted / len(rows)
        assert found[key].value == pytest.approx(value, rel=1e-12)
        assert found[key].ess == pytest.approx(ess)
        assert found[key].top_share == pytest.approx(1 / min(propensities) / total)
        assert (found[key].n, found[key].normalised) == (len(rows), normalise)


@given(ROWS, st.booleans())
def test_intervals_are_of_resampled_users(rows: Rows, normalise: bool) -> None:
    users, hits, gains, propensities = (np.array(column) for column in zip(*rows, strict=True))
    weights = 1 / propensities
    values = {("hit", 5): hits.tolist(), ("ndcg", 10): gains.tolist()}
    found = estimated(values, weights, users.tolist(), normalise=normalise, seed=3)
    below = weights if normalise else np.ones(len(rows))
    for key, column in {("hit", 5): hits, ("ndcg", 10): gains}.items():  # the same draws for all
        rng = np.random.default_rng(3)
        low, high = interval(bootstrap(weights * column, below, users, rng, n_resamples=200))
        np.testing.assert_allclose([found[key].low, found[key].high], [low[0], high[0]], rtol=1e-9)


def test_wider_levels_have_wider_intervals() -> None:
    values, rng = {("hit", 5): np.arange(30.0)}, np.random.default_rng
    (half,), (most,) = (
        estimates(
            values, np.ones(30), np.arange(30), rng(0), estimator="", protocol="", level=level
        )
        for level in (0.5, 0.99)
    )
    assert most.low < half.low < half.value == most.value < half.high < most.high
    assert (half.level, most.level) == (0.5, 0.99)


def test_a_handful_of_rows_that_carries_all_is_warned_of() -> None:
    weights = np.append(np.ones(999), 1e6)
    with pytest.warns(cp.CounterplayWarning, match="oracle: weights must .* about 1 of 1,000 rows"):
        found = estimated({("hit", 5): [1.0] * 1000}, weights, list(range(1000)))
    assert found["hit", 5].ess == pytest.approx(1, abs=0.01)
    assert found["hit", 5].top_share > 0.999


@pytest.mark.parametrize(
    ("n_rows", "n_weights", "n_users", "message"),
    [
        (0, 0, 0, "found 0 values and 0 weights"),
        (3, 2, 3, "found 3 values and 2 weights"),
        (3, 3, 2, r"\(3, 1\) values and \(2,\) clusters"),
    ],
)
def test_rows_weights_and_users_that_do_not_match_are_refused(
    n_rows: int, n_weights: int, n_users: int, message: str
) -> None:
    with pytest.raises(cp.DataError, match=message):
        estimated({("hit", 5): [1.0] * n_rows}, np.ones(n_weights), list(range(n_users)))


def test_values_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(cp.DataError, match="found NaN or infinity in the sums of 1 clusters"):
        estimated({("hit", 5): [1.0, math.nan, 0.0]}, np.ones(3), [0, 1, 1])


def test_an_estimate_is_written_with_the_names_that_others_read() -> None:
    found = estimated({("ndcg", 10): [0.0, 1.0, 0.5]}, np.ones(3), [0, 1, 2])["ndcg", 10].to_dict()
    promised = {"metric", "k", "estimator", "protocol", "value", "low", "high", "level", "n", "ess"}
    assert promised <= set(found)
    assert json.loads(json.dumps(found)) == found
    assert (found["metric"], found["k"], found["n"], found["level"]) == ("ndcg", 10, 3, 0.95)
    assert (found["estimator"], found["protocol"]) == ("oracle", "full")
    assert (found["value"], found["ess"]) == (0.5, 3)


EVENTS = st.lists(st.integers(0, 50), min_size=1, max_size=8)


@given(EVENTS, st.integers(0, 99), st.sampled_from([0.25, 0.5, 1.0, 2.0]), st.floats(1e-3, 1))
def test_popularity_propensities_equal_their_plain_twin(
    events: list[int], seed: int, exponent: float, floor: float
) -> None:
    items = np.random.default_rng(seed).integers(0, len(events), 6)
    found = popularity_propensities(items, np.array(events), exponent=exponent, floor=floor)
    expected = [max(floor, (events[item] / max(1, *events)) ** exponent) for item in items.tolist()]
    assert found.tolist() == pytest.approx(expected, rel=1e-12)
    assert weights_of(found).max() <= 1 / floor


def test_one_user_has_no_interval_and_json_says_so() -> None:
    (found,) = estimated({("hit", 5): [1.0, 0.0]}, np.ones(2), [0, 0]).values()
    assert found.to_dict()["low"] is None
    assert found.to_dict()["value"] == 0.5


@pytest.mark.parametrize(("exponent", "floor"), [(-1.0, 0.1), (1.0, 0.0), (1.0, 2.0)])
def test_popularity_that_gives_no_propensities_is_refused(exponent: float, floor: float) -> None:
    with pytest.raises(cp.ConfigError, match="a floor above 0 and at most 1"):
        cp.metrics.popularity_propensities(
            np.array([0]), np.array([3, 0]), exponent=exponent, floor=floor
        )


def test_an_estimate_shows_itself() -> None:
    whole = Estimate("ndcg", 10, "robust", "full", 0.5, 0.25, 0.75, 0.95, 1000, 310.4, 0.1, True)
    assert repr(whole) == (
        "<Estimate ndcg@10 0.5000 [0.2500, 0.7500] at 95%, robust, full; 1,000 rows, effective 310>"
    )
    bare = Estimate("rmse", 0, "<i>", "full", 0.5, math.nan, math.nan, 0.95, 1, 1, 1, True)
    assert repr(bare).startswith("<Estimate rmse 0.5000 without an interval, <i>")
    assert "<i>" not in bare._repr_html_()
    assert whole.to_polars().row(0, named=True) == whole.to_dict()
