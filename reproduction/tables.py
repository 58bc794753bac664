"""Which jobs make a table or a figure of methods, and what its cells are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from reproduction.agreement import mean_over_repetitions
from reproduction.budget import expected_seconds
from reproduction.claims import claims_of
from reproduction.datasets import DISTINCT, source_of, world_of
from reproduction.effects import effects_of, ess_of
from reproduction.jobs import Plan, TrainJob
from reproduction.paper import printings
from reproduction.selection import SEED, VARIED, selected

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from counterplay.data.jobs import Job, Result, Results
    from reproduction.datasets import Place
    from reproduction.methods import Settings, TableMethod
    from reproduction.selection import Selected

METRICS = (("hit", 10), ("ndcg", 10), ("hit", 5))
_REPEATING = ("lastfm",)  # whose users come back to the same items


class Column(NamedTuple):
    """How cells are measured; a strict one is on distinct pairs."""

    name: str
    protocol: str
    estimator: str
    strict: bool = False


_REAL = (
    Column("100 sampled", "sampled-100", "standard"),
    Column("full ranking", "full", "standard", strict=True),
)
_WORLDS = (
    Column("100 sampled", "sampled-100", "oracle"),
    Column("full ranking", "full", "oracle"),
    Column("truth", "full", "truth"),
)


@dataclass(frozen=True, slots=True)
class MethodTable:
    """A table or a figure whose cells are methods, each tuned and then repeated.

    Attributes:
        name: What it is asked for by.
        title: What it shows.
        labels: The paper's tables that its numbers were printed in, the first preferred.
        datasets: Public data; where `worlds`, what worlds are made of.
        worlds: Whether methods learn from logs of worlds, a world a seed.
        methods: Of a plan.
        history: Whether every epoch is kept.
        measured: How cells are measured, where not as usual.
        about: What its page says first, where not as usual.
        by_appendix: Whether settings are selected as in the appendix, with a seed of their own.
    """

    name: str
    title: str
    labels: tuple[str, ...]
    datasets: tuple[str, ...]
    worlds: bool
    methods: Callable[[Plan], list[TableMethod]]
    history: bool = False
    measured: tuple[Column, ...] = ()
    about: tuple[str, ...] = ()
    by_appendix: bool = False

    @property
    def columns(self) -> tuple[Column, ...]:
        """How cells are measured."""
        return self.measured or (_WORLDS if self.worlds else _REAL)

    def jobs(self, plan: Plan, results: Results) -> list[Job]:
        """Return all jobs that are known by now: the repetitions once their trials are over."""
        found: list[Job] = []
        for dataset in self.datasets:
            for strict in _variants(dataset, self.columns):
                for method in self.methods(plan):
                    found += self._trials(plan, results, dataset, method, strict)
        for dataset in self.datasets:
            for strict in _variants(dataset, self.columns):
                for method in self.methods(plan):
                    found += self._repetitions(plan, results, dataset, method, strict)
        return list({job.key: job for job in found}.values())

    def source(self, job: Job) -> str | None:
        """Return what a job's data are made of."""
        assert isinstance(job, TrainJob)
        return source_of(job.data)

    def summary(self, plan: Plan, results: Results, place: Place) -> dict[str, Any]:
        """Return cells and claims as plain values, in points: percentages."""
        cells = [
            cell
            for dataset in self.datasets
            for method in self.methods(plan)
            for column in self.columns
            for cell in self._cells(plan, results, place, dataset, method, column)
        ]
        effects = effects_of(self.jobs(plan, results), results)
        about = {"about": list(self.about)} if self.about else {}
        return {"cells": cells, "effects": effects, "claims": claims_of(self.name, cells)} | about

    def runs(self, plan: Plan, results: Results) -> list[dict[str, Any]]:
        """Return the best run of every method with the first seed, where epochs are kept."""
        if not self.history:
            return []
        best = {
            f"{dataset}: {method.name}": best_trial(
                self._trials(plan, results, dataset, method, strict=False), results
            )
            for dataset in self.datasets
            for method in self.methods(plan)
        }
        found = {name: job and results.of(job) for name, job in best.items()}
        return [{"name": name, **result} for name, result in found.items() if result]

    def _job(
        self, plan: Plan, dataset: str, method: TableMethod, strict: bool, settings: Settings,
        seed: int,
    ) -> TrainJob:  # fmt: skip
        data = world_of(dataset, seed) if self.worlds else dataset
        return TrainJob(
            data=f"{data}{DISTINCT}" if strict and dataset in _REPEATING else data,
            method=method,
            settings=settings,
            seed=seed,
            epochs=plan.epochs,
            patience=plan.patience,
            history=self.history,
        )

    def _selected(
        self, plan: Plan, results: Results, dataset: str, method: TableMethod, strict: bool
    ) -> Selected:
        def make(each: TableMethod, settings: Settings) -> TrainJob:
            return self._job(plan, dataset, each, strict, settings, SEED)

        return selected(method, results, make, plan.trials)

    def _trials(
        self, plan: Plan, results: Results, dataset: str, method: TableMethod, strict: bool
    ) -> list[TrainJob]:
        if self.by_appendix:
            return self._selected(plan, results, dataset, method, strict).trials
        n = plan.trials if method.tuned else 1
        return [
            self._job(plan, dataset, method, strict, method.trial(number), 0) for number in range(n)
        ]

    def _repetitions(
        self, plan: Plan, results: Results, dataset: str, method: TableMethod, strict: bool
    ) -> list[TrainJob]:
        """Return the jobs with the best settings; the first is the trial that had them."""
        if self.by_appendix:
            settings = self._selected(plan, results, dataset, method, strict).settings
        else:
            best = best_trial(self._trials(plan, results, dataset, method, strict), results)
            settings = None if best is None else best.settings
        if settings is None:
            return []
        return [
            self._job(plan, dataset, method, strict, settings, seed) for seed in range(plan.seeds)
        ]

    def _cells(
        self, plan: Plan, results: Results, place: Place, dataset: str, method: TableMethod,
        column: Column,
    ) -> list[dict[str, Any]]:  # fmt: skip
        trials = self._trials(plan, results, dataset, method, column.strict)
        jobs = self._repetitions(plan, results, dataset, method, column.strict)
        done = {job.seed: found for job in jobs if (found := results.of(job)) is not None}
        failures = [text for job in jobs or trials if (text := results.failure(job)) is not None]
        state = "done" if len(done) == plan.seeds else "partial" if done else "not run"
        if not place.has(dataset):
            state = "no data"
        elif not done and failures:
            state = "failed"
        about = {
            "dataset": dataset,
            "method": method.name,
            "title": method.title,
            "about": [f"dim {method.dim}", *(f"{name} {value:g}" for name, value in method.fixed)],
            "swept": {"dim": method.dim, **dict(method.fixed)},
            "printed_as": method.printed,
            "column": column.name,
            "state": state,
            "failed": failures[0] if failures else None,
            "settings": dict(jobs[0].settings) if jobs else None,
            "validation": _mean(found["validation"]["value"] for found in done.values()),
            "exposure_validation": _mean(
                found["best"]["exposure_validation"] for found in done.values()
            ),
            "ess": [ess_of(found) for found in done.values()],
            "notes": list(
                dict.fromkeys(note for found in done.values() for note in found["notes"])
            ),
            "n_trials": sum(results.of(job) is not None for job in trials),
            "parameters": next((found["parameters"] for found in done.values()), None),
            "seconds": round(sum(found["seconds"] for found in done.values()), 1),
            "missing_seconds": expected_seconds(
                results,
                dataset,
                method,
                n_trials=len(trials) + (not trials),
                n_seeds=plan.seeds,
                n_done=len(done) + sum(results.of(job) is not None for job in trials),
            ),
            "bounds": _bounds(done.values()) if column.estimator == "truth" else {},
        }
        return [
            about | _measured(done, column, metric, k)
            | _paper(self.labels, dataset, method, metric, k)
            for metric, k in METRICS
        ]  # fmt: skip


