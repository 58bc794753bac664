"""Look at a test every day without being fooled more often, and plan how many users it needs.

Say Δ_t is the difference of two arms after t days and V_t its variance. Its users stay the same,
and only their days grow in number: a user's mean so far is `a_u + (e_u1 + … + e_ut) / t`, with an
own level a_u and days e that are alike in distribution. So for s < t

    cov(Δ_s, Δ_t) = Var(levels) + Var(days) · s / (s t) = Var(levels) + Var(days) / t = V_t

whatever the levels are: Δ_t / V_t is a Brownian motion with drift, in the time 1 / V_t. Against it
stands a mixture of differences δ ~ N(0, τ²). Where there is none, the mixture's likelihood ratio

    Λ_t = √(V_t / (V_t + τ²)) · exp(τ² Δ_t² / (2 V_t (V_t + τ²)))

is a martingale that begins at 1, so it ever reaches 1/α with a probability of at most α, however
often one looks (Ville). The variances are estimated: that is for many users, not for a dozen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtri

from counterplay.errors import ConfigError, DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_HALVINGS = 200  # of a logarithm: more than the digits of a number


@dataclass(frozen=True, eq=False)
class AlwaysValid:
    """What may be said at each look, whenever one stops.

    Attributes:
        difference: Of all data up to each look.
        low: Lower ends of the intervals, which only shrink; −inf while nothing is known.
        high: Upper ends. With a probability of at most 1 − level an interval ends up empty, its
            low above its high.
        p_value: At most α exactly where the interval at level 1 − α leaves 0 out.
    """

    difference: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    p_value: NDArray[np.float64]


def always_valid(
    difference: NDArray[np.floating],
    variance: NDArray[np.floating],
    *,
    level: float = 0.95,
    scale: float,
) -> AlwaysValid:
    """Return confidence sequence and p-values of differences that are looked at again and again.

    The interval is where Λ_t of `Δ_t − δ` stays below 1/α, and so far, all of them cut together:

        Δ_t ± √(V_t (V_t + τ²) / τ² · (2 log(1/α) + log(1 + τ² / V_t)))

    and the p-value is `min over s ≤ t of min(1, 1/Λ_s)`.

    Args:
        difference: Of all data up to each look, `[…, n_looks]`.
        variance: Of each difference; where it is 0 or NaN nothing is known yet.
        level: 1 − α.
        scale: τ, the size of the differences thought possible, chosen before the test. Too large
            costs little, too small much.

    Example:
        >>> found = always_valid(np.array([0.3, 0.2]), np.array([0.04, 0.001]), scale=0.2)
        >>> found.p_value.round(4)
        array([0.8058, 0.    ])
    """
    _check(level=level)
    _check_positive(scale=scale)
    if difference.shape != variance.shape or not difference.ndim or (variance < 0).any():
        raise DataError(
            "each look must have a difference and its variance of 0 or more; found "
            f"{difference.shape} differences and {variance.shape} variances; give one of each"
        )
    known = (variance > 0) & np.isfinite(difference) & np.isfinite(variance)
    v = np.where(known, variance, 1.0).astype(np.float64)
    d = np.where(known, difference, 0.0).astype(np.float64)
    log_ratio = d**2 * scale**2 / (2 * v * (v + scale**2)) - np.log1p(scale**2 / v) / 2
    p_value = np.where(known, np.exp(-np.maximum(log_ratio, 0)), 1.0)
    half = np.where(known, _half_width(v, level, scale), np.inf)
    return AlwaysValid(
        difference.astype(np.float64),
        np.maximum.accumulate(d - half, axis=-1),
        np.minimum.accumulate(d + half, axis=-1),
        np.minimum.accumulate(p_value, axis=-1),
    )


def users_needed(
    mean: float,
    variance: float,
    effect: float,
    *,
    level: float = 0.95,
    power: float = 0.8,
    relative: bool = True,
    scale: float | None = None,
) -> int:
    """Return the users that each of two arms needs to find an effect with the wanted power.

    At a fixed horizon it is `2 σ² (z_(1 − α/2) + z_power)² / δ²`. A sequential test needs more:
    its last interval is wider. That it may stop before is not counted.

    Args:
        mean: The control's value.
        variance: σ² of one user, as an online test reports it for its days.
        effect: δ, as a share of the mean, or as it is.
        level: 1 − α of the two-sided test.
        power: Probability of finding the effect.
        relative: Whether the effect is a share of the mean.
        scale: τ of a sequential test; None for a look at the end only.

    Example:
        >>> users_needed(0.2, 0.02, 0.05)
        3140
        >>> users_needed(0.2, 0.02, 0.05, scale=0.02)
        6590
    """
    _check(level=level, power=power)
    _check_positive(effect=abs(effect), variance=variance, scale=1.0 if scale is None else scale)
    difference = abs(effect * (_nonzero(mean) if relative else 1.0))
    if scale is None:
        wanted = (difference / _smallest(1.0, level, power, None)) ** 2
    else:  # the smallest difference grows with the variance of the difference
        low, high = -700.0, 700.0
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            found = _smallest(float(np.exp(middle)), level, power, scale)
            low, high = (middle, high) if found < difference else (low, middle)
        wanted = float(np.exp(low))
    return max(2, int(np.ceil(2 * variance / wanted)))


def smallest_effect(
    mean: float,
    variance: float,
    n_users: int,
    *,
    level: float = 0.95,
    power: float = 0.8,
    relative: bool = True,
    scale: float | None = None,
) -> float:
    """Return the smallest effect that `n_users` in each arm find: the inverse of `users_needed`.

    Example:
        >>> round(smallest_effect(0.2, 0.02, 3140), 4)
        0.05
    """
    _check(level=level, power=power)
    _check_positive(n_users=n_users, variance=variance, scale=1.0 if scale is None else scale)
    found = _smallest(2 * variance / n_users, level, power, scale)
    return found / abs(_nonzero(mean) if relative else 1.0)


def _smallest(variance: float, level: float, power: float, scale: float | None) -> float:
    """Return the difference that is found with a power, when its estimate has a variance."""
    error = float(np.sqrt(variance))
    if scale is None:
        half = float(ndtri((1 + level) / 2)) * error
    else:
        half = float(_half_width(np.array(variance), level, scale))
    return half + float(ndtri(power)) * error


def _half_width(variance: NDArray[np.float64], level: float, scale: float) -> NDArray[np.float64]:
    evidence = -2 * np.log(1 - level) + np.log1p(scale**2 / variance)
    half: NDArray[np.float64] = np.sqrt(variance * (variance / scale**2 + 1) * evidence)
    return half


def _nonzero(mean: float) -> float:
    if not (np.isfinite(mean) and mean):
        raise ConfigError(
            f"a relative effect must have a mean to be a share of; found a mean of {mean:g}; "
            "give the mean, or the effect as it is with relative=False"
        )
    return mean


def _check(**shares: float) -> None:
    for name, value in shares.items():
        if not 0 < value < 1:
            raise ConfigError(
                f"the {name} of a test must lie between 0 and 1; found {value}; change it"
            )


def _check_positive(**values: float) -> None:
    for name, value in values.items():
        if not 0 < value < np.inf:
            raise ConfigError(
                f"the {name} of a test must be a number other than 0; found {value}; change it"
                if name == "effect"
                else f"the {name} of a test must be above 0; found {value}; change it"
            )
