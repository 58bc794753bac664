"""The paper's opponent, and the old system as a candidate, in two seeds of the trials' worlds.

Two questions that the trials leave open. How good are the estimators `propensity` and `opponent`
beside the others? And what do estimators say of the system that collected the log, when it stands
among the candidates?
"""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.errors import CounterplayWarning
from counterplay.evaluation.old_system import old_system
from counterplay.evaluation.stage import Evaluation, Stage
from counterplay.seeding import Streams
from counterplay.simulation.values import demand, true_values
from counterplay.simulation.writing import split_by_rounds
from reproduction import trials
from reproduction.execution import results_of
from reproduction.trial_candidates import trained_candidates
from reproduction.trial_judgements import RATES, Judged, judged_by_stage, rounded
from reproduction.trial_page import table
from reproduction.trial_summary import line, scores
from reproduction.trial_worlds import MECHANISMS

if TYPE_CHECKING:
    from counterplay.data.jobs import Job, Result
    from counterplay.simulation.world import World
    from reproduction.datasets import Place

SOURCES = trials.SOURCES
SEEDS = range(2)
ESTIMATORS = (
    *("standard", "popularity", "propensity", "opponent"),
    *("dials", "robust", "oracle"),
)
WITH_OLD = ("standard", "popularity", "dials", "robust", "oracle")
_KEY = ("hit", 10)


class OpponentJob(trials.TrialJob):
    """Judge the candidates of one world by the estimators of the library."""

    @property
    def label(self) -> str:
        """Mechanism and seed."""
        return f"{self.mechanism}/opponent/seed-{self.seed}"


def run(place: Place) -> dict[str, Any]:
    """Judge the worlds, and return a line an estimator, without and with the old system."""
    jobs = [OpponentJob(mechanism=each, seed=seed) for seed in SEEDS for each in MECHANISMS]
    worlds = results_of(jobs, place, _judged)
    truths = [np.array(world["truth"]) for world in worlds]
    found = [
        {
            name: scores(Judged.of(each), truth[:-1])
            for name, each in world["candidates_alone"].items()
        }
        for world, truth in zip(worlds, truths, strict=True)
    ]
    lines = [line(name, found) for name in ESTIMATORS]
    old = [against_old(name, worlds) for name in WITH_OLD]
    rank = [int((truth > truth[-1]).sum()) + 1 for truth in truths]
    return {
        "seeds": list(SEEDS),
        "estimators": lines,
        "old_system": old,
        "true_place_of_old_system": rank,
        "rows": [],
        "pages": {"trials-opponent.md": page(lines, old, rank, len(worlds))},
    }


def judge_opponent(world: World, seed: int) -> dict[str, Any]:
    """Train the candidates, and return what the library's estimators say, beside the truth."""
    log = world.log(RATES, with_truth=True)
    split = split_by_rounds(log, len(RATES))
    seen, last = log.take(split.part < 2), float(len(RATES) - 1)
    contestants = trained_candidates(split, seen, Streams(seed))
    old = old_system(world)
    total = demand(world, np.arange(world.n_users), seen, time=last)
    truth = [
        true_values(world, each.scores, seen, k=(_KEY[1],), time=last, total=total)[_KEY]
        for each in (*contestants, old)
    ]
    config = Evaluation(metrics=(_KEY[0],), k=(_KEY[1],), seed=seed)

    def said(who: list[Any], estimators: tuple[str, ...]) -> dict[str, Any]:
        stage = Stage(split, config, explicit=False, world=world)
        found = judged_by_stage(stage, who, estimators, _KEY)
        return {name: each.plain() for name, each in found.items()}

    return {
        "candidates": [each.name for each in (*contestants, old)],
        "truth": rounded(np.array(truth)),
        "candidates_alone": said(contestants, ESTIMATORS),
        "with_old_system": said([*contestants, old], WITH_OLD),
    }


def _judged(job: Job, place: Place) -> Result:
    assert isinstance(job, OpponentJob)
    begun = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CounterplayWarning)  # of runs that are meant to be short
        found = judge_opponent(trials.world_of(job, place), job.seed)
    return {"mechanism": job.mechanism, **found, "seconds": round(time.process_time() - begun, 1)}


def against_old(name: str, worlds: list[Result]) -> dict[str, Any]:
    """Return what one estimator decides between the old system, which is last, and the others."""
    ahead = wrongly_ahead = behind = wrongly_behind = pairs = 0
    for world in worlds:
        truth = np.array(world["truth"])
        leads = Judged.of(world["with_old_system"][name]).leads
        better = truth[:-1] > truth[-1]
        put_ahead, put_behind = leads[-1, :-1] > 0, leads[:-1, -1] > 0
        pairs += len(better)
        ahead += int(put_ahead.sum())
        wrongly_ahead += int((put_ahead & better).sum())
        behind += int(put_behind.sum())
        wrongly_behind += int((put_behind & ~better).sum())
    return {
        "estimator": name,
        "pairs": pairs,
        "ahead": ahead,
        "wrongly_ahead": wrongly_ahead,
        "behind": behind,
        "wrongly_behind": wrongly_behind,
    }


def page(
    lines: list[dict[str, Any]], old: list[dict[str, Any]], rank: list[int], n_worlds: int
) -> str:
    """Return the page."""
    first = sum(each == 1 for each in rank)
    text = [
        "# The paper's opponent, and the old system as a candidate",
        "",
        f"{n_worlds} of the worlds of the trials ({len(SEEDS)} seeds of each mechanism), with the "
        "same eight candidates, judged by the estimators of the library as a study has them; "
        "`trials.md` says what the columns mean. `propensity` and `opponent` fit an item-level "
        "exposure model with a floor of 0.01; the opponent plays against the candidates that were "
        "trained, not against those that are given by their scores.",
        "",
        *table(lines),
        "",
        "## The old system among the candidates",
        "",
        "The system that collected the log is a ninth candidate. In truth it is the best of the "
        f"nine in {first} of {n_worlds} worlds. Pairs of it and another candidate:",
        "",
        "| by | pairs | old system ahead | of these wrong | old system behind | of these wrong |",
        "|---|---|---|---|---|---|",
        *(
            f"| {each['estimator']} | {each['pairs']} | {each['ahead']} | {each['wrongly_ahead']} "
            f"| {each['behind']} | {each['wrongly_behind']} |"
            for each in old
        ),
        "",
        "Made by `python -m reproduction trials-opponent`.",
        "",
    ]
    return "\n".join(text)
