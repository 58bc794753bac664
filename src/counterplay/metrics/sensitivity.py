"""What an estimate could be if the fitted exposure odds were wrong by up to a factor Γ.

The marginal sensitivity model: row i has a value v and a fitted weight w = 1 / q. Its true odds
of exposure lie within a factor Γ ≥ 1 of the fitted ones, q / (1 − q), and so its true weight w'
lies in

    1 + (w − 1) / Γ  ≤  w'  ≤  1 + (w − 1) · Γ.

The bands are exact: the smallest and the largest value that any such weights give these rows.
They are not confidence intervals: what chance did to the rows is not in them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from counterplay.errors import ConfigError, DataError
from counterplay.metrics.arrays import check_columns
from counterplay.metrics.comparison import Difference, beyond_chance
from counterplay.metrics.estimation import finite

if TYPE_CHECKING:
    from collections.abc import Sequence

    from counterplay.metrics.arrays import Doubles, Floats

_ROUNDING = 1e-14  # a sum this small beside the sum of its magnitudes is 0


def bands(values: Floats, weights: Floats, gammas: Sequence[float] | Floats) -> Doubles:
    """Return the least and the greatest `Σ w'v / Σ w'` that each Γ ≥ 1 admits, `[len(gammas), 2]`.

    The values v and the fitted weights w = 1 / q, not normalised, are `[n]`. The extremes give one
    end of their range to all values below a threshold and the other end to all above it; prefix
    sums over the sorted values hold every threshold at once.

    Example:
        >>> bands(np.array([0.0, 1.0]), np.array([2.0, 2.0]), [1, 3])
        array([[0.5 , 0.5 ],
               [0.25, 0.75]])
    """
    factors = _checked_gammas(gammas)
    points, excess = _checked(values, weights)
    order = np.argsort(points)
    least = float(points[order[0]])
    above, excess = points[order] - least, excess[order]  # from 0 up: sums without cancellation
    value_sum, count = above.sum(), len(above)
    value_below, value_from = _split_sums(above * excess)  # [n + 1], a threshold each
    weight_below, weight_from = _split_sums(excess)
    found: Doubles = np.empty((len(factors), 2))
    for place, gamma in enumerate(factors):
        for side, (below, beyond) in enumerate(((gamma, 1 / gamma), (1 / gamma, gamma))):
            weighted = value_sum + value_below * below + value_from * beyond
            total = count + weight_below * below + weight_from * beyond
            ratio = weighted / total
            found[place, side] = ratio.max() if side else ratio.min()
    found += least
    return found


def band_of_mean(values: Floats, weights: Floats, gamma: float) -> tuple[float, float]:
    """Return the least and the greatest `Σ w'v / n` over all weights that Γ admits."""
    factor = float(_checked_gammas([gamma])[0])
    fixed, gains, losses = _parts(*_checked(values, weights))
    count = len(values)
    low, high = gains / factor + losses * factor, gains * factor + losses / factor
    return (fixed + low) / count, (fixed + high) / count


def smallest_flip(first: Floats, second: Floats, weights: Floats) -> float:
    """Return the smallest Γ at which two models, under the same weights, could change places.

    With d the better model's values minus the other's on the same rows, the least `Σ w'd` is
    `A + B / Γ + C · Γ`: A = Σ d, B = Σ (w − 1) d over d > 0, C the same over d < 0. The answer is
    its root: 1 if the two are equal, infinite if no Γ will do.

    Example:
        >>> smallest_flip(np.array([1.0, 0.0]), np.array([0.0, 1.0]), np.array([5.0, 2.0]))
        2.0
    """
    difference, excess, lead = _compared(first, second, weights)
    if lead == 0:
        return 1.0
    fixed, gains, losses = _parts(math.copysign(1, lead) * difference, excess)
    root = math.hypot(fixed, 2 * math.sqrt(-gains * losses))
    if fixed < 0:
        return max(1.0, 2 * gains / (root - fixed))
    return max(1.0, (fixed + root) / (-2 * losses)) if losses < 0 else math.inf


def statement(
    first_name: str, second_name: str, first: Floats, second: Floats, weights: Floats
) -> str:
    """Say in one sentence how far the order of two models can be trusted; Γ is rounded down."""
    lead = _compared(first, second, weights)[2]
    if lead == 0:
        return f"{first_name} and {second_name} are equal at the fitted exposure odds"
    better, other = (first_name, second_name) if lead > 0 else (second_name, first_name)
    flip = smallest_flip(first, second, weights)
    if math.isinf(flip):
        return f"{better} beats {other} however far the exposure odds are off"
    if flip < 1.01:
        return f"{better} beats {other} only if exposure odds are off by less than 1.01×"
    steps = 10 if flip >= 1.1 else 100
    shown = math.floor(flip * steps) / steps
    return f"{better} beats {other} unless exposure odds are off by more than {shown:,}×"


def _split_sums(terms: Doubles) -> tuple[Doubles, Doubles]:
    """Return the sums of the first k terms and of the others, for k = 0 … n."""
    below = np.zeros(len(terms) + 1)
    np.cumsum(terms, out=below[1:])
    return below, below[-1] - below


def _parts(values: Doubles, excess: Doubles) -> tuple[float, float, float]:
    """Return Σ v, and Σ (w − 1) v over the positive and over the negative v."""
    weighted = values * excess
    gains, losses = np.maximum(weighted, 0).sum(), np.minimum(weighted, 0).sum()
    return float(values.sum()), float(gains), float(losses)


def _compared(first: Floats, second: Floats, weights: Floats) -> tuple[Doubles, Doubles, float]:
    """Return first − second, w − 1, and the weighted sum of the differences, 0 if equal."""
    ours, excess = _checked(first, weights)
    difference = ours - _checked(second, weights)[0]
    weighted = difference + difference * excess
    lead = float(weighted.sum())
    level = abs(lead) <= _ROUNDING * float(np.abs(weighted).sum())
    return difference, excess, 0.0 if level else lead


def _checked(values: Floats, weights: Floats) -> tuple[Doubles, Doubles]:
    """Return the values and w − 1."""
    points, inverses = np.asarray(values, np.float64), np.asarray(weights, np.float64)
    check_columns("values and weights", points, inverses, "give one weight for each value")
    if not np.isfinite(points).all():
        raise DataError(
            "values must be finite; found "
            f"{np.count_nonzero(~np.isfinite(points)):,} that are not; leave those rows out"
        )
    if not (np.isfinite(inverses).all() and inverses.min() >= 1):
        raise DataError(
            "weights must be inverse propensities, finite and 1 or more; found "
            f"{inverses.min():g} to {inverses.max():g}; do not normalise or clip them below 1"
        )
    return points, inverses - 1


def _checked_gammas(gammas: Sequence[float] | Floats) -> Doubles:
    factors = np.asarray(gammas, np.float64)
    if not (factors.ndim == 1 and np.isfinite(factors).all() and (factors >= 1).all()):
        raise ConfigError(
            f"gamma must be a finite factor of 1 or more; found {gammas}; take one such as 2"
        )
    return factors


def turned(
    first: str,
    second: str,
    one: Floats,
    other: Floats,
    weights: Floats,
    difference: Difference,
) -> tuple[float | None, str]:
    """Return the smallest error of the odds that turns a difference, and what to say of it."""
    flip = finite(smallest_flip(one, other, weights))
    if difference.value and not beyond_chance(difference.p_value, difference.level):
        return flip, f"{first} and {second} are not told apart: it may be chance"
    return flip, statement(first, second, one, other, weights)
