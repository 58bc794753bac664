"""The settings of the trial of impressions, chosen by validation on worlds that are not reported.

One world of seed 100 for every density and mechanism, four trials for every method. The choice goes
to `reproduction/exposure_settings.json`, where `frozen` is set before `exposure` is run.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict

from reproduction.execution import results_of
from reproduction.exposure_learning import (
    METHODS,
    Chosen,
    Density,
    Mechanism,
    TuningJob,
    judged_by,
    tuned,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from counterplay.data.jobs import Job, Result
    from reproduction.datasets import Place

SOURCES: tuple[str, ...] = ()
SETTINGS = Path(__file__).with_name("exposure_settings.json")
SEED = 100


class ExposureSettings(BaseModel):
    """What is chosen before the reported seeds are run.

    Attributes:
        frozen: Whether it has been.
        n_seeds: Number of worlds to report by density and mechanism, from seed 0; what is not named
            is neither tuned nor reported.
        chosen: Settings by density, mechanism and method.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    frozen: bool
    n_seeds: dict[Density, dict[Mechanism, int]]
    chosen: dict[Density, dict[Mechanism, dict[str, Chosen]]]


def settings() -> ExposureSettings:
    """Return the settings file."""
    return ExposureSettings.model_validate_json(SETTINGS.read_text(encoding="utf-8"))


def run(place: Place) -> dict[str, Any]:
    """Tune every method in every kind of world, and return the trials and the choice."""
    jobs = [
        TuningJob(density=density, mechanism=mechanism, method=method, seed=SEED)
        for density, mechanisms in settings().n_seeds.items()
        for mechanism in mechanisms
        for method in METHODS
    ]
    found = results_of(jobs, place, _tuned)
    chosen: dict[str, Any] = {}
    lines = ["# Settings of the trial of impressions", ""]
    lines += ["True Hit@10 of the choice, and of what hits on clicks would have chosen.", ""]
    trials = []
    for job, result in zip(jobs, found, strict=True):
        kinds = chosen.setdefault(job.density, {}).setdefault(job.mechanism, {})
        kinds[job.method] = result["chosen"]
        trials.append({**job.model_dump(), "trials": result["trials"], "chosen": result["chosen"]})
        lines.append(_told(job, result["trials"]))
    page = "\n".join(lines) + "\n"
    return {
        "seed": SEED,
        "chosen": chosen,
        "trials": trials,
        "rows": [],
        "pages": {"exposure-settings.md": page},
    }


def _tuned(job: Job, _: Place) -> Result:
    assert isinstance(job, TuningJob)
    return tuned(job)


def _told(job: TuningJob, trials: list[Mapping[str, Any]]) -> str:
    best = max(trials, key=lambda each: each[judged_by(job.method)])
    by_hits = max(trials, key=lambda each: each["hit"])
    truest = max(each["truth"] for each in trials)
    settings = ", ".join(f"{name} {value:g}" for name, value in best["settings"].items())
    return (
        f"- {job.mechanism}, {job.density}, {job.method}: {best['truth']:.2f} ({settings}), "
        f"by hits {by_hits['truth']:.2f}, truest {truest:.2f}"
    )
