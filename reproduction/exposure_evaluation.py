"""What impressions are worth to evaluation: estimators with clicks alone, and with what is added.

Six mechanisms of exposure. The log has clicks alone at first; random rows, impressions and true
propensities are added one by one. Worlds that are done are not run again.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field

import counterplay as cp
from counterplay.data.impressions import impressions_of
from counterplay.data.jobs import Job
from counterplay.errors import CounterplayWarning
from counterplay.evaluation.evaluator import compared
from counterplay.evaluation.stage import Evaluation, Stage
from counterplay.simulation.values import demand, true_values
from counterplay.simulation.writing import split_of
from reproduction.execution import results_of
from reproduction.exposure_candidates import candidates
from reproduction.exposure_causes import SEEDS as OTHER_SEEDS
from reproduction.exposure_causes import CausesJob, caused, causes_table
from reproduction.exposure_evaluation_summary import page, rows, summarised
from reproduction.trial_judgements import RATES, Judged, rounded
from reproduction.trial_worlds import trial_world

if TYPE_CHECKING:
    from counterplay.data.jobs import Result
    from counterplay.data.splits import Split
    from counterplay.evaluation.propensities import Contestant
    from counterplay.evaluation.records import EvaluationRecord
    from counterplay.simulation.world import World
    from reproduction.datasets import Place

SOURCES: tuple[str, ...] = ()
MECHANISMS = (
    *("uniform", "popularity-quality", "history"),
    *("strong-history", "confounded", "position-bias"),
)
SEEDS = range(10)
NOTES = """\
- *Goals: regret at most 1%, order at least 0.92.* Regret is reached by both estimators from
  impressions: `impressions` chose the best candidate in all 60 worlds, `doubly-robust` in 59. That
  was not hard for them, as it is `shown` in every world, mostly well ahead of the second. Order is
  missed: by `doubly-robust` (0.90 [0.87, 0.93]) within what chance explains, clearly by
  `impressions` (0.85). The true propensities have 0.82: a fifth of the pairs are less than 0.1
  points apart in truth.
- *Decisions.* `impressions` decided 654 pairs and `doubly-robust` 710 of 1,260, none of them wrong.
- *Coverage is below the level*: 74% and 77%. Bias is the main reason, not width: with the mean
  error of the other seeds taken off it is 92% and 91%, near the 90% of the true propensities.
- *Position bias* is most of it. Both estimators take what is shown as examined, and in that
  mechanism are 1.1 and 1.2 points too high. Of 1% random rows about 115 are clicked there, fewer
  than the 200 that it takes to use positions. Three times as many brought the error of
  `impressions` from 1.06 to 0.33.
- *The fitted exposure is biased the other way.* With true examination its values are 0.2 to 0.6
  points too low where exposure follows history; with the true probability of being shown they are
  not. It knows items and ranks; what it leaves out of exposure probably goes with taste. The two
  errors cancel in part, so positions alone made values worse in `history`, `strong-history` and
  `confounded`.
- *Random rows beside clicks* bring values near (error 1.71 to 0.52), and choose no better.
- *What was seen before.* Seeds 0 to 6 were looked at before seeds 7 to 9 were run; nothing was
  changed in between.
