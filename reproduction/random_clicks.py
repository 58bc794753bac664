"""Estimators of clicks against Coat's random ratings: candidates of the library, judged as clicks.

A rating of 4 or 5 of an item that the user chose is a click; candidates learn from a part of them
and are judged on another. Coat also has ratings of items that were drawn at random: the share of
the high ones among them that a candidate has in its list is its value without exposure, the truth
here. It is of about 700 rows, so it is a truth with an error: a decision is called wrong where the
random rows put the other candidate ahead, and clearly wrong where they do so beyond chance.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field

from counterplay.data.datasets.randomized import read_coat
from counterplay.data.jobs import Job
from counterplay.data.splits import split_at_random
from counterplay.errors import CounterplayWarning
from counterplay.evaluation.estimators import RANDOMISED
from counterplay.evaluation.stage import Evaluation, Stage
from counterplay.seeding import Streams
from reproduction.datasets import public_folder
from reproduction.execution import results_of
from reproduction.trial_candidates import TRAINED, trained_candidates
from reproduction.trial_judgements import Judged, judged_by_stage
from reproduction.trial_page import table
from reproduction.trial_summary import line, scores

if TYPE_CHECKING:
    from counterplay.data.interactions import Interactions
    from counterplay.data.jobs import Result
    from reproduction.datasets import Place

SOURCES: tuple[str, ...] = ("coat",)
N_SEEDS = 10
ESTIMATORS = ("standard", "popularity", "propensity", "opponent", "dials", "robust")
LIKED = 4.0
_FRACTIONS = (0.15, 0.3)  # of the clicks: validation, and what estimates are made of
_KEY = ("hit", 10)
_NAMES = tuple(name for name in TRAINED if name != "attn")  # Coat has no order of events


class RandomClicksJob(Job):
    """Judge the candidates of one split of Coat."""

    seed: Annotated[int, Field(ge=0)]

    @property
    def label(self) -> str:
        """Data and seed."""
        return f"coat/random-clicks/seed-{self.seed}"


def run(place: Place) -> dict[str, Any]:
    """Judge the candidates seed by seed, and return what every estimator was worth."""
    results = results_of([RandomClicksJob(seed=seed) for seed in range(N_SEEDS)], place, _judged)
    found = [
        {
            name: scores(Judged.of(each), np.array(result["truth"]["values"]))
            for name, each in result["judged"].items()
        }
        for result in results
    ]
    lines = [line(name, found) for name in ESTIMATORS]
    for each in lines:
        each["clearly_wrong"], each["clear"] = _clearly_wrong(each["estimator"], results)
    values = np.array([each["truth"]["values"] for each in results]).mean(axis=0)
    truth = dict(zip(results[0]["candidates"], values.tolist(), strict=True))
    return {
        "n_seeds": N_SEEDS,
        "truth": truth,
        "n_clicks": results[0]["rows"],
        "estimators": lines,
        "rows": [_row(each) for each in lines],
        "pages": {"random-clicks.md": page(lines, truth, results[0]["rows"])},
    }


def judge_by_random_clicks(
    chosen: Interactions, random: Interactions, *, seed: int = 0
) -> dict[str, Any]:
    """Train the candidates on a part of the clicks, and judge them by the rest and by random rows.

    Args:
        chosen: Clicks, whatever made users see these items.
        random: Rows whose items were drawn at random, with `clicked`.
        seed: Of the split, the training and everything else that is random.
    """
    streams = Streams(seed)
    split = split_at_random(chosen, streams.numpy("split"), fractions=_FRACTIONS)
    config = Evaluation(metrics=(_KEY[0],), k=(_KEY[1],), seed=seed)
    stage = Stage(split, config, explicit=False)
    contestants = trained_candidates(split, stage.seen, streams, _NAMES)
    judged = judged_by_stage(stage, contestants, ESTIMATORS, _KEY)
    at_random = Stage(split, config, explicit=False, random=random)
    truth = judged_by_stage(at_random, contestants, (RANDOMISED,), _KEY)[RANDOMISED]
    return {
        "candidates": [each.name for each in contestants],
        "rows": {
            "train": len(split.train),
            "validation": len(split.validation),
            "test": len(split.test),
            "random": len(at_random.of(RANDOMISED).targets),
        },
        "truth": truth.plain(),
        "judged": {name: each.plain() for name, each in judged.items()},
    }


def _judged(job: Job, place: Place) -> Result:
    assert isinstance(job, RandomClicksJob)
    begun = time.process_time()
    split = read_coat(public_folder("coat", place))
    ratings = split.train.rating, split.test.rating
    assert ratings[0] is not None
    assert ratings[1] is not None
    chosen = replace(split.train, rating=None).take(np.flatnonzero(ratings[0] >= LIKED))
    random = replace(split.test, rating=None, clicked=ratings[1] >= LIKED)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CounterplayWarning)  # of a log that is known to be short
        found = judge_by_random_clicks(chosen, random, seed=job.seed)
    return {**found, "seconds": round(time.process_time() - begun, 1)}


def _clearly_wrong(name: str, results: list[Result]) -> tuple[int, int]:
    """Return how many decisions random rows contradict beyond chance, and on how many they speak.

    Random rows speak where one of the two is ahead of the other beyond chance among them.
    """
    wrong = clear = 0
    for each in results:
        decided = Judged.of(each["judged"][name]).leads > 0
        truly = Judged.of(each["truth"]).leads > 0
        wrong += int((decided & truly.T).sum())
        clear += int((decided & (truly | truly.T)).sum())
    return wrong, clear


def _row(each: dict[str, Any]) -> dict[str, Any]:
    wrong = "–" if each["wrong"] is None else f"{each['wrong']:.0%}"
    return {
        "what": f"Coat as clicks: {each['estimator']}, {N_SEEDS} splits",
        "ours": f"error {100 * each['error']:.1f} points, order {each['order']:+.2f}, regret "
        f"{each['regret']:.1%}, {each['decided']:.0%} of pairs decided, {wrong} of them wrong",
        "yardstick": "ratings of random items",
        "ratio": "–",
        "goal": "none",
        "met": None,
    }


def page(lines: list[dict[str, Any]], truth: dict[str, float], rows: dict[str, int]) -> str:
    """Return the page."""
    values = ", ".join(f"{name} {100 * value:.1f}" for name, value in truth.items())
    text = [
        "# Coat as clicks",
        "",
        f"Ratings of {LIKED:g} or more of items that users chose are clicks ({rows['train']:,} to "
        f"train, {rows['validation']:,} to validate, {rows['test']:,} to judge by); the truth is "
        f"Hit@10 among the {rows['random']:,} high ratings of items that were drawn at random. "
        f"{N_SEEDS} splits, {len(truth)} candidates. All splits share the same users and random "
        "rows, so intervals over splits would be too narrow, and none are given. `trials.md` says "
        "what the columns mean; the truth has a sampling error here, so `wrong` and `ends hold` "
        "are of truth and chance. The last column counts decisions that random rows contradict "
        "beyond chance, of those on which they speak beyond chance.",
        "",
        *table(lines, {"clearly wrong": [f"{e['clearly_wrong']} of {e['clear']}" for e in lines]}),
        "",
        f"Mean true values, in points: {values}.",
        "",
        "Made by `python -m reproduction random-clicks`.",
        "",
    ]
    return "\n".join(text)
