"""Turn scores of any scale into logits, as a loss wants them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit

if TYPE_CHECKING:
    from counterplay.metrics.arrays import Doubles, Flags, Floats
_STEPS = 50
_RIDGE = 1e-6  # keeps perfectly separated scores from infinite slopes


def as_logits(scores: Floats, outcomes: Flags, wanted: Floats) -> Doubles:
    """Fit `P(observed) = σ(a · score + b)` and return a · wanted + b."""
    slope, intercept = logistic_fit(scores, outcomes)
    logits: Doubles = slope * wanted.astype(np.float64) + intercept
    return logits


def logistic_fit(scores: Floats, outcomes: Flags) -> tuple[float, float]:
    """Return a and b of `P(observed) = σ(a · score + b)`, by Newton's method."""
    mean = float(scores.mean(dtype=np.float64))
    deviation = float(scores.std(dtype=np.float64)) if scores.min() < scores.max() else 1.0
    design = np.stack([(scores - mean) / deviation, np.ones(len(scores))], axis=1)
    ridge = np.full(2, _RIDGE * len(scores))
    coefficients = logistic_regression(design, outcomes, ridge)
    slope = float(coefficients[0] / deviation)
    return slope, float(coefficients[1] - slope * mean)


def logistic_regression(design: Doubles, outcomes: Flags, ridge: Doubles) -> Doubles:
    """Return the coefficients of `P(outcome) = σ(design · w)`, by Newton's method, `[P]`.

    `½ · ridge · w²` is taken off the log-likelihood; the design is `[n, P]`.
    """
    coefficients = np.zeros(design.shape[1])
    for _ in range(_STEPS):
        p = expit(design @ coefficients)
        gradient = design.T @ (outcomes - p) - ridge * coefficients
        curvature = (design * (p * (1 - p))[:, None]).T @ design + np.diag(ridge)
        step = np.linalg.solve(curvature, gradient)
        coefficients += step
        if np.abs(step).max() < 1e-10:
            break
    return coefficients
