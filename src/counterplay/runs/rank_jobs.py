"""The jobs of a ranking: what a worker is told, and how it loads the candidate that it ranks."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

from counterplay.data.directory import load_split
from counterplay.data.files import digest_of
from counterplay.data.interactions import Interactions
from counterplay.data.workplace import File, PlacedJob
from counterplay.errors import DataError
from counterplay.evaluation.score_files import read_scores
from counterplay.metrics.item_sums import group_sums
from counterplay.metrics.ranks import full_ranks, sampled_ranks
from counterplay.metrics.recommendations import lists_of
from counterplay.metrics.scoring import ModelScores
from counterplay.metrics.shelf import Shelf
from counterplay.runs.record import RECORD, load_run, read_record
from counterplay.runs.training import taught_by, versions

if TYPE_CHECKING:
    from counterplay.data.jobs import Job, Result
    from counterplay.data.splits import Split
    from counterplay.data.workplace import Workplace
    from counterplay.metrics.scoring import Scores
    from counterplay.runs.record import RunRecord

What = Literal["ranks", "sampled", "lists"]


class Source(BaseModel):
    """Where a candidate's scores come from, as plain values.

    Attributes:
        path: A run directory, or a file of scores.
        digest: Of `run.json`, or of the file.
        data: The dataset directory.
        prints: Fingerprints of its log and of its split.
        before: The part before which rows are what users did; 3 are all rows.
        versions: Of what scores may depend on.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: str
    digest: str
    data: str
    prints: tuple[str, str]
    before: int
    versions: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, path: Path, data: str | Path, prints: tuple[str, str], before: int) -> Source:
        """Return the source of a run directory's, or of a file's scores."""
        return cls(
            path=str(path.resolve()), digest=_digest(path), data=str(Path(data).resolve()),
            prints=prints, before=before, versions=tuple(versions().items()),
        )  # fmt: skip

    def rows_before(self, part: int) -> Interactions:
        """Return what users did before a part; a process loads it once."""
        return _before(self.data, self.prints, part)


def run_scores(run: str | Path, record: RunRecord, split: Split, seen: Interactions) -> ModelScores:
    """Return the scores of a run's candidate for users who did what is `seen`."""
    split = split if record.refit is None else split.undivided()
    train = split.train if record.predicts_ratings else replace(split.train, rating=None)
    taught = taught_by(record.configuration.method, split)
    return ModelScores(load_run(run, train)[0], seen, train=train, taught=taught)


@lru_cache(maxsize=16)
def _loaded(source: Source) -> Scores:
    path, split = Path(source.path), _split(source.data, source.prints)
    if _digest(path) != source.digest:
        raise DataError(
            f"a candidate must stay as it is while it is ranked; found '{path}' changed; give the "
            "same command again"
        )
    if path.is_file():
        return read_scores(path, split.interactions, np.empty(0, np.int64))
    return run_scores(path, read_record(path), split, source.rows_before(source.before))


def _digest(path: Path) -> str:
    return digest_of(path if path.is_file() else path / RECORD)


@lru_cache(maxsize=1)
def _split(data: str, prints: tuple[str, str]) -> Split:
    found = load_split(data)
    if (found.interactions.fingerprint, found.fingerprint) != prints:
        raise DataError(
            f"the data must stay as they are while candidates are ranked; found '{data}' changed; "
            "give the same command again"
        )
    return found


@lru_cache(maxsize=3)
def _before(data: str, prints: tuple[str, str], part: int) -> Interactions:
    split = _split(data, prints)
    return split.interactions.take(split.part < part)


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
        """Load the candidate, unless this process has it, and rank."""
        scores = _loaded(self.source)
        if self.open is not None:
            scores = Shelf(place.map_array(*self.open)).scores(scores)
        return self.kept(place, scores, self.source.rows_before(self.before))

    def kept(self, place: Workplace, scores: Scores, seen: Interactions) -> Result:
        """Write what comes of it."""
        table = place.map_array(*self.rows)
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
        """Load the candidates, unless this process has them, and add up."""
        table = place.map_array(*self.rows)
        users, weights = (np.ascontiguousarray(each) for each in table.T)
        (total,) = group_sums(
            np.array(self.coefficients), [_loaded(each) for each in self.sources], users, weights,
            np.array(self.lambdas), self.sources[0].rows_before(self.before), [0, len(users)],
            memory=self.memory, at_once=self.at_once,
        )  # fmt: skip
        name = f"{self.key}-0"
        return {"rows": len(users), "files": [(name, place.put_array(name, total))]}


def run_here(place: Workplace, scores: Scores, seen: Interactions, job: Job) -> Result:
    """Do a job in the process that has the candidate."""
    assert isinstance(job, RankJob)
    return job.kept(place, scores, seen)
