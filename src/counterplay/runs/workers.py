"""Several processes as one group, on one machine or on many, by torch.distributed with gloo.

They find each other as torchrun's do, by RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT. Every
worker shows every few seconds that it is alive, so that the others can say who is gone.
"""

from __future__ import annotations

import os
import re
import socket
import threading
import time
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from counterplay.errors import ConfigError, CounterplayError, LostWorkerError
from counterplay.groups import ALONE, PLACES, SECONDS, TIMEOUT, Group, is_worker
from counterplay.runs import signs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray
    from torch import Tensor


@contextmanager
def joined() -> Iterator[Group]:
    """Give the group that this process belongs to, and leave it at the end."""
    if not is_worker():
        yield ALONE
        return
    group = Workers(*_joined())
    try:
        yield group
    except BaseException as error:
        group.signs.failed(error)
        raise
    group.signs.left()


def _joined() -> tuple[int, int, Any, float]:
    try:
        rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        seconds = float(os.environ.get(TIMEOUT, SECONDS))
        if not 0 <= rank < size or not seconds > 0:
            raise ValueError
    except ValueError:
        found = ", ".join(f"{each}={os.environ.get(each)}" for each in (*PLACES, TIMEOUT))
        raise ConfigError(
            f"a worker needs its place among the others in numbers; found {found}; start workers "
            "with --workers, or with torchrun"
        ) from None
    met: list[Any] = []
    # What asks a store whose host stands still waits for ever: so do not wait for it here.
    signs.within(2 * seconds, lambda: met.append(_met(rank, size, timedelta(seconds=seconds))))
    store = met[0] if met else "worker 0 does not answer"
    if isinstance(store, str):
        raise LostWorkerError(
            f"all {size} workers must meet within {seconds:g} seconds; found worker {rank} of them "
            f"alone at {os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']} ({store}); start "
            "all of them, with the same address"
        )
    return rank, size, PrefixStore("counterplay", store), seconds


def _met(rank: int, size: int, timeout: timedelta) -> Any:
    """Return the store of all workers once they are there; else why they are not."""
    try:
        store, _, _ = next(iter(rendezvous("env://", timeout=timeout)))
        dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=timeout)
    except (RuntimeError, ValueError, OSError) as error:
        return _first_line(error)
    return store


