"""Train a model on a prepared dataset and keep what came of it in a run directory."""

from __future__ import annotations

import platform
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from scipy.stats import binomtest

from counterplay.data.publishing import check_free, working_directory
from counterplay.data.store import load_split
from counterplay.errors import DataError
from counterplay.evaluation.metrics import ranking_metrics
from counterplay.evaluation.ranks import ranks_of_first, sampled_candidates
from counterplay.evaluation.scoring import ModelScores
from counterplay.experiments.config import RunConfig
from counterplay.experiments.notes import noted, tell
from counterplay.experiments.run_store import (
    CHECKPOINT,
    FORMAT,
    RECORD,
    asked_for,
    begin,
    begun_with,
    check_run,
    check_same,
    clear,
    write_run,
)
from counterplay.experiments.run_store import load_run as load_run
from counterplay.experiments.run_store import read_record as read_record
from counterplay.learning.erm import erm
from counterplay.learning.fitting import threads_for
from counterplay.learning.game import acl
from counterplay.learning.propensity import ps
from counterplay.seeding import Streams

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from counterplay.data.interactions import Interactions
    from counterplay.data.splits import Split
    from counterplay.learning.config import Game, Weighted
    from counterplay.learning.fitting import Callback
    from counterplay.learning.records import Fit
    from counterplay.models.scorer import Scorer

_VERSIONS = ("counterplay", "numpy", "polars", "pyarrow", "torch")


def train_run(
    data: str | Path,
    out: str | Path,
    config: RunConfig | None = None,
    *,
    resume: bool = False,
    callbacks: Iterable[Callback] = (),
) -> dict[str, Any]:
    """Train on the dataset directory `data`, write the run directory `out`, return its record.

    Ratings are predicted with the squared loss; with any other, every training row is a positive.
    With `resume`, what broke off in `out` goes on, and what is finished is not done again; either
    must have begun with the same configuration, log and split.
    """
    config, folder = config or RunConfig(), Path(out)
    config.of_method()
    if not resume:
        check_free(folder)
    asked = asked_for(config, data)
    if resume and (folder / RECORD).exists():
        check_same(begun_with(read_record(folder)), asked, folder)
    with working_directory(folder) as place:
        if not resume:
            check_free(place)  # once more: now nobody else writes there
        elif (place / RECORD).exists():
            clear(place)
            return check_run(place)
        return _trained(data, place, config, asked, callbacks)


def _trained(
    data: str | Path,
    folder: Path,
    config: RunConfig,
    asked: dict[str, Any],
    callbacks: Iterable[Callback],
) -> dict[str, Any]:
    """Train, or go on with what broke off; return the record."""
    split = load_split(data)
    train = split.train
    if config.training.loss != "squared":
        train = replace(train, rating=None)
    elif train.rating is None:
        raise DataError(
            "the squared loss needs ratings; found a dataset without; choose another loss"
        )
    streams = Streams(config.training.seed)
    candidate = config.candidate.build(train, streams.torch("initial", "candidate"))
    exposure = config.exposure.build(train, streams.torch("initial", "exposure"))
    judge = _judge(split, config, streams)
    begin(folder, asked)
    with noted() as notes:
        fit = _fit(config, candidate, exposure, train, judge, callbacks, folder / CHECKPOINT)
    record = _record(config, data, split, fit, judge) | {"notes": notes}
    record = {"format": FORMAT, **record, "threads": threads_for(config.training.batch_size)}
    record["files"] = write_run(folder, record, fit)
    tell(notes)
    return record


def _fit(
    config: RunConfig,
    candidate: Scorer,
    exposure: Scorer,
    train: Interactions,
    judge: Callable[[Scorer], NDArray[np.float64]] | None,
    callbacks: Iterable[Callback],
    checkpoint: Path,
) -> Fit:
    how: Any = config.of_method()
    watched: dict[str, Any] = {
        "validate": None if judge is None else lambda model: float(judge(model).mean()),
        "callbacks": callbacks,
        "checkpoint": checkpoint,
    }
    if config.method == "erm":
        return erm(candidate, train, how, **watched)
    if config.method == "ps":
        return ps(candidate, exposure, train, cast("Weighted", how), **watched)
    return acl(candidate, exposure, train, cast("Game", how), **watched)


def _judge(
    split: Split, config: RunConfig, streams: Streams
) -> Callable[[Scorer], NDArray[np.float64]] | None:
    """Return what gives each validation target its hit at k under a model; never the test.

    Without validation rows, or for ratings, there is none, and the last epoch is kept.
    """
    targets = split.validation
    if not len(targets) or config.training.loss == "squared":
        return None
    rng = streams.numpy("validation")
    items = sampled_candidates(split.train, targets, config.validation.n_negatives, rng)

    def judge(model: Scorer) -> NDArray[np.float64]:
        scores = ModelScores(model, split.train).of(targets.user, items)
        k = config.validation.k
        ranks = ranks_of_first(scores)
        return ranking_metrics(ranks, np.arange(len(ranks)), names=("hit",), k=(k,))["hit", k]

    return judge


def _record(
    config: RunConfig,
    data: str | Path,
    split: Split,
    fit: Fit,
    judge: Callable[[Scorer], NDArray[np.float64]] | None,
) -> dict[str, Any]:
    players = {"candidate": fit.candidate, "exposure": fit.exposure}
    return {
        "configuration": config.model_dump(mode="json"),
        "seed": config.training.seed,
        "versions": versions(),
        "data": str(Path(data).resolve()),
        "dataset": {
            "name": split.interactions.name,
            "fingerprint": split.interactions.fingerprint,
            "split": split.kind,
            "split_fingerprint": split.fingerprint,
        },
        "parameters": {
            name: sum(value.numel() for value in player.parameters())
            for name, player in players.items()
            if player is not None
        },
        "epochs": [epoch.to_dict() for epoch in fit.epochs],
        "best_epoch": fit.best_epoch,
        "ess": fit.ess,
        "stopped": fit.stopped,
        "validation": None if judge is None else _hits(judge, fit.candidate, config),
    }


def versions() -> dict[str, str]:
    """Return what results may depend on."""
    return {"python": platform.python_version()} | {name: version(name) for name in _VERSIONS}


def _hits(
    judge: Callable[[Scorer], NDArray[np.float64]], candidate: Scorer, config: RunConfig
) -> dict[str, Any]:
    """Return Hit@k on the validation rows with its Wilson interval."""
    hits = judge(candidate)
    interval = binomtest(round(hits.sum()), len(hits)).proportion_ci(0.95, method="wilson")
    return {
        "metric": "hit",
        "k": config.validation.k,
        "estimator": "standard",
        "protocol": f"sampled-{config.validation.n_negatives}",
        "value": float(hits.mean()),
        "low": float(interval.low),
        "high": float(interval.high),
        "level": 0.95,
        "n": len(hits),
    }
