"""Where jobs of one command leave what they made for each other: frames, with their digests.

A job is plain values, the digests of what it reads among them. So it never works on a file that
is not the one that an earlier job wrote.
"""

from __future__ import annotations

import hashlib
import io
import time
from abc import abstractmethod
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import polars as pl

from counterplay.data.files import check_digest, check_once, digest_of
from counterplay.data.jobs import Job, Result, Results, in_turn, run_jobs, succeeded
from counterplay.data.locks import locked
from counterplay.data.publishing import own_file
from counterplay.data.vocabulary import Vocabulary
from counterplay.errors import ConfigError, DataError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from counterplay.data.jobs import Executor, Work
    from counterplay.progress import Steps


@dataclass(frozen=True, slots=True)
class Workplace:
    """The folder of a command that is under way."""

    folder: Path

    def path(self, name: str) -> Path:
        """Return where a frame is."""
        return self.folder / f"{name}.arrow"

    def put(self, name: str, columns: Mapping[str, Any]) -> str:
        """Write columns, all of them or nothing, and return their digest."""
        with own_file(self.path(name)) as beside:
            pl.DataFrame(columns).write_ipc(beside, compression="lz4")
            return digest_of(beside)

    def take(self, name: str, digest: str) -> pl.DataFrame:
        """Return a frame, which must be as it was written."""
        self.check(name, digest)
        return pl.read_ipc(self.path(name))

    def check(self, name: str, digest: str) -> None:
        """Refuse a file that is not as it was written."""
        path = self.path(name)
        check_digest(path, {path.name: digest}, remedy=self.remedy)

    def columns(self, name: str, digest: str) -> dict[str, NDArray[Any]]:
        """Return the columns of a frame as arrays."""
        return {column.name: column.to_numpy() for column in self.take(name, digest)}

    def put_array(self, name: str, array: NDArray[Any]) -> str:
        """Write an array that may be looked at without being read whole."""
        with own_file(self.path(name)) as beside, beside.open("wb") as file:
            np.save(file, array)
            file.flush()
            return digest_of(beside)

    def map_array(self, name: str, digest: str) -> NDArray[Any]:
        """Return an array whose values are read when they are asked for."""
        path = self.path(name)
        check_once(path, {path.name: digest}, remedy=self.remedy)
        mapped: NDArray[Any] = np.load(self.path(name), mmap_mode="r", allow_pickle=False)
        return mapped

    def vocabulary(self, name: str, digest: str) -> Vocabulary:
        """Return a vocabulary; a process that needs it again has it."""
        return _vocabulary(self, name, digest)

    def put_slices(self, name: str, slices: Iterable[tuple[pl.DataFrame, ...]]) -> list[Slice]:
        """Write many small frames into one file, some of them a slice; return where each is."""
        found, begin = [], 0
        with own_file(self.path(name)) as beside, beside.open("wb") as file:
            for frames in slices:
                contents = [_bytes_of(frame) for frame in frames]
                digest = hashlib.sha256(b"".join(contents)).hexdigest()
                found.append((begin, tuple(map(len, contents)), digest))
                begin += sum(map(file.write, contents))
        return found

    def take_slice(self, name: str, place: Slice) -> list[pl.DataFrame]:
        """Return the frames of a slice, which must be as they were written."""
        begin, lengths, digest = place
        path = self.path(name)
        try:
            with path.open("rb") as file:
                file.seek(begin)
                contents = file.read(sum(lengths))
        except FileNotFoundError:
            contents = b""
        if hashlib.sha256(contents).hexdigest() != digest:
            raise DataError(
                f"'{path}' must be as it was written; found it changed or damaged; {self.remedy}"
            )
        stream = io.BytesIO(contents)
        return [pl.read_ipc(io.BytesIO(stream.read(length))) for length in lengths]

    @property
    def remedy(self) -> str:
        """What to do about a damaged file."""
        return f"remove '{self.folder}', and give the same command again"


File = tuple[str, str]  # name and digest
Slice = tuple[int, tuple[int, ...], str]  # where it begins, the lengths of its frames, its digest


class PlacedJob(Job):
    """A job that reads and writes frames of a workplace."""

    @abstractmethod
    def run(self, place: Workplace) -> Result:
        """Do it; what it returns is counts and digests."""


@dataclass(frozen=True, slots=True)
class Lists:
    """Runs lists of jobs of a workplace, those that are not done."""

    place: Workplace
    executor: Executor = in_turn
    progress: Steps | None = None

    def run(self, what: str, jobs: Sequence[Job], work: Work | None = None) -> list[Result]:
        """Return the results of all jobs, in their order; `work` is by default what they say."""
        results = Results(self.place.folder / "jobs", durable=False)
        n_done = sum(results.state(job) == "done" for job in jobs)

        def finished(_: Job, result: Result) -> None:
            nonlocal n_done
            succeeded(result)
            n_done += 1
            if self.progress:
                self.progress(what, n_done, len(jobs))

        if self.progress:
            self.progress(what, n_done, len(jobs))
        work = work or partial(run_in, self.place)
        run_jobs(jobs, results, work, self.executor, retry=True, finished=finished)
        return [cast("Result", results.of(job)) for job in jobs]


def work_of(out: Path) -> Path:
    """Return the workplace of the command that writes `out`."""
    return out.with_name(f".{out.name}.work")


def run_in(place: Workplace, job: Job) -> Result:
    """Do a job of a workplace, which nobody else does meanwhile."""
    assert isinstance(job, PlacedJob)
    with _alone(place.folder / job.key):
        return job.run(place)


@contextmanager
def _alone(target: Path) -> Iterator[None]:
    """Hold the lock of a job; a worker whose command was killed may need a moment to end."""
    with ExitStack() as stack:
        for seconds in (0.1, 0.2, 0.5, 1, 2, 5, 0):
            try:
                stack.enter_context(locked(target))
                break
            except ConfigError:
                if not seconds:
                    raise
                time.sleep(seconds)
        yield


def _bytes_of(frame: pl.DataFrame) -> bytes:
    stream = io.BytesIO()
    frame.write_ipc(stream, compression="lz4")
    return stream.getvalue()


@lru_cache(maxsize=2)
def _vocabulary(place: Workplace, name: str, digest: str) -> Vocabulary:
    return Vocabulary(place.take(name, digest)["id"])
