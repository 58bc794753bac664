"""Turn scores of any scale into logits, as a loss wants them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit

if TYPE_CHECKING:
    from numpy.typing import NDArray

_STEPS = 50
_RIDGE = 1e-6  # keeps perfectly separated scores from infinite slopes


def as_logits(
    scores: NDArray[np.floating], outcomes: NDArray[np.bool_], wanted: NDArray[np.floating]
) -> NDArray[np.float64]:
    """Fit `P(observed) = σ(a · score + b)` by Newton's method and return a · wanted + b.

    Example:
        >>> scores, outcomes = np.array([0.0, 0.0, 1.0, 1.0]), np.array([0, 1, 1, 1], dtype=bool)
        >>> float(as_logits(scores, outcomes, np.array([0.0]))[0].round(3))
        0.0
    """
    mean = float(scores.mean())
    deviation = float(scores.std()) if scores.min() < scores.max() else 1.0
    design = np.stack([(scores - mean) / deviation, np.ones(len(scores))], axis=1)
    coefficients = np.zeros(2)
    for _ in range(_STEPS):
        p = expit(design @ coefficients)
        gradient = design.T @ (outcomes - p) - _RIDGE * len(p) * coefficients
        curvature = (design * (p * (1 - p))[:, None]).T @ design + _RIDGE * len(p) * np.eye(2)
        step = np.linalg.solve(curvature, gradient)
        coefficients += step
        if np.abs(step).max() < 1e-10:
            break
    logits: NDArray[np.float64] = coefficients[0] * (wanted - mean) / deviation + coefficients[1]
    return logits
