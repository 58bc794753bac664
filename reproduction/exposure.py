"""What impressions are worth to learning: true values of methods that use them, and of ERM.

Six mechanisms of exposure, sparse and dense logs. Settings are chosen by `exposure-settings`, and
frozen in `reproduction/exposure_settings.json`. Worlds that are done are not run again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from counterplay.errors import ConfigError
from reproduction.execution import results_of
from reproduction.exposure_learning import LearningJob, learnt_all
from reproduction.exposure_settings import SETTINGS, settings
from reproduction.exposure_summary import page, rows, summarised

if TYPE_CHECKING:
    from reproduction.datasets import Place
    from reproduction.grid import Job, Result

SOURCES: tuple[str, ...] = ()
NOTES = ""


def run(place: Place) -> dict[str, Any]:
    """Learn in every world of the reported seeds, and return what each method was worth."""
    asked = settings()
    if not asked.frozen:
        raise ConfigError(
            'settings must be frozen before the reported seeds are run; found "frozen": false in '
            f"'{SETTINGS.name}'; choose them with exposure-settings, and set it to true"
        )
    jobs = [
        LearningJob(density=density, mechanism=each, seed=seed, chosen=asked.chosen[density][each])
        for density, mechanisms in asked.n_seeds.items()
        for each, n in mechanisms.items()
        for seed in range(n)
    ]
    worlds = results_of(jobs, place, _learnt)
    cells = summarised(worlds)
    return {
        "settings": asked.model_dump(mode="json"),
        "learning": cells,
        "worlds": worlds,
        "rows": rows(cells),
        "pages": {"exposure.md": page(cells, asked.chosen, NOTES)},
    }


def _learnt(job: Job, _: Place) -> Result:
    assert isinstance(job, LearningJob)
    return learnt_all(job)
