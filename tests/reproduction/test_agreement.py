from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import counterplay as cp
from reproduction.agreement import estimator_scores, mean_over_repetitions

NOTHING = {"value": None, "low": None, "high": None, "n": 0}
Line = tuple[float, ...]
values = st.integers(0, 4).map(float)  # few of them: ties, and zeros


def test_one_repetition_has_no_interval_and_equal_estimates_no_order() -> None:
    found = estimator_scores(np.ones((1, 3)), np.array([[1.0, 2.0, 3.0]]))
    assert found["bias"] == {"value": -1.0, "low": None, "high": None, "n": 1}
    assert found["rank_correlation"] == NOTHING


@given(
    st.integers(1, 4).flatmap(
        lambda n: st.lists(st.tuples(*[st.tuples(*[values] * n)] * 3), min_size=1, max_size=4)
    ),
    st.booleans(),
)
def test_errors_order_and_winner_by_brute_force(
    repetitions: list[tuple[Line, Line, Line]], smaller: bool
) -> None:
    names = ("squared_error", "bias", "rank_correlation", "win_rate", "regret", "share")
    expected: dict[str, list[float]] = {name: [] for name in names}
    for estimate, measured, truth in repetitions:
        n = len(estimate)
        differences = [one - other for one, other in zip(estimate, measured, strict=True)]
        expected["squared_error"].append(sum(one**2 for one in differences) / n)
        expected["bias"].append(sum(differences) / n)
        pick = truth[estimate.index(min(estimate) if smaller else max(estimate))]
        best = min(truth) if smaller else max(truth)
        expected["win_rate"].append(all(pick <= one if smaller else pick >= one for one in truth))
        expected["regret"].append(pick - best if smaller else best - pick)
        if best:
            expected["share"].append(abs(pick / best - 1))
        ranks = []
        for column in (estimate, measured):
            mid = [
                sum(other < one for other in column) + sum(other == one for other in column) / 2
                for one in column
            ]
            ranks.append(np.array(mid) - np.mean(mid))
        scale = np.sqrt((ranks[0] ** 2).sum() * (ranks[1] ** 2).sum())
        if scale > 0:
            expected["rank_correlation"].append((ranks[0] * ranks[1]).sum() / scale)
    tables = [np.array([each[place] for each in repetitions]) for place in range(3)]
    found = estimator_scores(*tables, smaller_is_better=smaller)
    as_share = estimator_scores(*tables, smaller_is_better=smaller, regret_as_share=True)
    assert as_share | {"regret": found["regret"]} == found
    for name, numbers in expected.items():
        score = as_share["regret"] if name == "share" else found[name]
        assert score["n"] == len(numbers)
        if numbers:
            assert score["value"] == pytest.approx(np.mean(numbers), abs=1e-12)
    first, second, _ = tables
    assert estimator_scores(first, second) == estimator_scores(first, second, second)


def test_the_interval_of_a_win_rate_stays_in_its_range() -> None:
    estimated = np.tile([1.0, 2.0], (5, 1))
    found = estimator_scores(estimated, estimated)["win_rate"]
    # Wilson's: where all n win, from n / (n + z²) up, with z = 1.96 at 95%.
    assert found == {"value": 1.0, "low": pytest.approx(5 / (5 + 1.959964**2)), "high": 1.0, "n": 5}
    turned = estimator_scores(estimated, estimated[:, ::-1])["win_rate"]
    assert (turned["value"], turned["low"]) == (0.0, 0.0)
    assert turned["high"] == pytest.approx(1 - found["low"])


def test_tables_must_fit() -> None:
    full, short = np.ones((2, 3)), np.ones((2, 2))
    for tables in ((full, short), (full, full, short), (full[0], full[0]), (full[:0], full[:0])):
        with pytest.raises(cp.DataError, match="repetitions × candidates; found the shapes"):
            estimator_scores(*tables)


def test_no_repetition_has_no_mean() -> None:
    assert mean_over_repetitions([]) == NOTHING


@pytest.mark.parametrize("level", [0.5, 0.99])
def test_the_interval_of_a_mean_covers_as_often_as_it_says(level: float) -> None:
    """4,000 means of 5 normal numbers around 3: |z| < 4, one false alarm in 16,000."""
    covered, n = 0, 4000
    for numbers in np.random.default_rng(0).normal(3.0, 2.0, (n, 5)):
        found = mean_over_repetitions(numbers, level)
        covered += found["low"] <= 3 <= found["high"]
    assert abs(covered - n * level) < 4 * np.sqrt(n * level * (1 - level))
