"""The jobs of a ranking: what a worker is told, and what it makes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from counterplay.data.interactions import Interactions
from counterplay.data.workplace import File, PlacedJob
from counterplay.metrics.item_sums import group_sums
from counterplay.metrics.ranks import full_ranks, sampled_ranks
from counterplay.metrics.recommendations import lists_of
from counterplay.metrics.shelf import Shelf
from counterplay.metrics.shown_model import probabilities
from counterplay.runs.sources import Source, loaded

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from counterplay.data.jobs import Job, Result
    from counterplay.data.workplace import Workplace
    from counterplay.metrics.scoring import Scores

What = Literal["ranks", "sampled", "lists"]


class RankJob(PlacedJob):
    """Rank the rows of some users, or make their lists.

    Attributes:
        what: Ranks among all unseen items, ranks among sampled ones, or lists of the best.
        source: Whose.
        shard: Number.
        rows: The users `[n, 1]`, with them their targets `[n, 2]` or candidates `[n, 1 + K]`.
        before: The part before which rows are what users have seen.
        memory: Bytes of scores at a time.
        at_once: Users, or rows, that a model is asked for at a time.
        k: Length of a list.
        open: Which items may be on a list; None are all.
    """

    what: What
    source: Source
    shard: int
    rows: File
    before: int
    memory: int
    at_once: int
    k: int = 0
    open: File | None = None

    @property
    def label(self) -> str:
        """What it makes, and its number."""
        return f"{self.what}/{self.shard:05}"

    def run(self, place: Workplace) -> Result:
        """Load the candidate for the users of the job, and rank."""
        table = place.map_array(*self.rows)
        own = loaded(place, [self.source], table[:, 0], self.before, self.at_once)
        (scores,), table = own.scores, np.column_stack([own.users, table[:, 1:]])
        if self.open is not None:
            scores = Shelf(place.map_array(*self.open)).scores(scores)
        return self.kept(place, table, scores, own.seen)

    def kept(
        self, place: Workplace, table: NDArray[np.int32], scores: Scores, seen: Interactions
    ) -> Result:
        """Write what comes of rows."""
        how: Any = {"memory": self.memory, "at_once": self.at_once}
        users = np.ascontiguousarray(table[:, 0])
        if self.what == "lists":
            parts = lists_of(scores, users, seen, self.k, **how)
            found = [np.concatenate(each) for each in zip(*parts, strict=True)]
        elif self.what == "sampled":
            ranks = sampled_ranks(scores, users, np.ascontiguousarray(table[:, 1:]), **how)
            found = [ranks.above, ranks.tied]
        else:
            rows = Interactions(seen.users, seen.items, users, np.ascontiguousarray(table[:, 1]))
            ranks = full_ranks(scores, rows, seen, **how)
            found = [ranks.above, ranks.tied]
        names = [f"{self.key}-{number}" for number in range(2)]
        files = [
            (name, place.put_array(name, each)) for name, each in zip(names, found, strict=True)
        ]
        return {"rows": len(table), "files": files}


class SumJob(PlacedJob):
    """Add up over some users what a click model says of each item.

    Attributes:
        sources: The candidates whose ranks are its features.
        coefficients: Of each of them.
        lambdas: Of the sums.
        shard: Number.
        rows: The users, and how often each of them counts, `[n, 2]`.
        before: The part before which rows are what users have seen.
        memory: Bytes of scores at a time.
        at_once: Users that a model is asked for at a time.
    """

    sources: tuple[Source, ...]
    coefficients: tuple[float, ...]
    lambdas: tuple[float, ...]
    shard: int
    rows: File
    before: int
    memory: int
    at_once: int

    @property
    def label(self) -> str:
        """What it makes, and its number."""
        return f"sums/{self.shard:05}"

    def run(self, place: Workplace) -> Result:
        """Load the candidates for the users of the job, and add up."""
        asked, weights = (np.ascontiguousarray(each) for each in place.map_array(*self.rows).T)
        own = loaded(place, self.sources, asked, self.before, self.at_once)
        users = own.users
        (total,) = group_sums(
            np.array(self.coefficients), own.scores, users, weights, np.array(self.lambdas),
            own.seen, [0, len(users)], memory=self.memory, at_once=self.at_once,
        )  # fmt: skip
        name = f"{self.key}-0"
        return {"rows": len(users), "files": [(name, place.put_array(name, total))]}


class BelievedJob(PlacedJob):
    """What a relevance model says of all items to some users.

    Attributes:
        sources: The candidates whose ranks are its features.
        coefficients: Of each fold of users.
        appeal: Of each item, `[n_items]`.
        shard: Number.
        rows: The users, and the fold of each, `[n, 2]`.
        before: The part before which rows are what users have seen.
    """

    sources: tuple[Source, ...]
    coefficients: tuple[tuple[float, ...], ...]
    appeal: File
    shard: int
    rows: File
    before: int

    @property
    def label(self) -> str:
        """What it makes, and its number."""
        return f"believed/{self.shard:05}"

    def run(self, place: Workplace) -> Result:
        """Load the candidates for the users of the job, and ask the model."""
        asked, folds = (np.ascontiguousarray(each) for each in place.map_array(*self.rows).T)
        n = len(asked)
        own = loaded(place, self.sources, asked, self.before, n)
        appeal = np.array(place.map_array(*self.appeal))
        shared = np.array(self.coefficients), appeal, own.scores
        (found,) = probabilities(*shared, own.users, folds, own.seen, [0, n])
        name = f"{self.key}-0"
        return {"rows": n, "files": [(name, place.put_array(name, found))]}


def run_here(place: Workplace, scores: Scores, seen: Interactions, job: Job) -> Result:
    """Do a job in the process that has the candidate."""
    assert isinstance(job, RankJob)
    return job.kept(place, place.map_array(*job.rows), scores, seen)
