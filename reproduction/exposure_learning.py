"""What learning from impressions is worth: methods with equal tuning in worlds with a known truth.

A job tunes one method in one world that is not reported, or learns all methods in one world that
is. Every method has as many trials, the same model, rate, batches and patience.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from pydantic import Field

import counterplay as cp
from counterplay.data.impressions import impressions_of
from counterplay.data.jobs import Job
from counterplay.data.splits import TRAIN
from counterplay.errors import CounterplayWarning
from counterplay.learning import acl, erm, ips, ps, shown
from counterplay.learning.config import FromShown, Game, Inverse, LinkSettings, Training, Weighted
from counterplay.metrics.scoring import ModelScores
from counterplay.models.registry import build
from counterplay.runs.config import ValidationSettings
from counterplay.runs.validating import Judge
from counterplay.simulation.values import Relevance, true_values
from counterplay.simulation.writing import split_of
from reproduction.trial_worlds import trial_world

if TYPE_CHECKING:
    from counterplay.data.interactions import Interactions
    from counterplay.data.jobs import Result
    from counterplay.data.splits import Split
    from counterplay.learning.records import Fit
    from counterplay.metrics.scoring import Scores
    from counterplay.models.scorer import Scorer
    from counterplay.simulation.world import World

Mechanism = Literal[
    "uniform", "popularity", "popularity-quality", "history", "confounded", "position-bias"
]
Density = Literal["sparse", "dense"]
Chosen = dict[str, float]  # settings of a method: l2, and one of its own

MECHANISMS: tuple[Mechanism, ...] = get_args(Mechanism)
N_SHOWN: dict[Density, float] = {"sparse": 40.0, "dense": 120.0}  # items shown to a user
RATES = (1.0, 0.25, 0.1)  # rounds of the log: training, validation, test
DIM = 16
BATCHES: dict[Density, int] = {"sparse": 1024, "dense": 3072}  # clicks; as many steps in both
IMPRESSIONS_A_CLICK = 4  # in batches: so that epochs, which patience counts, have as many steps
RATE, PATIENCE = 0.03, 20  # at a third of it, ERM stops before it has learnt any taste
L2: dict[Density, tuple[float, ...]] = {"sparse": (4e-5, 7e-5, 1e-4), "dense": (2e-5, 4e-5, 6e-5)}
MORE_L2: dict[Density, float] = {"sparse": 1.3e-4, "dense": 8e-5}  # of what has no other setting
# The setting of a method besides l2, its first value, and the other that is tried at the best l2.
OWN: dict[str, tuple[str, float, float] | None] = {
    "erm": None,
    "shown": ("unseen_weight", 0.1, 0.02),
    "shown, examination": ("unseen_weight", 0.1, 0.02),
    "ips": ("floor", 0.3, 0.1),
    "ps": ("intercept", -2.0, 0.0),
    "acl": ("alpha", 1.0, 4.0),
}
METHODS = tuple(OWN)


class TuningJob(Job):
    """Try the settings of one method in one world."""

    density: Density
    mechanism: Mechanism
    method: str
    seed: Annotated[int, Field(ge=0)]

    @property
    def label(self) -> str:
        """Density, mechanism, method and seed."""
        name = self.method.replace(", ", "-")
        return f"{self.density}/{self.mechanism}/exposure-tuning/{name}/seed-{self.seed}"


class LearningJob(Job):
    """Learn by all methods in one world."""

    density: Density
    mechanism: Mechanism
    seed: Annotated[int, Field(ge=0)]
    chosen: dict[str, Chosen]  # by method

    @property
    def label(self) -> str:
        """Density, mechanism and seed."""
        return f"{self.density}/{self.mechanism}/exposure-learning/seed-{self.seed}"


@dataclass(frozen=True)
class Setting:
    """One world and its log."""

    density: Density
    world: World
    split: Split
    seed: int

    @cached_property
    def train(self) -> Interactions:
        """The clicks to learn from."""
        return self.split.train

    @cached_property
    def impressions(self) -> Interactions:
        """What was shown in the same rounds, clicked or not."""
        return impressions_of(self.split, TRAIN)

    @cached_property
    def judges(self) -> dict[str, Judge]:
        """Validation by hits on clicks, and by the AUC of impressions."""
        streams = cp.Streams(self.seed)
        metrics = (ValidationSettings(metric="hit"), ValidationSettings(metric="auc"))
        return {each.metric: Judge(self.split, self.train, each, streams) for each in metrics}

    def truth(self, scores: Scores) -> float:
        """Return the true Hit@10, in per cent."""
        found = true_values(self.world, scores, self.train, metrics=("hit",), k=(10,))
        return 100 * found["hit", 10]

    def truth_of(self, model: Scorer) -> float:
        """Return the true Hit@10 of a model, in per cent."""
        return self.truth(ModelScores(model, self.train, train=self.train))

    def model(self, role: str) -> Scorer:
        """Return a fresh model."""
        generator = cp.Streams(self.seed).torch("initial", role)
        return build("cf", self.train, dim=DIM, generator=generator)


@lru_cache(maxsize=1)  # jobs of one world follow each other
def setting_of(density: Density, mechanism: Mechanism, seed: int) -> Setting:
    """Return a world and a log of it."""
    world = trial_world(mechanism, seed, n_shown=N_SHOWN[density])
    split = split_of(world, RATES, impressions=True, with_truth=True)
    return Setting(density, world, split, seed)


def tuned(job: TuningJob) -> Result:
    """Try three values of l2, then one more setting; return all trials, and the best one."""
    begun, here = time.process_time(), setting_of(job.density, job.mechanism, job.seed)
    by, own = judged_by(job.method), OWN[job.method]
    first: Chosen = {} if own is None else {own[0]: own[1]}
    trials = [
        learnt(here, job.method, {"l2": l2} | first, with_both=True) for l2 in L2[job.density]
    ]
    best = max(trials, key=lambda each: each[by])
    last = {"l2": MORE_L2[job.density]} if own is None else {own[0]: own[2]}
    trials.append(learnt(here, job.method, best["settings"] | last, with_both=True))
    best = max(trials, key=lambda each: each[by])
    seconds = round(time.process_time() - begun, 1)
    return {"trials": trials, "chosen": best["settings"], "by": by, "seconds": seconds}


def learnt_all(job: LearningJob) -> Result:
    """Learn by all methods, and return the true value of each."""
    begun, here = time.process_time(), setting_of(job.density, job.mechanism, job.seed)
    fits = {name: learnt(here, name, job.chosen[name]) for name in METHODS}
    counts = {"clicks": len(here.train), "impressions": len(here.impressions)}
    return {
        "density": job.density,
        "mechanism": job.mechanism,
        "rows": counts,
        "fits": fits,
        "pop": here.truth_of(build("pop", here.train)),
        "perfect": here.truth(Relevance(here.world, 0.0)),
        "seconds": round(time.process_time() - begun, 1),
    }


def judged_by(method: str) -> str:
    """Return the validation metric that chooses epochs and settings."""
    return "auc" if method.startswith("shown") else "hit"


def learnt(
    here: Setting, method: str, settings: Chosen, *, with_both: bool = False
) -> dict[str, Any]:
    """Learn once, and return the true value with the validation."""
    begun = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CounterplayWarning)
        fit = _fitted(here, method, settings)
    by = judged_by(method)
    metrics = ("hit", "auc") if with_both else (by,)
    return {
        "settings": settings,
        "truth": here.truth_of(fit.candidate),
        **{metric: here.judges[metric](fit.candidate) for metric in metrics},
        "best_epoch": fit.best_epoch,
        "n_epochs": len(fit.epochs),
        "ess": fit.ess,
        "seconds": round(time.process_time() - begun, 2),
    }


def _fitted(here: Setting, method: str, settings: Chosen) -> Fit:
    shared: dict[str, Any] = {
        "epochs": 200,
        "batch_size": BATCHES[here.density],
        "rate": RATE,
        "patience": PATIENCE,
        "l2": settings["l2"],
        "seed": here.seed,
    }
    judge, candidate = here.judges[judged_by(method)], here.model("candidate")
    if method == "erm":
        return erm(candidate, here.train, Training(**shared), validate=judge)
    if method == "ips":
        inverse = Inverse(**shared, floor=settings["floor"])
        return ips(candidate, here.train, inverse, validate=judge)
    if method.startswith("shown"):
        shared |= {"n_negatives": 1, "unseen_weight": settings["unseen_weight"]}
        shared["batch_size"] *= IMPRESSIONS_A_CLICK
        how = FromShown(**shared, examination="none" if method == "shown" else "joint")
        return shown(candidate, here.impressions, how, validate=judge)
    shared |= {"exposure_from": "impressions"}
    given: dict[str, Any] = {"impressions": here.impressions, "validate": judge}
    if method == "ps":
        link = LinkSettings(intercept=settings["intercept"], floor=0.02)
        counts = build("pop", replace(here.impressions, clicked=None))
        return ps(candidate, counts, here.train, Weighted(**shared, link=link), **given)
    game = Game(**shared, alpha=settings["alpha"])
    return acl(candidate, here.model("exposure"), here.train, game, **given)
