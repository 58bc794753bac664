"""Scores by user and item index, numpy in and numpy out, whoever computes them."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch

from counterplay.data.histories import Histories
from counterplay.models.fallback import Fallback
from counterplay.models.scorer import History

if TYPE_CHECKING:
    from counterplay.data.interactions import Interactions
    from counterplay.metrics.arrays import Flags, Floats, Integers
    from counterplay.models.scorer import Scorer


class Scores(Protocol):
    """What evaluation asks of a candidate, for all items from several threads at once."""

    def of(self, users: Integers, items: Integers) -> Floats:
        """Return the scores of `items` `[B, K]` for `users` `[B]`, `[B, K]`."""

    def of_all(self, users: Integers) -> Floats:
        """Return the scores of all items, `[B, n_items]`, in memory that the caller may change."""


class ModelScores:
    """The scores of a model.

    Args:
        model: Any scorer.
        seen: What users did before they are asked for: the histories of models that read them.
        train: The rows that it was trained on; with them, users of whom it knows nothing are scored
            by popularity (see `Fallback`), and not by how it was initialised.
        taught: Users whom it knows by impressions without a click, `[n_users]`.
    """

    def __init__(
        self,
        model: Scorer,
        seen: Interactions,
        *,
        train: Interactions | None = None,
        taught: Flags | None = None,
    ) -> None:
        self.model = model.eval()
        self.histories = Histories(seen)
        self.fallback: Fallback | None = None
        if train is not None:
            self.fallback = Fallback(model, train, seen, taught=taught)
        held = chain(model.parameters(), model.buffers())
        self._device = next((value.device for value in held), torch.device("cpu"))

    def of(self, users: Integers, items: Integers) -> Floats:
        """Return the scores of `items` `[B, K]` for `users` `[B]`, `[B, K]`."""
        with torch.no_grad():
            scores = self.model(self._tensor(users), self._tensor(items), self._history(users))
        return self._filled(scores, users, items)

    def of_all(self, users: Integers) -> Floats:
        """Return the scores of all items for `users` `[B]`, `[B, n_items]`."""
        with torch.no_grad():
            scores = self.model.score_all(self._tensor(users), self._history(users))
        return self._filled(scores, users)

    def of_block(self, users: Integers, block: slice) -> Floats:
        """Return the scores of a range of items for `users` `[B]`, `[B, block]`."""
        asked, items = self._tensor(users), self._tensor(np.arange(block.start, block.stop))
        with torch.no_grad():
            one = items[:1].expand(len(users), 1)
            _, scores = self.model.beside(asked, one, items, self._history(users))
        return self._filled(scores, users, np.broadcast_to(items.cpu().numpy(), scores.shape))

    def _filled(
        self, scores: torch.Tensor, users: Integers, items: Integers | None = None
    ) -> Floats:
        """Put in what users get of whom the model knows nothing; without `items`, of all."""
        found: Floats = scores.float().cpu().numpy()
        if self.fallback is not None:
            unknown = np.flatnonzero(self.fallback.unknown[users])
            everybody = self.fallback.items
            found[unknown] = everybody[:-1] if items is None else everybody[items[unknown]]
        return found

    def _history(self, users: Integers) -> History | None:
        length = self.model.history_length
        return History.of(self._tensor(self.histories.last(users, length))) if length else None

    def _tensor(self, values: Integers) -> torch.Tensor:
        return torch.from_numpy(np.array(values)).to(self._device)


class TableScores:
    """Scores of elsewhere, `[n]`, by user and item index; pairs that are not given come last.

    No pair may occur twice.
    """

    def __init__(self, user: Integers, item: Integers, score: Floats, n_items: int) -> None:
        pairs = user.astype(np.int64) * n_items + item
        order = np.argsort(pairs, kind="stable")
        self.n_items = n_items
        self.pairs = pairs[order]
        self.scores = score[order]

    def of(self, users: Integers, items: Integers) -> Floats:
        """Return the scores of `items` `[B, K]` for `users` `[B]`, `[B, K]`."""
        wanted = users[:, None].astype(np.int64) * self.n_items + items
        if not len(self.pairs):
            return np.full(wanted.shape, -np.inf)
        place = np.minimum(np.searchsorted(self.pairs, wanted), len(self.pairs) - 1)
        there = self.pairs[place] == wanted
        return np.where(there, self.scores[place], -np.inf)

    def of_all(self, users: Integers) -> Floats:
        """Return the scores of all items for `users` `[B]`, `[B, n_items]`."""
        return self.of_block(users, slice(0, self.n_items))

    def of_block(self, users: Integers, block: slice) -> Floats:
        """Return the scores of a range of items for `users` `[B]`, `[B, block]`."""
        found = np.full((len(users), block.stop - block.start), -np.inf, dtype=self.scores.dtype)
        begins, ends = (
            np.searchsorted(self.pairs, users.astype(np.int64) * self.n_items + item)
            for item in (block.start, block.stop)
        )
        rows = np.repeat(np.arange(len(users)), ends - begins)
        first = np.cumsum(ends - begins) - (ends - begins)
        place = begins[rows] + np.arange(len(rows)) - first[rows]
        found[rows, self.pairs[place] % self.n_items - block.start] = self.scores[place]
        return found
