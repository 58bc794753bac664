"""What workers leave for each other in their store: signs of life, refusals, last words."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import torch.distributed as dist

from counterplay.errors import (
    CheckpointError,
    ConfigError,
    CounterplayError,
    DataError,
    DivergedError,
    LostWorkerError,
)
from counterplay.groups import PARENT

if TYPE_CHECKING:
    from collections.abc import Callable

BEAT = 1.0  # seconds between two signs of life
STILL = 5.0  # seconds without one after which a worker counts as gone
# What one worker finds and all of them end with: the same sentence, and the same exit code.
_REFUSALS = {
    kind.__name__: kind for kind in (DataError, ConfigError, DivergedError, CheckpointError)
}


class Signs:
    """The signs of one worker, and how it reads those of the others."""

    def __init__(self, rank: int, size: int, store: Any) -> None:
        self.rank, self.size = rank, size
        self._store, self._beats, self._ended = store, 0, threading.Event()
        self.first = os.environ["MASTER_ADDR"]  # the host of worker 0
        store.set(f"host/{rank}", socket.gethostname())
        self._beat()
        self._heart = threading.Thread(target=self._live, daemon=True)
        self._heart.start()

    def refused(self) -> CounterplayError | None:
        """Return what one of the workers refused, and tell the first one that it was heard."""
        found = None
        for rank in range(self.size):
            said = self.read(f"refused/{rank}")
            if said is not None and found is None:
                kind, text = json.loads(said)
                found = _REFUSALS[kind](text)
                self._store.set(f"heard/{self.rank}", "")
        return found

    def gone(self, waited: float) -> str:
        """Return who is gone by their last words or their signs of life."""
        before = {rank: self.sign(rank) for rank in range(self.size)}
        self._ended.wait(STILL)
        lost = []
        for rank in range(self.size):
            words = self.words(rank)
            if words is not None or (rank != self.rank and self.sign(rank) == before[rank]):
                host = self.read(f"host/{rank}") or self.first
                why = words or f"gone without a word, after {waited:.0f} seconds of waiting"
                lost.append(f"worker {rank} on {host} {why}")
        return "; ".join(lost) or f"the network gone between them, seen by worker {self.rank}"

    def sign(self, rank: int) -> str | None:
        """Return the last sign of life of a worker."""
        return self.read(f"alive/{rank}")

    def words(self, rank: int) -> str | None:
        """Return the last words of a worker."""
        return self.read(f"failed/{rank}")

    def read(self, key: str) -> str | None:
        """Return what the store has under a key."""
        with suppress(RuntimeError):  # the store is gone with the first worker
            if self._store.check([key]):
                return str(self._store.get(key).decode())
        return None

    def failed(self, error: BaseException) -> None:
        """Leave a last word, unless it is only that another one is gone."""
        if not isinstance(error, LostWorkerError):
            words = " ".join(str(error).split()) or type(error).__name__
            if isinstance(error, KeyboardInterrupt):
                words = "interrupted"
            refused = type(error).__name__ in _REFUSALS
            if refused:
                said = json.dumps([type(error).__name__, str(error)])
                within(BEAT, lambda: self._store.set(f"refused/{self.rank}", said))
            within(BEAT, lambda: self._store.set(f"failed/{self.rank}", f"stopped: {words}"))
            if refused and not self.rank:
                within(2 * STILL, self._await_hearing)
        self._ended.set()

    def _await_hearing(self) -> None:
        """Stay until the others know what was refused."""
        if dist.is_initialized():
            dist.destroy_process_group()  # then they notice
        self._await_others("heard")

    def _await_others(self, sign: str) -> None:
        """Stay until the others have left a sign: the store goes with the first worker."""
        others = [f"{sign}/{rank}" for rank in range(1, self.size)]
        end = time.monotonic() + STILL
        while others and not self._store.check(others) and time.monotonic() < end:
            time.sleep(BEAT / 20)

    def left(self) -> None:
        """Leave the group when all is done; the first worker after all others."""
        if self.rank:
            within(BEAT, lambda: self._store.set(f"left/{self.rank}", ""))
        else:
            within(2 * STILL, lambda: self._await_others("left"))
        self._ended.set()
        self._heart.join(BEAT)
        if dist.is_initialized():
            dist.destroy_process_group()

    def _live(self) -> None:
        parent = os.environ.get(PARENT)
        while not self._ended.wait(BEAT):
            self._beat()
            if parent is not None and os.getppid() != int(parent):
                os.kill(os.getpid(), signal.SIGTERM)  # nobody waits for this worker any more
                return

    def _beat(self) -> None:
        self._beats += 1
        with suppress(RuntimeError):
            self._store.set(f"alive/{self.rank}", str(self._beats))


def within(seconds: float, work: Callable[[], object]) -> None:
    """Do something that may never end, and wait for it no longer than that."""

    def safely() -> None:
        with suppress(RuntimeError):
            work()

    helper = threading.Thread(target=safely, daemon=True)
    helper.start()
    helper.join(seconds)
