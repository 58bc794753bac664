"""What every method of learning is worth, under equal effort: true values, and gains over ERM.

Six mechanisms of exposure, and Coat, whose random ratings are its truth. Settings are chosen by
`learners-settings`, and frozen in `reproduction/learners_settings.json`. What is done is not run
again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from counterplay.data.jobs import Job
from counterplay.errors import ConfigError
from reproduction.execution import results_of
from reproduction.learners_fit import BESIDE, COAT, learnt, setting_of
from reproduction.learners_settings import SETTINGS, settings
from reproduction.learners_summary import page, rows, summarised

if TYPE_CHECKING:
    from counterplay.data.jobs import Result
    from reproduction.datasets import Place

SOURCES: tuple[str, ...] = (COAT,)
L2 = "training.l2"
NOTES = """\
So from clicks alone learn plainly, and spend the effort on rate and ℓ2. Beside plain learning
with the same settings, weights from clicks gain no more than 2.2% beyond chance (`ps`, in
`history` and `confounded`; of `acl, paper` see below), and some cost ten times as much (`rd`). If
the log has what was shown and not clicked, learn from that: `shown` is 10 to 20% above tuned
plain learning in all six mechanisms, beyond chance in five.

The one learner of clicks that is above tuned plain learning beyond chance anywhere is `acl,
paper`, in `uniform`. Its weights are alike there, so it is plain learning. Plain learning at the
same rate and ℓ2 stays near 2 in most worlds of `uniform` and `popularity`, hence gains of 70 and
82% by themselves. But by this recipe all propensities begin at 0.5: the loss is larger, and ℓ2
weaker beside it. With 0.7 of that ℓ2 plain learning is as good in every place, so the lead in
`uniform` is the luck of the choice. In the recipe `stable` weights have a mean of 1. The share of
0.7 was fixed after a look at 0.1 to 0.8 in worlds 0 and 1 of `uniform` and `popularity`, which
are reported too: it explains, and is no choice to rely on.
"""


class LearnerJob(Job):
    """Learn by one learner in one world, with the settings that were chosen for it."""

    mechanism: str
    learner: str
    seed: Annotated[int, Field(ge=0)]
    chosen: dict[str, Any]

    @property
    def label(self) -> str:
        """Mechanism, learner and seed."""
        name = self.learner.replace(", ", "-")
        return f"{self.mechanism}/learners/{name}/seed-{self.seed}"


def jobs() -> list[LearnerJob]:
    """Return all that is reported, world by world."""
    asked = settings()
    if not asked.frozen:
        raise ConfigError(
            'settings must be frozen before the reported seeds are run; found "frozen": false in '
            f"'{SETTINGS.name}'; choose them with learners-settings, and set it to true"
        )
    return [
        LearnerJob(mechanism=mechanism, learner=name, seed=seed, chosen=chosen)
        for mechanism, learners in asked.chosen.items()
        for seed in range(asked.n_seeds[mechanism])
        for name, chosen in learners.items()
    ]


def without_weights() -> list[tuple[str, LearnerJob]]:
    """Return plain learning with the rate, ℓ2 and so on that were chosen for weighted learners."""
    asked = settings()
    return [
        (name, LearnerJob(mechanism=mechanism, learner="erm", seed=seed, chosen=chosen))
        for mechanism, learners in asked.chosen.items()
        for name, (weighted, share) in BESIDE.items()
        if weighted in learners
        for shared in [{key: learners[weighted][key] for key in learners["erm"]}]
        for chosen in [shared if share == 1 else shared | {L2: share * shared[L2]}]
        for seed in range(asked.n_seeds[mechanism])
    ]


def run(place: Place) -> dict[str, Any]:
    """Learn in every world of the reported seeds, and return what each learner was worth."""
    found = results_of(jobs(), place, learnt_once)
    asked = without_weights()
    once = {job.key: job for _, job in asked}  # several learners may have the same settings
    plain = dict(zip(once, results_of(list(once.values()), place, learnt_once), strict=True))
    cells = summarised(found, [(name, plain[job.key]) for name, job in asked])
    return {
        "settings": settings().model_dump(mode="json"),
        "learners": cells,
        "rows": rows(cells),
        "pages": {"learners.md": page(cells, NOTES)},
    }


def learnt_once(job: Job, place: Place) -> Result:
    """Do what a job says."""
    assert isinstance(job, LearnerJob)
    here = setting_of(job.mechanism, job.seed, place)
    found = learnt(here, job.learner, job.chosen)
    return {"mechanism": job.mechanism, "learner": job.learner, "seed": job.seed, **found}
