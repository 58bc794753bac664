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
    from counterplay.data.jobs import Job, Result
    from reproduction.datasets import Place

SOURCES: tuple[str, ...] = ()
NOTES = """
- *Positions.* Users examine position p with probability ρ^(p − 1), where ρ is 0.7 in
  `position-bias` and 0.9 elsewhere. In sparse logs of an old system that sorts by what it knows
  of the user (`history`, `confounded`, `position-bias`), learning examination costs value;
  elsewhere it makes little difference, or helps by a point or two. A poor estimate of ρ is not the
  reason: in `position-bias`, sparse, seed 100, at the truest epoch and the best of three l2, the
  true ρ gave 3.53, learnt ρ 3.44, and none 3.88. Probably a low position tells what the old system
  knew, and examination explains that away.
- *Density.* Dense logs leave less to gain: `perfect` is 16 to 24 % above `erm` there, and 57 to
  97 % in sparse ones. `shown` is worth more in all 12 kinds of worlds beyond chance. It makes up 31
  to 44 % of that distance in dense worlds, where a gain of 10 % would take 41 to 61 % of it, and 15
  to 29 % in sparse ones.
- *Weights on clicks* (`ips`, `ps`, `acl`) change less. The game, whose opponent stays near what
  was shown here, gains beyond chance in 5 kinds of worlds, at most 4.9 %, and loses in 1. Hits on
  validation clicks reward agreement with the old exposure, so they tend to choose weak weights: see
  `exposure-settings.md`. In `uniform` they are little more than noise, and chose an l2 for `ips`
  that is too small.
- *Stopping.* Hits on 2,000 validation clicks are noisy, and a fit may stop before it has learnt
  taste. At a rate of 0.01 and a patience of 15, ERM did so in `uniform`, seed 100, with l2 of
  4e-5 and of 7e-5. So the rate is 0.03 for all, and batches of impressions are four times as
  large: epochs then have about as many steps.
- *What was seen before.* The grid of l2, the rate and the patience were set after a look at
  worlds of seed 100. Three seeds of sparse worlds and of dense `history` were looked at first, then
  two more of the sparse ones; nothing was changed after that.
"""


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
