"""Check a test every day without more false alarms, and plan how many users it needs.

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

from counterplay.errors import ConfigError, DataError
from counterplay.simulation.chance import bisected

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from counterplay.simulation.factors import Numbers

_HALVINGS = 200  # of a logarithm: more than the digits of a number


@dataclass(frozen=True, eq=False)
class AlwaysValid:
    """What is known at each look, whenever one stops.

    Intervals only shrink. With a probability of at most 1 − level one ends up empty, its low above
    its high. They are infinite while nothing is known.
    """

    difference: Numbers
    low: Numbers
    high: Numbers
    p_value: Numbers  # at most α exactly where the interval at level 1 − α leaves 0 out


def always_valid(
    difference: NDArray[np.floating],
    variance: NDArray[np.floating],
    *,
    level: float = 0.95,
    scale: float,
) -> AlwaysValid:
    """Return confidence sequence and p-values of differences that are looked at repeatedly.

    The interval is where Λ_t of `Δ_t − δ` stays below 1/α, cut with all earlier ones:

        Δ_t ± √(V_t (V_t + τ²) / τ² · (2 log(1/α) + log(1 + τ² / V_t)))

    and the p-value is `min over s ≤ t of min(1, 1/Λ_s)`. Differences are `[…, n_looks]`; where the
    variance is 0 or NaN nothing is known yet. `scale` is τ, the expected size of differences: set
    it before the test; a value that is too large costs little, one that is too small costs much.

    Example:
        >>> found = always_valid(np.array([0.3, 0.2]), np.array([0.04, 0.001]), scale=0.2)
        >>> found.p_value.round(4)
        array([0.8058, 0.    ])
    """
    _check(level=level, scale=scale)
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
    its last interval is wider. That it may stop early is not counted.

    Args:
        mean: The control's value.
        variance: σ² of one user, as an online test reports it for its days.
        effect: δ, as a share of the mean, or absolute.
        level: 1 − α of the two-sided test.
        power: Probability of finding the effect.
        relative: Whether the effect is a share of the mean.
        scale: τ of a sequential test; None for a single look at the end.

    Example:
        >>> users_needed(0.2, 0.02, 0.05)
        3140
        >>> users_needed(0.2, 0.02, 0.05, scale=0.02)
        6590
    """
    _check(level=level, power=power, effect=effect, variance=variance, scale=scale)
    difference = abs(effect * _unit(mean, relative))
    if scale is None:
        wanted = (difference / _smallest(1.0, level, power, None)) ** 2
    else:  # the smallest difference grows with the variance of the difference
        low, _ = bisected(
            lambda middle: _smallest(float(np.exp(middle)), level, power, scale) < difference,
            -700.0,
            700.0,
            _HALVINGS,
        )
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
    _check(level=level, power=power, n_users=n_users, variance=variance, scale=scale)
    found = _smallest(2 * variance / n_users, level, power, scale)
    return found / abs(_unit(mean, relative))


def _smallest(variance: float, level: float, power: float, scale: float | None) -> float:
    """Return the difference that is found with a power, when its estimate has a variance."""
    from scipy.special import ndtri

    error = float(np.sqrt(variance))
    if scale is None:
        half = float(ndtri((1 + level) / 2)) * error
    else:
        half = float(_half_width(np.array(variance), level, scale))
    return half + float(ndtri(power)) * error


def _half_width(variance: Numbers, level: float, scale: float) -> Numbers:
    evidence = -2 * np.log(1 - level) + np.log1p(scale**2 / variance)
    half: Numbers = np.sqrt(variance * (variance / scale**2 + 1) * evidence)
    return half


def _unit(mean: float, relative: bool) -> float:
    """Return what an effect is a multiple of."""
    if relative and not (np.isfinite(mean) and mean):
        raise ConfigError(
            f"a relative effect must have a mean to be a share of; found a mean of {mean:g}; "
            "give the mean, or the absolute effect with relative=False"
        )
    return mean if relative else 1.0


def _check(**values: float | None) -> None:
    for name, value in values.items():
        wanted = "between 0 and 1" if name in ("level", "power") else "above 0"
        fits = value is None or 0 < value < (1 if name in ("level", "power") else np.inf)
        if name == "effect" and value is not None:
            wanted, fits = "a number other than 0", 0 < abs(value) < np.inf
        if not fits:
            raise ConfigError(f"the {name} of a test must be {wanted}; found {value}; change it")
