from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import counterplay as cp
from counterplay.metrics.off_policy import (
    PolicyValue,
    RewardModel,
    item_policy,
    policy_values,
    reward_by_action,
)

LOGGING = np.array([0.5, 0.3, 0.2])  # a bandit of three arms
NEW = np.array([0.1, 0.3, 0.6])
REWARD = np.array([0.2, 0.5, 0.8])  # chances of a click
TRUTH = float(NEW @ REWARD)  # 0.65
Z = 4.0  # |z| of an unbiased estimate exceeds it once in 15,000 runs


def rng_of(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def play(n: int, rng: np.random.Generator) -> tuple[NDArray[Any], NDArray[Any]]:
    actions = rng.choice(3, size=n, p=LOGGING)
    return (rng.random(n) < REWARD[actions]).astype(float), actions


def by_name(found: list[PolicyValue]) -> dict[str, PolicyValue]:
    return {one.estimator: one for one in found}


def test_numbers_worked_by_hand() -> None:
    found = by_name(
        policy_values(
            [1.0, 0.0, 2.0],
            [0.5, 0.25, 0.5],
            [0.25, 0.5, 0.5],  # weights of 0.5, 2 and 1
            rng_of(),
            predicted=[0.5, 0.5, 1.0],
            expected=[0.6, 0.8, 1.0],
        )
    )
    assert list(found) == ["ips", "snips", "dm", "dr"]
    assert found["ips"].value == pytest.approx(2.5 / 3)
    assert found["snips"].value == pytest.approx(2.5 / 3.5)
    assert found["dm"].value == pytest.approx(0.8)
    assert found["dr"].value == pytest.approx(0.8 + (0.25 - 1.0 + 1.0) / 3)
    assert [one.ess for one in found.values()] == pytest.approx(
        [12.25 / 5.25] * 2 + [3, 12.25 / 5.25]
    )
    assert {(one.n, one.level) for one in found.values()} == {(3, 0.95)}
    assert all(one.low <= one.value <= one.high for one in found.values())


ROWS = st.lists(
    st.tuples(st.integers(-2, 2), st.floats(0.05, 1), st.floats(0.05, 1), st.integers(0, 3)),
    min_size=2,
    max_size=12,
)


@given(ROWS, st.integers(0, 9))
def test_values_equal_sums_over_rows_and_actions(
    rows: list[tuple[int, float, float, int]], seed: int
) -> None:
    rng = rng_of(seed)
    table, policy = rng.random((len(rows), 4)), rng.dirichlet(np.ones(4), len(rows))
    model = RewardModel(table, np.arange(len(rows)))
    rewards, propensities, chosen, actions = (
        np.array(column) for column in zip(*rows, strict=True)
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("counterplay.metrics.intervals.weight_warning", lambda _: None)
        found = by_name(
            policy_values(
                rewards, propensities, chosen, rng,
                predicted=model.of(actions), expected=model.under(policy), n_resamples=200,
            )
        )  # fmt: skip
    ips = snips = total = dm = dr = 0.0
    for row, (reward, propensity, chance, action) in enumerate(rows):
        weight = chance / propensity
        expected = sum(policy[row, other] * table[row, other] for other in range(4))
        ips += weight * reward / len(rows)
        snips, total = snips + weight * reward, total + weight
        dm += expected / len(rows)
        dr += (expected + weight * (reward - table[row, action])) / len(rows)
    twin = {"ips": ips, "snips": snips / total, "dm": dm, "dr": dr}
    assert {name: one.value for name, one in found.items()} == pytest.approx(twin, abs=1e-12)


def test_snips_of_a_constant_reward_is_the_constant_without_any_width() -> None:
    _, actions = play(300, rng_of())
    found = by_name(policy_values(np.ones(300), LOGGING[actions], NEW[actions], rng_of()))
    assert found["snips"].low == found["snips"].value == found["snips"].high == 1
    assert found["ips"].low < found["ips"].high


def test_repeated_rows_of_a_cluster_do_not_narrow_the_interval() -> None:
    rewards, actions = play(200, rng_of())
    once = policy_values(rewards, LOGGING[actions], NEW[actions], rng_of(1))
    many = np.repeat(np.arange(200), 5)
    again = policy_values(
        rewards[many], LOGGING[actions[many]], NEW[actions[many]], rng_of(1), clusters=many
    )
    assert [(one.low, one.high) for one in again] == [
        pytest.approx((one.low, one.high)) for one in once
    ]


def test_predictions_come_from_the_other_folds_only() -> None:
    rng = rng_of()
    n, clusters = 60, np.arange(60) // 4
    rewards, actions = rng.random(n), rng.integers(3, size=n)
    position = rng.integers(1, 3, size=n)
    model = reward_by_action(
        rewards, actions, 3, rng, position=position, clusters=clusters, prior=2, n_folds=5
    )
    fold = model.line // 3  # positions 0, of which there are none, to 2
    assert model.table.shape == (15, 3)
    assert all(len(set(fold[clusters == cluster])) == 1 for cluster in clusters)
    assert sorted(np.bincount(fold).tolist()) == [12] * 5
    for row in range(n):
        others = fold != fold[row]
        for action in range(3):
            same = others & (actions == action) & (position == position[row])
            wanted = (rewards[same].sum() + 2 * rewards[others].mean()) / (same.sum() + 2)
            assert model.table[model.line[row], action] == pytest.approx(wanted)


def test_policies_by_item_by_position_and_by_row_agree() -> None:
    actions, position = np.array([0, 2, 1, 2]), np.array([1, 2, 2, 1])
    counts = np.array([[0, 0, 0], [6, 3, 1], [1, 1, 2]])  # nothing was shown at position 0
    assert item_policy(counts, actions, position).tolist() == [0.6, 0.5, 0.25, 0.1]
    assert item_policy(counts[position], actions).tolist() == [0.6, 0.5, 0.25, 0.1]
    assert item_policy(counts[1], actions).tolist() == [0.6, 0.1, 0.3, 0.1]
    model = RewardModel(np.array([[1.0, 2.0, 3.0], [0.0, 0.0, 4.0]]), np.array([0, 0, 1, 1]))
    assert model.of(actions).tolist() == [1, 3, 0, 4]
    assert model.under(counts, position) == pytest.approx([1.5, 2.25, 2.0, 0.4])
    assert model.under(counts[position]) == pytest.approx([1.5, 2.25, 2.0, 0.4])
    assert model.under(counts[1]) == pytest.approx([1.5, 1.5, 0.4, 0.4])


GOOD: dict[str, Any] = {
    "rewards": [0.0, 1.0, 1.0],
    "propensities": [0.5, 0.5, 1.0],
    "chosen": [0.5, 0.0, 1.0],
    "predicted": [0.5, 0.5, 0.5],
    "expected": [0.5, 0.5, 0.5],
    "clusters": [0, 0, 1],
}


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("rewards", [0.0, np.nan, 1.0], "rewards must be finite; found nan in row 1"),
        ("rewards", [], r"rewards must be a column of some rows; found the shape \[0\]"),
        (
            "rewards",
            [[0.0, 1.0, 1.0]],
            r"rewards must be a column of 3 rows; found the shape \[1, 3",
        ),
        ("propensities", [0.5, 0.0, 1.0], "above 0 and at most 1; found 0.0 in row 1"),
        ("propensities", [0.5, 0.5, np.nan], "above 0 and at most 1; found nan in row 2"),
        ("propensities", [0.5, 0.5], r"propensities must be a column of 3 rows; .* \[2\]"),
        ("chosen", [1.5, 0.0, 1.0], "chosen must be probabilities of 0 to 1; found 1.5 in row 0"),
        ("chosen", [-0.5, 0.0, 1.0], "chosen must be probabilities of 0 to 1; found -0.5 in row 0"),
        ("chosen", [0.0, 0.0, 0.0], "must be able to choose a logged action; .* all 3 rows"),
        ("predicted", [0.5, np.inf, 0.5], "predicted must be finite; found inf in row 1"),
        ("expected", [0.5], "expected must be a column of 3 rows"),
        ("clusters", [0, 1], "clusters must be a column of 3 rows"),
        ("clusters", [0, 0.5, 1], "clusters must be whole numbers .*; found 0.5 in row 1"),
    ],
)
def test_columns_that_cannot_be_used_are_errors(name: str, values: Any, message: str) -> None:
    with pytest.raises(cp.DataError, match=message):
        policy_values(**{**GOOD, name: values}, rng=rng_of())


