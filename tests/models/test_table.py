from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

import counterplay as cp
from counterplay.models.table import Calibrated, ScoreTable

from .conftest import whole_table


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


def test_an_unknown_item_is_a_pair_that_is_not_given() -> None:
    table = whole_table()
    assert table(torch.tensor([1]), torch.tensor([[-1]])).tolist() == [[-np.inf]]


def test_scores_are_on_another_scale_in_the_same_order() -> None:
    log = cp.read({"user": [0, 0, 1], "item": [0, 1, 2]})
    model = cp.models.build(
        "attn", log, dim=4, length=3, generator=torch.Generator().manual_seed(0)
    )
    calibrated = Calibrated(model.eval(), 2.0, -1.0)
    assert calibrated.history_length == model.history_length > 0
    users, items = torch.tensor([0, 1]), torch.tensor([[0, 1, 2], [2, 1, 0]])
    history = cp.models.History.of(torch.from_numpy(cp.data.Histories(log).last(users.numpy(), 3)))
    expected = 2 * model(users, items, history) - 1
    torch.testing.assert_close(calibrated(users, items, history), expected)
    torch.testing.assert_close(
        calibrated.score_all(users, history), 2 * model.score_all(users, history) - 1
    )
