"""Rank by jobs: a job has some of the users, so that workers share them out and nothing is lost.

What takes long in an evaluation is to rank held-out rows among all items, and to add up over users
what dials need of every item; in recommending, to find the best of all items. All of it is done
user by user. A job does it for users who follow each
other, and keeps whole numbers, or lists; whatever comes after is computed from these as ever. The
users are cut where one machine would ask the model anew, so a model is asked for the same users
at a time, and the result is the same, to the byte, for any number of jobs and workers.

A job is named by what it is about: the candidate, the rows, the data. So one that is done serves
whoever asks the same, and a candidate that has changed is ranked again.
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.data.jobs import in_turn
from counterplay.data.publishing import working_directory
from counterplay.data.workplace import Lists, Workplace, work_of
from counterplay.groups import SHARDS
from counterplay.metrics import recommendations
from counterplay.metrics.blocks import BLOCK, Elsewhere
from counterplay.metrics.ranks import Ranks, full_ranks, rows_at_once, sampled_ranks
from counterplay.metrics.scoring import ModelScores, TableScores
from counterplay.runs.rank_jobs import RankJob, SumJob, run_here
from counterplay.runs.sources import Source

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from counterplay.data.interactions import Interactions
    from counterplay.data.jobs import Executor, Job, Work
    from counterplay.data.workplace import File
    from counterplay.evaluation.given_scores import Table
    from counterplay.metrics.arrays import Doubles, Floats, Integers
    from counterplay.metrics.recommendations import Lists as BestItems
    from counterplay.metrics.scoring import Scores
    from counterplay.metrics.shelf import Shelf
    from counterplay.progress import Steps
    from counterplay.runs.rank_jobs import What

_PARTS = 16  # that a job has at least, unless shards are asked for: threads share them


@dataclass(frozen=True, slots=True)
class Ranking:
    """How candidates are ranked: in which jobs, and where these are run.

    Attributes:
        place: Where jobs leave what they made.
        shards: Maximum number of jobs for the rows of a candidate; None are few, for one process.
        executor: `processes(n)` or `on_ray()` run jobs elsewhere; `in_turn` runs them here.
        progress: Told what is done, and how many jobs of how many.
    """

    place: Workplace
    shards: int | None = None
    executor: Executor = in_turn
    progress: Steps | None = None

    def of(
        self,
        name: str,
        scores: Scores,
        given: Table,
        data: str | Path,
        prints: tuple[str, str],
        seen: Mapping[int, Interactions],
        shelf: Shelf | None = None,
        everybody: Floats | None = None,
    ) -> Scores:
        """Return the scores of a candidate so that it is ranked by jobs.

        Args:
            name: What to call it.
            scores: Its scores here.
            given: What they come from: a run directory, or a file or frame of scores.
            data: The dataset directory.
            prints: Fingerprints of its log and of its split.
            seen: By part, what users did before it, as it will be asked for; the first is what the
                candidate itself knows of them.
            shelf: The items that may be on lists, as its scores here have them; None are all.
            everybody: What users get of whom the run knows nothing, unless its scores here say so.
        """
        place, is_open = self.place, None
        if isinstance(scores, TableScores):
            run, beside = None, {"pairs": scores.pairs, "scores": scores.scores}
        else:
            assert isinstance(given, str | Path)
            if isinstance(scores, ModelScores) and scores.fallback is not None:
                everybody = scores.fallback.items
            assert everybody is not None
            run, beside = Path(given), {"everybody": everybody}
        source = Source.of(data, prints, next(iter(seen)), run)  # as the run is now
        if shelf is not None and not shelf.is_whole:
            is_open = _put(place, "open", shelf.open)
        return _ByJobs(self, name, scores, source, beside, seen, is_open)

    @property
    def is_here(self) -> bool:
        """Whether jobs are run by this process, which has the candidates already."""
        return self.executor is in_turn

    def done(
        self, what: str, jobs: Sequence[Job], work: Work | None = None
    ) -> Iterator[list[NDArray[Any]]]:
        """Yield the arrays that each job has made, in the order of the jobs."""
        for result in Lists(self.place, self.executor, self.progress).run(what, jobs, work):
            yield [self.place.map_array(*file) for file in result["files"]]

    def cuts(self, n: int, at_once: int) -> list[int]:
        """Return where the jobs of `n` users begin, and where the last one ends.

        That does not depend on who does them, so that another number of workers can go on.
        """
        n_parts = -(-n // at_once)
        most = min(SHARDS, n_parts // _PARTS) if self.shards is None else min(self.shards, n_parts)
        n_jobs = max(1, most)
        return [min(n, n_parts * job // n_jobs * at_once) for job in range(n_jobs + 1)]


@contextmanager
def ranking_for(
    out: Path | None,
    *,
    shards: int | None = None,
    executor: Executor = in_turn,
    progress: Steps | None = None,
) -> Iterator[Ranking]:
    """Give a ranking for the command that writes `out` before this block ends.

    Its jobs lie in `.NAME.work` beside the output until it is there; so what was interrupted goes
    on. Without an output they lie in a temporary folder.
    """
    if out is None:
        with tempfile.TemporaryDirectory() as folder:
            yield Ranking(Workplace(Path(folder)), shards, executor, progress)
        return
    with working_directory(work_of(out.resolve())) as folder:
        yield Ranking(Workplace(folder), shards, executor, progress)
        shutil.rmtree(folder)


class _ByJobs(Elsewhere):
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
        files = {name: _put(place, name, values) for name, values in self._beside.items()}
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
        ranking, part = self._ranking, self._part(seen)
        sources = tuple(each._source for each in candidates if isinstance(each, _ByJobs))
        if ranking.is_here or part is None or len(sources) < len(candidates):
            return None
        table, jobs = np.column_stack([users, weights]), []
        for shard, (begin, end) in enumerate(pairwise(cuts)):
            rows = _put(ranking.place, f"rows-sums-{part}-{shard:05}", table[begin:end])
            jobs.append(
                SumJob(
                    sources=sources, coefficients=tuple(coefficients.tolist()), shard=shard,
                    lambdas=tuple(shares.tolist()), rows=rows, before=part, memory=memory,
                    at_once=at_once,
                )
            )  # fmt: skip
        return (total for (total,) in ranking.done("adding up over users", jobs))

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
                    at_once=at_once, k=k, rows=_put(ranking.place, name, rows), open=self._open,
                )
            )  # fmt: skip
        work = (
            partial(run_here, ranking.place, self.here, self._seen[part])
            if ranking.is_here
            else None
        )
        yield from ranking.done(f"ranking {self._name}", jobs, work)


def _put(place: Workplace, name: str, rows: NDArray[Any]) -> File:
    """Write rows for a job, under a name of their own."""
    digest = place.put_array(name, rows)
    own = f"{name}-{digest.removeprefix('sha256:')[:10]}"
    place.path(name).replace(place.path(own))
    return own, digest
