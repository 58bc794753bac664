"""Table 3: offline estimators against online results, and against randomised data."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from reproduction.claims import CLOSER, NEARER_THAN_OTHERS, judged
from reproduction.jobs import RandomisedJob, WorldJob
from reproduction.offline import FAMILIES, source_of_family
from reproduction.paper import ONLINE_ERRORS
from reproduction.random_policies import summarise_policies
from reproduction.random_ratings import summarise_ratings
from reproduction.trial import summarised

if TYPE_CHECKING:
    from collections.abc import Sequence

    from counterplay.data.jobs import Job, Result, Results
    from reproduction.datasets import Place
    from reproduction.jobs import Plan

_METRICS = ("hit@5", "ndcg@5")
_RIVALS = (("standard", ""), ("popularity", ""), ("propensity", "item"))
# The opponent of the game, as the paper has it, and the shared one that is our default.
_ROBUST = (("robust", "as trained"), ("robust-shared", "item"))


@dataclass(frozen=True, slots=True)
class EstimatorTable:
    """The errors of estimators, over worlds and over randomised data."""

    name: str = "table3"
    title: str = "Table 3: offline estimators against online results"

    def jobs(self, plan: Plan, results: Results) -> list[Job]:
        """Return all jobs; none waits for another."""
        del results
        worlds: list[Job] = [
            WorldJob(family=family, seed=seed, epochs=plan.epochs)
            for family in FAMILIES
            for seed in range(plan.seeds)
        ]
        coat = [RandomisedJob(data="coat", seed=seed) for seed in range(plan.seeds)]
        return [*worlds, *coat, RandomisedJob(data="open-bandit")]

    def source(self, job: Job) -> str | None:
        """Return the public data that a job needs."""
        if isinstance(job, WorldJob):
            return source_of_family(job.family)
        assert isinstance(job, RandomisedJob)
        return job.data

    def runs(self, plan: Plan, results: Results) -> list[dict[str, Any]]:
        """Return none: there is no run to show."""
        del plan, results
        return []

    def summary(self, plan: Plan, results: Results, place: Place) -> dict[str, Any]:
        """Return what each estimator was worth by family, claims, Coat and Open Bandit."""
        del place
        jobs = self.jobs(plan, results)
        done = [(job, found) for job in jobs if (found := results.of(job)) is not None]
        families, claims = [], []
        for family in FAMILIES:
            trials = [
                found["trial"]
                for job, found in done
                if isinstance(job, WorldJob) and job.family == family
            ]
            states = [results.state(job) for job in jobs if _family(job) == family]
            families.append(
                {
                    "family": family,
                    "n": len(trials),
                    "missing_seconds": _seconds(family, done) * (len(states) - len(trials)),
                    "state": _state(len(trials), states),
                    "estimators": _with_lists(summarised(trials)) if trials else [],
                    "paper": {name: _plain(by) for name, by in ONLINE_ERRORS.items()},
                }
            )
            claims += [claim for metric in _METRICS for claim in _claims(family, trials, metric)]
        ratings = [found["ratings"] for _, found in done if "ratings" in found]
        policies = [found["policies"] for _, found in done if "policies" in found]
        return {
            "families": families,
            "coat": summarise_ratings(ratings) if ratings else None,
            "open_bandit": summarise_policies(policies[0]) if policies else None,
            "claims": claims,
        }


def squared_errors(
    trial: Result, metric: str, estimator: str, kind: str, names: list[str] | None = None
) -> tuple[float, list[str]] | None:
    """Return the mean squared error to the online result, in points², and of which candidates.

    Of an estimator that comes with several floors, the first is taken.
    """
    for said in trial["offline"]:
        if said["estimator"] == estimator and said["kind"] == kind:
            wanted = said["candidates"] if names is None else names
            offline = dict(zip(said["candidates"], said["values"][metric], strict=True))
            online = dict(zip(trial["candidates"], trial["online"][metric], strict=True))
            errors = [100 * (offline[name] - online[name]) for name in wanted]
            return float(np.mean(np.square(errors))), list(wanted)
    return None


def _claims(family: str, trials: list[Result], metric: str) -> list[dict[str, Any]]:
    """Judge each robust estimator against the paper's others, on the candidates that it judges."""
    found = []
    for (estimator, kind), (rival, rival_kind) in product(_ROBUST, _RIVALS):
        gains = []
        for trial in trials:
            robust = squared_errors(trial, metric, estimator, kind)
            if robust is not None:
                other = squared_errors(trial, metric, rival, rival_kind, robust[1])
                if other is not None:  # not every world has every rival
                    gains.append(other[0] - robust[0])
        printed = ONLINE_ERRORS[metric]
        found.append(
            judged(
                CLOSER if rival == "standard" else NEARER_THAN_OTHERS,
                gains,
                dataset=family,
                column="mean squared error in points²",
                metric=metric,
                first=rival,
                second=f"{estimator}, {kind}",
                paper=round(printed[rival].value - printed["robust"].value, 2),
            )
        )
    return found


def _family(job: Job) -> str | None:
    return job.family if isinstance(job, WorldJob) else None


def _seconds(family: str, done: Sequence[tuple[Job, Result]]) -> float:
    """Return the mean seconds of a world: of the family where one is done, else of all."""
    worlds = [(_family(job), found["seconds"]) for job, found in done if _family(job) is not None]
    own = [seconds for name, seconds in worlds if name == family]
    return fmean(own or [seconds for _, seconds in worlds] or [0.0])


def _state(n: int, states: Sequence[str]) -> str:
    if n == len(states):
        return "done"
    return "partial" if n else "failed" if "failed" in states else "not run"


def _with_lists(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows as JSON will have them."""
    return [
        {name: list(value) if isinstance(value, tuple) else value for name, value in row.items()}
        for row in rows
    ]


def _plain(by_estimator: dict[str, Any]) -> dict[str, list[float]]:
    return {name: list(each) for name, each in by_estimator.items()}
