"""Run a table or a figure of the paper, job by job, and write what came of it.

data/            public data as prepared, and worlds with their logs
runs/KEY.json    the result of every job
work/KEY/        jobs under way; they go on from there
NAME.json        cells with intervals, and claims with verdicts
NAME.md          the same as a page, beside the paper's numbers
NAME.html        the same as a report, with charts, and with epochs where they are kept
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from counterplay.data.files import write_json
from counterplay.data.jobs import Results, in_turn, run_jobs
from counterplay.data.publishing import new_file, working_directory
from counterplay.errors import ConfigError, CounterplayError
from counterplay.runs.training import versions
from reproduction.budget import seconds_of_job
from reproduction.datasets import Place, check_data, make
from reproduction.definitions import METHOD_TABLES
from reproduction.execution import execute
from reproduction.jobs import Plan, TrainJob
from reproduction.on_trial import EstimatorTable
from reproduction.online_games import GamesTable
from reproduction.page import markdown

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from counterplay.data.jobs import Executor, Job, Result


class Reproducible(Protocol):
    """A table or a figure."""

    @property
    def name(self) -> str:
        """What it is asked for by."""
        ...

    @property
    def title(self) -> str:
        """What it shows."""
        ...

    def jobs(self, plan: Plan, results: Results) -> list[Job]:
        """Return all jobs that are known by now."""
        ...

    def source(self, job: Job) -> str | None:
        """Return what a job's data are made of; None where it says so itself."""
        ...

    def summary(self, plan: Plan, results: Results, place: Place) -> dict[str, Any]:
        """Return what came of them, with claims."""
        ...

    def runs(self, plan: Plan, results: Results) -> list[dict[str, Any]]:
        """Return records of runs whose epochs are to be shown."""
        ...


_ALL: tuple[Reproducible, ...] = (*METHOD_TABLES, EstimatorTable(), GamesTable())
REPRODUCIBLE = {each.name: each for each in sorted(_ALL, key=lambda each: each.name)}
Progress = Callable[[int, int, str], None]  # jobs done, of how many are known, the last in words


def check_name(name: str, others: Iterable[str] = ()) -> None:
    """Refuse a name that is neither a table or figure of the paper nor one of the others."""
    known = [*REPRODUCIBLE, *others]
    if name not in known:
        nearest = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean '{nearest[0]}'" if nearest else "choose one of them"
        raise ConfigError(
            f"an experiment must be one of {', '.join(known)}; found no experiment '{name}'; {hint}"
        )


class Reproduction:
    """One table or figure in an output folder."""

    def __init__(
        self, name: str, data: Path, out: Path, plan: Plan | None = None, only: Iterable[str] = ()
    ) -> None:
        check_name(name)
        check_data(data)
        if out.exists() and not out.is_dir():
            raise ConfigError(
                f"--out must be a folder, or a new one; found a file at '{out}'; name another"
            )
        self.table, self.plan, self.only = REPRODUCIBLE[name], plan or Plan(), tuple(only)
        self.place = Place(data, out)
        self.results = Results(out / "runs")

    def states(self) -> list[tuple[Job, str]]:
        """Return the jobs that are known by now and asked for, each with its state."""
        return [
            (job, self.results.state(job) if self._has_data(job) else "no data")
            for job in self.table.jobs(self.plan, self.results)
            if all(part in job.label for part in self.only)
        ]

    def seconds(self, job: Job) -> float | None:
        """Return the seconds that a job took, or would take by those like it in the folder."""
        found = self.results.of(job)
        return seconds_of_job(self.results, job) if found is None else float(found["seconds"])

    def run(
        self,
        executor: Executor = in_turn,
        *,
        retry: bool = False,
        progress: Progress = lambda *_: None,
    ) -> dict[str, Any]:
        """Run what is not done, in waves, and return what is written to NAME.json.

        Results that are there stay when this is interrupted, and the pages show them.
        """
        with working_directory(self.place.out) as folder:
            try:
                self._run(executor, retry, progress)
            finally:
                result = self.result()
                write_json(result, folder / f"{self.table.name}.json", indent=None)
                with new_file(folder / f"{self.table.name}.md") as page:
                    page.write_text(markdown(result), encoding="utf-8")
        return result

    def result(self) -> dict[str, Any]:
        """Return what came of the jobs by now, of the whole table, as plain values."""
        known = [job for job in self.table.jobs(self.plan, self.results) if self._has_data(job)]
        states = [self.results.state(job) for job in known]
        done = [found for job in known if (found := self.results.of(job)) is not None]
        return {
            "name": self.table.name,
            "title": self.table.title,
            "command": self._command(),
            "plan": self.plan.model_dump(mode="json"),
            "jobs": {
                "known": len(known),
                "done": states.count("done"),
                "failed": states.count("failed"),
            },
            "seconds": round(sum(found["seconds"] for found in done), 1),
            "versions": versions(),
            **self.table.summary(self.plan, self.results, self.place),
        }

    def record(self, result: dict[str, Any]) -> dict[str, Any]:
        """Return what an HTML report is made of: the result, and epochs where they are kept."""
        return {
            "name": self.table.title,
            "kind": "log",
            "versions": versions(),
            "commands": [self._command()],
            "runs": self.table.runs(self.plan, self.results),
            "evaluation": None,
            "reproduction": result,
        }

    def _run(self, executor: Executor, retry: bool, progress: Progress) -> None:
        tried: set[str] = set()
        wanted = ("waiting", "failed") if retry else ("waiting",)
        while True:
            states = self.states()
            jobs = [job for job, state in states if state in wanted and job.key not in tried]
            if not jobs:
                return
            tried |= {job.key for job in jobs}
            total = sum(state != "no data" for _, state in states)
            done = total - len(jobs)

            def finished(job: Job, result: Result, total: int = total) -> None:
                nonlocal done
                done += 1
                words = result.get("failed") or f"{result['seconds']:.0f} s"
                progress(done, total, f"{job.label}: {words}")

            progress(done, total, "preparing data")
            jobs = self._with_data(jobs, finished)
            work = partial(execute, place=self.place)
            run_jobs(jobs, self.results, work, executor, retry=retry, finished=finished)

    def _with_data(self, jobs: list[Job], finished: Callable[[Job, Result], None]) -> list[Job]:
        """Prepare what the jobs learn from; those whose data cannot be prepared have failed."""
        ready = []
        failures: dict[str, str] = {}
        for job in jobs:
            data = job.data if isinstance(job, TrainJob) else None
            if data is not None and data not in failures:
                try:
                    make(data, self.place)
                except CounterplayError as error:
                    failures[data] = str(error)
            if data in failures:
                result = {"failed": failures[data]}
                self.results.keep(job, result)
                finished(job, result)
            else:
                ready.append(job)
        return ready

    def _has_data(self, job: Job) -> bool:
        source = self.table.source(job)
        return source is None or self.place.has(source)

    def _command(self) -> str:
        """Return how to run this again, wherever data and output are."""
        options = {
            name: value
            for name, value in self.plan.model_dump().items()
            if name in ("seeds", "trials") or value != Plan.model_fields[name].default
        }
        words = ["python", "-m", "reproduction", self.table.name, "--data", "DIR", "--out", "DIR"]
        return " ".join(words + [f"--{name} {value}" for name, value in options.items()])
