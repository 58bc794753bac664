"""Every model on three public logs: one fit, with its ranks of test items and its validation.

A fit is a job. What a trial searches is what the library's tuning would search, in a part of its
space that an hour can pay for.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from pydantic import Field
from scipy.stats import qmc

from counterplay.data.jobs import Job
from counterplay.data.preparation import Preparation, prepare
from counterplay.data.splits import TEST, Split, leave_last_two_out
from counterplay.errors import CounterplayWarning
from counterplay.learning.fitting import fit
from counterplay.learning.methods import method_of
from counterplay.metrics.ranks import full_ranks, sampled_candidates, sampled_ranks
from counterplay.metrics.scoring import ModelScores
from counterplay.models.registry import ModelSettings
from counterplay.runs.config import ValidationSettings
from counterplay.runs.defaults import batch_size_for
from counterplay.runs.validating import Judge
from counterplay.seeding import Streams
from counterplay.tuning.space import Choices, Space, Tuning, first_settings, searched
from reproduction.datasets import public_folder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from counterplay.data.interactions import Interactions
    from counterplay.data.jobs import Result
    from counterplay.metrics.ranks import Ranks
    from reproduction.datasets import Place

Settings = dict[str, Any]
N_SAMPLED, K = 100, 10
JUDGED_BY = {"metric": "ndcg", "k": K, "protocol": "full"}


class Log(NamedTuple):
    """A public log, and what of it an hour can pay for."""

    title: str
    preparation: dict[str, Any]
    tuned_on: str | None = None  # the log that trials learn from; None: this one
    judged_on: int | None = None  # users who choose an epoch; None: all
    patience: int = 15  # of a reported fit; 15 is the default
    left_out: tuple[str, ...] = ()  # lines that have not been run yet
    untuned: tuple[str, ...] = ()  # lines that have been run with the defaults only

    @property
    def lines(self) -> list[str]:
        """The lines that are run."""
        return [line for line in LINES if line not in self.left_out]


LOGS = {
    "ml-1m": Log(
        "MovieLens-1M",
        {},
        tuned_on="ml-100k",
        judged_on=2000,
        patience=8,
        # `benchmarks.run sasrec` has attn by a softmax there, by three seeds
        left_out=("gmf, softmax", "attn, softmax"),
    ),
    "ml-100k": Log("MovieLens-100K", {}),
    "lastfm": Log("LastFM", {"duplicates": "first", "core": 5}),
}


class Line(NamedTuple):
    """A line of the table: a model, how it learns, and whether chance enters."""

    model: str
    method: str = "erm"
    by_chance: bool = True


LINES = {
    "pop": Line("pop", by_chance=False),
    "knn": Line("knn", by_chance=False),
    "ease": Line("ease", by_chance=False),
    "ials": Line("ials"),
    "cf": Line("cf"),
    "gmf": Line("gmf"),
    "mlp": Line("mlp"),
    "ncf": Line("ncf"),
    "attn": Line("attn"),
    "gmf, softmax": Line("gmf", "softmax"),
    "attn, softmax": Line("attn", "softmax"),
}
EPOCHS, TRIAL_EPOCHS, TRIAL_PATIENCE = 100, 60, 8
RATE, L2, N_NEGATIVES, DIM = (0.002, 0.02), (1e-6, 1e-4), (2, 8), (16, 64)


class ModelFit(Job):
    """Fit one model once: for the choice of its settings, or for the table."""

    data: str
    line: str
    seed: Annotated[int, Field(ge=0)]
    settings: Settings  # none: the defaults
    trial: bool
    patience: int
    epochs: int
    judged_on: int | None  # users who choose the epoch; None: all

    @property
    def label(self) -> str:
        """Log, line, what for, and the seed."""
        kind = "trial" if self.trial else "tuned" if self.settings else "defaults"
        return f"{self.data}/models/{self.line.replace(', ', '-')}/{kind}/seed-{self.seed}"


def job_of(data: str, line: str, seed: int, settings: Settings, *, trial: bool = False) -> ModelFit:
    """Return a fit with what its log can pay for."""
    known = LOGS[data]
    return ModelFit(
        data=data,
        line=line,
        seed=seed,
        settings=settings,
        trial=trial,
        patience=TRIAL_PATIENCE if trial else known.patience,
        epochs=TRIAL_EPOCHS if trial else EPOCHS,
        judged_on=known.judged_on,
    )


@dataclass(frozen=True)
class Prepared:
    """A log that is split, and the sampled items of its test rows."""

    split: Split
    targets: Interactions
    seen: Interactions
    candidates: NDArray[np.int32]


@lru_cache(maxsize=2)  # jobs of one log follow each other
def prepared(data: str, place: Place) -> Prepared:
    """Return the clicks of a log, each user's last two held out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CounterplayWarning)  # the page says how logs are split
        plan = Preparation.model_validate({"split": "none", **LOGS[data].preparation})
        whole = prepare(public_folder(data, place), plan)
        assert not isinstance(whole, Split)
        log = replace(whole, rating=None)
        split = leave_last_two_out(log)
    targets, seen = split.test, log.take(split.part < TEST)
    rng = Streams(0).numpy("models", "candidates")
    return Prepared(split, targets, seen, sampled_candidates(seen, targets, N_SAMPLED, rng))


