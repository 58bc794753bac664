from __future__ import annotations

import pytest
import torch
from torch import Tensor

from counterplay.models.scorer import History, Scorer


class Bigram(Scorer):
    """A model of a user's own: how well an item goes with the one before."""

    def __init__(self, n_users: int, n_items: int) -> None:
        super().__init__(n_users, n_items, history_length=3)
        self.pairs = torch.nn.Parameter(torch.arange((n_items + 1.0) ** 2).view(n_items + 1, -1))

    def forward(self, users: Tensor, items: Tensor, history: History | None = None) -> Tensor:
        assert history is not None
        last = history.padded(self.n_items)[torch.arange(len(users)), history.place]
        return self.pairs[last[:, None], items]


def test_a_model_of_ones_own_needs_only_forward() -> None:
    model = Bigram(2, 3)
    history = History(torch.tensor([[0, 1, 2]]), torch.tensor([0, 0]), torch.tensor([0, 2]))
    assert model.score_all(torch.tensor([0, 1]), history).tolist() == [[0, 1, 2], [8, 9, 10]]


def test_a_query_sees_nothing_after_its_place() -> None:
    history = History(torch.tensor([[4, 5, 6]]), torch.tensor([0, 0]), torch.tensor([0, 1]))
    assert history.padded(9).tolist() == [[4, 9, 9], [4, 5, 9]]


def test_a_scorer_itself_cannot_score() -> None:
    with pytest.raises(NotImplementedError):
        Scorer(1, 2)(torch.tensor([0]), torch.tensor([[0]]))