"""
RANDOM_SHARE = 0.01  # of what is shown
MORE_RANDOM = 0.03  # enough to tell how far down a list users look
N_RESAMPLES = 400
STEPS: dict[str, tuple[str, ...]] = {
    "clicks": ("standard", "popularity", "dials", "robust"),
    "+ random rows": ("dials", "robust", "randomised"),
    "+ impressions": ("impressions", "doubly-robust"),
    "+ impressions and random rows": ("impressions",),
    "+ impressions and three times the random rows": ("impressions",),
    "+ propensities": ("logged",),
    "truth": ("oracle",),
}


class EvaluationJob(Job):
    """Judge the candidates of one world with all that its log can have."""

    mechanism: str
    seed: Annotated[int, Field(ge=0)]

    @property
    def label(self) -> str:
        """Mechanism and seed."""
        return f"{self.mechanism}/exposure-evaluation/seed-{self.seed}"


def run(place: Place) -> dict[str, Any]:
    """Judge every world of the reported seeds, and return what each estimator was worth."""
    jobs = [EvaluationJob(mechanism=each, seed=seed) for seed in SEEDS for each in MECHANISMS]
    worlds = results_of(jobs, place, _judged)
    other = [CausesJob(mechanism=each, seed=seed) for seed in OTHER_SEEDS for each in MECHANISMS]
    causes = results_of(other, place, caused)
    summary = summarised(worlds)
    return {
        "seeds": list(SEEDS),
        "random_share": RANDOM_SHARE,
        "summary": summary,
        "causes": causes,
        "rows": rows(summary),
        "pages": {
            "exposure-evaluation.md": page(summary, RANDOM_SHARE, causes_table(causes), NOTES)
        },
    }


def _judged(job: Job, _: Place) -> Result:
    assert isinstance(job, EvaluationJob)
    begun = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CounterplayWarning)  # of runs that are meant to be short
        found = judge_world(trial_world(job.mechanism, job.seed), job.seed)
    return {"mechanism": job.mechanism, **found, "seconds": round(time.process_time() - begun, 1)}


def judge_world(world: World, seed: int) -> dict[str, Any]:
    """Train the candidates, and return what every estimator says of them, beside the truth."""
    split = split_of(world, RATES, impressions=True, random_share=RANDOM_SHARE)
    contestants = candidates(split, cp.Streams(seed))
    seen = split.interactions.take(split.part < len(RATES) - 1)
    last = float(len(RATES) - 1)
    total = demand(world, np.arange(world.n_users), seen, time=last)
    truth = [
        true_values(world, each.scores, seen, metrics=("hit",), k=(10,), time=last, total=total)
        for each in contestants
    ]
    judged: dict[str, Any] = {}
    for step, estimators in STEPS.items():
        record = compared(_stage(step, world, split, seed), contestants)
        for name in estimators:
            judged[f"{step}: {name}"] = _said(record, name, contestants)
    assert split.random is not None
    assert split.random.clicked is not None
    return {
        "candidates": [each.name for each in contestants],
        "truth": rounded(np.array([each["hit", 10] for each in truth])),
        "judged": judged,
        "rows": {
            "train": len(split.train),
            "test": len(split.test),
            "impressions": len(impressions_of(split, 2)),
            "random": len(split.random),
            "clicked at random": int(split.random.clicked.sum()),
        },
    }


def _stage(step: str, world: World, split: Split, seed: int) -> Stage:
    """Return the stage of a step: what its log knows, and the estimators that it adds."""
    config = Evaluation(
        metrics=("hit",), estimators=STEPS[step], n_resamples=N_RESAMPLES, seed=seed
    )
    random = split.random if "random rows" in step else None
    if "three times" in step:
        random = split_of(world, RATES, impressions=True, random_share=MORE_RANDOM).random
    if step == "+ propensities":
        split = split_of(world, RATES, impressions=True, random_share=RANDOM_SHARE, with_truth=True)
    if "impressions" not in step:
        split = replace(split, unclicked=None, unclicked_part=None)
    known = world if step == "truth" else None
    return Stage(replace(split, random=None), config, explicit=False, world=known, random=random)


def _said(
    record: EvaluationRecord, estimator: str, contestants: list[Contestant]
) -> dict[str, Any]:
    """Return the values, their ends, and the lower end of every difference."""
    place = {each.name: number for number, each in enumerate(contestants)}
    values, low, high = (np.full(len(place), np.nan) for _ in range(3))
    for each in record.estimates:
        if each.estimator == estimator:
            at = place[each.candidate]
            values[at], low[at], high[at] = each.value, _end(each.low, -1), _end(each.high, 1)
    leads = np.zeros((len(place), len(place)))
    for one in record.comparisons:
        if one.estimator == estimator:
            first, second = place[one.first], place[one.second]
            leads[first, second] = _end(one.low, -1)
            leads[second, first] = -_end(one.high, 1)
    return Judged(values, low, high, leads).plain()


def _end(value: float | None, sign: int) -> float:
    """Return an end; one that is not known is as far as can be, which of hits is 1."""
    return float(sign) if value is None else value
