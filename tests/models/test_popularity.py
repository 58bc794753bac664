from __future__ import annotations

import numpy as np
import pytest
import torch

import counterplay as cp
from counterplay.models.popularity import Popularity

from .conftest import item_level


def test_items_rank_by_their_events() -> None:
    model = Popularity(2, 3, np.array([5, 0, 9]))
    assert model.score_all(torch.tensor([0, 1])).argsort(1).tolist() == [[1, 0, 2]] * 2


@pytest.mark.parametrize("exponent", [0.0, 0.5, 2.0])
def test_the_exponent_tempers(exponent: float) -> None:
    logits = Popularity(1, 2, np.array([3, 0]), exponent=exponent).score_all(torch.tensor([0]))[0]
    assert float(logits[0] - logits[1]) == pytest.approx(exponent * np.log(4))


def test_an_unknown_item_is_one_that_never_occurred() -> None:
    model = Popularity(1, 2, np.array([3, 0]))
    known, unknown = model(torch.tensor([0]), torch.tensor([[1, -1]]))[0]
    assert float(known) == pytest.approx(float(unknown))


def test_counts_must_cover_the_items() -> None:
    with pytest.raises(cp.ConfigError, match="all 3 items; found 2 counts"):
        Popularity(1, 3, np.array([1, 2]))


def test_a_logit_is_the_items_and_a_constant_whoever_asks() -> None:
    model = item_level()
    users, items = torch.tensor([0, 11]), torch.tensor([[0, 4, -1], [8, 4, 4]])
    expected = [[-1, 0, -1], [1, 0, 0]]
    assert model(users, items).tolist() == expected
    assert model(users.flip(0), items).tolist() == expected
    assert model(users.int(), items.int()).tolist() == expected  # as batches have them
    assert model.score_all(users).tolist() == [[each / 4 - 1 for each in range(9)]] * 2


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
