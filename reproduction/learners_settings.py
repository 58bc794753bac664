"""The settings of the learners on trial, chosen by validation on worlds that are not reported.

Every learner has the same number of trials in every mechanism, on seeds 100 and 101. The choice
goes to `reproduction/learners_settings.json`, where `frozen` is set before `learners` is run.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import BaseModel, ConfigDict

from counterplay.data.jobs import Job
from reproduction.execution import results_of
from reproduction.learners_fit import COAT, LEARNERS, PLACES, learnt, setting_of, trials_of

if TYPE_CHECKING:
    from counterplay.data.jobs import Result
    from reproduction.datasets import Place

SOURCES: tuple[str, ...] = (COAT,)
SETTINGS = Path(__file__).with_name("learners_settings.json")
SEEDS = (100, 101)
N_TRIALS = 6


class LearnersSettings(BaseModel):
    """What is chosen before the reported seeds are run.

    Attributes:
        frozen: Whether it has been.
        n_seeds: Number of seeds to report by mechanism, from seed 0.
        chosen: Settings by mechanism and learner.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    frozen: bool
    n_seeds: dict[str, int]
    chosen: dict[str, dict[str, dict[str, Any]]]


class LearnerTuning(Job):
    """Try the settings of one learner in the worlds of one mechanism."""

    mechanism: str
    learner: str
    n_trials: int = N_TRIALS
    seeds: tuple[int, ...] = SEEDS

    @property
    def label(self) -> str:
        """Mechanism and learner."""
        return f"{self.mechanism}/learners-tuning/{self.learner.replace(', ', '-')}"


def settings() -> LearnersSettings:
    """Return the settings file."""
    return LearnersSettings.model_validate_json(SETTINGS.read_text(encoding="utf-8"))


def jobs() -> list[LearnerTuning]:
    """Return all that is to be tuned: in each mechanism what its log can teach."""
    return [
        LearnerTuning(mechanism=mechanism, learner=name)
        for mechanism in PLACES
        for name, learner in LEARNERS.items()
        if mechanism != COAT or learner.needs is None
    ]


def run(place: Place) -> dict[str, Any]:
    """Tune every learner in every mechanism, and return the trials and the choice."""
    asked = jobs()
    found = results_of(asked, place, tuned)
    chosen: dict[str, dict[str, Any]] = {}
    lines = [
        "# Settings of the learners on trial",
        "",
        f"{N_TRIALS} trials each on seeds {', '.join(map(str, SEEDS))}, the first with the "
        "defaults. Chosen by hits on validation clicks; true Hit@10 of the choice, and of the "
        "truest trial.",
        "",
    ]
    for job, result in zip(asked, found, strict=True):
        chosen.setdefault(job.mechanism, {})[job.learner] = result["chosen"]
        truths = [each["truth"] for each in result["trials"]]
        said = ", ".join(_told(*each) for each in result["chosen"].items())
        lines.append(
            f"- {job.mechanism}, {job.learner}: {truths[result['best']]:.2f}, truest "
            f"{max(truths):.2f} ({said})"
        )
    return {
        "seeds": list(SEEDS),
        "chosen": chosen,
        "trials": [
            {"mechanism": job.mechanism, "learner": job.learner, "trials": result["trials"]}
            for job, result in zip(asked, found, strict=True)
        ],
        "rows": [],
        "pages": {"learners-settings.md": "\n".join(lines) + "\n"},
    }


def tuned(job: Job, place: Place) -> Result:
    """Learn with every setting on every seed, and choose by the mean validation."""
    assert isinstance(job, LearnerTuning)
    begun = time.process_time()
    first = setting_of(job.mechanism, job.seeds[0], place)
    trials: list[dict[str, Any]] = []
    for settings in trials_of(job.learner, first, job.n_trials):
        fits = [
            learnt(setting_of(job.mechanism, seed, place), job.learner, settings)
            for seed in job.seeds
        ]
        means = {key: float(np.mean([each[key] for each in fits])) for key in _MEANS}
        stopped = [each["best_epoch"] for each in fits]
        trials.append({"settings": settings, **means, "best_epochs": stopped})
    best = int(np.argmax([each["validation"] for each in trials]))
    return {
        "trials": trials,
        "best": best,
        "chosen": trials[best]["settings"],
        "seconds": round(time.process_time() - begun, 1),
    }


_MEANS = ("truth", "validation", "seconds")


def _told(key: str, value: Any) -> str:
    name = key.rpartition(".")[2]
    return f"{name} {value if isinstance(value, str) else f'{value:g}'}"
