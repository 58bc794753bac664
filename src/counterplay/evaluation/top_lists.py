"""Where the items of rows stand on a candidate's lists of its k best unseen items."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

from counterplay.data.impressions import tell_left_out
from counterplay.errors import CounterplayWarning, DataError
from counterplay.metrics.measures import ranking_metrics
from counterplay.metrics.ranks import full_ranks
from counterplay.metrics.recommendations import relevance_by_place

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from counterplay.data.interactions import Interactions
    from counterplay.evaluation.stage import Evaluation
    from counterplay.metrics.scoring import Scores
    from counterplay.progress import Stages

    Floats = NDArray[np.float64]


class TopLists:
    """The rows of users who have a list, and where their items stand on it."""

    def __init__(
        self,
        name: str,
        scores: Scores,
        rows: Interactions,
        seen: Interactions,
        config: Evaluation,
        progress: Stages = lambda *_: None,
    ) -> None:
        self._name, self._scores, self._seen, self._config = name, scores, seen, config
        self._progress = progress
        self.users, self.place = np.unique(rows.user, return_inverse=True)
        every = ItemTable(np.ones((1, rows.n_items)), np.zeros(rows.n_users, np.int64))
        self._lengths = self.sums(every)[:, -1]  # of the lists, [n_users], max(k) at most
        some = self._lengths > 0
        if not some.all():
            kept = some[self.place]
            why = f"'{name}' has nothing unseen to show to their users"
            tell_left_out(int((~kept).sum()), len(rows), why, "rows that were shown")
            rows = rows.take(kept)
            self.users, self.place = np.unique(rows.user, return_inverse=True)
            self._lengths = self._lengths[some]
        self.rows = rows
        tell = self._counted("ranking by", len(rows), "rows")
        ranks = full_ranks(scores, rows, seen, memory=config.memory, progress=tell)
        self._hits = ranking_metrics(ranks, np.arange(len(rows)), names=("hit",), k=config.k)
        scored = ranks.above < self._lengths[self.place]  # lists leave out what has no score
        self._listed = scored & ~np.isin(rows.pair, seen.distinct_pairs)

    def within(self, k: int) -> tuple[Floats, Floats]:
        """Return how likely each row's item is on its user's list of k, and how long that is."""
        on_list = np.where(self._listed, self._hits["hit", k], 0.0)
        if not on_list.any():
            raise DataError(
                f"some row must show one of the {k:,} best unseen items of '{self._name}'; found "
                f"none in {len(on_list):,} rows; raise k, or take more rows"
            )
        return on_list, np.minimum(self._lengths, k)[self.place]

    def has_clicks(self, k: int) -> bool:
        """Tell whether a clicked row is on a list of k; warn where none is."""
        assert self.rows.clicked is not None
        on_list, _ = self.within(k)
        if (on_list[self.rows.clicked] > 0).any():
            return True
        text = f"no clicked row shows one of the {k:,} best unseen items of '{self._name}', and "
        text += f"about {on_list.sum():,.0f} other rows do: weighted estimates have no interval; "
        warnings.warn(f"{text}raise k, or take more rows", CounterplayWarning, stacklevel=3)
        return False

    def sums(self, relevance: Scores) -> Floats:
        """Return the relevance of the first 1, 2, … items of the users' lists, `[n_users, k]`."""
        most, memory = max(self._config.k), self._config.memory
        tell = self._counted("lists of", len(self.users), "users")
        return relevance_by_place(
            self._scores, relevance, self.users, self._seen, most, memory=memory, progress=tell
        ).cumsum(1)

    def _counted(self, what: str, total: int, unit: str) -> Callable[[int], None]:
        """Return what tells how much of some work is done, and tell that it begins."""
        text = f"{what} {self._name}"
        self._progress(text, 0, total, unit)
        return lambda done: self._progress(text, done, total, unit)


class ItemTable:
    """Numbers of items, a line for some users each, as scores."""

    def __init__(self, table: Floats, line: NDArray[np.int64]) -> None:
        self._table, self._line = table, line

    def of(self, users: NDArray[np.integer], items: NDArray[np.integer]) -> Floats:
        """Return the numbers of `items` `[B, K]`."""
        found: Floats = self._table[self._line[users][:, None], items]
        return found

    def of_all(self, users: NDArray[np.integer]) -> Floats:
        """Return the numbers of all items, `[B, n_items]`."""
        found: Floats = self._table[self._line[users]]
        return found