def test_half_a_model_and_impossible_options_are_errors() -> None:
    with pytest.raises(cp.ConfigError, match="both predicted and expected"):
        policy_values(**{**GOOD, "expected": None}, rng=rng_of())
    with pytest.raises(cp.ConfigError, match="2 to 3 folds"):
        reward_by_action([0, 1, 0], [0, 1, 1], 2, rng_of())
    with pytest.raises(cp.ConfigError, match="found a prior of 0 and 2 folds"):
        reward_by_action([0, 1, 0], [0, 1, 1], 2, rng_of(), prior=0, n_folds=2)


def test_actions_and_policies_that_do_not_fit_are_errors() -> None:
    with pytest.raises(cp.DataError, match=r"whole numbers of 0 to 1; found 2.0 in row 1"):
        item_policy([1, 1], [0, 2])
    with pytest.raises(cp.DataError, match=r"shape \[n_actions\].*; found \[3, 2\]"):
        item_policy(np.ones((3, 2)), [0, 1])
    with pytest.raises(cp.DataError, match="position must be whole numbers of 0 to 1; found 2"):
        item_policy(np.ones((2, 2)), [0, 1], [1, 2])
    for policy in ([0, 0], [-1, 3], [np.nan, 1], [np.inf, 1]):
        with pytest.raises(cp.DataError, match="no action less than 0, and some more"):
            item_policy(policy, [0, 1])
    model = RewardModel(np.ones((1, 2)), np.zeros(3, dtype=np.int64))
    with pytest.raises(cp.DataError, match=r"must have the shape \[2\].*; found \[3\]"):
        model.under([1, 1, 1])
    with pytest.raises(cp.DataError, match="actions must be whole numbers of 0 to 1"):
        model.of([0, 1, 2])


def test_a_handful_of_heavy_rows_is_warned_of() -> None:
    propensities = np.full(500, 0.5)
    propensities[0] = 1e-6
    with pytest.warns(cp.CounterplayWarning, match="about 1 of 500 rows"):
        policy_values(np.ones(500), propensities, np.full(500, 0.5), rng_of())
