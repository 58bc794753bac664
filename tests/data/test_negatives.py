from __future__ import annotations

from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import chisquare

import counterplay as cp
from counterplay.data import interactions
from counterplay.data.canonical import begins

from .conftest import tables


def seen_items(log: cp.Interactions, user: int) -> set[int]:
    return set(log.item[log.user == user].tolist())


@given(tables(), st.sampled_from([0.0, 0.75, 2.0]), st.integers(0, 99))
def test_negatives_never_meet_the_history(frame: pl.DataFrame, exponent: float, seed: int) -> None:
    log = cp.read(frame)
    free = [user for user in range(log.n_users) if len(seen_items(log, user)) < log.n_items]
    if not free:
        return
    users = np.array(free * 3)
    drawn = cp.data.NegativeSampler(log, exponent=exponent).draw(
        users, 5, np.random.default_rng(seed)
    )
    assert drawn.shape == (len(users), 5)
    assert ((drawn >= 0) & (drawn < log.n_items)).all()
    for user, items in zip(users, drawn, strict=True):
        assert not seen_items(log, user) & set(items.tolist())


def dense_log(n_items: int, unseen: list[int]) -> cp.Interactions:
    """User 0 has seen all but a few items, user 1 a few, user 2 one item many times."""
    seen = [item for item in range(n_items) if item not in unseen]
    user = [0] * len(seen) + [1] * 3 + [2] * 20
    return cp.read({"user": user, "item": seen + unseen[:3] + [5] * 20})


def expected_shares(log: cp.Interactions, user: int, exponent: float) -> NDArray[np.float64]:
    share = (np.bincount(log.item, minlength=log.n_items) + 1.0) ** exponent
    share[list(seen_items(log, user))] = 0
    return np.asarray(share / share.sum())


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("user", [0, 1, 2])
def test_draws_have_the_stated_distribution(exponent: float, user: int) -> None:
    """A chi-square test each; with nine of them at 1e-4, one run in 1,100 would alarm falsely."""
    log = dense_log(40, unseen=[1, 7, 8, 39])
    sampler = cp.data.NegativeSampler(log, exponent=exponent)
    drawn = sampler.draw(np.full(4000, user), 10, cp.Streams(1).numpy("test", user)).ravel()
    expected = expected_shares(log, user, exponent) * len(drawn)
    possible = expected > 0
    counts = np.bincount(drawn, minlength=log.n_items)
    assert counts[~possible].sum() == 0
    assert chisquare(counts[possible], expected[possible]).pvalue > 1e-4


def test_one_unseen_item_is_always_the_one() -> None:
    log = dense_log(1000, unseen=[512, 3, 4])
    only = cp.read({"user": [0] * 999 + [1], "item": [*range(512), *range(513, 1000), 512]})
    drawn = cp.data.NegativeSampler(only).draw(
        np.zeros(50, dtype=np.int32), 4, np.random.default_rng(0)
    )
    assert (drawn == 512).all()
    few = cp.data.NegativeSampler(log, exponent=1).draw(
        np.zeros(99, int), 4, np.random.default_rng(0)
    )
    assert set(few.ravel().tolist()) == {3, 4, 512}


def test_a_user_who_has_seen_everything_is_an_error() -> None:
    log = cp.read({"user": [0, 0, 1], "item": [1, 2, 1]})
    sampler = cp.data.NegativeSampler(log)
    assert sampler.draw(np.array([1]), 2, np.random.default_rng(0)).tolist() == [[1, 1]]
    with pytest.raises(cp.DataError, match="found 1 users who have seen all 2 items"):
        sampler.draw(np.array([1, 0, 0]), 2, np.random.default_rng(0))


def test_epochs_differ_and_a_stream_repeats() -> None:
    log = dense_log(200, unseen=list(range(0, 200, 2)))
    sampler, streams = cp.data.NegativeSampler(log), cp.Streams(5)
    first, again, second = (
        sampler.draw(log.user, 4, streams.numpy("negatives", epoch)) for epoch in (0, 0, 1)
    )
    assert (first == again).all()
    assert (first != second).mean() > 0.5


