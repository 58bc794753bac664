"""Lists of independent jobs: each is run once, its result kept as one small JSON file.

    FOLDER/KEY.json    the job and what came of it, or {"job": …, "failed": "sentence"}

A job whose result is there is not run again, so a list can be stopped and taken up at will.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict

from counterplay import errors
from counterplay.data.files import read_json, write_json
from counterplay.errors import CounterplayError, DataError
from counterplay.extras import needed

if TYPE_CHECKING:
    from pathlib import Path

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS")  # read at import
State = Literal["done", "failed", "waiting"]
Result = dict[str, Any]
Work = Callable[["Job"], Result]
Finished = Generator[tuple["Job", Result]]


class Job(BaseModel):
    """One piece of work as plain values; what it is decides its key, and nothing else does."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @property
    def label(self) -> str:
        """What to call it, in parts that are separated by slashes."""
        raise NotImplementedError

    @property
    def key(self) -> str:
        """A file name: the label, and a digest of all values."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True)
        digest = hashlib.sha256(f"{type(self).__name__} {text}".encode()).hexdigest()[:10]
        return f"{self.label.replace('/', '_')}_{digest}"


class Executor(Protocol):
    """Runs work on jobs, and gives each job with its result as it is finished."""

    def __call__(self, work: Work, jobs: Sequence[Job]) -> Finished:
        """Run all jobs, in any order; to close what it returns ends those under way."""
        ...


class Results:
    """The results of jobs in a folder; those that are not `durable` may not outlive a power cut."""

    def __init__(self, folder: Path, *, durable: bool = True) -> None:
        self.folder = folder
        self.durable = durable
        self._read: dict[str, Result] = {}

    def state(self, job: Job) -> State:
        """Tell how far a job is."""
        if self.of(job) is not None:
            return "done"
        return "waiting" if self.failure(job) is None else "failed"

    def of(self, job: Job) -> Result | None:
        """Return the result of a job that is done."""
        found = self._kept(job)
        return None if found is None or "failed" in found else found

    def failure(self, job: Job) -> str | None:
        """Return why a job failed, if it did."""
        found = self._kept(job)
        return None if found is None or "failed" not in found else str(found["failed"])

    def keep(self, job: Job, result: Result) -> None:
        """Write a result, all of it or nothing."""
        self.folder.mkdir(parents=True, exist_ok=True)
        kept = {"job": job.model_dump(mode="json"), **result}
        path = self.folder / f"{job.key}.json"
        write_json(kept, path, indent=None, durable=self.durable)  # there may be thousands
        self._read[job.key] = kept

    def _kept(self, job: Job) -> Result | None:
        path = self.folder / f"{job.key}.json"
        if job.key not in self._read and path.exists():
            remedy = "remove it, and the job is run again"
            found = read_json(path, "the result of a job", remedy=remedy, may_lack_seal=True)
            if found.get("job") != job.model_dump(mode="json"):
                raise DataError(
                    f"'{path}' must be the result of its job; found that of another; {remedy}"
                )
            self._read[job.key] = found
        return self._read.get(job.key)


def run_jobs(
    jobs: Sequence[Job],
    results: Results,
    work: Work,
    executor: Executor,
    *,
    retry: bool = False,
    finished: Callable[[Job, Result], None] = lambda *_: None,
) -> None:
    """Run the jobs that have no result, and keep theirs; failed ones again only with `retry`.

    Args:
        jobs: Independent of each other.
        results: Where results are kept.
        work: What a job does; a function that other processes can import.
        executor: Where it is done.
        retry: Whether failed jobs are run again.
        finished: Told of every job that has been run.
    """
    wanted = ("waiting", "failed") if retry else ("waiting",)
    waiting = {job.key: job for job in jobs if results.state(job) in wanted}
    with closing(executor(work, list(waiting.values()))) as done:
        for job, result in done:
            results.keep(job, result)
            finished(job, result)


def attempt(work: Work, job: Job) -> Result:
    """Run a job; a failure is a result too."""
    try:
        return work(job)
    except CounterplayError as error:
        return {"failed": str(error), "error": type(error).__name__}
    except Exception as error:  # one bad job must not end the list
        return {"failed": f"{type(error).__name__}: {' '.join(str(error).split())}"}


def succeeded(result: Result) -> Result:
    """Return what came of a job; raise what it failed by."""
    if "failed" in result:
        kind = getattr(errors, str(result.get("error")), CounterplayError)
        raise kind(result["failed"])
    return result


def in_turn(work: Work, jobs: Sequence[Job]) -> Finished:
    """Run jobs in this process, one after the other."""
    for job in jobs:
        yield job, attempt(work, job)


def in_processes(workers: int) -> Executor:
    """Return what runs a list in that many processes, which share the cores; 1 is this process."""
    return in_turn if workers == 1 else partial(_in_processes, workers)


def _in_processes(workers: int, work: Work, jobs: Sequence[Job]) -> Finished:
    if jobs:
        with processes(min(workers, len(jobs)), n_cores() // workers) as executor:
            yield from executor(work, jobs)


@contextmanager
def processes(workers: int, threads: int = 1) -> Iterator[Executor]:
    """Give what runs one list after the other in the same processes, so many threads in each."""
    with _pool(workers) as pool:
        yield partial(_in_pool, pool, max(1, threads))


def _in_pool(pool: ProcessPoolExecutor, threads: int, work: Work, jobs: Sequence[Job]) -> Finished:
    with _uninterrupted(), _share_of_cores(threads):  # what processes are started with
        under_way = {pool.submit(attempt, work, job): job for job in jobs}
    try:
        for done in as_completed(list(under_way)):
            yield under_way.pop(done), done.result()
    except BrokenProcessPool:
        raise CounterplayError(
            "every process must live until its job is done; found one that was ended from "
            "outside, perhaps for want of memory; run the same command again, with fewer "
            "--workers"
        ) from None
    finally:
        for each in under_way:
            each.cancel()


@contextmanager
def _pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Give processes that end with this block, at once when it is left early."""
    others = set(multiprocessing.active_children())
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, context, initializer=_follow)
    try:
        yield pool
    except BaseException:
        for child in set(multiprocessing.active_children()) - others:
            child.terminate()
        pool.shutdown(cancel_futures=True)  # which waits for them, and gives up what they shared
        raise
    pool.shutdown()


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Start processes that Ctrl-C does not reach: this one ends them, and speaks for them."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _share_of_cores(threads: int) -> Iterator[None]:
    """Let processes that are started within compute with so many threads."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, str(threads)))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _follow() -> None:
    """End when the process that started this one has ended."""
    parent = multiprocessing.parent_process()

    def follow() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def on_ray() -> Executor:
    """Return what runs jobs on a Ray cluster, a core each.

    Data and output must be where all nodes see them.
    """
    with needed("running on Ray", "ray"):
        return partial(_on_ray, import_module("ray"))


def connect(ray: Any) -> None:
    """Join the cluster at RAY_ADDRESS; without one, this machine becomes a cluster."""
    if ray.is_initialized():
        return
    variables = {"env_vars": dict.fromkeys(_THREADS, "1")}
    try:
        ray.init(log_to_driver=False, logging_level="ERROR", runtime_env=variables)
    except Exception as error:  # of no kind of its own where a machine starts too slowly
        found = " ".join(str(error).split())[:200] or type(error).__name__
        raise CounterplayError(
            f"a Ray cluster must answer before it gets work; found {found}; look at RAY_ADDRESS "
            "and at the cluster, or give --workers in place of --ray"
        ) from None


def _on_ray(ray: Any, work: Work, jobs: Sequence[Job]) -> Finished:
    if not jobs:
        return
    connect(ray)
    run = ray.remote(attempt)
    under_way = {run.remote(work, job): job for job in jobs}
    try:
        while under_way:
            (done, *_), _ = ray.wait(list(under_way))
            yield under_way.pop(done), ray.get(done)
    except ray.exceptions.RayError as error:
        found = " ".join(str(error).split())[:200]
        raise CounterplayError(
            f"every job must live until it is done; found that Ray ended one, {found}; run the "
            "same command again"
        ) from None
    finally:
        for each in under_way:
            ray.cancel(each, force=True)


def n_cores() -> int:
    """Return the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
