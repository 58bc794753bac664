"""How well estimates agree with what was measured, over repetitions: seeds, or worlds.

A repetition has one estimate, one measurement and one true value of each candidate. Errors and
order are between estimates and measurements; whether the right candidate would have been chosen is
a matter of the truth. Where the truth is not known, the measurement stands for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from counterplay.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


def estimator_scores(
    estimated: NDArray[np.float64],
    measured: NDArray[np.float64],
    truth: NDArray[np.float64] | None = None,
    *,
    smaller_is_better: bool = True,
    regret_as_share: bool = False,
    level: float = 0.95,
) -> dict[str, dict[str, Any]]:
    """Return how near estimates come to measurements, `[n_repetitions, n_candidates]` each.

    squared_error and bias are of estimate − measurement, the mean over candidates.
    rank_correlation is Spearman's; a repetition in which all estimates or all measurements are
    alike has none. The offline winner has the best estimate (the first such); win_rate says how
    often it is truly the best, and regret how much worse than the best it is. Each is the mean over
    repetitions, with Student's interval, or for win_rate Wilson's.

    Args:
        estimated: By one estimator.
        measured: What is estimated.
        truth: The measurement without its noise, where it is known.
        smaller_is_better: As for errors; False for hits and clicks.
        regret_as_share: Of the best true value; a repetition in which that is 0 has none.
        level: Of the intervals.

    Example:
        >>> found = estimator_scores(np.array([[1.0, 2.0, 4.0]]), np.array([[2.0, 1.0, 3.0]]))
        >>> [found[name]["value"] for name in ("squared_error", "bias", "win_rate", "regret")]
        [1.0, 0.3333333333333333, 0.0, 1.0]
    """
    truth = measured if truth is None else truth
    shapes = estimated.shape, measured.shape, truth.shape
    if estimated.ndim != 2 or len(set(shapes)) > 1 or not estimated.size:
        raise DataError(
            "estimates, measurements and truth must be tables of repetitions × candidates; found "
            f"the shapes {', '.join(map(str, shapes))}; give one of each for every candidate"
        )
    error = estimated - measured
    sign = 1 if smaller_is_better else -1
    chosen = np.argmin(sign * estimated, axis=1)
    best = sign * (sign * truth).min(1)
    regret = sign * (truth[np.arange(len(truth)), chosen] - best)
    correlations = [
        float(stats.spearmanr(one, other).statistic)
        for one, other in zip(estimated, measured, strict=True)
        if np.ptp(one) > 0 and np.ptp(other) > 0
    ]
    return {
        "squared_error": mean_over_repetitions((error**2).mean(1), level),
        "bias": mean_over_repetitions(error.mean(1), level),
        "rank_correlation": mean_over_repetitions(correlations, level),
        "win_rate": _share(int((regret == 0).sum()), len(truth), level),
        "regret": mean_over_repetitions(
            regret[best != 0] / best[best != 0] if regret_as_share else regret, level
        ),
    }


def mean_over_repetitions(
    values: Sequence[float] | NDArray[np.float64], level: float = 0.95
) -> dict[str, Any]:
    """Return the mean with Student's interval; None stands for what is not there.

    Example:
        >>> mean_over_repetitions([3.0])
        {'value': 3.0, 'low': None, 'high': None, 'n': 1}
    """
    numbers = np.asarray(values, np.float64)
    n = len(numbers)
    if n < 2:
        return {"value": float(numbers[0]) if n else None, "low": None, "high": None, "n": n}
    mean = float(numbers.mean())
    reach = float(stats.t.ppf((1 + level) / 2, n - 1) * numbers.std(ddof=1) / np.sqrt(n))
    return {"value": mean, "low": mean - reach, "high": mean + reach, "n": n}


def _share(hits: int, n: int, level: float) -> dict[str, Any]:
    found = stats.binomtest(hits, n).proportion_ci(level, method="wilson")
    return {"value": hits / n, "low": float(found.low), "high": float(found.high), "n": n}
