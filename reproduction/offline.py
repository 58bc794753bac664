"""Estimators on trial: in worlds against the online test, elsewhere against randomised data."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.data.datasets.randomized import read_coat, read_open_bandit
from counterplay.evaluation.settings import OpponentSettings
from counterplay.simulation.synthetic import Synthetic
from counterplay.simulation.two_stage import TwoStage
from reproduction.datasets import public_folder, whole
from reproduction.random_policies import judge_by_own_log
from reproduction.random_ratings import judge_by_random_ratings
from reproduction.trial import CandidateName, Trial, run_trial

if TYPE_CHECKING:
    from pathlib import Path

    from counterplay.data.jobs import Result
    from counterplay.simulation.world import World
    from reproduction.datasets import Place
    from reproduction.jobs import RandomisedJob, WorldJob

_FIVE: tuple[CandidateName, ...] = ("pop", "cf", "gmf", "acl", "acl-paper")
_CONFOUNDING = {
    "synthetic": 0.0,
    "synthetic-confounded": 0.5,
    "synthetic-severely-confounded": 1.0,
}
_TWO_STAGE = {
    "ml-100k": Trial(candidates=_FIVE, rates=(1.0, 0.1, 0.2), opponent=OpponentSettings(epochs=15)),
    "ml-1m": Trial(
        candidates=_FIVE,
        rates=(1.0, 0.01, 0.05),
        epochs=25,
        patience=5,
        opponent=OpponentSettings(epochs=10),
    ),
}
FAMILIES = (*_CONFOUNDING, *_TWO_STAGE)  # synthetic ones have eight candidates, the others five
_CAMPAIGNS, _POLICIES = ("all", "men", "women"), ("random", "bts")


def source_of_family(family: str) -> str | None:
    """Return the public data that a family of worlds is made of, if any."""
    return family if family in _TWO_STAGE else None


def trial_of(family: str) -> Trial:
    """Return what is put on trial in the worlds of a family, and how."""
    return _TWO_STAGE.get(family, Trial())


def tried(job: WorldJob, place: Place) -> Result:
    """Put the estimators on trial in a world; the log and the runs are removed at the end."""
    trial = trial_of(job.family)
    trial = trial.model_copy(update={"epochs": min(trial.epochs, job.epochs)})
    folder = place.out / "work" / job.key
    folder.mkdir(parents=True, exist_ok=True)
    found = run_trial(_world(job, place), folder, trial)
    shutil.rmtree(folder, ignore_errors=True)
    return {"trial": found}


def _world(job: WorldJob, place: Place) -> World:
    if job.family in _CONFOUNDING:
        return Synthetic(confounding=_CONFOUNDING[job.family], seed=job.seed).world()
    return TwoStage(seed=job.seed).world(whole(job.family, place))


def judged(job: RandomisedJob, place: Place) -> Result:
    """Judge the estimators by Coat's random ratings, or by the policies of Open Bandit."""
    folder = public_folder(job.data, place)
    if job.data == "coat":
        return {"ratings": _coat(folder, job.seed)}
    return {"policies": judge_open_bandit(folder)}


def _coat(folder: Path, seed: int) -> dict[str, Any]:
    """Coat's own learned propensities, where they lie beside it, are the logged ones."""
    split = read_coat(folder)
    chosen, learned = split.train, folder / "propensities.ascii"
    if learned.exists():
        chosen = replace(chosen, propensity=np.loadtxt(learned)[chosen.user, chosen.item])
    return judge_by_random_ratings(chosen, split.test, seed=seed)


def judge_open_bandit(folder: Path) -> list[dict[str, Any]]:
    """Judge the estimators by each policy's own log, where they have that of the other policy."""
    found = []
    for campaign in _CAMPAIGNS:
        logs = {name: read_open_bandit(folder / name / campaign) for name in _POLICIES}
        for target, other in (_POLICIES, _POLICIES[::-1]):
            about = {"campaign": campaign, "policy": target, "log": other}
            found.append(about | judge_by_own_log(logs[target], logs[other]))
    return found
