"""Why estimates from impressions are off: parts of the true propensities in place of fitted ones.

A propensity is the probability that an item is shown, times the probability that its place is
examined. Test clicks are weighted with the first of them fitted or true, the second left out or
true. Worlds are of seeds that are not reported.
"""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field

import counterplay as cp
from counterplay.data.jobs import Job
from counterplay.errors import CounterplayWarning
from counterplay.evaluation.stage import Evaluation, Stage
from counterplay.simulation.values import true_values
from counterplay.simulation.writing import split_of
from reproduction.exposure_candidates import candidates
from reproduction.trial_judgements import RATES
from reproduction.trial_worlds import trial_world

if TYPE_CHECKING:
    from collections.abc import Sequence

    from counterplay.data.jobs import Result
    from reproduction.datasets import Place

SEEDS = (100, 101)
WEIGHTS = (
    "shown, fitted",
    "shown, fitted; examined, true",
    "shown, true",
    "shown, true; examined, true",
)


class CausesJob(Job):
    """Weight the test clicks of one world by parts of its propensities."""

    mechanism: str
    seed: Annotated[int, Field(ge=0)]

    @property
    def label(self) -> str:
        """Mechanism and seed."""
        return f"{self.mechanism}/exposure-causes/seed-{self.seed}"


def caused(job: Job, _: Place) -> Result:
    """Return the mean difference to the truth over candidates, by what the weights know."""
    assert isinstance(job, CausesJob)
    begun, world = time.process_time(), trial_world(job.mechanism, job.seed)
    split = split_of(world, RATES, impressions=True, with_truth=True)
    config = Evaluation(metrics=("hit",), estimators=("impressions",), seed=job.seed)
    stage = Stage(split, config, explicit=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CounterplayWarning)  # of runs that are meant to be short
        contestants = candidates(split, cp.Streams(job.seed))
        fitted = stage.shown_case(contestants).propensities[0]
    hits = np.stack([stage.values(each)["hit", 10] for each in contestants], axis=1)
    known: dict[str, Any] = {"metrics": ("hit",), "k": (10,), "time": float(len(RATES) - 1)}
    truth = [true_values(world, each.scores, stage.seen, **known) for each in contestants]
    position, propensity = stage.targets.position, stage.targets.propensity
    assert position is not None
    assert propensity is not None
    examined = world.examination ** (position.astype(np.float64) - 1)
    shown = propensity / examined
    biases = {}
    for name, q in zip(WEIGHTS, (fitted, fitted * examined, shown, shown * examined), strict=True):
        values = (1 / q) @ hits / (1 / q).sum()
        biases[name] = float((values - np.array([each["hit", 10] for each in truth])).mean())
    seconds = round(time.process_time() - begun, 1)
    return {"mechanism": job.mechanism, "bias": biases, "seconds": seconds}


def causes_table(found: Sequence[Result]) -> list[str]:
    """Return the mean bias in points, a line a mechanism, and of all."""
    lines = [f"| world | {' | '.join(WEIGHTS)} |", "|" + "---|" * (1 + len(WEIGHTS))]
    mechanisms = list(dict.fromkeys(each["mechanism"] for each in found))
    for mechanism in (*mechanisms, "all"):
        here = [each["bias"] for each in found if mechanism in ("all", each["mechanism"])]
        cells = (f"{100 * np.mean([each[name] for each in here]):+.2f}" for name in WEIGHTS)
        lines.append(f"| {mechanism} | {' | '.join(cells)} |")
    return lines
