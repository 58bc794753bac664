"""What rows whose item was drawn at random say of the dials.

Such a row is clicked as often as what is left of the click log when exposure is taken off:

    E[click] = exp(b + (1 − γ) · log(c_i + 1) + (1 − λ) · T(u, i) − A_λ(i))

For each pair of dials b is the likeliest, in closed form; the box is where the log-likelihood, with
priors of the dials, is within 3 of its maximum. The likelihood is Poisson's, because the weights of
the dials take relevance to be this exponential, without a ceiling. One with a ceiling,
P = 1 − exp(−exp(…)), has the same limit where clicks are rare. Where they are not it finds dials of
another meaning: in four worlds of a mean relevance of 0.2 the values at its dials were off by 0.6
to 3.6 points of Hit@10, those at the dials of this one by 0.3 to 0.5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from counterplay.errors import DataError
from counterplay.metrics.dials import Box

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from counterplay.metrics.click_model import Exposures
    from counterplay.metrics.dials import Dials

    Floats = NDArray[np.float64]
    Priors = tuple[Dials, Dials]

GAMMA_GRID = tuple(round(-0.25 + 0.05 * step, 2) for step in range(31))
LAMBDA_GRID = tuple(round(-0.4 + 0.1 * step, 1) for step in range(17))
PRIORS: Priors = ((0.5, 0.35), (0.2, 0.35))  # mean and standard deviation of γ and of λ
WITHIN = 3.0  # of the greatest log-likelihood: dials that are still held possible
EXPOSURE_ONLY = 0.8  # a λ above it: clicks show exposure, not taste
_ROWS = 1 << 16  # at a time


@dataclass(frozen=True, slots=True, eq=False)
class FittedDials:
    """Dials, and those that are possible beside them.

    Attributes:
        gamma: The likeliest share of popularity that is exposure.
        lam: The likeliest share of the personal part that is.
        intercept: b at these dials.
        box: The pairs of the grid that are held possible, with the likeliest as its point.
        log_likelihoods: With priors, `[len(gammas), len(lambdas)]`.
        n: Number of rows.
        n_clicks: How many of them were clicked.
    """

    gamma: float
    lam: float
    intercept: float
    box: Box
    log_likelihoods: Floats
    n: int
    n_clicks: float

    @property
    def exposure_only(self) -> bool:
        """Whether what is personal in the clicks is nearly all exposure: test online instead."""
        return self.lam > EXPOSURE_ONLY


def fit_dials(
    exposures: Exposures,
    clicked: NDArray[np.bool_] | NDArray[np.floating],
    *,
    gammas: Sequence[float] = GAMMA_GRID,
    lambdas: Sequence[float] = LAMBDA_GRID,
    priors: Priors | None = PRIORS,
) -> FittedDials:
    """Fit the dials to rows whose items were drawn at random.

    Args:
        exposures: Of the rows, by a click model that knows all `lambdas`.
        clicked: Whether a row was clicked, or with which probability, `[n]`.
        gammas: Of the grid.
        lambdas: Of the grid.
        priors: Mean and standard deviation of γ and of λ; None for no prior.
    """
    outcome = np.asarray(clicked, np.float64)
    n_clicks = float(outcome.sum())
    if outcome.shape != (len(exposures),) or not 0 < n_clicks < len(outcome):
        raise DataError(
            "dials are set by random rows of which some were clicked and some were not; found "
            f"{n_clicks:g} clicks in {len(outcome):,} rows, and exposures of {len(exposures):,}; "
            "collect more random rows"
        )
    first, second = 1 - np.array(gammas), 1 - np.array(lambdas)
    shifts = np.stack([exposures.shift(lam) for lam in lambdas], axis=1)  # [n, L]
    total: Floats = np.zeros((len(first), len(second)))  # Σ exp(…) over all rows
    for begin in range(0, len(outcome), _ROWS):
        part = slice(begin, begin + _ROWS)
        left = exposures.taste[part, None] * second - shifts[part]
        total += np.exp(np.multiply.outer(first, exposures.popularity[part])) @ np.exp(left)
    popular = first * float(outcome @ exposures.popularity)
    personal = second * float(outcome @ exposures.taste) - outcome @ shifts
    intercepts = np.log(n_clicks / total)
    likelihoods = popular[:, None] + personal + n_clicks * (intercepts - 1)
    for axis, (prior, grid) in enumerate(zip(priors or (), (gammas, lambdas), strict=False)):
        penalty = ((np.array(grid) - prior[0]) / prior[1]) ** 2 / 2
        likelihoods -= penalty[:, None] if axis == 0 else penalty
    row, column = divmod(int(likelihoods.argmax()), len(lambdas))
    best = float(gammas[row]), float(lambdas[column])
    admitted = np.argwhere(likelihoods >= likelihoods.max() - WITHIN).tolist()
    box = Box(tuple((float(gammas[one]), float(lambdas[other])) for one, other in admitted), best)
    intercept = float(intercepts[row, column])
    return FittedDials(*best, intercept, box, likelihoods, len(outcome), n_clicks)


def true_dials(exposures: Exposures, relevance: Floats) -> FittedDials:
    """Return the dials of a world from true probabilities of a click on pairs drawn at random.

    They are what endless random rows would say: the likelihood of `fit_dials`, with no prior.
    """
    return fit_dials(exposures, relevance, priors=None)
