"""T is the maximum of its likelihood, is centred, and never meets the rows that it serves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import counterplay as cp
from counterplay.metrics import click_model
from counterplay.metrics.click_model import ClickModel, conditional_logit, fit_click_model
from counterplay.metrics.item_sums import (
    Personal,
    all_ranks,
    candidate_ranks,
    group_sums,
    item_sums,
    rank_features,
)
from counterplay.metrics.ranks import MEMORY, full_ranks, hide, sampled_candidates

from .conftest import Case, MatrixScores, cases, log_of, memory_for

N_USERS, N_ITEMS = 30, 40
LAMBDAS = (0.0, 0.2, 0.4, -0.3)


def world(seed: int = 0) -> tuple[cp.Interactions, cp.Interactions, list[MatrixScores]]:
    """Return training rows, held-out rows that follow taste, and two candidates that know of it."""
    rng = np.random.default_rng(seed)
    taste = rng.normal(size=(N_USERS, 3)) @ rng.normal(size=(3, N_ITEMS))
    click = rng.random((N_USERS, N_ITEMS)) < 0.5 / (1 + np.exp(1.5 - taste - np.arange(40) / 20))
    held = click & (rng.random(click.shape) < 0.3)
    train, rows = (
        log_of(map(tuple, np.argwhere(each).tolist()), N_USERS, N_ITEMS)  # type: ignore[arg-type]
        for each in (click & ~held, held)
    )
    candidates = [
        MatrixScores(taste + rng.normal(size=taste.shape)),
        MatrixScores(np.round(taste + 2 * rng.normal(size=taste.shape))),
    ]
    return train, rows, candidates


def fitted(**options: Any) -> tuple[ClickModel, cp.Interactions, list[MatrixScores]]:
    train, rows, candidates = world()
    how: dict[str, Any] = {"seen": train, "lambdas": LAMBDAS, "n_negatives": 8} | options
    rng = np.random.default_rng(1)
    model = fit_click_model(rows, candidates, train=train, rng=rng, **how)
    return model, train, candidates


def log_likelihood(
    features: NDArray[np.float64], w: NDArray[np.float64], ridge: NDArray[np.float64]
) -> float:
    total = 0.0
    for row in features:
        scores = [float(choice @ w) for choice in row]
        total += scores[0] - np.log(sum(np.exp(score) for score in scores))
    return float(total - sum(r * each**2 for r, each in zip(ridge, w, strict=True)) / 2)


@pytest.mark.parametrize("ridge", [0.0, 5.0])
def test_the_gradient_vanishes_where_the_likelihood_is_greatest(ridge: float) -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(60, 6, 3))
    features[:, 0] += 0.7
    penalties = np.array([0.0, ridge, ridge])
    found = conditional_logit(features, penalties)
    step = 1e-5
    for axis in np.eye(3):
        ahead, behind = (
            log_likelihood(features, found + sign * step * axis, penalties) for sign in (1, -1)
        )
        assert abs(ahead - behind) / (2 * step) < 1e-5
        assert log_likelihood(features, found, penalties) > max(
            log_likelihood(features, found + sign * 0.05 * axis, penalties) for sign in (1, -1)
        )
    assert found[0] > 0.3  # the choice that was made has the greater features


def test_ridge_shrinks_and_what_cannot_be_told_apart_stays_finite() -> None:
    rng = np.random.default_rng(1)
    features = rng.normal(size=(50, 4, 2))
    features[:, 0, 1] += 1
    features[:, :, 0] = 3.0  # all items are equally popular: no coefficient is likelier
    free, held = (conditional_logit(features, np.array([0.0, ridge])) for ridge in (0.0, 5.0))
    assert 0 < held[1] < free[1]
    assert np.isfinite(free).all()


@given(cases())
def test_ranks_of_all_items_are_those_of_the_targets(case: Case) -> None:
    seen, targets = case.log(case.seen), case.log(case.targets)
    users = np.arange(seen.n_users)
    hidden = hide(MatrixScores(case.matrix).of_all(users), users, seen)
    ranks = all_ranks(hidden)
    wanted = full_ranks(MatrixScores(case.matrix), targets, seen).expected
    unseen = ~np.isin(targets.pair, seen.pair)
    found = ranks[targets.user, targets.item]
    np.testing.assert_array_equal(found[unseen], wanted[unseen])


def raw(
    w: NDArray[np.float64], candidates: list[MatrixScores], seen: cp.Interactions
) -> NDArray[np.float64]:
    """Return w · x of every pair, NaN for what was seen, in loops."""
    found = np.zeros((seen.n_users, seen.n_items))
    known = set(seen.pair.tolist())
    for user in range(seen.n_users):
        open_items = [
            item for item in range(seen.n_items) if user * seen.n_items + item not in known
        ]
        for item in range(seen.n_items):
            if item not in open_items:
                found[user, item] = np.nan
                continue
            for weight, each in zip(w, candidates, strict=True):
                score, row = each.matrix[user, item], each.matrix[user]
                above = sum(bool(row[other] > score) for other in open_items)
                tied = sum(bool(row[other] == score) for other in open_items) - 1
                rank = 1 + above + tied / 2
                found[user, item] += weight * (-np.log(rank + 5) + np.log(seen.n_items / 2))
    return found


def test_tastes_are_centred_and_shifts_are_the_sums_over_users() -> None:
    model, seen, candidates = fitted()
    w = model.coefficients[0, 1:]
    table = raw(w, candidates, seen)
    clicks = np.bincount(seen.user, minlength=N_USERS)
    for item in range(N_ITEMS):
        users = np.flatnonzero(~np.isnan(table[:, item]))
        ranks = candidate_ranks(
            candidates, log_of([(int(user), item) for user in users], N_USERS, N_ITEMS), seen
        )
        found = model.at(users, np.full(len(users), item), ranks)
        share = clicks[users] / clicks[users].sum()
        centre = np.log(sum(share * np.exp(table[users, item])))
        taste = table[users, item] - centre
        np.testing.assert_allclose(found.taste, taste, atol=1e-5)
        assert share @ np.exp(found.taste) == pytest.approx(1)
        for lam in LAMBDAS:
            shift = np.log(sum(share * np.exp((1 - lam) * taste)))
            np.testing.assert_allclose(found.shift(lam), shift, atol=1e-5)
        events = np.count_nonzero(seen.item == item)
        np.testing.assert_allclose(found.popularity, np.log(events + 1))
        np.testing.assert_allclose(
            found.log_propensities(0.3, 0.4) - found.shift(0.4),
            0.3 * found.popularity + 0.4 * taste,
            atol=1e-5,
        )


@given(st.floats(-0.5, 1.5), st.sampled_from(LAMBDAS))
def test_demand_of_an_item_depends_on_the_share_of_popularity_alone(
    gamma: float, lam: float
) -> None:
    model, seen, candidates = MODEL
    clicks = np.bincount(seen.user, minlength=N_USERS)
    pairs = np.setdiff1d(np.arange(N_USERS * N_ITEMS), seen.pair)
    users, items = np.divmod(pairs, N_ITEMS)
    ranks = candidate_ranks(
        list(candidates), log_of(list(zip(users, items, strict=True)), N_USERS, N_ITEMS), seen
    )
    rows = model.at(users, items, ranks)
    wanted = rows.popularity + rows.taste - rows.log_propensities(gamma, lam)
    total = np.bincount(items, clicks[users] * np.exp(wanted), minlength=N_ITEMS)
    demand = total / np.bincount(items, clicks[users], minlength=N_ITEMS)
    np.testing.assert_allclose(demand, np.exp((1 - gamma) * model.log_events), rtol=1e-9)


def test_a_sample_of_users_is_near_all_of_them_within_its_stated_error() -> None:
    rng = np.random.default_rng(5)
    n_users, n_items = 3_000, 12
    seen = log_of(
        [(user, int(rng.integers(n_items))) for user in range(n_users) for _ in range(user % 3)],
        n_users,
        n_items,
    )
    candidates = [MatrixScores(rng.normal(size=(n_users, n_items)))]
    w = np.array([1.2])
    every = item_sums(w, candidates, seen, LAMBDAS, rng)
    assert every.n_users == n_users * 2 // 3  # who has no clicks has no share
    assert not every.errors.any()
    off, stated = [], []
    for seed in range(40):
        few = item_sums(w, candidates, seen, LAMBDAS, np.random.default_rng(seed), summed=400 * 12)
        assert few.n_users < 400
        assert not few.errors[0].any()  # at λ = 0 nothing of the sums is in q
        off.append((few.logs - few.logs[0]) - (every.logs - every.logs[0]))
        stated.append(few.errors)
    for place in range(1, len(LAMBDAS)):
        true = np.sqrt(np.square(off)[:, place].mean(axis=0))
        np.testing.assert_allclose(true, np.mean(stated, axis=0)[place], rtol=0.4)


def test_blocks_of_users_change_nothing() -> None:
    train, _, candidates = world()
    w, rng = np.array([0.8, 0.3]), np.random.default_rng(0)
    whole = item_sums(w, candidates, train, LAMBDAS, rng)
    parts = item_sums(w, candidates, train, LAMBDAS, rng, memory=memory_for(4, N_ITEMS))
    np.testing.assert_allclose(whole.logs, parts.logs, rtol=1e-12)
    assert len(set(candidates[0].asked)) > 1


def test_groups_of_users_add_up_as_one_user_after_the_other() -> None:
    train, _, candidates = world()
    w, shares = np.array([0.8, 0.3]), np.array([0.0, 0.4])
    users = np.flatnonzero(np.bincount(train.user))[:11]
    weights, cuts = 1 + np.arange(11) % 3, [0, 4, 8, 11]
    personal = Personal(w, candidates, train)
    groups = list(
        group_sums(w, candidates, users, weights, shares, train, cuts, memory=1 << 20, at_once=4)
    )
    assert len(groups) == 3
    for found, begin, end in zip(groups, cuts, cuts[1:], strict=False):
        expected = np.zeros((7, N_ITEMS))
        for user, weight in zip(users[begin:end], weights[begin:end], strict=True):
            x = personal.of_all(np.array([user]))[0]
            unseen = ~np.isin(np.arange(N_ITEMS), train.item[train.user == user])
            terms = [np.exp((1 - share) * x) for share in shares]
            rows = [*terms, *(each**2 for each in terms), *(each * np.exp(x) for each in terms)]
            expected += weight * unseen * np.stack([*rows, np.ones(N_ITEMS)])
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_a_fit_is_the_same_again_and_finds_who_knows_taste() -> None:
    (one, _, _), (other, _, _) = fitted(), fitted()
    np.testing.assert_array_equal(one.coefficients, other.coefficients)
    assert one.coefficients[0, 1] > one.coefficients[0, 2]
    assert one.coefficients[0, 1] > 0.1
    assert one.n_left_out == 0


def test_each_user_is_served_by_a_fit_without_their_rows() -> None:
    train, rows, candidates = world()
    model, _, _ = fitted(n_folds=3)
    rng = np.random.default_rng(1)
    features, users, _ = click_model._choices(rows, candidates, train, rng, 8, MEMORY)
    ridge = np.array([0.0, 5.0, 5.0])
    fold = model.fold[users]
    assert set(fold.tolist()) == {0, 1, 2}
    for each in range(3):
        wanted = conditional_logit(features[fold != each], ridge)
        np.testing.assert_array_equal(model.coefficients[each], wanted)
    found = model.at(rows.user, rows.item, candidate_ranks(candidates, rows, train))
    for row in range(0, len(rows), 7):
        mine = model.fold[rows.user[row]]
        w = model.coefficients[mine, 1:]
        sums = item_sums(w, candidates, train, LAMBDAS, rng)
        item = rows.item[row]
        taste = raw(w, candidates, train)[rows.user[row], item] - sums.logs[0, item]
        assert found.taste[row] == pytest.approx(taste, abs=1e-5)
        np.testing.assert_allclose(found.shifts[:, row], sums.shifts[:, item], rtol=1e-12)


def test_random_items_are_unseen_and_the_rows_of_a_fit_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    train, rows, _ = world()
    asked: list[tuple[cp.Interactions, NDArray[np.int32]]] = []

    def noted(*given: Any) -> NDArray[np.int32]:
        asked.append((given[1], sampled_candidates(*given)))
        return asked[-1][1]

    monkeypatch.setattr(click_model, "sampled_candidates", noted)
    monkeypatch.setattr(click_model, "_FITTED", (20, 30))
    monkeypatch.setattr(click_model, "_COMPARED", 10**9)
    model, _, _ = fitted()
    clicks, items = asked[0]
    assert 20 <= model.n_rows == len(clicks) <= 30 < len(rows)
    known = set(train.pair.tolist()) | set(rows.pair.tolist())
    drawn = clicks.user[:, None] * N_ITEMS + items
    np.testing.assert_array_equal(items[:, 0], clicks.item)
    assert not known & set(drawn[:, 1:].ravel().tolist())


def test_without_personalised_candidates_nothing_is_personal() -> None:
    train, rows, _ = world()
    model = fit_click_model(
        rows, [], train=train, seen=train, lambdas=LAMBDAS, rng=np.random.default_rng(0)
    )
    found = model.at(rows.user, rows.item, np.empty((len(rows), 0)))
    assert not found.taste.any()
    assert not found.shifts.any()


def test_what_is_missing_is_said() -> None:
    model, seen, candidates = fitted()
    users, items = np.array([0]), np.array([1])
    with pytest.raises(cp.DataError, match="2 in all"):
        model.at(users, items, np.ones((1, 3)))
    found = model.at(users, items, np.ones((1, 2)))
    with pytest.raises(cp.ConfigError, match=r"λ 0\.7"):
        found.shift(0.7)
    with pytest.raises(cp.DataError, match="unseen"):
        fitted(n_negatives=N_ITEMS)
    train, rows, _ = world()
    with pytest.raises(cp.DataError, match="folds"):
        fit_click_model(
            rows.take(rows.user == rows.user[0]), candidates, train=train, seen=seen,
            lambdas=(0.0,), rng=np.random.default_rng(0), n_folds=2, n_negatives=4,
        )  # fmt: skip


def test_features_fall_with_the_rank() -> None:
    np.testing.assert_allclose(rank_features(np.array([1.0, 5.0]), 20), np.log([10 / 6, 1.0]))


MODEL = fitted()
