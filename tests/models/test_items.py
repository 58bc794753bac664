from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from counterplay.models.popularity import ItemLevel
from counterplay.models.scorer import History, Scorer

from . import test_contract as contract
from .conftest import LENGTH

Query = tuple[Tensor, Tensor, History]


def item_level() -> ItemLevel:
    model = ItemLevel(12, 9)
    with torch.no_grad():
        model.bias.copy_(torch.arange(9.0)[:, None] / 4)
        model.constant.fill_(-1)
    return model


@pytest.mark.parametrize(
    "rule",
    [
        contract.test_logits_have_the_shape_of_the_items,
        contract.test_a_batch_equals_one_by_one,
        contract.test_scoring_all_items_equals_scoring_each,
        contract.test_a_copy_and_a_loaded_state_score_the_same,
        contract.test_unknown_ids_get_a_finite_score_in_scoring,
    ],
)
def test_it_does_what_every_model_must(rule: Callable[[Scorer, Query], None], query: Query) -> None:
    assert query[2].items.shape[1] == LENGTH
    rule(item_level().eval(), query)


def test_a_logit_is_the_items_and_a_constant_whoever_asks() -> None:
    model = item_level()
    users, items = torch.tensor([0, 11]), torch.tensor([[0, 4, -1], [8, 4, 4]])
    expected = [[-1, 0, -1], [1, 0, 0]]
    assert model(users, items).tolist() == expected
    assert model(users.flip(0), items).tolist() == expected
    assert model(users.int(), items.int()).tolist() == expected  # as batches have them
    assert model.score_all(users).tolist() == [[each / 4 - 1 for each in range(9)]] * 2


def test_it_starts_at_even_odds_and_takes_a_parameter_an_item() -> None:
    model = ItemLevel(12, 9)
    assert not model.score_all(torch.arange(12)).any()
    assert sum(value.numel() for value in model.parameters()) == 9 + 1
    assert model.history_length == 0


def test_what_all_items_score_may_be_changed_row_by_row() -> None:
    """Ranking hides what one user has seen; that is nobody else's, and not the model's."""
    model = item_level()
    with torch.no_grad():
        for n in (1, 3):
            found = model.score_all(torch.arange(n))
            found[0] = torch.nan
            assert not found[1:].isnan().any()
    assert not model.score_all(torch.arange(2)).isnan().any()


def test_its_gradient_is_that_of_the_items_asked_for() -> None:
    model = item_level().train()
    items = torch.tensor([[2, 2, 5], [2, -1, 7]])
    model(torch.tensor([0, 1]), items).sum().backward()
    assert model.bias.grad is not None
    assert model.constant.grad is not None
    assert model.bias.grad[:, 0].tolist() == [0, 0, 3, 0, 0, 1, 0, 1, 0]
    assert float(model.constant.grad) == 6
