"""Workers as threads of one process: a group without a network, for tests of what it computes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from counterplay.data.interactions import Interactions
from counterplay.data.shares import features_of
from counterplay.data.vocabulary import Vocabulary
from counterplay.groups import ALONE, Group, Share

Found = TypeVar("Found")


class _Board:
    def __init__(self, size: int) -> None:
        self.turn = threading.Barrier(size, timeout=60)
        self.said: list[list[Any]] = [[None] * size for _ in range(2)]  # in turns


class Threads(Group):
    """One worker of several."""

    def __init__(self, rank: int, size: int, board: _Board) -> None:
        self.rank, self.size, self._board = rank, size, board
        self._turn = self.n_bytes = 0

    def _all(self, value: Any) -> list[Any]:
        said = self._board.said[self._turn]
        self._turn = 1 - self._turn
        said[self.rank] = value
        self._board.turn.wait()  # whoever is ahead writes to the other list
        return list(said)

    def sum(self, *tensors: Tensor) -> None:
        for each in tensors:
            parts = self._all(each.detach().clone().double())
            each.detach().copy_(torch.stack(parts).sum(0))

    def add(self, tensor: Tensor) -> None:
        self.n_bytes += tensor.nbytes
        tensor.detach().copy_(torch.stack(self._all(tensor.detach().clone())).sum(0))

    def total(self, values: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(np.stack(self._all(np.array(values))).sum(0))

    def gathered(self, values: NDArray[Any]) -> NDArray[Any]:
        return np.concatenate(self._all(np.array(values)))

    def most(self, *values: float) -> tuple[float, ...]:
        return tuple(np.max(self._all(values), axis=0).tolist())

    def together(self, rows: Tensor) -> tuple[Tensor, slice]:
        parts = self._all(rows.detach().clone())
        begin = sum(len(each) for each in parts[: self.rank])
        return torch.cat(parts), slice(begin, begin + len(rows))

    def collected(self, rows: Tensor) -> Tensor | None:
        parts = self._all(rows.detach().clone())
        return None if self.rank else torch.cat(parts)

    def exchange(self, rows: Tensor, given: list[int], taken: list[int]) -> Tensor:
        parts = self._all(rows.detach().clone().split(given))
        mine = [each[self.rank] for each in parts]
        assert [len(each) for each in mine] == taken
        self.n_bytes += (len(rows) - given[self.rank]) * rows[:1].nbytes
        return torch.cat(mine)

    def first(self, work: Callable[[], object]) -> None:
        if not self.rank:
            work()
        self.barrier()

    def barrier(self) -> None:
        self._all(None)


def by_workers(size: int, work: Callable[[Group], Found]) -> list[Found]:
    """Let every worker do the work; return what each found, in their order."""
    if size == 1:
        return [work(ALONE)]
    board, found, failed = _Board(size), {}, []

    def one(rank: int) -> None:
        try:
            torch.set_num_threads(1)
            found[rank] = work(Threads(rank, size, board))
        except BaseException as error:
            failed.append(error)
            board.turn.abort()

    workers = [threading.Thread(target=one, args=(rank,)) for rank in range(size)]
    for each in workers:
        each.start()
    for each in workers:
        each.join()
    causes = [each for each in failed if not isinstance(each, threading.BrokenBarrierError)]
    for cause in (*causes, *failed):
        raise cause
    return [found[rank] for rank in range(size)]


def share_of(
    log: Interactions, group: Group, n_shards: int, *, owns_items: bool = False
) -> Interactions:
    """Return a worker's part of a log that is whole in memory: the twin of `load_share`."""
    firsts = [int(log.user[len(log) * shard // n_shards]) for shard in range(1, n_shards)]
    cuts = [0, *firsts, log.n_users]
    each = n_shards // group.size
    mine = cuts[group.rank * each : (group.rank + 1) * each + 1]
    rows = log.take((log.user >= mine[0]) & (log.user < mine[-1]))
    told = log.user_features
    bounds = tuple(cut - mine[0] for cut in mine)
    share = Share(
        group, n_shards, group.rank * each, bounds, mine[0], log.n_users, log.fingerprint,
        owns_items,
    )  # fmt: skip
    return replace(
        rows,
        user=(rows.user - mine[0]).astype(np.int32),
        users=Vocabulary(log.users.ids[mine[0] : mine[-1]]),
        user_features=None if told is None else features_of(told.frame[mine[0] : mine[-1]], group),
        share=share,
    )
