from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import counterplay as cp
from counterplay.metrics.imputed import doubly_robust
from counterplay.metrics.ranks import full_ranks

from .conftest import MatrixScores, items_of, log_of, memory_for

Found = tuple[dict[tuple[str, int], NDArray[np.float64]], NDArray[np.float64]]

NAMES, CUTOFFS = ("hit", "dcg", "ndcg", "mrr"), (1, 3, 20)
EXACT = 1e-6  # probabilities are float32


def value_at(name: str, rank: float, k: int) -> float:
    """The metric of one target, word for word."""
    gain = {"hit": 1.0, "mrr": 1 / rank}.get(name, 1 / math.log2(1 + rank))
    return gain if rank <= k else 0.0


@dataclass(frozen=True)
class Log:
    """A candidate, a relevance model, and exposed rows that were not seen before."""

    scores: MatrixScores
    relevance: MatrixScores
    targets: cp.Interactions
    seen: cp.Interactions
    weights: NDArray[np.float64]
    taken: NDArray[np.bool_]

    def found(self, *, memory: int = 1 << 20, k: tuple[int, ...] = CUTOFFS) -> Found:
        ranks = full_ranks(self.scores, self.targets, self.seen)
        return doubly_robust(
            self.scores,
            self.relevance,
            self.targets,
            self.taken,
            self.seen,
            ranks,
            self.weights,
            names=NAMES,
            k=k,
            memory=memory,
        )


def random_log(seed: int) -> Log:
    rng = np.random.default_rng(seed)
    n_users, n_items = int(rng.integers(1, 6)), int(rng.integers(2, 9))
    matrix = rng.integers(0, rng.integers(1, 20), (n_users, n_items))  # with many ties or few
    part = rng.integers(0, 4, (n_users, n_items))  # 0 is seen, 1 is a target
    part[rng.integers(n_users), rng.integers(n_items)] = 1
    believed = rng.choice([0.0, 0.125, 0.5, 0.75, 1.0], (n_users, n_items))
    seen, targets = (
        log_of([(int(u), int(i)) for u, i in np.argwhere(part == which)], n_users, n_items)
        for which in (0, 1)
    )
    weights, taken = rng.uniform(1, 5, len(targets)), rng.random(len(targets)) < 0.5
    return Log(MatrixScores(matrix), MatrixScores(believed), targets, seen, weights, taken)


def plain_sums(log: Log, user: int, name: str, k: int) -> tuple[float, float]:
    """Add up a user's relevant items, one after the other."""
    scores, believed = log.scores.matrix[user], log.relevance.matrix[user].tolist()
    unseen = [item for item in range(len(scores)) if item not in items_of(log.seen, user)]
    numerator = denominator = 0.0
    for item in unseen:
        above = sum(scores[other] > scores[item] for other in unseen)
        beside = sum(scores[other] == scores[item] for other in unseen)
        value = np.mean([value_at(name, above + place, k) for place in range(1, beside + 1)])
        relevant = believed[item]
        for row in np.flatnonzero((log.targets.user == user) & (log.targets.item == item)):
            relevant += log.weights[row] * (log.taken[row] - believed[item])
        numerator += value * relevant
        denominator += relevant
    return numerator, denominator


@given(st.integers(0, 9999), st.integers(1, 5))
def test_sums_equal_those_over_all_items_whatever_the_memory(seed: int, at_a_time: int) -> None:
    log = random_log(seed)
    n_items = log.seen.n_items
    numerators, denominators = log.found(memory=memory_for(at_a_time, n_items))
    users = sorted(set(log.targets.user.tolist()))
    assert set(numerators) == {(name, k) for name in NAMES for k in CUTOFFS}
    for (name, k), found in numerators.items():
        expected = [plain_sums(log, user, name, k) for user in users]
        assert found.tolist() == pytest.approx([above for above, _ in expected], rel=EXACT)
        assert denominators.tolist() == pytest.approx([below for _, below in expected], rel=EXACT)


@pytest.mark.parametrize("wrong", [-0.25, 1.5, 7.0])
def test_relevance_that_is_no_probability_is_refused(wrong: float) -> None:
    """On an item that no list and no row has, in the list, and in the row."""
    targets, seen = log_of([(0, 1)], 1, 3), log_of([], 1, 3)
    for item in range(3):
        believed = [[0.5, 0.5, 0.5]]
        believed[0][item] = wrong
        scores, taken = MatrixScores([[3, 2, 1]]), np.array([True])
        log = Log(scores, MatrixScores(believed), targets, seen, np.ones(1), taken)
        with pytest.raises(cp.DataError, match=f"between 0 and 1; found values .*{wrong:g}"):
            log.found(k=(1,))


