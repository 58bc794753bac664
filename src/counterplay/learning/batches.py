"""The rows of a log as batches: positives with fresh negatives, or ratings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from counterplay.data.canonical import stable_order
from counterplay.data.histories import Before, Histories, before_impressions
from counterplay.data.negatives import NegativeSampler
from counterplay.groups import ALONE, Group
from counterplay.models.scorer import History

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray
    from torch import Tensor

    from counterplay.data.interactions import Interactions
    from counterplay.learning.config import Training
    from counterplay.models.scorer import Scorer
    from counterplay.seeding import Streams

_CHUNK = 1 << 20  # rows whose negatives are drawn at once
_BLOCK = 1 << 10  # rows that stay in one chunk, where a chunk is to have few of the users
_LEAST_USERS = 1 << 14  # that a chunk must have then


@dataclass(frozen=True, slots=True)
class Batch:
    """Queries and their candidate items; the first item of each query is the observed one.

    Of impressions, the first is the one that was shown: `observed` says whether it was clicked.
    """

    users: Tensor  # [B]
    items: Tensor  # [B, 1 + n_negatives]
    observed: Tensor  # 1 for the observed item, 0 for the sampled ones, [B, 1 + n_negatives]
    ratings: Tensor | None = None  # of the observed items, [B, 1]; None for implicit feedback
    standard_ratings: Tensor | None = None  # the same with mean 0 and variance 1 over the log
    history: History | None = None  # what came before each query, where a model wants it
    position: Tensor | None = None  # of the observed items, where the log has it, [B]
    propensity: Tensor | None = None  # likewise, [B]
    unseen: Tensor | None = None  # of impressions: 1 where items were sampled, else 0, [B]
    n_rows: int | None = None  # where several workers have parts of a batch: of all of it
    group: Group = ALONE  # those workers

    def __len__(self) -> int:
        return len(self.users) if self.n_rows is None else self.n_rows

    def mean(self, values: Tensor) -> Tensor:
        """Return the mean of values `[B, …]`; of several workers each returns its share of it."""
        if self.n_rows is None:
            return values.mean()
        return values.sum() / (self.n_rows * values.shape[1:].numel())

    def mean_of_all(self, values: Tensor) -> Tensor:
        """Return the mean of values `[B, …]`, the same for all workers and without a gradient."""
        mean = self.mean(values.detach().double() if self.n_rows is not None else values)
        self.group.sum(mean)
        return mean.to(values.dtype)

    @property
    def query(self) -> tuple[Tensor, Tensor, History | None]:
        """What the candidate is asked: users, what it scores for each of them, and histories."""
        return self.users, self.scored, self.history

    @property
    def scored(self) -> Tensor:
        """What the candidate scores: all items, or with ratings the observed one, `[B, K]`."""
        return self.items if self.ratings is None else self.items[:, :1]

    @property
    def outcomes(self) -> Tensor:
        """The outcomes y of what is scored: observed or not, or the rating, `[B, K]`."""
        return self.observed if self.ratings is None else self.ratings

    @property
    def link_outcomes(self) -> Tensor:
        """The outcomes as the link sees them: ratings with mean 0 and variance 1, `[B, K]`."""
        return self.observed if self.standard_ratings is None else self.standard_ratings


class Batches:
    """All rows of a log, once an epoch, in a new order and with new negatives each time.

    Where one of the models reads histories, rows come in windows: all places of a window are
    queries of one batch.
    """

    def __init__(self, log: Interactions, config: Training, *models: Scorer) -> None:
        self.log, self.device = log, config.device
        self.batch_size, self.n_negatives = config.batch_size, config.n_negatives
        self._sampler = (
            NegativeSampler(log, exponent=config.negatives_exponent) if self.n_negatives else None
        )
        if log.rating is not None:
            self._rating_scale = self._scale_of_ratings()
        length = max((model.history_length for model in models), default=0)
        self._windows = Histories(log).windows(length) if length and log.clicked is None else None
        self._before = (
            before_impressions(log, length) if length and log.clicked is not None else None
        )

    def _scale_of_ratings(self) -> tuple[float, float]:
        """Return the mean and the standard deviation of ratings."""
        assert self.log.rating is not None
        return float(self.log.rating.mean()), float(self.log.rating.std()) or 1.0

    def epoch(self, streams: Streams, epoch: int) -> Iterator[Batch]:
        """Yield the batches of one epoch."""
        if self._windows is not None:
            yield from self._windowed(streams, epoch)
        elif self._before is not None:
            yield from self._impressions_after(self._before, streams, epoch)
        else:
            yield from self._plain(streams, epoch)

    def _plain(self, streams: Streams, epoch: int) -> Iterator[Batch]:
        order_rng, negatives_rng = streams.numpy("order", epoch), streams.numpy("negatives", epoch)
        for rows in self._chunks(order_rng):
            items = self._with_negatives(rows, negatives_rng)
            place = order_rng.permutation(len(rows))
            for first in range(0, len(rows), self.batch_size):
                part = np.sort(place[first : first + self.batch_size])  # near rows are faster
                yield self._batch(rows.take(part), items.take(part, axis=0), None)

    def _chunks(self, rng: np.random.Generator) -> Iterator[NDArray[np.int64]]:
        """Yield all rows in random chunks, ascending in each: negatives are faster in order."""
        n, n_batches = len(self.log), max(1, _CHUNK // self.batch_size)
        size = n_batches * self.batch_size
        if n <= size:
            yield np.arange(n)
            return
        block = _rows_together(self.log, n_batches, size)
        blocks = np.append(rng.permutation(n // block), n // block)  # the rest comes last
        for begin in range(0, n, size):
            place = np.arange(begin, min(begin + size, n))
            yield np.sort(blocks[place // block] * block + place % block)

    def _windowed(self, streams: Streams, epoch: int) -> Iterator[Batch]:
        assert self._windows is not None
        inputs, length = self._windows.inputs, self._windows.inputs.shape[1]
        order = streams.numpy("order", epoch).permutation(len(inputs))
        negatives_rng = streams.numpy("negatives", epoch)
        n_windows = max(1, self.batch_size // length)
        for begin in range(0, len(order), n_windows):
            chosen = order[begin : begin + n_windows]
            row = self._windows.row[chosen]
            window, place = np.nonzero(row >= 0)
            rows = row[window, place]
            history = History(
                self._tensor(inputs[chosen]), self._tensor(window), self._tensor(place)
            )
            yield self._batch(rows, self._with_negatives(rows, negatives_rng), history)

    def _impressions_after(self, before: Before, streams: Streams, epoch: int) -> Iterator[Batch]:
        """Yield impressions with the clicks before them, those of a window together."""
        place = np.argsort(streams.numpy("order", epoch).permutation(len(before.inputs)))
        order = stable_order(place[before.window])
        negatives_rng = streams.numpy("negatives", epoch)
        for begin in range(0, len(self.log), self.batch_size):
            part = slice(begin, begin + self.batch_size)
            rows = np.arange(len(self.log))[part] if order is None else order[part]
            history = self._history(before, rows)
            yield self._batch(rows, self._with_negatives(rows, negatives_rng), history)

    def draw(self, n: int, rng: np.random.Generator) -> Batch:
        """Return a batch of `n` impressions, drawn with replacement, with sampled items."""
        rows = np.sort(rng.integers(len(self.log), size=n))
        history = None if self._before is None else self._history(self._before, rows)
        return self._batch(rows, self._with_negatives(rows, rng), history)

    def _history(self, before: Before, rows: NDArray[np.int64]) -> History:
        """Return the clicks before some impressions."""
        windows, window = np.unique(before.window[rows], return_inverse=True)
        return History(
            self._tensor(before.inputs[windows]),
            self._tensor(window),
            self._tensor(before.place[rows]),
        )

    def _with_negatives(
        self, rows: NDArray[np.int64], rng: np.random.Generator
    ) -> NDArray[np.int32]:
        """Return the item of each row and its negatives, `[len(rows), 1 + n_negatives]`."""
        items = np.empty((len(rows), 1 + self.n_negatives), dtype=np.int32)
        items[:, 0] = self.log.item[rows]
        if self._sampler is not None:
            free = self._unseen(rows)
            users = self.log.user[rows]
            if free is None:
                items[:, 1:] = self._sampler.draw(users, self.n_negatives, rng)
            else:  # who was shown everything has the item itself there, which counts nothing
                items[:, 1:] = items[:, :1]
                items[free, 1:] = self._sampler.draw(users[free], self.n_negatives, rng)
        return items

    def _unseen(self, rows: NDArray[np.int64]) -> NDArray[np.bool_] | None:
        """Return for which impressions there are items to sample; None for clicks."""
        if self.log.clicked is None or self._sampler is None:
            return None
        return np.asarray(self._sampler.n_unseen(self.log.user[rows]) > 0)

    def _batch(
        self, rows: NDArray[np.int64], items: NDArray[np.int32], history: History | None
    ) -> Batch:
        log = self.log
        observed = torch.zeros(items.shape, device=self.device)
        observed[:, 0] = 1 if log.clicked is None else self._float(log.clicked[rows])
        users, candidates = self._tensor(log.user[rows]), self._tensor(items)
        unseen = self._unseen(rows)
        known: dict[str, Any] = {
            "position": None if log.position is None else self._tensor(log.position[rows]),
            "propensity": None if log.propensity is None else self._float(log.propensity[rows]),
            "unseen": None if unseen is None else self._float(unseen),
        }
        if log.rating is None:
            return Batch(users, candidates, observed, history=history, **known)
        ratings = self._tensor(log.rating[rows][:, None])
        mean, deviation = self._rating_scale
        standard = (ratings - mean) / deviation
        return Batch(users, candidates, observed, ratings, standard, history, **known)

    def _float(self, values: NDArray[np.generic]) -> Tensor:
        return self._tensor(values.astype(np.float32))

    def _tensor(self, values: NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(values)).to(self.device)


def _rows_together(log: Interactions, n_batches: int, size: int) -> int:
    """Return how many rows stay together when a log is cut into chunks of some batches.

    The log is in the order of users, so blocks of it have few users, whose vectors stay in the
    processor's cache. But a user's rows then come together, which costs quality where users are
    few or have many rows (`benchmarks/shuffling.py`): there, rows are spread one by one.
    """
    users = log.n_users * size / len(log)  # in a chunk
    return _BLOCK if users >= _LEAST_USERS and len(log) <= n_batches * log.n_users else 1


class PairBatches:
    """Given pairs, `[n]`: each epoch all observed ones, and `n_negatives` others for each."""

    def __init__(
        self,
        user: NDArray[np.integer],
        item: NDArray[np.integer],
        observed: NDArray[np.bool_],
        *,
        batch_size: int,
        n_negatives: int,
    ) -> None:
        self.batch_size, self.n_negatives = batch_size, n_negatives
        self._user, self._item, self._observed = user, item, observed
        self._positive, self._other = np.flatnonzero(observed), np.flatnonzero(~observed)

    @classmethod
    def common(cls, several: Sequence[PairBatches]) -> PairBatches:
        """Return the pairs that all of them have."""
        first, *others = several
        for each in others:
            width = 1 + max(int(it._item.max(initial=0)) for it in (first, each))
            ours, theirs = (it._user.astype(np.int64) * width + it._item for it in (first, each))
            kept = np.isin(ours, theirs)
            user, item, observed = first._user[kept], first._item[kept], first._observed[kept]
            sizes = {"batch_size": first.batch_size, "n_negatives": first.n_negatives}
            first = cls(user, item, observed, **sizes)
        return first

    @property
    def has_both(self) -> bool:
        """Whether there are observed pairs, and others."""
        return bool(len(self._positive) and len(self._other))

    def epoch(self, streams: Streams, epoch: int) -> Iterator[Batch]:
        """Yield the batches of one epoch, `[B, 1]`."""
        n_others = len(self._positive) * self.n_negatives if len(self._other) else 0
        drawn = streams.numpy("negatives", epoch).integers(max(len(self._other), 1), size=n_others)
        chosen = np.concatenate([self._positive, self._other[drawn]])
        order = streams.numpy("order", epoch).permutation(len(chosen))
        for begin in range(0, len(order), self.batch_size):
            part = chosen[order[begin : begin + self.batch_size]]
            users, items = (torch.from_numpy(each[part]) for each in (self._user, self._item))
            observed = torch.from_numpy(self._observed[part].astype(np.float32))
            yield Batch(users, items[:, None], observed[:, None])
