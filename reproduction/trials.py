"""Dials on trial in twelve mechanisms of exposure: who is right when it decides, and who chooses.

Settings (the box, the point) are chosen on seeds from 100 up by `trials-settings`, and frozen in
`reproduction/trial_settings.json` before the seeds that are reported are run. Every world is a job;
those that are done are not run again.
"""

from __future__ import annotations

import json
import time
import warnings
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from counterplay.data.jobs import Job
from counterplay.errors import ConfigError, CounterplayWarning
from reproduction.datasets import whole
from reproduction.execution import results_of
from reproduction.trial_judgements import judge_world
from reproduction.trial_page import page
from reproduction.trial_summary import summarised
from reproduction.trial_worlds import MECHANISMS, most_rated, trial_world

if TYPE_CHECKING:
    from collections.abc import Sequence

    from counterplay.data.interactions import Interactions
    from counterplay.data.jobs import Result
    from counterplay.simulation.world import World
    from reproduction.datasets import Place

SOURCES: tuple[str, ...] = ("ml-100k",)
SETTINGS = Path(__file__).with_name("trial_settings.json")
SEEDS = range(10)
_MAIN = "hit@10"


class TrialSettings(BaseModel):
    """What is chosen before the reported seeds are run.

    Attributes:
        frozen: Whether it has been.
        gammas: Of the box.
        lambdas: Of the box.
        point: The dials of the point.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    frozen: bool
    gammas: tuple[float, ...]
    lambdas: tuple[float, ...]
    point: tuple[float, float]


class TrialJob(Job):
    """Judge the candidates of one world."""

    mechanism: str
    seed: Annotated[int, Field(ge=0)]

    @property
    def label(self) -> str:
        """Mechanism and seed."""
        return f"{self.mechanism}/trials/seed-{self.seed}"


def settings() -> TrialSettings:
    """Return the settings file."""
    return TrialSettings.model_validate_json(SETTINGS.read_text(encoding="utf-8"))


def run(place: Place) -> dict[str, Any]:
    """Judge every world of the reported seeds, and return what each assumption was worth."""
    chosen = settings()
    if not chosen.frozen:
        raise ConfigError(
            'settings must be frozen before the reported seeds are run; found "frozen": false in '
            f"'{SETTINGS.name}'; choose them with trials-settings, and set it to true"
        )
    worlds = judged_worlds(SEEDS, place)
    summary = summarised(worlds, chosen, _MAIN)
    return {
        "settings": json.loads(chosen.model_dump_json()),
        "seeds": list(SEEDS),
        "summary": summary,
        "ndcg@10": summarised(worlds, chosen, "ndcg@10")["overall"],
        "rows": rows(summary),
        "pages": {"trials.md": page(summary, chosen, len(SEEDS))},
    }


def rows(summary: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the lines of the summary of all experiments."""
    overall = {each["estimator"]: each for each in summary["overall"]}
    box, today = overall["box"], overall["popularity"]
    shares = [(each["wrong"] or 0.0) for each in (box, today)]
    return [
        {
            "what": "decided leads that are wrong: worst case over the box of dials",
            "ours": f"{shares[0]:.1%} wrong{_ends(box)}, {box['decided']:.0%} decided",
            "yardstick": f"{shares[1]:.1%} wrong{_ends(today)}, {today['decided']:.0%} decided, "
            "popularity",
            "ratio": f"{shares[0] / shares[1]:.2f}" if shares[1] else "–",
            "goal": "at most 2% wrong, at least 40% decided",
            "met": shares[0] <= 0.02 and box["decided"] >= 0.4,
        },
        {
            "what": "value ends over the box that hold the truth",
            "ours": f"{box['coverage']:.0%}",
            "yardstick": f"{today['coverage']:.0%}, intervals by popularity",
            "ratio": f"{box['coverage'] / max(today['coverage'], 1e-9):.2f}",
            "goal": "at least 95%",
            "met": box["coverage"] >= 0.95,
        },
    ]


def _ends(found: dict[str, Any]) -> str:
    if found["wrong_low"] is None:
        return ""
    return f" [{found['wrong_low']:.1%}, {found['wrong_high']:.1%}]"


def judged_worlds(
    seeds: Sequence[int], place: Place, mechanisms: Sequence[str] = MECHANISMS
) -> list[Result]:
    """Judge the worlds that are not done, one after the other, and return the results of all."""
    jobs = [TrialJob(mechanism=each, seed=seed) for seed in seeds for each in mechanisms]
    return results_of(jobs, place, _judged)


def _judged(job: Job, place: Place) -> Result:
    assert isinstance(job, TrialJob)
    begun = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CounterplayWarning)  # of runs that are meant to be short
        found = judge_world(world_of(job, place), job.seed)
    return {"mechanism": job.mechanism, **found, "seconds": round(time.process_time() - begun, 1)}


def world_of(job: TrialJob, place: Place) -> World:
    """Return the world of a job."""
    source = _ratings(place) if job.mechanism == "two-stage" else None
    return trial_world(job.mechanism, job.seed, source)


@lru_cache
def _ratings(place: Place) -> Interactions:
    return most_rated(whole("ml-100k", place))
