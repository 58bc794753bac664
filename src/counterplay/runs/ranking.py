"""Rank by jobs: a job has some of the users, so that workers share them out and nothing is lost.

What takes long in an evaluation is to rank held-out rows among all items, to add up over users what
dials need of every item, and to say of all items how relevant they are to some users; in
recommending, to find the best of all items. All of it is done user by user. A job does it for users
who follow each other, and keeps what comes of it; the rest is computed from that as ever. The users
are cut where one machine would ask the model anew, so a model is asked for the same users
at a time, and the result is the same, to the byte, for any number of jobs and workers.

A job is named by what it is about: the candidate, the rows, the data. So one that is done serves
whoever asks the same, and a candidate that has changed is ranked again.
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from counterplay.data.jobs import in_turn
from counterplay.data.publishing import working_directory
from counterplay.data.workplace import Lists, Workplace, work_of
from counterplay.groups import SHARDS
from counterplay.metrics.scoring import ModelScores, TableScores
from counterplay.runs.by_jobs import ByJobs, put
from counterplay.runs.sources import Source

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from counterplay.data.interactions import Interactions
    from counterplay.data.jobs import Executor, Job, Work
    from counterplay.evaluation.given_scores import Table
    from counterplay.metrics.arrays import Floats
    from counterplay.metrics.scoring import Scores
    from counterplay.metrics.shelf import Shelf
    from counterplay.progress import Steps

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
            is_open = put(place, "open", shelf.open)
        return ByJobs(self, name, scores, source, beside, seen, is_open)

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
