"""Learners of ratings on Coat: one fit, with its error on the ratings of random items."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import qmc

from counterplay.data.datasets.randomized import read_coat
from counterplay.data.splits import split_at_random
from counterplay.errors import CounterplayWarning
from counterplay.learning.fitting import fit
from counterplay.learning.methods import method_of
from counterplay.metrics.measures import rating_errors
from counterplay.metrics.scoring import ModelScores
from counterplay.runs.config import ValidationSettings, config_of
from counterplay.runs.validating import Judge
from counterplay.seeding import Streams
from reproduction.datasets import public_folder

if TYPE_CHECKING:
    from pathlib import Path

    from counterplay.data.interactions import Interactions
    from counterplay.data.splits import Split
    from reproduction.datasets import Place

Settings = dict[str, Any]
COAT, MODEL = "coat", "cf"
EPOCHS, PATIENCE, BATCH = 400, 30, 256
FRACTIONS = (0.2, 0.05)  # of ratings of chosen items: validation, and some that nobody uses
SHARED: Settings = {
    "training.rate": (0.001, 0.02),
    "training.l2": (1e-3, 1e-1),
    "candidate.dim": (4, 16),
}
OPPONENT = {"alpha": (0.1, 10.0), "exposure_rate": (0.001, 0.1), "exposure_dim": (2, 16)}


@dataclass(frozen=True)
class Learner:
    """A method for the same model."""

    method: str
    knows: bool = False  # the propensities that come with the log
    training: Settings = field(default_factory=dict)
    exposure: str = "gmf"

    @property
    def ranges(self) -> dict[str, tuple[float, float]]:
        """What its trials search: what all do, and the method's own."""
        own = {
            key: OPPONENT[ends] if isinstance(ends, str) else ends
            for key, ends in method_of(self.method).searched
            if ends != "exposure"  # its model is the same for all
        }
        return SHARED | own


LEARNERS = {
    "erm": Learner("erm"),
    "ps": Learner("ps"),
    "acl, stable": Learner("acl", training={"recipe": "stable"}),
    "dr, fitted": Learner("dr", training={"propensities": "fitted"}),
    "ips": Learner("ips", knows=True),
    "dr, logged": Learner("dr", knows=True, training={"propensities": "logged"}),
}


@dataclass(frozen=True)
class Ratings:
    """Ratings of chosen items, split, and those of random items."""

    split: Split
    random: Interactions


@lru_cache(maxsize=4)
def ratings_of(seed: int, knows: bool, place: Place) -> Ratings:
    """Return Coat with a part of its chosen items held out for validation."""
    folder = public_folder(COAT, place)
    whole = read_coat(folder)
    chosen = whole.train
    if knows:
        chosen = replace(chosen, propensity=_learned(folder)[chosen.user, chosen.item])
    split = split_at_random(chosen, Streams(seed).numpy("split"), fractions=FRACTIONS)
    return Ratings(split, whole.test)


def _learned(folder: Path) -> np.ndarray:
    """Return the propensities that lie beside Coat's ratings, `[n_users, n_items]`."""
    return np.loadtxt(folder / "propensities.ascii")


def trials_of(name: str, n: int) -> list[Settings]:
    """Return the settings of a learner's trials: points of a Halton sequence, all alike."""
    ranges = LEARNERS[name].ranges
    points = qmc.Halton(len(ranges), rng=0).random(n)
    return [
        {key: _at(*ends, x) for (key, ends), x in zip(ranges.items(), point, strict=True)}
        for point in points
    ]


def _at(low: float, high: float, share: float) -> float:
    value = low * (high / low) ** share
    return round(value) if isinstance(low, int) else float(f"{value:.3g}")


def learnt(name: str, settings: Settings, seed: int, place: Place) -> dict[str, Any]:
    """Learn once; return the error on random ratings, the validation, and how learning went."""
    begun, own = time.process_time(), LEARNERS[name]
    here = ratings_of(seed, own.knows, place)
    train, random = here.split.train, here.random
    parts: dict[str, Settings] = {
        "candidate": {"name": MODEL},
        "exposure": {"name": own.exposure},
        "training": {
            "loss": "squared",
            "epochs": EPOCHS,
            "patience": PATIENCE,
            "seed": seed,
            "batch_size": BATCH,
            **own.training,
        },
    }
    for key, value in settings.items():
        section, setting = key.split(".")
        parts[section][setting] = value
    config = config_of({"method": own.method, **parts})
    judge = Judge(here.split, train, ValidationSettings(), Streams(seed))
    players = config.players(train, Streams(seed))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CounterplayWarning)
        kind = method_of(own.method)
        found = fit(kind(players, train, config.of_method()), validate=judge)
    scores = ModelScores(found.candidate, train, train=train)
    assert random.rating is not None
    errors = rating_errors(scores.of(random.user, random.item[:, None])[:, 0], random.rating)
    return {
        "truth": float(errors["mse"].mean()),
        "validation": judge(found.candidate),
        "ess": found.ess,
        "best_epoch": found.best_epoch,
        "n_epochs": len(found.epochs),
        "seconds": round(time.process_time() - begun, 2),
    }