class Workers(Group):
    """Several processes; see `Group`.

    Attributes:
        n_bytes: What this worker has sent to others so far.
    """

    def __init__(self, rank: int, size: int, store: Any, timeout: float) -> None:
        self.rank, self.size = rank, size
        self._store, self._timeout, self.n_bytes = store, timeout, 0
        self._ring = 2 * (size - 1) / size  # how often a sum is sent: its parts go round twice
        self._turns = 0
        self.signs = signs.Signs(rank, size, store)

    def sum(self, *tensors: Tensor) -> None:
        """Replace each tensor by its sum over all workers, added up in float64."""
        flat = torch.cat([each.detach().reshape(-1).double().cpu() for each in tensors])
        with self._exchange(flat, self._ring):
            dist.all_reduce(flat)
        for each, total in zip(tensors, flat.split([it.numel() for it in tensors]), strict=True):
            each.detach().copy_(total.view(each.shape))

    def add(self, tensor: Tensor) -> None:
        """Replace a tensor by its sum over all workers, added up as it is."""
        flat = tensor.detach().cpu().contiguous()
        with self._exchange(flat, self._ring):
            dist.all_reduce(flat)
        if flat.data_ptr() != tensor.data_ptr():
            tensor.detach().copy_(flat)

    def total(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the sum of an array over all workers."""
        tensor = torch.from_numpy(np.array(values))
        with self._exchange(tensor, self._ring):
            dist.all_reduce(tensor)
        return tensor.numpy()

    def most(self, *values: float) -> tuple[float, ...]:
        """Return the largest of each value among all workers."""
        tensor = torch.tensor(values, dtype=torch.float64)
        with self._exchange(tensor, self._ring):
            dist.all_reduce(tensor, dist.ReduceOp.MAX)
        return tuple(tensor.tolist())

    def together(self, rows: Tensor) -> tuple[Tensor, slice]:
        """Return the rows of all workers, in their order, and which are this worker's."""
        sizes = self.gathered_sizes(len(rows))
        widest = max(sizes)
        padded = rows.new_zeros(widest, *rows.shape[1:]).cpu()
        padded[: len(rows)] = rows.detach()
        found = [torch.empty_like(padded) for _ in sizes]
        with self._exchange(padded, self.size - 1):
            dist.all_gather(found, padded)
        begin = sum(sizes[: self.rank])
        every = torch.cat([each[:n] for each, n in zip(found, sizes, strict=True)])
        return every.to(rows.device), slice(begin, begin + len(rows))

    def gathered(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the values of all workers, in their order."""
        return self.together(torch.from_numpy(np.array(values)))[0].numpy()

    def collected(self, rows: Tensor) -> Tensor | None:
        """Return the rows of all workers to the first; the others get None."""
        rows = rows.detach().cpu().contiguous()
        sizes = self.gathered_sizes(len(rows))
        if self.rank:
            with self._exchange(rows):
                dist.send(rows, 0)
            return None
        parts = [rows]
        for rank in range(1, self.size):
            part = rows.new_empty(sizes[rank], *rows.shape[1:])
            with self._exchange():
                dist.recv(part, rank)
            parts.append(part)
        return torch.cat(parts)

    def exchange(self, rows: Tensor, given: list[int], taken: list[int]) -> Tensor:
        """Give each worker so many of the rows, in their order; return what they gave."""
        rows = rows.detach().cpu().contiguous()
        found = rows.new_empty(sum(taken), *rows.shape[1:])
        with self._exchange(rows[given[self.rank] :]):  # its own stay
            dist.all_to_all_single(found, rows, taken, given)
        return found

    def gathered_sizes(self, n: int) -> list[int]:
        """Return a number of every worker."""
        sizes = torch.zeros(self.size, dtype=torch.int64)
        sizes[self.rank] = n
        with self._exchange(sizes, self._ring):
            dist.all_reduce(sizes)
        return [int(each) for each in sizes]

    def first(self, work: Callable[[], object]) -> None:
        """Let the first worker do something; the others wait as long as it is alive."""
        self._turns += 1
        key = f"first/{self._turns}"
        if not self.rank:
            work()
            self._store.set(key, "done")
            return
        done, seen = threading.Event(), time.monotonic()

        def watch() -> None:  # apart: the store may be out of reach, and then it never answers
            nonlocal seen
            sign = None
            while not done.is_set() and self.signs.words(0) is None:
                if self.signs.read(key) is not None:
                    done.set()
                    return
                if (now := self.signs.sign(0)) != sign:
                    sign, seen = now, time.monotonic()
                time.sleep(signs.BEAT / 5)

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        while not done.wait(signs.BEAT / 5):
            waited = time.monotonic() - seen
            if waited > self._timeout or not (watcher.is_alive() or done.is_set()):
                done.set()
                raise self._lost(waited)
        watcher.join()  # a thread that still asks the store at the process's end aborts it

    def barrier(self) -> None:
        """Wait until all workers are here."""
        self.total(np.zeros(1))

    @contextmanager
    def _exchange(self, given: Tensor | None = None, times: float = 1) -> Iterator[None]:
        """Say in one sentence who is gone, where an exchange fails; count what is sent by it."""
        begun = time.monotonic()
        self.n_bytes += 0 if given is None else round(times * given.nbytes)
        try:
            yield
        except RuntimeError as error:
            waited = time.monotonic() - begun
            raise self._lost(waited, f" ({_first_line(error)})") from None

    def _lost(self, waited: float, why: str = "") -> CounterplayError:
        """Return what to say where others are gone: what one of them refused, or who is gone.

        The store may be out of reach itself.
        """
        said: list[CounterplayError | str] = []
        signs.within(
            2 * signs.STILL, lambda: said.append(self.signs.refused() or self.signs.gone(waited))
        )
        where = f"worker 0 on {self.signs.first}" if self.rank else "the others"
        away = f"{where} out of reach of worker {self.rank} on {socket.gethostname()}"
        gone = said[0] if said else away
        if isinstance(gone, CounterplayError):
            return gone
        return LostWorkerError(
            f"all {self.size} workers must stay until the end; found {gone}{why}; give the same "
            "command again with --resume"
        )


def _first_line(error: BaseException) -> str:
    """Return what an error says in short, without the place in gloo's source."""
    said = re.sub(r"^\[[^ ]*\] *", "", str(error).strip()).splitlines()
    return said[0].split(". ")[0] if said else type(error).__name__
