from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from counterplay.models.scorer import History, Scorer
from counterplay.models.table import ScoreTable

from . import test_contract as contract

Query = tuple[Tensor, Tensor, History]


def whole_table() -> ScoreTable:
    pairs = np.arange(12 * 9)
    return ScoreTable(12, 9, pairs, np.sin(pairs).astype(np.float32))


@pytest.mark.parametrize(
    "rule",
    [
        contract.test_logits_have_the_shape_of_the_items,
        contract.test_a_batch_equals_one_by_one,
        contract.test_scoring_all_items_equals_scoring_each,
        contract.test_a_copy_and_a_loaded_state_score_the_same,
    ],
)
def test_with_all_pairs_it_does_what_every_model_must(
    rule: Callable[[Scorer, Query], None], query: Query
) -> None:
    rule(whole_table(), query)


@given(st.dictionaries(st.integers(0, 34), st.floats(-9, 9, width=32), min_size=1))
def test_what_is_given_is_looked_up_and_what_is_not_is_minus_infinity(
    scores: dict[int, float],
) -> None:
    pairs = np.array(sorted(scores), dtype=np.int64)
    logits = np.array([scores[pair] for pair in pairs.tolist()], dtype=np.float32)
    table = ScoreTable(5, 7, pairs, logits)
    expected = [[scores.get(user * 7 + item, -np.inf) for item in range(7)] for user in range(5)]
    assert table.score_all(torch.arange(5)).tolist() == expected
    backwards = torch.arange(6, -1, -1, dtype=torch.int32).expand(5, -1)
    assert table(torch.arange(5, dtype=torch.int32), backwards).tolist() == [
        row[::-1] for row in expected
    ]


def test_pairs_beyond_32_bits_are_told_apart() -> None:
    users, items = 70_000, 70_000
    pairs = np.array([5, 65_536 * 65_536 + 5, users * items - 1])
    table = ScoreTable(users, items, pairs, np.array([1, 2, 3], dtype=np.float32))
    wanted = torch.tensor([0, pairs[1] // items, users - 1], dtype=torch.int32)
    places = torch.tensor([[5], [pairs[1] % items], [items - 1]], dtype=torch.int32)
    assert table(wanted, places)[:, 0].tolist() == [1, 2, 3]


def test_it_has_nothing_to_learn_and_follows_its_state() -> None:
    table = whole_table()
    assert list(table.parameters()) == []
    assert set(table.state_dict()) == {"pairs", "logits"}


def test_an_unknown_item_is_a_pair_that_is_not_given() -> None:
    table = whole_table()
    assert table(torch.tensor([1]), torch.tensor([[-1]])).tolist() == [[-np.inf]]