def tuning_of(line: str, seed: int, train: Interactions) -> Tuning:
    """Return what is searched, as the library's tuning describes it."""
    own, batch = LINES[line], batch_size_for(len(train))
    space = Space(rate=RATE, l2=L2, n_negatives=N_NEGATIVES, dim=DIM, batch_size=(batch, batch))
    return Tuning(
        methods=(own.method,), candidate=ModelSettings(name=own.model), space=space, seed=seed
    )


def trials_of(line: str, train: Interactions, n: int, seed: int) -> list[Settings]:
    """Return the settings of trials: the defaults, then points of a Halton sequence."""
    tuning, method = tuning_of(line, seed, train), LINES[line].method
    first = first_settings(tuning, method, train)
    free = {key: ends for key, ends in searched(tuning, method).items() if len(set(ends)) > 1}
    if not free or n == 1:
        return [first]
    points = qmc.Halton(len(free), rng=0).random(n - 1)
    return [first] + [
        first | {key: _at(ends, x) for (key, ends), x in zip(free.items(), point, strict=True)}
        for point in points
    ]


def _at(ends: tuple[Any, ...], share: float) -> Any:
    """Return what lies at a share of a range, by its logarithm, or among choices."""
    if isinstance(ends, Choices):
        return ends[min(int(share * len(ends)), len(ends) - 1)]
    value = float(ends[0] * (ends[1] / ends[0]) ** share)
    return round(value) if isinstance(ends[0], int) else float(f"{value:.3g}")


def fitted(job: Job, place: Place) -> Result:
    """Fit a model; return its validation, and of a fit for the table where test items stand."""
    assert isinstance(job, ModelFit)
    begun, own = time.process_time(), LINES[job.line]
    here = prepared(job.data, place)
    train = here.split.train
    ends = {"training.epochs": job.epochs, "training.patience": job.patience}
    tuning = tuning_of(job.line, job.seed, train)
    config = tuning.run_config(own.method, train, job.settings | ends)
    by = ValidationSettings.model_validate(JUDGED_BY | {"users": job.judged_on})
    judge = Judge(here.split, train, by, Streams(job.seed))
    players = config.players(train, Streams(job.seed))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CounterplayWarning)
        found = fit(method_of(config.method)(players, train, config.of_method()), validate=judge)
    result = {
        "validation": judge(found.candidate),
        "best_epoch": found.best_epoch,
        "n_epochs": len(found.epochs),
        "stopped": found.stopped,
    }
    if not job.trial:
        scores = ModelScores(found.candidate, here.seen, train=train)
        result["full"] = _listed(full_ranks(scores, here.targets, here.seen))
        result["sampled"] = _listed(sampled_ranks(scores, here.targets.user, here.candidates))
    return result | {"seconds": round(time.process_time() - begun, 1)}


def _listed(ranks: Ranks) -> dict[str, list[int]]:
    return {"above": ranks.above.tolist(), "tied": ranks.tied.tolist()}