class RelevanceWorld:
    """30 users and 12 items; item 0 is everybody's and always shown, so nobody is without a row."""

    def __init__(self, *, certain: bool) -> None:
        self.rng = np.random.default_rng(11)
        shape = 30, 12
        self.relevance = self.rng.choice([0.1, 0.3, 0.6], shape)
        if certain:  # every pair is relevant or is not, once and for all
            self.relevance = (self.rng.random(shape) < self.relevance).astype(float)
        self.propensity = self.rng.choice([0.2, 0.5, 0.9], shape)
        self.relevance[:, 0] = self.propensity[:, 0] = 1
        self.scores = MatrixScores(self.rng.random(shape))
        self.none = log_of([], *shape)
        places = np.argsort(np.argsort(-self.scores.matrix, axis=1), axis=1) + 1
        self.truth = float((self.relevance * (places <= 3)).sum())  # expected hits in the top 3

    def log(self, believed: NDArray[np.float64], assumed: NDArray[np.float64]) -> Log:
        """Draw what is shown, and of that what is taken; weigh it by the `assumed` propensities."""
        relevant, shown = self.rng.random((2, *assumed.shape)) < [self.relevance, self.propensity]
        rows = np.argwhere(shown)
        exposed = log_of([(int(user), int(item)) for user, item in rows], *assumed.shape)
        weights = 1 / assumed[exposed.user, exposed.item]
        taken = relevant[exposed.user, exposed.item]
        return Log(self.scores, MatrixScores(believed), exposed, self.none, weights, taken)

    def errors(self, believed: NDArray[np.float64], assumed: NDArray[np.float64]) -> float:
        """Return how many standard errors the mean of 120 logs is away from the truth."""
        found = [self.log(believed, assumed).found(k=(3,))[0]["hit", 3].sum() for _ in range(120)]
        return float(abs(np.mean(found) - self.truth) / (np.std(found) / math.sqrt(len(found))))


def wrong_propensities(world: RelevanceWorld) -> NDArray[np.float64]:
    return np.asarray(world.propensity[:, ::-1] ** 2)


def test_certain_relevance_that_is_known_makes_up_for_any_propensities() -> None:
    world = RelevanceWorld(certain=True)
    for assumed in (wrong_propensities(world), np.full_like(world.propensity, 0.01)):
        numerators, denominators = world.log(world.relevance, assumed).found(k=(3,))
        assert numerators["hit", 3].sum() == pytest.approx(world.truth, rel=EXACT)
        assert denominators.tolist() == pytest.approx(world.relevance.sum(axis=1), rel=EXACT)
    ignorant = np.zeros_like(world.relevance)  # then the propensities do matter
    assert world.errors(ignorant, wrong_propensities(world)) > 12


def test_true_propensities_make_up_for_wrong_beliefs() -> None:
    world = RelevanceWorld(certain=True)
    assert world.errors(world.rng.random(world.relevance.shape), world.propensity) < 5


def test_exposed_rows_that_were_seen_before_are_refused() -> None:
    both = log_of([(0, 1)], 1, 3)
    scores, taken = MatrixScores([[3, 2, 1]]), np.array([True])
    with pytest.raises(cp.DataError, match="not be among those that were seen"):
        Log(scores, MatrixScores([[0.5, 0.5, 0.5]]), both, both, np.ones(1), taken).found()


def test_users_without_exposed_rows_count_when_asked_for() -> None:
    scores, relevance = MatrixScores([[2, 1], [1, 2]]), MatrixScores([[0.5, 0.5], [0.25, 0.5]])
    exposed, seen = log_of([(0, 0)], 2, 2), log_of([], 2, 2)
    numerators, denominators = doubly_robust(
        scores,
        relevance,
        exposed,
        np.array([True]),
        seen,
        np.ones(1),
        np.array([2.0]),
        users=np.arange(2),
        names=("hit",),
        k=(1,),
    )
    assert denominators.tolist() == [1 + 2 * 0.5, 0.75]
    assert numerators["hit", 1].tolist() == [0.5 + 2 * 0.5, 0.5]
