"""Scores by user and item index, numpy in and numpy out, whoever computes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch

from counterplay.data.histories import Histories
from counterplay.models.scorer import History

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from counterplay.data.interactions import Interactions
    from counterplay.models.scorer import Scorer


class Scores(Protocol):
    """What evaluation asks of a candidate."""

    def of(self, users: NDArray[np.integer], items: NDArray[np.integer]) -> NDArray[np.float32]:
        """Return the scores of `items` `[B, K]` for `users` `[B]`, `[B, K]`."""

    def of_all(self, users: NDArray[np.integer]) -> NDArray[np.float32]:
        """Return the scores of all items for `users` `[B]`, `[B, n_items]`."""


class ModelScores:
    """The scores of a model.

    Args:
        model: Any scorer.
        seen: What users did before they are asked for: the histories of models that read them.
    """

    def __init__(self, model: Scorer, seen: Interactions) -> None:
        self.model = model
        self.histories = Histories(seen)
        self._device = next((value.device for value in model.parameters()), torch.device("cpu"))

    def of(self, users: NDArray[np.integer], items: NDArray[np.integer]) -> NDArray[np.float32]:
        """Return the scores of `items` `[B, K]` for `users` `[B]`, `[B, K]`."""
        with torch.no_grad():
            scores = self.model(self._tensor(users), self._tensor(items), self._history(users))
        return _numbers(scores)

    def of_all(self, users: NDArray[np.integer]) -> NDArray[np.float32]:
        """Return the scores of all items for `users` `[B]`, `[B, n_items]`."""
        with torch.no_grad():
            scores = self.model.score_all(self._tensor(users), self._history(users))
        return _numbers(scores)

    def _history(self, users: NDArray[np.integer]) -> History | None:
        length = self.model.history_length
        return History.of(self._tensor(self.histories.last(users, length))) if length else None

    def _tensor(self, values: NDArray[np.integer]) -> torch.Tensor:
        return torch.from_numpy(np.array(values)).to(self._device)


def _numbers(scores: torch.Tensor) -> NDArray[np.float32]:
    numbers: NDArray[np.float32] = scores.float().cpu().numpy()
    return numbers
