from __future__ import annotations

from collections import Counter
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import counterplay as cp
from counterplay.learning.batches import Batches, PairBatches


def random_log(seed: int, *, ratings: bool = False) -> cp.Interactions:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(5, 60))
    rows = {
        "user": rng.integers(0, 6, n),
        "item": rng.integers(0, 15, n),
        "time": rng.integers(0, 9, n),
    }
    rows["user"][:2], rows["item"][:2] = (0, 1), (0, 1)
    return cp.read(rows | ({"rating": rng.integers(1, 6, n)} if ratings else {}))


def batches_of(
    log: cp.Interactions, *, batch_size: int, n_negatives: int, history_length: int = 0
) -> Batches:
    reader = cp.Scorer(log.n_users, log.n_items, history_length=history_length)
    return Batches(
        log, cp.learning.Training(batch_size=batch_size, n_negatives=n_negatives), reader
    )


@given(st.integers(0, 200), st.integers(1, 20), st.sampled_from([0, 1, 3, 7]))
def test_every_row_is_observed_once_an_epoch_with_unseen_negatives(
    seed: int, batch_size: int, history_length: int
) -> None:
    log = random_log(seed)
    batches = batches_of(log, batch_size=batch_size, n_negatives=3, history_length=history_length)
    seen = set(zip(log.user.tolist(), log.item.tolist(), strict=True))
    found: Counter[tuple[int, int]] = Counter()
    for batch in batches.epoch(cp.Streams(seed), 0):
        assert batch.observed[:, 0].all()
        assert not batch.observed[:, 1:].any()
        for user, items in zip(batch.users.tolist(), batch.items.tolist(), strict=True):
            found[user, items[0]] += 1
            assert not {(user, item) for item in items[1:]} & seen
    assert found == Counter(zip(log.user.tolist(), log.item.tolist(), strict=True))


@given(st.integers(0, 200), st.integers(1, 8))
def test_a_query_sees_what_came_before_and_nothing_else(seed: int, length: int) -> None:
    log = random_log(seed)
    histories = [log.item[log.user == user].tolist() for user in range(log.n_users)]
    for batch in batches_of(log, batch_size=16, n_negatives=1, history_length=length).epoch(
        cp.Streams(0), 0
    ):
        assert batch.history is not None
        windows = batch.history.padded(log.n_items).tolist()
        places = batch.history.place.tolist()
        for user, items, window, place in zip(
            batch.users.tolist(), batch.items.tolist(), windows, places, strict=True
        ):
            before = [item for item in window[: place + 1] if item != log.n_items]
            ways = [
                histories[user][max(0, end - len(before)) : end]
                for end in range(len(histories[user]))
                if histories[user][end] == items[0]
            ]
            assert before in ways


def test_ratings_come_with_the_observed_item_only() -> None:
    log = random_log(5, ratings=True)
    (batch,) = batches_of(log, batch_size=999, n_negatives=2).epoch(cp.Streams(0), 0)
    assert batch.scored.shape == (len(log), 1)
    assert batch.items.shape == (len(log), 3)
    assert float(batch.link_outcomes.mean()) == pytest.approx(0, abs=1e-5)
    assert sorted(batch.outcomes[:, 0].tolist()) == sorted(
        log.rating.tolist() if log.rating is not None else []
    )


@given(st.integers(0, 50), st.integers(1, 7), st.integers(1, 9))
def test_long_logs_are_drawn_in_chunks_of_blocks(seed: int, size: int, block: int) -> None:
    """Every row once an epoch, in batches of one size but for the last."""
    log = random_log(seed)
    with (
        mock.patch("counterplay.learning.batches._CHUNK", 8),
        mock.patch("counterplay.learning.batches._BLOCK", block),
        mock.patch("counterplay.learning.batches._LEAST_USERS", 0),
    ):
        epochs = [
            list(batches_of(log, batch_size=size, n_negatives=1).epoch(cp.Streams(seed), epoch))
            for epoch in range(2)
        ]
    pairs = Counter(zip(log.user.tolist(), log.item.tolist(), strict=True))
    for batches in epochs:
        assert {len(batch.users) for batch in batches[:-1]} <= {size}
        users = torch.cat([batch.users for batch in batches]).tolist()
        items = torch.cat([batch.items[:, 0] for batch in batches]).tolist()
        assert Counter(zip(users, items, strict=True)) == pairs


@pytest.mark.parametrize(
    ("batch_size", "least", "together"),
    [(10, 10, True), (50, 10, False), (10, 11, False)],
    ids=["few rows, many users", "more rows than batches", "too few users in a chunk"],
)
def test_a_chunk_has_few_users_where_that_does_no_harm(
    batch_size: int, least: int, together: bool
) -> None:
    """Forty users with ten rows each, in chunks of a hundred rows."""
    log = cp.read({"user": np.repeat(np.arange(40), 10), "item": np.tile(np.arange(10), 40)})
    with (
        mock.patch("counterplay.learning.batches._CHUNK", 100),
        mock.patch("counterplay.learning.batches._BLOCK", 20),
        mock.patch("counterplay.learning.batches._LEAST_USERS", least),
    ):
        batches = batches_of(log, batch_size=batch_size, n_negatives=0)
        epochs = [
            [frozenset(log.user[rows].tolist()) for rows in batches._chunks(rng)]
            for rng in map(np.random.default_rng, range(2))
        ]
        first, second = (
            [batch.users.tolist() for batch in batches.epoch(cp.Streams(0), epoch)]
            for epoch in range(2)
        )
    assert first != second
    assert set(epochs[0]) != set(epochs[1])
    for users in epochs[0]:
        assert len(users) == 10 if together else len(users) > 20


