from __future__ import annotations

from functools import partial
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import counterplay as cp
from counterplay.metrics import ranks
from counterplay.simulation import values
from counterplay.simulation.policies import Scored
from counterplay.simulation.values import demand, gains, true_values
from counterplay.simulation.world import World

from . import makers

FORMULAS = {
    "hit": lambda rank: rank**0,
    "ndcg": lambda rank: 1 / np.log2(1 + rank),
    "dcg": lambda rank: 1 / np.log2(1 + rank),
    "mrr": lambda rank: 1 / rank,
}


factors = partial(makers.factors, drift=0.7)


def world(seed: int, n_users: int, n_items: int, **given: Any) -> World:
    policy = Scored(np.full(n_items, 0.5), np.ones(n_users))
    return World(factors(seed, n_users, n_items), policy, **given)


def seen_by(seed: int, n_users: int, n_items: int, share: float = 0.3) -> cp.Interactions:
    """Return a log that leaves every user something unseen."""
    rng = np.random.default_rng(seed)
    is_seen = rng.random((n_users, n_items)) < share
    is_seen[np.arange(n_users), rng.integers(n_items, size=n_users)] = False
    user, item = np.nonzero(is_seen)
    users, items = (cp.data.Vocabulary.of(np.arange(n)) for n in (n_users, n_items))
    return cp.Interactions(users, items, user.astype(np.int32), item.astype(np.int32))


def by_hand(
    place: World, found: NDArray[np.float64], seen: cp.Interactions, users: NDArray[Any],
    metric: str, k: int, time: float,
) -> float:  # fmt: skip
    """Return Σ r · m(rank) / Σ r over all unseen pairs, one by one."""
    relevance, total, value = place.relevance(np.arange(place.n_users), time=time), 0.0, 0.0
    for row, user in enumerate(users.tolist()):
        unseen = sorted(set(range(place.n_items)) - set(seen.item[seen.user == user].tolist()))
        ranked = sorted(unseen, key=lambda item, row=row: (-found[row, item], item))  # type: ignore[misc]
        for rank, item in enumerate(ranked, 1):
            total += relevance[user, item]
            if rank <= k:
                value += relevance[user, item] * (
                    1 / k if metric == "ctr" else FORMULAS[metric](rank)
                )
    return value / (len(users) if metric == "ctr" else total)


@given(
    st.integers(0, 999), st.integers(1, 5), st.integers(1, 7), st.sampled_from([0.0, 1.0]),
    st.sampled_from([0.0, 2.0]), st.booleans(),
)  # fmt: skip
def test_values_equal_the_sum_over_all_pairs(
    seed: int, n_users: int, n_items: int, noise: float, time: float, some: bool
) -> None:
    rng = np.random.default_rng(seed)
    place = world(seed, n_users, n_items, noise=noise)
    seen, scores = seen_by(seed, n_users, n_items), factors(seed + 1, n_users, n_items)
    users = np.flatnonzero(rng.random(n_users) < 0.5) if some else np.arange(n_users)
    if not len(users):
        users = np.array([n_users - 1])
    found = true_values(
        place, scores, seen, metrics=tuple(FORMULAS), k=(1, 3, 10),
        users=users if some else None, time=time,
    )  # fmt: skip
    assert set(found) == {(metric, k) for metric in (*FORMULAS, "ctr") for k in (1, 3, 10)}
    for (metric, k), value in found.items():
        expected = by_hand(place, scores.of_all(users), seen, users, metric, k, time)
        assert value == pytest.approx(expected, rel=1e-9)


@given(st.integers(0, 999))
def test_demand_is_the_relevance_of_what_is_unseen(seed: int) -> None:
    place, seen = world(seed, 5, 6, noise=0.5), seen_by(seed, 5, 6)
    users = np.array([4, 0, 2])
    relevance = place.relevance(np.arange(5), time=1.0)
    relevance[seen.user, seen.item] = 0
    found = demand(place, users, seen, time=1.0)
    np.testing.assert_allclose(found, relevance[users].sum(1), rtol=1e-12)