def best_trial(trials: list[TrainJob], results: Results) -> TrainJob | None:
    """Return the trial with the best validation value, the first of equals, once all are over."""
    if any(results.state(job) == "waiting" for job in trials):
        return None
    judged = [job for job in trials if results.of(job) is not None]
    return max(judged, key=lambda job: _validation(results.of(job)), default=None)


def _validation(result: Result | None) -> float:
    assert result is not None
    return float(result["validation"]["value"])


def _variants(dataset: str, columns: tuple[Column, ...]) -> list[bool]:
    """Return the data that a dataset is prepared as: plain, and distinct where users repeat."""
    return sorted({column.strict and dataset in _REPEATING for column in columns})


def _mean(values: Iterable[float | None]) -> float | None:
    """Return the mean in points, None where something is missing."""
    numbers = list(values)
    known = [value for value in numbers if value is not None]
    return 100 * float(np.mean(known)) if known and len(known) == len(numbers) else None


def _measured(done: dict[int, Result], column: Column, metric: str, k: int) -> dict[str, Any]:
    """Return the mean over seeds with its deviation and interval, and what it is the mean of."""
    wanted = {
        "metric": metric, "k": k, "protocol": column.protocol, "estimator": column.estimator
    }  # fmt: skip
    values, of_users = {}, []
    for seed, result in done.items():
        (found,) = (
            each
            for each in result["metrics"]
            if all(each[name] == value for name, value in wanted.items())
        )
        values[str(seed)] = 100 * found["value"]
        of_users.append(
            [None if found[end] is None else 100 * found[end] for end in ("low", "high")]
        )
    numbers = list(values.values())
    deviation = float(np.std(numbers, ddof=1)) if len(numbers) > 1 else None
    return {
        "metric": f"{metric}@{k}",
        "protocol": column.protocol,
        "estimator": column.estimator,
        **mean_over_repetitions(numbers),
        "deviation": deviation,
        "over_users": of_users[0] if of_users else None,
        "values": values,
    }


def _bounds(done: Iterable[Result]) -> dict[str, float]:
    """Return the means of what random and perfect rankings are worth, where results have them."""
    values: dict[str, list[float]] = {}
    for result in done:
        for each in result["metrics"]:
            if each["estimator"] in ("random", "best") and (each["metric"], each["k"]) == (
                "hit",
                10,
            ):
                values.setdefault(each["estimator"], []).append(100 * each["value"])
    return {name: float(np.mean(found)) for name, found in values.items()}


def _paper(
    labels: tuple[str, ...], dataset: str, method: TableMethod, metric: str, k: int
) -> dict[str, Any]:
    """Return the printed number and its deviation, where this very thing was printed.

    Where the paper prints a cell twice, and differently, the other numbers stand beside it.
    """
    varied = any(name in VARIED for name, _ in method.fixed)
    found = [] if k != 10 or varied else [list(each) for each in printings(
        labels, dataset, method.printed, metric)]  # fmt: skip
    return {"paper": found[0] if found else None, "paper_also": found[1:]}
