"""Workers that compute one thing together: what they must exchange, whoever carries it.

Every worker of a group calls the same methods in the same order. One process alone is a group too,
with nothing to exchange, so that there is one code path.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from counterplay.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray
    from torch import Tensor


PLACES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")  # a worker's, as torchrun sets them
PARENT = "COUNTERPLAY_PARENT"  # the process that started a worker, which ends with it
TIMEOUT, SECONDS = "COUNTERPLAY_TIMEOUT", 120.0  # that workers wait for each other
SHARDS = 64  # unless it is said how many


def is_worker() -> bool:
    """Tell whether this process was started as one of several workers."""
    return all(name in os.environ for name in PLACES)


def check_shards(n_shards: int, n_workers: int) -> None:
    """Refuse workers who cannot have the same number of shards each."""
    if n_shards % n_workers:
        raise ConfigError(
            f"the number of workers must divide the number of shards; found {n_workers} workers "
            f"and {n_shards} shards; change --workers, or --shards"
        )


class Group:
    """One process alone; `Workers` of `counterplay.runs.workers` are several.

    Attributes:
        rank: Number of this worker, from 0.
        size: Number of workers.
    """

    rank = 0
    size = 1

    def sum(self, *tensors: Tensor) -> None:
        """Replace each tensor by its sum over all workers.

        They are added in float64: a sum of float32 depends on who adds what, and Adam divides the
        tiny gradient of the link by its size.
        """

    def add(self, tensor: Tensor) -> None:
        """Replace a tensor by its sum over all workers in its own precision, with fewer bytes.

        That is enough for gradients of tables: what each worker gives is rounded to it already.
        """

    def total(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the sum of an array over all workers; whole numbers stay exact."""
        return values

    def gathered(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the values of all workers, in their order."""
        return values

    def most(self, *values: float) -> tuple[float, ...]:
        """Return the largest of each value among all workers."""
        return values

    def together(self, rows: Tensor) -> tuple[Tensor, slice]:
        """Return the rows of all workers, in their order, and which are this worker's."""
        return rows, slice(None)

    def collected(self, rows: Tensor) -> Tensor | None:
        """Return the same to the first worker; the others get None."""
        return rows

    def exchange(self, rows: Tensor, given: list[int], taken: list[int]) -> Tensor:  # noqa: ARG002
        """Give each worker so many of the rows, in their order; return what all gave to this one.

        `given` and `taken` have a number a worker; what one gives, the other must take.
        """
        return rows

    def first(self, work: Callable[[], object]) -> None:
        """Let the first worker do something, however long it takes, while the others wait."""
        work()

    def barrier(self) -> None:
        """Wait until all workers are here."""


ALONE = Group()


@dataclass(frozen=True, eq=False)
class Share:
    """Which users of a log are one worker's.

    A log is cut into shards of users that follow each other. The shards depend on the log, not on
    the workers: a worker has several of them, next to each other. Random streams are named by
    shards, so that any number of workers learns the same.
    """

    group: Group
    n_shards: int  #: Of the whole log.
    first: int  #: Number of this worker's first shard.
    bounds: tuple[int, ...]  #: Where its shards begin among its users, and where the last one ends.
    first_user: int  #: Its first user's index in the whole log.
    n_users: int  #: Of the whole log.
    fingerprint: str = ""  #: Of the whole log.
    owns_items: bool = False  #: Whether it has a part of the items' vectors too, and not all.

    @property
    def shards(self) -> range:
        """Numbers of this worker's shards."""
        return range(self.first, self.first + len(self.bounds) - 1)

    @property
    def ends(self) -> tuple[int, int]:
        """Its first shard, and the one after its last."""
        return self.shards.start, self.shards.stop

    def items_of(self, shard: int, n_items: int) -> int:
        """Return the first of the items that belong to a shard; its last is before the next's."""
        return n_items * shard // self.n_shards
