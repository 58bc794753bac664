"""All estimates, bands and comparisons of candidates on one stage."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from counterplay.evaluation.estimators import ESTIMATORS
from counterplay.evaluation.impressions import (
    DOUBLY_ROBUST,
    imputed_comparisons,
    imputed_estimates,
    in_range,
)
from counterplay.evaluation.records import (
    Band,
    CandidateEstimate,
    ColdRows,
    EvaluationRecord,
    Group,
    GroupEstimate,
)
from counterplay.evaluation.worst_case import box_comparisons, box_estimates, dials_record
from counterplay.metrics.estimation import Estimate, estimates
from counterplay.metrics.sensitivity import band_of_mean, bands

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from counterplay.evaluation.propensities import Contestant
    from counterplay.evaluation.records import Comparison
    from counterplay.evaluation.stage import Evaluation, Stage
    from counterplay.metrics.estimation import Values


def compared(stage: Stage, contestants: Sequence[Contestant]) -> EvaluationRecord:
    """Return all estimates and bands, and the differences under estimators that all share."""
    result = evaluated(stage, contestants)
    if len(contestants) < 2:
        return result
    comparisons: list[Comparison] = []
    dials = None
    for number, estimator in enumerate(stage.estimators):
        stage.progress("comparing", number, len(stage.estimators), "estimators")
        if estimator == DOUBLY_ROBUST:
            comparisons += imputed_comparisons(stage, contestants)
        elif ESTIMATORS[estimator].propensities is None:
            comparisons += box_comparisons(stage, contestants)
            dials = dials_record(stage, contestants)
        elif stage.shares(estimator):
            comparisons += stage.of(estimator).compared(estimator, contestants)
    return result.model_copy(update={"comparisons": tuple(comparisons), "dials": dials})


def evaluated(stage: Stage, contestants: Sequence[Contestant]) -> EvaluationRecord:
    """Return all estimates and bands."""
    config = stage.config
    stage.check(*stage.estimators)
    found: list[CandidateEstimate] = []
    limits: list[Band] = []
    whole = {}  # what has no weights, by estimator and candidate
    for each in stage.estimators:
        if ESTIMATORS[each].propensities is None:
            said = imputed_estimates if each == DOUBLY_ROBUST else box_estimates
            whole[each] = said(stage, contestants)
    for number, contestant in enumerate(contestants):
        name = contestant.name
        stage.progress("estimating", number, len(contestants), "candidates")
        for estimator in stage.estimators:
            if estimator in whole:
                found += whole[estimator][name]
                continue
            own = stage.of(estimator)
            values, users = own.values(contestant), own.targets.user
            weights = own.weights(estimator, contestant, contestants)
            rng, refits = stage.streams.numpy("bootstrap"), stage.refits(estimator, contestants)
            estimated = _estimates(
                stage, estimator, values, weights, users, rng,
                normalise=config.normalise, refits=refits,
            )  # fmt: skip
            if refits is not None and config.normalise:  # a mean that is not has no upper end
                estimated = [in_range(each) for each in estimated]
            estimated += [_root(each) for each in estimated if each.metric == "mse"]
            found += [CandidateEstimate(candidate=name, **each.to_dict()) for each in estimated]
            if config.gamma and ESTIMATORS[estimator].weighs:  # else no odds to be off
                limits += _bands(name, estimator, values, weights, config)
    return EvaluationRecord(
        dataset=stage.split.interactions.name,
        part=config.part,
        configuration=config.model_dump(mode="json"),
        estimates=tuple(found),
        sample=None if stage.sample is None else stage.sample.record,
        bands=tuple(limits),
        cold=_cold(stage, contestants),
    )


def _cold(stage: Stage, contestants: Sequence[Contestant]) -> ColdRows | None:
    """Return estimates of rows whose users have training rows, and of the others; None if none.

    Every row counts as it is, as in the standard estimator.
    """
    cold = np.bincount(stage.train.user, minlength=stage.train.n_users)[stage.targets.user] == 0
    if not cold.any():
        return None
    groups: list[tuple[Group, NDArray[np.bool_]]] = [("warm", ~cold), ("cold", cold)]
    found: list[GroupEstimate] = []
    for contestant in contestants:
        for name, rows in groups:
            if not rows.any():
                continue
            values = {key: each[rows] for key, each in stage.values(contestant).items()}
            rng, ones = stage.streams.numpy("bootstrap", name), np.ones(int(rows.sum()))
            users = stage.targets.user[rows]
            found += [
                GroupEstimate(candidate=contestant.name, rows=name, **each.to_dict())
                for each in _estimates(stage, "standard", values, ones, users, rng)
            ]
    return ColdRows(rows=int(cold.sum()), share=float(cold.mean()), estimates=tuple(found))


def _estimates(
    stage: Stage,
    estimator: str,
    values: Values,
    weights: NDArray[np.float64],
    users: NDArray[np.integer],
    rng: np.random.Generator,
    *,
    normalise: bool = True,
    refits: NDArray[np.float64] | None = None,
) -> list[Estimate]:
    _, clusters = np.unique(users, return_inverse=True)
    return estimates(
        values,
        weights,
        clusters,
        rng,
        estimator=estimator,
        protocol=stage.protocol,
        normalise=normalise,
        level=stage.config.level,
        n_resamples=stage.config.n_resamples,
        refits=refits,
    )


def _root(squared: Estimate) -> Estimate:
    """Return the root of a mean squared error; its interval is that of the square."""
    value, low, high = (float(np.sqrt(each)) for each in (squared.value, squared.low, squared.high))
    return replace(squared, metric="rmse", value=value, low=low, high=high)


def _bands(
    name: str, estimator: str, values: Values, weights: NDArray[np.float64], config: Evaluation
) -> list[Band]:
    """Return how far each estimate could be off."""

    def limits(rows: NDArray[np.float64]) -> list[tuple[float, float]]:
        if config.normalise:
            return [(low, high) for low, high in bands(rows, weights, config.gamma)]
        return [band_of_mean(rows, weights, gamma) for gamma in config.gamma]

    return [
        Band(
            candidate=name,
            metric=metric,
            k=k,
            estimator=estimator,
            gamma=gamma,
            low=float(low),
            high=float(high),
        )
        for (metric, k), rows in values.items()
        for gamma, (low, high) in zip(config.gamma, limits(rows), strict=True)
    ]
