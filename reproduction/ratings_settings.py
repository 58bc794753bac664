"""The settings of the learners of ratings, chosen by validation on splits that are not reported.

Every learner has the same number of trials on seeds 100 and 101. The choice goes to
`reproduction/ratings_settings.json`, where `frozen` is set before `ratings` is run.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.data.jobs import Job
from reproduction.execution import results_of
from reproduction.learners_settings import LearnersSettings
from reproduction.ratings_fit import COAT, LEARNERS, learnt, trials_of

if TYPE_CHECKING:
    from counterplay.data.jobs import Result
    from reproduction.datasets import Place

SOURCES: tuple[str, ...] = (COAT,)
SETTINGS = Path(__file__).with_name("ratings_settings.json")
SEEDS = (100, 101)
N_TRIALS = 6


class RatingsTuning(Job):
    """Try the settings of one learner."""

    learner: str
    n_trials: int = N_TRIALS
    seeds: tuple[int, ...] = SEEDS

    @property
    def label(self) -> str:
        """Log and learner."""
        return f"{COAT}/ratings-tuning/{self.learner.replace(', ', '-')}"


def settings() -> LearnersSettings:
    """Return the settings file, of the one log."""
    return LearnersSettings.model_validate_json(SETTINGS.read_text(encoding="utf-8"))


def run(place: Place) -> dict[str, Any]:
    """Tune every learner, and return the trials and the choice."""
    found = results_of([RatingsTuning(learner=name) for name in LEARNERS], place, tuned)
    trials = dict(zip(LEARNERS, found, strict=True))
    return {
        "seeds": list(SEEDS),
        "chosen": {COAT: {name: each["chosen"] for name, each in trials.items()}},
        "trials": {name: each["trials"] for name, each in trials.items()},
        "rows": [],
    }


def tuned(job: Job, place: Place) -> Result:
    """Learn with every setting on every seed, and choose by the mean validation."""
    assert isinstance(job, RatingsTuning)
    trials: list[dict[str, Any]] = []
    for asked in trials_of(job.learner, job.n_trials):
        fits = [learnt(job.learner, asked, seed, place) for seed in job.seeds]
        means = {key: float(np.mean([each[key] for each in fits])) for key in _MEANS}
        trials.append({"settings": asked, **means})
    best = int(np.argmax([each["validation"] for each in trials]))
    seconds = sum(each["seconds"] for each in trials) * len(job.seeds)
    return {"trials": trials, "chosen": trials[best]["settings"], "seconds": round(seconds, 1)}


_MEANS = ("truth", "validation", "seconds")
