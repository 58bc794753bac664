"""Models of impressions find the exposure and the relevance that made them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import expit

import counterplay as cp
from counterplay.data.interactions import Interactions
from counterplay.metrics.calibration import logistic_regression
from counterplay.metrics.item_sums import candidate_ranks, rank_features
from counterplay.metrics.scoring import TableScores
from counterplay.metrics.shown_model import (
    N_FOLDS,
    RelevanceModel,
    fit_relevance_model,
    fit_shown_model,
)

N_USERS, N_ITEMS = 300, 60


class Small:
    """A world whose exposure and relevance have the models' own form."""

    def __init__(self, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        everything = cp.read(
            {"user": np.repeat(np.arange(N_USERS), 2), "item": np.arange(2 * N_USERS) % N_ITEMS}
        )
        self.seen = everything.take(np.arange(len(everything)) % 2 == 0)  # one item a user
        user, item = (each.ravel() for each in np.indices((N_USERS, N_ITEMS)))
        self.scores = TableScores(user, item, rng.normal(size=len(user)), N_ITEMS)
        pairs = Interactions(
            everything.users, everything.items, user.astype(np.int32), item.astype(np.int32)
        )
        self.features = rank_features(candidate_ranks([self.scores], pairs, self.seen), N_ITEMS)
        appeal = rng.normal(size=N_ITEMS)
        self.log_q = appeal[item] + 0.8 * self.features[:, 0] - 3.5
        self.relevance = expit(0.5 * appeal[item] + self.features[:, 0] - 1.0)
        hidden = np.isin(pairs.pair, self.seen.pair)

        def drawn(times: int) -> Interactions:
            counts = rng.poisson(times * np.exp(self.log_q)) * ~hidden
            rows = np.repeat(np.arange(len(user)), counts)
            clicked = rng.random(len(rows)) < self.relevance[rows]
            kept = pairs.take(rows)
            return Interactions(kept.users, kept.items, kept.user, kept.item, clicked=clicked)

        self.rows, self.earlier = drawn(2), drawn(10)


@pytest.fixture(scope="module")
def small() -> Small:
    return Small()


def test_propensities_come_back_and_refits_spread_around_them(small: Small) -> None:
    rng = np.random.default_rng(1)
    model = fit_shown_model(
        small.rows, [small.scores], earlier=small.earlier, seen=small.seen, rng=rng
    )
    assert model.coefficients.shape == (11, N_FOLDS, 2)
    fitted, again = model.coefficients[0], model.coefficients[1:]
    assert np.abs(fitted[:, 1] - 0.8).max() < 0.1  # about three standard errors
    assert 0.005 < again[:, :, 1].std(axis=0).max() < 0.1
    rows = small.rows
    ranks = candidate_ranks([small.scores], rows, small.seen)
    found = model.log_propensities(rows.user, rows.item, ranks)[0] - model.log_users[rows.user]
    true = small.log_q[rows.user * N_ITEMS + rows.item]
    assert np.corrcoef(found, true)[0, 1] > 0.98
    slope = np.polyfit(true, found, 1)[0]
    assert slope == pytest.approx(1, abs=0.1)
    busy = np.bincount(rows.user, minlength=N_USERS)
    assert np.array_equal(np.exp(model.log_users).round(), busy + 1)


def test_a_user_is_served_by_a_fit_without_that_user(small: Small) -> None:
    rng = np.random.default_rng(1)
    model = fit_shown_model(
        small.rows, [small.scores], earlier=small.earlier, seen=small.seen, rng=rng, n_refits=0
    )
    assert set(model.fold.tolist()) == {0, 1}
    assert not np.array_equal(*model.coefficients[0])
    one = small.rows.user[0]
    ranks = np.array([[7.0]])
    found = model.log_propensities(np.array([one]), np.array([3]), ranks)[0]
    own = model.coefficients[0, model.fold[one]]
    features = np.array([model.log_items[3], rank_features(ranks, N_ITEMS)[0, 0]])
    assert found == pytest.approx(model.log_users[one] + own @ features)


def test_relevance_comes_back_from_clicks_among_impressions(small: Small) -> None:
    model = fit_relevance_model(
        small.rows, [small.scores], earlier=small.earlier, seen=small.seen,
        rng=np.random.default_rng(2),
    )  # fmt: skip
    users = np.arange(N_USERS)
    found, true = model.of_all(users), small.relevance.reshape(N_USERS, N_ITEMS)
    there = np.ones(true.shape, dtype=bool)
    there[small.seen.user, small.seen.item] = False
    assert abs(found[there].mean() - true[there].mean()) < 0.03
    assert np.corrcoef(found[there], true[there])[0, 1] > 0.9
    items = np.array([[5, 9], [0, 3]])
    table = model.table(users[10:50], memory=1)
    some = np.array([12, 40])
    np.testing.assert_allclose(table.of(some, items), model.of(some, items), rtol=1e-6)
    np.testing.assert_allclose(table.of_all(users[20:22]), found[20:22], rtol=1e-6)
    assert isinstance(model, RelevanceModel)


def test_what_items_are_known_by_is_counted_by_hand(small: Small) -> None:
    options: dict[str, Any] = {"earlier": small.earlier, "seen": small.seen}
    relevance = fit_relevance_model(small.rows, [], rng=np.random.default_rng(2), **options)
    shown = fit_shown_model(small.rows, [], rng=np.random.default_rng(2), n_refits=0, **options)
    earlier = small.earlier
    assert earlier.clicked is not None
    mean = earlier.clicked.mean()
    for item in range(N_ITEMS):
        mine = earlier.item == item
        rate = (earlier.clicked[mine].sum() + 5 * mean) / (mine.sum() + 5)
        assert relevance.appeal[item] == pytest.approx(np.log(rate / (1 - rate)))
        assert shown.log_items[item] == pytest.approx(np.log(mine.sum() + 1))
    never = np.setdiff1d(np.arange(N_ITEMS), earlier.item)
    fewer = earlier.take(earlier.item != 0)
    again = fit_relevance_model(
        small.rows, [], rng=np.random.default_rng(2), earlier=fewer, seen=small.seen
    )
    assert fewer.clicked is not None
    rate = fewer.clicked.mean()  # what was never shown is as good as the mean
    assert again.appeal[[0, *never]] == pytest.approx(np.log(rate / (1 - rate)))


def test_clicks_of_impressions_that_are_all_clicked_are_believed(small: Small) -> None:
    rows, seen = small.rows, small.seen
    everything = Interactions(
        rows.users, rows.items, rows.user, rows.item, clicked=np.ones(len(rows), bool)
    )
    rng = np.random.default_rng(0)
    model = fit_relevance_model(everything, [], earlier=everything, seen=seen, rng=rng)
    assert model.of_all(np.arange(5)).min() > 0.99


def test_too_few_users_are_refused(small: Small) -> None:
    alone = small.rows.take(small.rows.user == small.rows.user[0])
    with pytest.raises(cp.DataError, match="needs 2 users or more"):
        fit_shown_model(
            alone, [], earlier=small.earlier, seen=small.seen, rng=np.random.default_rng(0)
        )


def test_logistic_regression_is_where_the_gradient_vanishes() -> None:
    rng = np.random.default_rng(3)
    design, ridge = rng.normal(size=(200, 3)), np.array([0.1, 1.0, 5.0])
    outcomes = rng.random(200) < expit(design @ [1.0, -0.5, 0.2])
    found = logistic_regression(design, outcomes, ridge)
    gradient = design.T @ (outcomes - expit(design @ found)) - ridge * found
    np.testing.assert_allclose(gradient, 0, atol=1e-8)


def test_a_fold_has_coefficients_without_its_own_rows(small: Small) -> None:
    def fitted(rows: Interactions) -> tuple[np.ndarray, np.ndarray]:
        options: dict[str, Any] = {"earlier": small.earlier, "seen": small.seen}
        shown = fit_shown_model(
            rows, [small.scores], rng=np.random.default_rng(1), n_refits=0, **options
        )
        clicked = fit_relevance_model(rows, [small.scores], rng=np.random.default_rng(1), **options)
        assert np.array_equal(shown.fold, clicked.fold)
        return shown.coefficients[0], clicked.coefficients

    rows = small.rows
    assert rows.clicked is not None
    model = fit_shown_model(
        rows, [small.scores], earlier=small.earlier, seen=small.seen,
        rng=np.random.default_rng(1), n_refits=0,
    )  # fmt: skip
    own = model.fold[rows.user] == 0
    item = np.where(own, (rows.item * 7 + 3) % N_ITEMS, rows.item).astype(np.int32)
    clicked = np.where(own, ~rows.clicked, rows.clicked)
    other = Interactions(rows.users, rows.items, rows.user, item, clicked=clicked)
    for one, another in zip(fitted(rows), fitted(other), strict=True):
        np.testing.assert_allclose(one[0], another[0])  # who is served by it changed nothing
        assert np.abs(one[1] - another[1]).max() > 0.05
