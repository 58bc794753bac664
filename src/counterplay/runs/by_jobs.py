"""A candidate whose ranks, lists and sums are made by jobs, exactly as here."""

from __future__ import annotations

from functools import cached_property, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.metrics import recommendations
from counterplay.metrics.blocks import BLOCK, Elsewhere
from counterplay.metrics.ranks import Ranks, full_ranks, rows_at_once, sampled_ranks
from counterplay.runs.rank_jobs import BelievedJob, RankJob, SumJob, run_here

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from counterplay.data.interactions import Interactions
    from counterplay.data.workplace import File, Workplace
    from counterplay.metrics.arrays import Doubles, Integers
    from counterplay.metrics.recommendations import Lists as BestItems
    from counterplay.metrics.scoring import Scores
    from counterplay.runs.rank_jobs import What
    from counterplay.runs.ranking import Ranking
    from counterplay.runs.sources import Source


class ByJobs(Elsewhere):
    """The scores of a candidate, whose ranks and lists are made by jobs."""

    def __init__(
        self,
        ranking: Ranking,
        name: str,
        here: Scores,
        source: Source,
        beside: dict[str, NDArray[Any]],
        seen: Mapping[int, Interactions],
        is_open: File | None,
    ) -> None:
        super().__init__(here)
        self._ranking, self._name, self._seen, self._open = ranking, name, seen, is_open
        self._bare, self._beside = source, beside

    @cached_property
    def _source(self) -> Source:
        """Where jobs have the scores from; what goes with it is written for the first of them."""
        place = self._ranking.place
        files = {name: put(place, name, values) for name, values in self._beside.items()}
        return self._bare.model_copy(update=files)

    def full_ranks(self, targets: Interactions, seen: Interactions, memory: int) -> Ranks:
        """Return where each target stands among all items that its user has not `seen`."""
        users, place = np.unique(targets.user, return_inverse=True)
        at_once = rows_at_once(len(users), min(BLOCK, seen.n_items), memory)
        cuts = self._ranking.cuts(len(users), at_once)
        part = self._part(seen)
        if part is None or self._few(cuts):
            return full_ranks(self.here, targets, seen, memory=memory)
        table = np.column_stack([targets.user, targets.item])
        ends = np.searchsorted(place, cuts).tolist()
        found = self._made("ranks", table, ends, part, memory, at_once)
        return Ranks(*(np.concatenate(each) for each in zip(*found, strict=True)))

    def sampled_ranks(self, users: Integers, candidates: Integers, memory: int) -> Ranks:
        """Return where each row's first candidate stands among all of the row."""
        at_once = rows_at_once(len(users), candidates.shape[1], memory)
        cuts = self._ranking.cuts(len(users), at_once)
        if self._few(cuts):
            return sampled_ranks(self.here, users, candidates, memory=memory)
        table = np.column_stack([users.astype(np.int32), candidates])
        found = self._made("sampled", table, cuts, next(iter(self._seen)), memory, at_once)
        return Ranks(*(np.concatenate(each) for each in zip(*found, strict=True)))

    def lists(
        self, users: Integers, seen: Interactions, k: int, memory: int
    ) -> Iterator[BestItems]:
        """Yield the `k` best unseen items of `users`, as many users at a time as elsewhere."""
        at_once = rows_at_once(len(users), min(BLOCK, seen.n_items), memory)
        cuts = self._ranking.cuts(len(users), at_once)
        part = self._part(seen)
        if part is None or self._few(cuts):
            yield from recommendations.lists_of(self.here, users, seen, k, memory=memory)
            return
        table = users.astype(np.int32)[:, None]
        for items, values in self._made("lists", table, cuts, part, memory, at_once, k):
            for begin in range(0, len(items), at_once):
                some = slice(begin, begin + at_once)
                yield np.array(items[some]), np.array(values[some])

    def group_sums(
        self,
        coefficients: Doubles,
        candidates: Sequence[Scores],
        users: Integers,
        weights: Integers,
        shares: Doubles,
        seen: Interactions,
        cuts: Sequence[int],
        *,
        memory: int,
        at_once: int,
    ) -> Iterator[Doubles] | None:
        """Yield the sums of groups of users, a job each; None where this process does it sooner."""
        ranking, part, sources = self._ranking, self._part(seen), self._sources(candidates)
        if sources is None or part is None:
            return None
        table, jobs = np.column_stack([users, weights]), []
        for shard, (begin, end) in enumerate(pairwise(cuts)):
            rows = put(ranking.place, f"rows-sums-{part}-{shard:05}", table[begin:end])
            jobs.append(
                SumJob(
                    sources=sources, coefficients=tuple(coefficients.tolist()), shard=shard,
                    lambdas=tuple(shares.tolist()), rows=rows, before=part, memory=memory,
                    at_once=at_once,
                )
            )  # fmt: skip
        return (total for (total,) in ranking.done("adding up over users", jobs))

    def probabilities(
        self,
        coefficients: Doubles,
        appeal: Doubles,
        candidates: Sequence[Scores],
        users: Integers,
        folds: Integers,
        seen: Interactions,
        cuts: Sequence[int],
    ) -> Iterator[NDArray[np.float32]] | None:
        """Yield what is believed of the users between two cuts, a job each; None as above."""
        place, part, sources = self._ranking.place, self._part(seen), self._sources(candidates)
        if sources is None or part is None:
            return None
        told: Any = {
            "sources": sources, "coefficients": tuple(map(tuple, coefficients.tolist())),
            "appeal": put(place, "appeal", appeal), "before": part,
        }  # fmt: skip
        table, jobs = np.column_stack([users, folds]), []
        for shard, (begin, end) in enumerate(pairwise(cuts)):
            rows = put(place, f"rows-believed-{part}-{shard:05}", table[begin:end])
            jobs.append(BelievedJob(shard=shard, rows=rows, **told))
        return (found for (found,) in self._ranking.done("estimating relevance", jobs))

    def _sources(self, candidates: Sequence[Scores]) -> tuple[Source, ...] | None:
        """Return where jobs elsewhere have candidates from; None where this process is sooner."""
        if self._ranking.is_here or not all(isinstance(each, ByJobs) for each in candidates):
            return None
        return tuple(each._source for each in candidates if isinstance(each, ByJobs))

    def _few(self, cuts: Sequence[int]) -> bool:
        """Tell whether this process does it sooner than it would write it down."""
        return cuts[-1] == 0 or (self._ranking.is_here and len(cuts) == 2)

    def _part(self, seen: Interactions) -> int | None:
        """Return the part before which rows are `seen`; None if they are others."""
        for part, rows in self._seen.items():
            if seen is rows or (
                len(seen) == len(rows)
                and np.array_equal(seen.user, rows.user)
                and np.array_equal(seen.item, rows.item)
            ):
                return part
        return None

    def _made(
        self,
        what: What,
        table: NDArray[np.int32],
        cuts: Sequence[int],
        part: int,
        memory: int,
        at_once: int,
        k: int = 0,
    ) -> Iterator[list[NDArray[Any]]]:
        """Yield what jobs made of the rows between two cuts each."""
        ranking, jobs = self._ranking, []
        for shard, (begin, end) in enumerate(pairwise(cuts)):
            rows = table[begin:end]
            name = f"rows-{what}-{part}-{shard:05}"
            jobs.append(
                RankJob(
                    what=what, source=self._source, shard=shard, before=part, memory=memory,
                    at_once=at_once, k=k, rows=put(ranking.place, name, rows), open=self._open,
                )
            )  # fmt: skip
        work = (
            partial(run_here, ranking.place, self.here, self._seen[part])
            if ranking.is_here
            else None
        )
        yield from ranking.done(f"ranking {self._name}", jobs, work)


def put(place: Workplace, name: str, rows: NDArray[Any]) -> File:
    """Write rows for a job, under a name of their own."""
    digest = place.put_array(name, rows)
    own = f"{name}-{digest.removeprefix('sha256:')[:10]}"
    place.path(name).replace(place.path(own))
    return own, digest
