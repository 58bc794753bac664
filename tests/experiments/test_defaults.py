from __future__ import annotations

from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import counterplay as cp
from counterplay.data import splits
from counterplay.data.splits import PARTS
from counterplay.experiments.config import Protocol, ValidationSettings
from counterplay.experiments.defaults import least_unseen, n_unseen, training_for, validation_for
from counterplay.learning.config import Training


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
    how = cp.Evaluation(protocol="sampled", n_negatives=30, metrics=("ndcg", "hit"), k=(5, 10))
    found = ValidationSettings(**validation_for(how))
    assert found == ValidationSettings(protocol="sampled", n_negatives=30, metric="ndcg", k=5)
    assert ValidationSettings(**validation_for(cp.Evaluation())) == ValidationSettings()


@pytest.mark.parametrize("protocol", ["full", "sampled"])
def test_a_cutoff_that_no_row_can_miss_is_refused(protocol: Protocol) -> None:
    among = {"full": 12, "sampled": 8}[protocol]
    ValidationSettings(protocol=protocol, k=among - 1, n_negatives=7).check(12)
    for k in (among, among + 5):
        with pytest.raises(cp.ConfigError, match=rf"ranked among, {among}, .*; found {k}; lower"):
            ValidationSettings(protocol=protocol, k=k, n_negatives=7).check(12)


def test_the_log_is_sorted_once_however_often_it_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    count = Mock(side_effect=splits._distinct_up_to)
    monkeypatch.setattr(splits, "_distinct_up_to", count)
    split = split_of(log_of(200), 0)
    for part in (0, 1, 2, 0):
        n_unseen(split, part)
        least_unseen(split, part)
    assert count.call_count == 1
