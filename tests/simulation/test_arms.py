from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from counterplay.metrics.intervals import bootstrap
from counterplay.simulation.arms import Change, Measure, OnlineResult, change, measured, ratios
from counterplay.simulation.online import OnlineTest
from counterplay.simulation.sequential import always_valid

Z = 3.3  # two-sided false-alarm rate 0.001


def test_ratios_equal_a_loop_over_users_and_the_bootstrap() -> None:
    rng = np.random.default_rng(5)
    bottom = rng.integers(0, 9, 600)
    top, arm = rng.binomial(bottom, 0.3), rng.integers(0, 2, 600)
    found, variance = ratios(top, bottom, arm, 2)
    for number in range(2):
        own = [(t, b) for t, b, a in zip(top, bottom, arm, strict=True) if a == number and b]
        above, below = sum(t for t, _ in own), sum(b for _, b in own)
        squares = sum((t - above / below * b) ** 2 for t, b in own)
        assert found[number] == pytest.approx(above / below)
        assert variance[number] == pytest.approx(
            len(own) / (len(own) - 1) * squares / float(below) ** 2
        )
        mine = arm == number
        resamples = bootstrap(
            top[mine].astype(float), bottom[mine].astype(float), np.flatnonzero(mine), rng
        )
        # 1000 resamples know a deviation to 1 / √2000 of itself.
        ratio = float(resamples.std()) / variance[number] ** 0.5
        assert abs(ratio - 1) < Z / 2000**0.5


def test_an_arm_without_data_has_no_ratio() -> None:
    found, variance = ratios(np.array([1, 0]), np.array([2, 0]), np.array([0, 1]), 3)
    assert found[0] == 0.5
    assert np.isnan(found[1:]).all()
    assert np.isnan(variance).all()  # one user says nothing of the spread


@given(st.integers(0, 999), st.floats(0.3, 1), st.floats(0.5, 0.99))
def test_measures_equal_a_loop_over_clicks(seed: int, examination: float, level: float) -> None:
    rng = np.random.default_rng(seed)
    n, length, n_arms = 12, 4, 2
    clicks, places = rng.integers(0, 3, (n, length)), rng.integers(1, 20, n)
    wanted, arm = rng.random(n) + 0.1, np.arange(n) % n_arms
    found = measured(
        clicks, places, wanted, arm, n_arms, k=(1, 3), examination=examination, level=level
    )
    for number, measures in enumerate(found):
        assert set(measures) == {("ctr", 4), ("hit", 1), ("hit", 3), ("ndcg", 1), ("ndcg", 3)}
        for (metric, k), measure in measures.items():
            worth = np.zeros(n)
            for user in range(n):
                for place in range(1, k + 1):
                    fair = clicks[user, place - 1] / examination ** (place - 1)
                    worth[user] += {
                        "ctr": clicks[user, place - 1],
                        "hit": fair,
                        "ndcg": fair / np.log2(1 + place),
                    }[metric]
            value, variance = ratios(worth, places if metric == "ctr" else wanted, arm, n_arms)
            assert measure.value == pytest.approx(value[number])
            assert measure.n == 6
            assert measure.variance / measure.n == pytest.approx(variance[number])
            half = norm.ppf((1 + level) / 2) * variance[number] ** 0.5
            assert (measure.low, measure.high) == pytest.approx(
                (value[number] - half, value[number] + half)
            )


@given(
    st.floats(-1, 1), st.floats(-1, 1), st.floats(1e-4, 1), st.integers(2, 999), st.floats(0.5, 0.9)
)
def test_a_change_follows_the_z_test(
    one: float, other: float, variance: float, n: int, level: float
) -> None:
    treated, control = Measure(one, 0, 0, n, variance), Measure(other, 0, 0, 2 * n, 3 * variance)
    found = change(treated, control, level)
    error = (variance / n + 3 * variance / (2 * n)) ** 0.5
    assert found.value == one - other
    assert found.n == 3 * n
    assert found.p_value == pytest.approx(2 * norm.sf(abs(one - other) / error))
    assert found.high - found.low == pytest.approx(2 * norm.ppf((1 + level) / 2) * error)
    assert (found.p_value < 1 - level) == (not found.low <= 0 <= found.high)


def test_a_change_without_spread_is_certain() -> None:
    sure, other = Measure(1.0, 1.0, 1.0, 9, 0.0), Measure(0.5, 0.5, 0.5, 9, 0.0)
    assert change(sure, other, 0.95) == Change(0.5, 0.5, 0.5, 18, 0.0)
    assert change(sure, sure, 0.95) == Change(0.0, 0.0, 0.0, 18, 1.0)


def small_result(config: OnlineTest, second: str = "b") -> OnlineResult:
    measure = Measure(0.25, 0.125, 0.375, 2, 0.5)
    return OnlineResult(
        "small",
        config,
        ("a", second),
        np.arange(4),
        np.array([0, 1, 1, 1]),
        np.array([5, 1, 2, 3]),
        np.array([50, 10, 20, 30]),
        np.zeros((4, 10), dtype=np.int32),
        np.ones(4),
        {name: {("ctr", 10): measure, ("hit", 5): measure} for name in ("a", second)},
        {second: {("ctr", 10): Change(0.0, -0.5, 0.5, 4, 1.0)}},
        {second: always_valid(np.array([np.nan, 0.5]), np.array([np.nan, 0.01]), scale=0.1)},
    )


def test_the_record_is_plain_json() -> None:
    config = OnlineTest(n_days=2, k=(5,))
    result = small_result(config)
    record = result.to_dict()
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert record["world"] == "small"
    assert record["control"] == "a"
    assert record["config"] == config.model_dump(mode="json")
    found = {"value": 0.25, "low": 0.125, "high": 0.375, "n": 2, "variance": 0.5, "level": 0.95}
    assert record["arms"] == [
        {
            "arm": arm,
            "n_users": n_users,
            "n_sessions": n_sessions,
            "measures": [{"metric": "ctr", "k": 10} | found, {"metric": "hit", "k": 5} | found],
        }
        for arm, n_users, n_sessions in (("a", 1, 5), ("b", 3, 6))
    ]
    assert record["changes"] == [
        {"arm": "b", "metric": "ctr", "k": 10, "value": 0.0, "low": -0.5, "high": 0.5, "n": 4,
         "p_value": 1.0, "level": 0.95}
    ]  # fmt: skip
    first, second = record["daily"]
    assert first == {
        "arm": "b", "day": 1, "difference": None, "low": None, "high": None, "p_value": 1.0,
        "level": 0.95,
    }  # fmt: skip
    assert second["day"] == 2
    assert second["low"] < second["difference"] == 0.5 < second["high"]


def test_a_result_shows_itself_and_becomes_a_frame() -> None:
    result = small_result(OnlineTest(n_days=2, k=(5,)), "<b>")
    assert repr(result) == "<OnlineResult of 'a', '<b>' in 'small': 2 days, 4 users, 11 sessions>"
    assert "<b>" not in result._repr_html_()
    frame = result.to_polars()
    assert frame["arm"].to_list() == ["a", "a", "<b>", "<b>"]
    assert frame["n_sessions"].to_list() == [5, 5, 6, 6]
    assert frame["metric"].to_list() == ["ctr", "hit"] * 2
    assert frame["difference_low"].to_list() == [None, None, -0.5, None]
    assert frame["p_value"].to_list() == [None, None, 1.0, None]
    assert result.to_pandas()["value"].tolist() == [0.25] * 4
