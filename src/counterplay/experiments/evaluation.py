"""Evaluate and compare candidates on the held-out rows of a prepared dataset."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from counterplay.data.store import load_split
from counterplay.errors import ConfigError, DataError
from counterplay.evaluation.calibration import as_logits
from counterplay.evaluation.estimators import Estimate, estimates
from counterplay.evaluation.scoring import ModelScores
from counterplay.evaluation.sensitivity import band_of_mean, bands
from counterplay.evaluation.tables import read_scores
from counterplay.experiments.cold_rows import apart
from counterplay.experiments.config import RunConfig
from counterplay.experiments.propensities import SHARED, Contestant
from counterplay.experiments.run import load_run, read_record
from counterplay.experiments.stage import Evaluation, Stage
from counterplay.learning.batches import PairBatches
from counterplay.models.table import ScoreTable
from counterplay.simulation.store import load_world, source_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from counterplay.data.splits import Split
    from counterplay.evaluation.estimators import Values
    from counterplay.experiments.progress import Steps
    from counterplay.simulation.world import World

Table = str | Path | pl.DataFrame


def evaluate_run(
    run: str | Path,
    data: str | Path | None = None,
    config: Evaluation | None = None,
    *,
    world: str | Path | None = None,
) -> dict[str, Any]:
    """Evaluate the candidate of a run directory; by default on the data it was trained on.

    The directory of the world that the data were drawn from is for the oracle alone.
    """
    return _result(*staged([run], data, config or Evaluation(), world=world))


def evaluate_scores(
    scores: Table,
    data: str | Path,
    config: Evaluation | None = None,
    *,
    world: str | Path | None = None,
) -> dict[str, Any]:
    """Evaluate scores that were computed elsewhere: a table of user, item and score."""
    config, split = config or Evaluation(), load_split(data)
    stage = Stage(split, config, explicit=False, world=_world(world, split))
    name = "scores" if isinstance(scores, pl.DataFrame) else Path(scores).stem
    return _result(stage, [_given(name, scores, stage)])


def compare_runs(
    runs: Sequence[str | Path],
    data: str | Path | None = None,
    config: Evaluation | None = None,
    *,
    scores: Mapping[str, Table] | None = None,
    world: str | Path | None = None,
) -> dict[str, Any]:
    """Evaluate several candidates on the same rows, and say which differences stand.

    Args:
        runs: Directories, at least one.
        data: Dataset directory; by default that of the first run.
        config: How.
        scores: Candidates that are only known by their scores, by name.
        world: That the data were drawn from, for the oracle.
    """
    n_candidates = len(runs) + len(scores or {})
    if len({Path(run).resolve() for run in runs}) < len(runs) or not runs or n_candidates < 2:
        named = ", ".join([*map(str, runs), *(scores or {})]) or "none"
        raise ConfigError(
            f"a comparison needs two different candidates or more; found {named}; name another"
        )
    return compared(*staged(runs, data, config or Evaluation(), scores=scores, world=world))


def compared(stage: Stage, contestants: Sequence[Contestant]) -> dict[str, Any]:
    """Return all estimates and bands, and the differences under estimators that all share."""
    result = _result(stage, contestants)
    result["comparisons"] = [
        found
        for estimator in stage.config.estimators
        if estimator in SHARED and len(contestants) > 1
        for found in stage.compared(estimator, contestants)
    ]
    return result


def staged(
    runs: Sequence[str | Path],
    data: str | Path | None,
    config: Evaluation,
    *,
    scores: Mapping[str, Table] | None = None,
    world: World | str | Path | None = None,
    progress: Steps = lambda *_: None,
) -> tuple[Stage, list[Contestant]]:
    """Load the data and the runs, which must have been trained on them, and scores beside them."""
    records = [read_record(run) for run in runs]
    split = load_split(records[0]["data"] if data is None else data)
    explicit = [each["configuration"]["training"]["loss"] == "squared" for each in records]
    if len(set(explicit)) > 1:
        raise ConfigError(
            "compared runs must all predict ratings or all rank; found both; compare like with like"
        )
    known = _world(world, split)
    stage = Stage(split, config, explicit=explicit[0], world=known, progress=progress)
    for run, record in zip(runs, records, strict=True):
        check_trained_on(run, record, split)
    names = _names([Path(run) for run in runs])
    repeated = sorted(set(names) & set(scores or {}))
    if repeated:
        raise ConfigError(
            f"every candidate must have a name of its own; found '{repeated[0]}' for a run and for "
            "scores; rename one"
        )
    trained = [_trained(name, run, stage) for name, run in zip(names, runs, strict=True)]
    given = [_given(name, table, stage) for name, table in (scores or {}).items()]
    return stage, trained + given


def check_scores(scores: Mapping[str, Table], split: Split, config: Evaluation) -> None:
    """Refuse scores that could not be evaluated; cheap, so that it can be known beforehand."""
    targets = split.test if config.part == "test" else split.validation
    for table in scores.values():
        read_scores(table, split.interactions, targets.user)


def check_trained_on(
    run: str | Path, record: dict[str, Any], split: Split, *, use: str = "evaluated on"
) -> None:
    """Refuse data that are not those of a run, or are split in another way."""
    if record["dataset"]["split_fingerprint"] != split.fingerprint or (
        record["dataset"]["fingerprint"] != split.interactions.fingerprint
    ):
        raise DataError(
            f"a run must be {use} the data it was trained on; found that '{run}' was trained on "
            "others, or on another split; name its data, or train again"
        )


def _world(world: World | str | Path | None, split: Split) -> World | None:
    """Load the world that the data were drawn from, unless it is there; refuse another one."""
    if not isinstance(world, str | Path):
        return world
    if split.interactions.source != source_of(world):
        raise DataError(
            f"the world must be the one that the data were drawn from; found '{world}' and "
            f"data of another source, {split.interactions.name!r}; name their own"
        )
    return load_world(world)


def _names(runs: Sequence[Path]) -> list[str]:
    """Return the folders' names, or their whole paths where names repeat."""
    names = [run.resolve().name for run in runs]
    return names if len(set(names)) == len(names) else [str(run) for run in runs]