def test_draws_do_not_depend_on_repeated_rows() -> None:
    once = cp.read({"user": [0, 0, 1], "item": [1, 2, 3]})
    often = cp.read({"user": [0, 0, 0, 0, 1], "item": [1, 1, 2, 2, 3]})
    rngs = (np.random.default_rng(3) for _ in range(2))
    users = np.arange(2).repeat(50)
    first, second = (
        cp.data.NegativeSampler(log).draw(users, 4, rng)
        for log, rng in zip((once, often), rngs, strict=True)
    )
    assert (first == second).all()


def test_no_users_give_no_draws(small_log: cp.Interactions) -> None:
    drawn = cp.data.NegativeSampler(small_log).draw(
        np.array([], dtype=int), 4, np.random.default_rng(0)
    )
    assert drawn.shape == (0, 4)


def test_large_exponents_are_right_or_refused() -> None:
    """Popularity like 1/rank; total variation of 40,000 draws below 0.02 is within chance."""
    counts = (400 / np.arange(1, 60)).astype(int)
    item = np.repeat(np.arange(len(counts)), counts)
    log = cp.read({"user": np.append(np.arange(len(item)) % 50 + 1, 0), "item": np.append(item, 0)})
    for exponent in (2.0, 4.0):
        sampler = cp.data.NegativeSampler(log, exponent=exponent)
        drawn = sampler.draw(np.zeros(40_000, dtype=int), 1, cp.Streams(0).numpy("large")).ravel()
        found = np.bincount(drawn, minlength=log.n_items) / len(drawn)
        assert np.abs(found - expected_shares(log, 0, exponent)).sum() / 2 < 0.02
    for exponent in (20.0, 400.0):
        with pytest.raises(cp.ConfigError, match="must leave the rarest item a chance"):
            cp.data.NegativeSampler(log, exponent=exponent)


def test_unknown_users_are_refused(small_log: cp.Interactions) -> None:
    with pytest.raises(cp.DataError, match="users that the log knows; found the index -1"):
        cp.data.NegativeSampler(small_log).draw(np.array([0, -1]), 1, np.random.default_rng(0))


@pytest.mark.parametrize("exponent", [-1.0, float("nan"), float("inf")])
def test_a_bad_exponent_is_refused(exponent: float, small_log: cp.Interactions) -> None:
    with pytest.raises(cp.ConfigError, match="exponent of popularity"):
        cp.data.NegativeSampler(small_log, exponent=exponent)


@pytest.mark.parametrize("exponent", [0.0, 0.7])
def test_a_sparse_log_shares_bits_between_pairs_and_is_exact_all_the_same(exponent: float) -> None:
    rng = np.random.default_rng(0)
    log = cp.read({"user": rng.integers(0, 50, 400), "item": rng.integers(0, 900, 400)})
    sampler = cp.data.NegativeSampler(log, exponent=exponent)
    assert not sampler._bits.exact
    drawn = sampler.draw(log.user, 200, rng)
    pairs = log.user[:, None].astype(np.int64) * log.n_items + drawn
    assert not np.isin(pairs, log.pair).any()
    assert len(np.unique(drawn)) == log.n_items


def test_a_dense_log_gives_every_pair_a_bit(small_log: cp.Interactions) -> None:
    assert cp.data.NegativeSampler(small_log)._bits.exact


def test_the_pairs_of_a_log_are_sorted_once(
    small_log: cp.Interactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = Mock(side_effect=begins)
    monkeypatch.setattr(interactions, "begins", count)
    log = replace(small_log)
    for exponent in (0.0, 0.5, 0.0):
        cp.data.NegativeSampler(log, exponent=exponent)
    assert count.call_count == 1
    assert log.distinct_pairs.tolist() == sorted(set(small_log.pair.tolist()))
    assert not log.distinct_pairs.flags.writeable