class Ordered:
    """Ranks the items of everybody alike."""

    def __init__(self, scores: NDArray[np.number] | tuple[int, ...]) -> None:
        self.scores = np.array(scores, dtype=float)

    def of(self, users: NDArray[np.integer], items: NDArray[np.integer]) -> NDArray[np.floating]:
        return np.take_along_axis(self.of_all(users), items, axis=1)

    def of_all(self, users: NDArray[np.integer]) -> NDArray[np.floating]:
        return np.tile(self.scores, (len(users), 1))


def test_a_known_demand_need_not_be_found_again() -> None:
    place, seen, scores = world(0, 4, 8), seen_by(0, 4, 8), factors(1, 4, 8)
    users = np.array([1, 3])
    known = demand(place, users, seen)
    fresh = true_values(place, scores, seen, users=users)
    assert true_values(place, scores, seen, users=users, total=known) == fresh
    halved = true_values(place, scores, seen, users=users, total=2 * known)
    assert halved["hit", 10] == pytest.approx(fresh["hit", 10] / 2)


@settings(max_examples=12)
@given(st.integers(0, 99), st.integers(1, 5), st.integers(1, 3))
def test_ties_are_worth_the_mean_over_all_orders(seed: int, n_items: int, n_scores: int) -> None:
    place, seen = world(seed, 3, n_items, noise=0.5), seen_by(seed, 3, n_items)
    metrics, k = tuple(FORMULAS), (1, 2, 10)
    level = np.random.default_rng(seed).integers(n_scores, size=n_items)
    found = true_values(place, Ordered(level), seen, metrics=metrics, k=k)
    orders = [
        np.lexsort((np.array(order), level)).argsort() for order in permutations(range(n_items))
    ]  # each order of the ties as often as any other
    all_values = [true_values(place, Ordered(one), seen, metrics=metrics, k=k) for one in orders]
    for name, value in found.items():
        assert value == pytest.approx(np.mean([each[name] for each in all_values]), rel=1e-9)


@pytest.mark.parametrize("metric", FORMULAS)
def test_gains_follow_their_formulas_down_to_the_cutoff(metric: str) -> None:
    expected = [FORMULAS[metric](place) if place <= 3 else 0.0 for place in range(1, 6)]
    np.testing.assert_allclose(gains(metric, 3, 5), expected, rtol=1e-15)


def test_an_unknown_metric_is_an_error() -> None:
    with pytest.raises(cp.ConfigError, match="found 'auc'; choose one of them"):
        gains("auc", 3, 5)


@pytest.mark.parametrize("at_once", [1, 7, 20])
def test_values_do_not_depend_on_how_many_users_are_worked_on_at_a_time(
    monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    place, seen, scores = world(0, 30, 7, noise=1.0), seen_by(0, 30, 7), factors(1, 30, 7)
    users = np.random.default_rng(2).permutation(30)[:23]
    expected = true_values(place, scores, seen, k=(1, 5), users=users)
    for module in (values, ranks):
        monkeypatch.setattr(module, "_AT_ONCE", at_once)
    monkeypatch.setattr(ranks, "_ROWS", (1, 1 << 10))
    found = true_values(place, scores, seen, k=(1, 5), users=users)
    assert found == pytest.approx(expected, rel=1e-13)


def test_a_few_relevances_are_asked_for_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    class Counting(World):
        most = 0

        def relevance(self, *args: Any, **options: Any) -> NDArray[np.float64]:
            found = super().relevance(*args, **options)
            Counting.most = max(Counting.most, found.size)
            return found

    for module in (values, ranks):
        monkeypatch.setattr(module, "_AT_ONCE", 50)
    monkeypatch.setattr(ranks, "_ROWS", (1, 1 << 10))
    good = world(0, 200, 9)
    place = Counting(good.taste, good.policy)
    true_values(place, factors(1, 200, 9), seen_by(0, 200, 9), k=(5,))
    true_values(place, Ordered(np.zeros(9)), seen_by(0, 200, 9), k=(5,))
    assert 0 < Counting.most <= 50


@pytest.mark.parametrize("shape", [(1,), (3,), (4, 1), ()])
def test_a_demand_of_other_users_is_an_error(shape: tuple[int, ...]) -> None:
    """One number would be broadcast, and the value of four users divided by it."""
    place, seen, scores = world(0, 4, 8), seen_by(0, 4, 8), factors(1, 4, 8)
    with pytest.raises(cp.DataError, match="demand must be known of all 4 users; found"):
        true_values(place, scores, seen, total=np.ones(shape))