def _trained(name: str, run: str | Path, stage: Stage) -> Contestant:
    candidate, exposure, link = load_run(run, stage.train)
    config = RunConfig.model_validate(read_record(run)["configuration"])
    scores = ModelScores(candidate, stage.seen, train=stage.train)
    return Contestant(
        name, scores, candidate, exposure, link, config.method, settings=config.candidate
    )


def _given(name: str, table: Table, stage: Stage) -> Contestant:
    """Make scores a contestant; an opponent plays on the pairs that have one.

    Observed is what is in training; test rows are as unobserved as everything else.
    """
    train, targets = stage.train, stage.targets
    if stage.explicit:
        raise ConfigError(
            f"given scores rank items, and predict no ratings; found '{name}' beside runs that do; "
            "compare like with like"
        )
    scores = read_scores(table, stage.split.interactions, targets.user)
    pairs, n_negatives = scores.pairs, stage.config.opponent.n_negatives
    observed = np.isin(pairs, train.pair)
    model = batches = None
    if observed.any() and not observed.all():
        # The opponent meets n_negatives others an observed pair, whatever their share here.
        shift = np.log((~observed).sum() / (observed.sum() * n_negatives))
        logits = as_logits(scores.scores, observed, scores.scores) + shift
        model = ScoreTable(train.n_users, train.n_items, scores.pairs, logits.astype(np.float32))
        batches = PairBatches(
            pairs // train.n_items,
            pairs % train.n_items,
            observed,
            batch_size=stage.config.opponent.game(train, 0).batch_size,
            n_negatives=n_negatives,
        )
    return Contestant(name, scores, model, batches=batches)


def _result(stage: Stage, contestants: Sequence[Contestant]) -> dict[str, Any]:
    """Return all estimates and bands as plain values."""
    config = stage.config
    _, clusters = np.unique(stage.targets.user, return_inverse=True)
    found: list[dict[str, Any]] = []
    limits: list[dict[str, Any]] = []
    for contestant in contestants:
        values = stage.values(contestant)
        for estimator in config.estimators:
            weights = stage.weights(estimator, contestant, contestants)
            rng = stage.streams.numpy("bootstrap")
            estimated = estimates(
                values,
                weights,
                clusters,
                rng,
                estimator=estimator,
                protocol=stage.protocol,
                normalise=config.normalise,
                level=config.level,
                n_resamples=config.n_resamples,
            )
            estimated += [_root(each) for each in estimated if each.metric == "mse"]
            found += [{"candidate": contestant.name, **each.to_dict()} for each in estimated]
            if config.gamma and estimator != "standard":  # all shown: no odds to be off
                limits += _bands(contestant.name, estimator, values, weights, config)
    return {
        "dataset": stage.split.interactions.name,
        "part": config.part,
        "configuration": config.model_dump(mode="json"),
        "estimates": found,
        "bands": limits,
        "cold": apart(stage, contestants),
    }


def _root(squared: Estimate) -> Estimate:
    """Return the root of a mean squared error; its interval is that of the square."""
    value, low, high = (float(np.sqrt(each)) for each in (squared.value, squared.low, squared.high))
    return replace(squared, metric="rmse", value=value, low=low, high=high)


def _bands(
    name: str, estimator: str, values: Values, weights: NDArray[np.float64], config: Evaluation
) -> list[dict[str, Any]]:
    """Return how far each estimate could be off, as plain values."""

    def limits(rows: NDArray[np.float64]) -> list[tuple[float, float]]:
        if config.normalise:
            return [(low, high) for low, high in bands(rows, weights, config.gamma)]
        return [band_of_mean(rows, weights, gamma) for gamma in config.gamma]

    return [
        {
            "candidate": name,
            "metric": metric,
            "k": k,
            "estimator": estimator,
            "gamma": gamma,
            "low": float(low),
            "high": float(high),
        }
        for (metric, k), rows in values.items()
        for gamma, (low, high) in zip(config.gamma, limits(rows), strict=True)
    ]
