from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import counterplay as cp
from counterplay.simulation.authors import Authors, Stages
from reproduction.authors import N_SAMPLED, NORMALISED, PLAIN, estimates, truths
from reproduction.definitions import CODE_DIM, METHOD_TABLES
from reproduction.jobs import Plan
from reproduction.separate import NAME as SEPARATE
from reproduction.separate import Separate, SeparatePs

N_USERS, N_ITEMS = 40, 25


class Given:
    """Scores of a table."""

    def __init__(self, table: NDArray[np.float64]) -> None:
        self.table = table

    def of(self, users: Any, items: Any) -> Any:
        return np.take_along_axis(self.table[users], items, axis=1)

    def of_all(self, users: Any) -> Any:
        return self.table[users]


@pytest.fixture(scope="module")
def stages() -> Stages:
    rng = np.random.default_rng(0)
    user, item = np.divmod(np.arange(N_USERS * N_ITEMS), N_ITEMS)
    kept = rng.random(len(user)) < 0.5
    rating = 1.0 + rng.integers(5, size=int(kept.sum()))
    log = cp.read({"user": user[kept], "item": item[kept], "rating": rating})
    return Authors(dim=3, batch_size=64, epsilon=1.0).stages(log)


def scores(ties: bool = False) -> Given:
    table = np.random.default_rng(1).random((N_USERS, N_ITEMS))
    return Given(np.round(table, 1) if ties else table)


def test_whoever_hits_always_has_the_mean_of_the_factor(stages: Stages) -> None:
    """The plain mean is no share: a perfect candidate has more or less than 1."""
    test = stages.split.test
    table = np.zeros((N_USERS, N_ITEMS))
    first = np.unique(test.user, return_index=True)[1]
    only = test.take(np.isin(np.arange(len(test)), first))
    table[only.user, only.item] = 1.0
    found = estimates(Given(table), only, stages.held_out, stages.judge)
    pairs = only.user, only.item[:, None]
    factor = (stages.judge.relevance(*pairs) / stages.judge.propensity(*pairs))[:, 0]
    # Its own item may be among the sampled ones, and then ties with itself.
    assert found[PLAIN]["hit", 10].value == pytest.approx(factor.mean(), rel=0.05)
    assert found[NORMALISED]["hit", 10].value == pytest.approx(1, rel=0.05)


def test_self_normalised_weights_are_of_the_exposure_that_drew_the_rows(stages: Stages) -> None:
    test = stages.split.test
    weights = 1 / stages.held_out.propensity(test.user, test.item[:, None])[:, 0]
    found = estimates(scores(), test, stages.held_out, stages.judge)
    ess = float(weights.sum() ** 2 / (weights @ weights) / len(weights))
    assert found[NORMALISED]["hit", 10].ess == pytest.approx(ess)
    assert found[PLAIN]["hit", 10].ess != pytest.approx(ess)
    assert 0 < found[NORMALISED]["hit", 5].value <= found[NORMALISED]["hit", 10].value < 1


@pytest.mark.parametrize("ties", [False, True])
def test_the_truth_is_what_drawing_items_comes_to(stages: Stages, ties: bool) -> None:
    given, seen = scores(ties), stages.split.train
    relevance = stages.world.relevance(np.arange(N_USERS))
    known = set(seen.pair.tolist())
    above, total = 0.0, 0.0
    for user in range(N_USERS):
        for item in range(N_ITEMS):
            if user * N_ITEMS + item in known:
                continue
            own = given.table[user]
            share = ((own > own[item]).sum() + ((own == own[item]).sum() - 1) / 2) / N_ITEMS
            above += relevance[user, item] * stats.binom.cdf(9, N_SAMPLED, share)
            total += relevance[user, item]
    assert truths(given, stages.world, seen)["hit", 10] == pytest.approx(above / total)


def test_the_authors_table_trains_as_their_code_does() -> None:
    table = next(each for each in METHOD_TABLES if each.name == "table1-authors")
    log = cp.read({"user": [1, 1, 2, 2], "item": [1, 2, 2, 3]})
    for method in table.methods(Plan()):
        config = method.run_config((), log, seed=0, epochs=100, patience=15)
        training = config.of_method()
        assert config.candidate.dim == CODE_DIM
        if method.candidate == "pop":
            continue
        assert (training.rate, training.batch_size, training.optimizer) == (0.01, 2048, "lazy")
        if method.method == "acl":
            epochs = 25 if "turns" in dict(method.fixed) else 15
            assert (training.alpha, training.warmup, training.epochs) == (0.5, 5, epochs)  # type: ignore[attr-defined]
        else:
            assert training.epochs == 10
        if method.method == "ps":
            link = training.link  # type: ignore[attr-defined]
            assert (link.floor, link.learn, link.with_outcome) == (0.1, False, False)


def test_the_exposure_model_of_ps_may_have_settings_of_its_own() -> None:
    table = next(each for each in METHOD_TABLES if each.name == "table1-selected")
    (method,) = (each for each in table.methods(Plan()) if each.printed == "ps-gmf-gmf")
    log = cp.read({"user": [1, 1, 2, 2], "item": [1, 2, 2, 3]})
    settings = (("rate", 0.05), ("exposure_rate", 0.005), ("exposure_l2", 0.1))
    config = method.run_config(settings, log, seed=0, epochs=3, patience=2)
    assert config.method == SEPARATE
    training = config.of_method()
    assert isinstance(training, Separate)
    players = config.players(log, cp.Streams(0))
    first = SeparatePs(players, log, training).first()
    assert first is not None
    batch = training.batch_size
    assert (first.config.rate, first.config.l2) == (0.005, pytest.approx(0.1 / batch))
    assert training.rate == 0.05
