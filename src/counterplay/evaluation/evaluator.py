"""All estimates, bands and comparisons of candidates on one stage."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from counterplay.evaluation.cold_rows import apart
from counterplay.evaluation.estimators import ESTIMATORS
from counterplay.evaluation.records import Band, CandidateEstimate, EvaluationRecord
from counterplay.metrics.estimates import Estimate, estimates
from counterplay.metrics.sensitivity import band_of_mean, bands

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from counterplay.evaluation.propensities import Contestant
    from counterplay.evaluation.stage import Evaluation, Stage
    from counterplay.metrics.estimates import Values


def compared(stage: Stage, contestants: Sequence[Contestant]) -> EvaluationRecord:
    """Return all estimates and bands, and the differences under estimators that all share."""
    result = evaluated(stage, contestants)
    comparisons = tuple(
        found
        for estimator in stage.config.estimators
        if ESTIMATORS[estimator].shared and len(contestants) > 1
        for found in stage.compared(estimator, contestants)
    )
    return result.model_copy(update={"comparisons": comparisons})


def evaluated(stage: Stage, contestants: Sequence[Contestant]) -> EvaluationRecord:
    """Return all estimates and bands."""
    config = stage.config
    _, clusters = np.unique(stage.targets.user, return_inverse=True)
    found: list[CandidateEstimate] = []
    limits: list[Band] = []
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
            found += [
                CandidateEstimate(candidate=contestant.name, **each.to_dict()) for each in estimated
            ]
            if config.gamma and ESTIMATORS[estimator].weighs:  # else no odds to be off
                limits += _bands(contestant.name, estimator, values, weights, config)
    return EvaluationRecord(
        dataset=stage.split.interactions.name,
        part=config.part,
        configuration=config.model_dump(mode="json"),
        estimates=tuple(found),
        bands=tuple(limits),
        cold=apart(stage, contestants),
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