def some_pairs(
    seed: int, *, batch_size: int = 8, n_negatives: int = 3, share: float = 0.3
) -> tuple[PairBatches, set[tuple[int, int]], set[tuple[int, int]]]:
    """Return batches of random pairs, and which of the pairs were observed and which not."""
    rng = np.random.default_rng(seed)
    pairs = rng.permutation(70)[: int(rng.integers(2, 70))]
    user, item, observed = pairs // 10, pairs % 10, rng.random(len(pairs)) < share
    observed[0] = True
    batches = PairBatches(user, item, observed, batch_size=batch_size, n_negatives=n_negatives)
    named = list(zip(user.tolist(), item.tolist(), strict=True))
    positive = {pair for pair, was in zip(named, observed, strict=True) if was}
    return batches, positive, set(named) - positive


def drawn(batches: PairBatches, epoch: int = 0, seed: int = 0) -> list[tuple[int, int, int]]:
    return [
        (int(user), int(item), int(observed))
        for batch in batches.epoch(cp.Streams(seed), epoch)
        for user, item, observed in zip(
            batch.users, batch.items[:, 0], batch.observed[:, 0], strict=True
        )
    ]


@given(st.integers(0, 200), st.integers(1, 20), st.integers(0, 4))
def test_pairs_all_observed_ones_come_once_and_others_only_from_the_unobserved(
    seed: int, batch_size: int, n_negatives: int
) -> None:
    batches, positive, others = some_pairs(seed, batch_size=batch_size, n_negatives=n_negatives)
    found = drawn(batches)
    assert Counter(row[:2] for row in found if row[2]) == Counter(positive)
    negatives = [row[:2] for row in found if not row[2]]
    assert set(negatives) <= others
    assert len(negatives) == (n_negatives * len(positive) if others else 0)


def test_pairs_come_in_batches_of_one_item_a_query_without_ratings() -> None:
    batches, positive, _ = some_pairs(1, batch_size=8)
    epoch = list(batches.epoch(cp.Streams(0), 0))
    assert [len(batch.users) for batch in epoch[:-1]] == [8] * (len(epoch) - 1)
    assert sum(len(batch.users) for batch in epoch) == 4 * len(positive)
    for batch in epoch:
        assert batch.items.shape == batch.observed.shape == (len(batch.users), 1)
        assert (batch.ratings, batch.standard_ratings, batch.history) == (None, None, None)
        assert batch.scored is batch.items
        assert batch.outcomes is batch.link_outcomes is batch.observed


def test_pairs_of_two_epochs_differ_and_repeat_by_their_number() -> None:
    batches = some_pairs(1)[0]
    first, again, later, other = (
        drawn(batches, epoch, seed) for epoch, seed in ((0, 1), (0, 1), (1, 1), (0, 2))
    )
    assert first == again
    negatives = [Counter(row for row in rows if not row[2]) for rows in (first, later, other)]
    assert negatives[0] != negatives[1]  # drawn anew, not merely put in another order
    assert negatives[0] != negatives[2]
    assert [row for row in first if row[2]] != [row for row in later if row[2]]


@given(st.lists(st.integers(0, 200), min_size=1, max_size=4))
def test_common_pairs_are_those_of_every_table(seeds: list[int]) -> None:
    several = [some_pairs(seed, share=0.5) for seed in seeds]
    found = drawn(PairBatches.common([each[0] for each in several]))
    known = set.intersection(*(positive | others for _, positive, others in several))
    positive, others = (each & known for each in several[0][1:])  # the first says what was observed
    assert Counter(row[:2] for row in found if row[2]) == Counter(positive)
    assert {row[:2] for row in found if not row[2]} <= others
    common = PairBatches.common([each[0] for each in several])
    assert common.has_both == bool(positive and others)


@pytest.mark.parametrize("history_length", [0, 3])
def test_negatives_are_drawn_anew_each_epoch(history_length: int) -> None:
    """All rows are one batch: whatever their order, they have other negatives in the next epoch."""
    log = cp.read({"user": np.arange(60) % 6, "item": np.arange(60)})
    batches = batches_of(log, batch_size=99, n_negatives=5, history_length=history_length)
    drawn = []
    for epoch in (0, 0, 1):
        (batch,) = batches.epoch(cp.Streams(0), epoch)
        rows = zip(batch.users.tolist(), batch.items.tolist(), strict=True)
        drawn.append(sorted((user, *items) for user, items in rows))
    assert drawn[0] == drawn[1] != drawn[2]
    assert [row[:2] for row in drawn[0]] == [row[:2] for row in drawn[2]]
