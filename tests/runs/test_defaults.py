from __future__ import annotations

from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import counterplay as cp
from counterplay.data import splits
from counterplay.data.splits import PARTS, TEST, TRAIN, VALIDATION
from counterplay.learning.config import Training
from counterplay.metrics.ranks import full_ranks
from counterplay.metrics.scoring import TableScores
from counterplay.runs.config import ValidationSettings
from counterplay.runs.defaults import (
    batch_size_for,
    cutoffs_for,
    least_unseen,
    n_ranked,
    ranked_among,
    training_for,
    validation_for,
)


def log_of(n_rows: int, n_users: int = 50, n_items: int = 400, seed: int = 0) -> cp.Interactions:
    rng = np.random.default_rng(seed)
    return cp.read(
        {"user": rng.integers(0, n_users, n_rows), "item": rng.integers(0, n_items, n_rows)}
    )


def split_of(log: cp.Interactions, seed: int) -> cp.Split:
    part = np.random.default_rng(seed).integers(0, len(PARTS), len(log)).astype(np.int8)
    return cp.Split(log, part, "any")


def test_an_epoch_has_steps_to_learn_from_and_batches_have_an_end() -> None:
    short, middle, long = (training_for(log_of(n), seed=3) for n in (200, 50_000, 400_000))
    assert [each["batch_size"] for each in (short, middle, long)] == [256, 50_000 // 32, 8192]
    assert short["l2"] > middle["l2"] > long["l2"] > 0
    assert Training(**short).seed == 3
    assert training_for(log_of(200), seed=0, epochs=2, patience=1)["epochs"] == 2


@given(st.integers(1, 50_000_000), st.integers(1, 1_000_000))
def test_batches_grow_with_the_log_and_leave_an_epoch_its_steps(n: int, more: int) -> None:
    size = batch_size_for(n)
    assert 256 <= size <= batch_size_for(n + more) <= 32768
    assert size <= max(256, n // 32)
    assert size <= 8192 or n // size >= 512
    assert size == 32768 or n / size < 513 or size == 8192


@given(st.integers(0, 1000), st.integers(2, 8), st.integers(2, 12), st.integers(0, 2))
def test_the_least_unseen_is_that_of_a_loop(
    seed: int, n_users: int, n_items: int, part: int
) -> None:
    split = split_of(log_of(40, n_users, n_items, seed), seed)
    log = split.interactions
    unseen = [log.n_items]
    for user in np.unique(log.user[split.part == part]):
        known = set(log.item[(log.user == user) & (split.part <= part)].tolist())
        unseen.append(log.n_items - len(known))
    assert least_unseen(split, part) == min(unseen)


def test_validation_selects_as_the_evaluation_decides() -> None:
    how = cp.evaluation.Evaluation(
        protocol="sampled", n_negatives=30, metrics=("ndcg", "hit"), k=(5, 10)
    )
    found = ValidationSettings(**validation_for(how))
    assert found == ValidationSettings(protocol="sampled", n_negatives=30, metric="ndcg", k=5)
    assert ValidationSettings(**validation_for(cp.evaluation.Evaluation())) == ValidationSettings()


@given(st.integers(0, 1000), st.integers(2, 8), st.integers(2, 12), st.integers(1, 2))
def test_what_rows_are_ranked_among_is_what_a_model_ranks(
    seed: int, n_users: int, n_items: int, part: int
) -> None:
    """With equal scores, all that a row is ranked among is tied with it."""
    split = split_of(log_of(40, n_users, n_items, seed), seed)
    log = split.interactions
    seen, targets = log.take(split.part < part), log.take(split.part == part)
    none = np.empty(0, np.int32)
    nothing = TableScores(none, none, np.empty(0), log.n_items)
    ranks = full_ranks(nothing, targets, seen)
    repeated = np.isin(targets.pair, seen.pair)
    found = n_ranked(split, part)
    np.testing.assert_array_equal(ranks.tied + 1, found + repeated)
    among = ranked_among(split, part)
    if len(found):
        assert np.mean(found <= among) >= 0.5 >= np.mean(found < among)
    else:
        assert among == log.n_items


def test_a_list_that_would_hold_all_is_halved() -> None:
    """Of ten items, users leave 3, 3, 5 and 9 to validation rows, one less to test rows."""
    known = (7, 7, 5, 1)
    rows = [(user, item) for user, n in enumerate(known) for item in range(n + 2)]
    part = [part for n in known for part in [TRAIN] * n + [VALIDATION, TEST]]
    user, item = zip(*rows, (4, 9), strict=True)  # the last item is in training too
    log = cp.read({"user": list(user), "item": list(item)}, order="file")
    split = cp.Split(log, np.array([*part, TRAIN], np.int8), "any")
    assert sorted(n_ranked(split, VALIDATION)) == [3, 3, 5, 9]
    assert (ranked_among(split, VALIDATION), ranked_among(split, TEST)) == (3, 2)
    assert cutoffs_for(split, (1,)) == (1,)
    assert cutoffs_for(split, (1, 2)) == cutoffs_for(split, (10,)) == (1,)


def test_the_log_is_sorted_once_however_often_it_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    count = Mock(side_effect=splits._distinct_up_to)
    monkeypatch.setattr(splits, "_distinct_up_to", count)
    split = split_of(log_of(200), 0)
    for part in (0, 1, 2, 0):
        n_ranked(split, max(part, 1))
        least_unseen(split, part)
    assert count.call_count == 1
