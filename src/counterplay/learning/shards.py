"""The rows of a log that several workers have, as batches that do not depend on their number.

Step t of T takes the rows `[n · t / T + s / S, n · (t + 1) / T + s / S)` of shard s of S with n
rows, in whole numbers, in an order and with negatives from streams that are named by epoch and
shard. Without s / S, shards with fewer rows than steps would all have theirs in the same steps. A
worker's part of a batch is what its own shards give, so every worker has T steps, and the batches
of all together are always the same.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from counterplay.data.canonical import stable_order
from counterplay.errors import ConfigError
from counterplay.learning.batches import Batches
from counterplay.models.scorer import History

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from counterplay.data.interactions import Interactions
    from counterplay.groups import Share
    from counterplay.learning.batches import Batch
    from counterplay.learning.config import Training
    from counterplay.models.scorer import Scorer
    from counterplay.seeding import Streams

_CHUNK = 1 << 20  # rows of all workers whose negatives are drawn at once


class ShardBatches(Batches):
    """One worker's part of the batches of a log; see `Batches`."""

    def __init__(self, log: Interactions, config: Training, *models: Scorer) -> None:
        super().__init__(log, config, *models)
        assert log.share is not None
        self._share: Share = log.share
        self._group = log.share.group
        if self._before is not None:
            raise ConfigError(
                "several workers cannot give a model the clicks before impressions; found a model "
                "that reads histories with a method that learns from impressions; choose another "
                "model, or train without --workers"
            )
        owner, at_once = log.user, self.batch_size
        if self._windows is not None:
            owner = self._windows.user
            at_once = max(1, self.batch_size // self._windows.inputs.shape[1])
        self._bounds = np.searchsorted(owner, self._share.bounds)  # of units, [n_shards + 1]
        n_units = int(self._group.total(np.array([len(owner)]))[0])
        self.n_steps = max(1, -(-n_units // at_once))

    def _scale_of_ratings(self) -> tuple[float, float]:
        """Return mean and standard deviation of the ratings of all workers."""
        rating = np.asarray(self.log.rating, dtype=np.float64)
        n, total = self.log.group.total(np.array([len(rating), rating.sum()]))
        squares = self.log.group.total(np.array([((rating - total / n) ** 2).sum()]))
        return float(total / n), float(np.sqrt(squares[0] / n)) or 1.0

    def epoch(self, streams: Streams, epoch: int) -> Iterator[Batch]:
        """Yield this worker's part of each batch of one epoch; a part may be empty."""
        orders = [
            begin + streams.numpy("order", epoch, shard).permutation(end - begin)
            for shard, begin, end in zip(
                self._share.shards, self._bounds[:-1], self._bounds[1:], strict=True
            )
        ]
        rngs = [streams.numpy("negatives", epoch, shard) for shard in self._share.shards]
        if self._windows is None:
            yield from self._rows(orders, rngs)
        else:
            yield from self._of_windows(orders, rngs, streams, epoch)

    def _rows(
        self, orders: list[NDArray[np.int64]], rngs: list[np.random.Generator]
    ) -> Iterator[Batch]:
        cuts = self._cuts(orders)
        counts = self._rows_of_all([np.diff(each) for each in cuts])
        at_once = max(1, _CHUNK // self.batch_size)  # steps
        for begin in range(0, self.n_steps, at_once):
            end = min(begin + at_once, self.n_steps)
            rows: list[NDArray[np.int64]] = []
            items: list[NDArray[np.int32]] = []
            steps: list[NDArray[np.int64]] = []
            for order, cut, rng in zip(orders, cuts, rngs, strict=True):
                ends = cut[begin : end + 1]
                step = np.repeat(np.arange(end - begin), np.diff(ends))
                chosen = order[ends[0] : ends[-1]]
                ascending = stable_order(chosen)  # negatives are faster in order
                if ascending is not None:
                    chosen, step = chosen[ascending], step[ascending]
                rows.append(chosen)
                steps.append(step)
                items.append(self._with_negatives(chosen, rng))
            row, item, at = np.concatenate(rows), np.concatenate(items), np.concatenate(steps)
            by_step = stable_order(at)
            if by_step is not None:
                row, item = row[by_step], item[by_step]
            ends = np.cumsum(np.bincount(at, minlength=end - begin))
            for place, last in enumerate(ends):
                part = slice(ends[place - 1] if place else 0, last)
                yield from self._part(row[part], item[part], None, counts[begin + place])

    def _of_windows(
        self,
        orders: list[NDArray[np.int64]],
        rngs: list[np.random.Generator],
        streams: Streams,
        epoch: int,
    ) -> Iterator[Batch]:
        assert self._windows is not None
        n_rows = (self._windows.row >= 0).sum(1)  # of each window
        chosen = [
            np.split(order, cut[1:-1])
            for order, cut in zip(orders, self._cuts(orders), strict=True)
        ]
        sizes = [np.array([n_rows[some].sum() for some in each]) for each in chosen]
        counts = self._rows_of_all(sizes)
        noise = [streams.torch("dropout", epoch, shard) for shard in self._share.shards]
        for step in range(self.n_steps):
            some = [each[step] for each in chosen]
            items, windows, rows, places, n_before = [], [], [], [], 0
            for one, rng in zip(some, rngs, strict=True):
                row = self._windows.row[one]
                real = np.nonzero(row >= 0)
                windows.append(real[0] + n_before)
                places.append(real[1])
                rows.append(row[real])
                items.append(self._with_negatives(rows[-1], rng))
                n_before += len(one)
            inputs = self._windows.inputs[np.concatenate(some)]
            window, place = np.concatenate(windows), np.concatenate(places)
            by_shard = tuple(zip(map(len, some), noise, strict=True))
            seen = self._tensor(inputs), self._tensor(window), self._tensor(place)
            history = History(*seen, noise=by_shard)
            row, item = np.concatenate(rows), np.concatenate(items)
            yield from self._part(row, item, history, counts[step])

    def _cuts(self, orders: list[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
        """Return where the steps of each shard begin and end among its units, `[n_steps + 1]`."""
        steps, n_shards = np.arange(self.n_steps + 1), self._share.n_shards
        return [
            (len(order) * steps * n_shards + shard * self.n_steps) // (self.n_steps * n_shards)
            for shard, order in zip(self._share.shards, orders, strict=True)
        ]

    def _rows_of_all(self, of_shards: list[NDArray[np.int64]]) -> NDArray[np.int64]:
        """Return how many rows each batch has on all workers together, `[n_steps]`."""
        return self._group.total(np.stack(of_shards).sum(0, dtype=np.int64))

    def _part(
        self,
        rows: NDArray[np.int64],
        items: NDArray[np.int32],
        history: History | None,
        n_rows: np.int64,
    ) -> Iterator[Batch]:
        if n_rows:  # else nobody has any
            batch = self._batch(rows, items, history)
            yield replace(batch, n_rows=int(n_rows), group=self._group)


def batches_of(log: Interactions, config: Training, *models: Scorer) -> Batches:
    """Return the batches of a log: all of them, or of several workers this one's parts."""
    return (Batches if log.share is None else ShardBatches)(log, config, *models)
