"""How large the propensity-weighted loss can be if exposure is within ρ of the fitted one.

Theorem 1 bounds that risk by `c1 · γρ + mean Δ_γ + ε_n`. Here are the first two terms, at the γ
that makes them smallest, for a fitted model over its rows:

    certificate(ρ) = inf over γ ≥ 0 of  γρ + mean_i Δ_γ(i)
    Δ_γ(i)         = sup over q' in [μ, 1] of  δ_i / q' − γ · c(q_i, q')

    δ(y, f(x, z))              losses, 0 or more
    q, the centre of the ball  propensities, the fitted ones
    μ of Claim 2               floor
    W_c(G(g), G(g*)) ≤ ρ       mean_i c(q_i, q'_i) ≤ rho
    γ_n of Corollary 1         gamma at rho = 0

A row keeps its x, z and y, as on the theorem's left side; only its propensity moves, to anything
in [μ, 1]: a wider choice than a class of exposure models has. Then c1 = 1. Costs: `absolute`,
|q − q'|; `weight`, |1/q − 1/q'|, the distance in Claim 2; `squared`, (q − q')², under which γ_n
is infinite and Corollary 1's first bound is empty.

Guaranteed: if the true propensities of these rows are within mean cost ρ of the fitted ones and
not below the floor, the mean of δ / true q over these rows is at most the certificate. It is the
exact supremum if one row's propensity may be a mixture; and any γ gives a valid bound.

Not guaranteed: anything about other rows (resample rows for that; ε_n has an unstated constant). No
log tells ρ: the theorem's ball is around the true exposure, this one around the fitted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from scipy.optimize import brentq

from counterplay.errors import ConfigError, DataError
from counterplay.metrics.arrays import check_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from counterplay.metrics.arrays import Doubles, Floats

    _Solved = tuple[Doubles, Doubles]  # what each ρ adds to the plain mean, and its γ

Cost = Literal["absolute", "squared", "weight"]

_SMALLEST = 1e-300  # absolute precision of γ: its relative precision is what counts
_ROUNDING = 1e-6  # float32 propensities may fall this share below their floor


@dataclass(frozen=True, slots=True)
class Certificate:
    """A bound on the weighted loss, and where it comes from."""

    value: float  # γρ + mean Δ_γ at the best γ
    rho: float  # the radius ρ
    gamma: float  # the best γ, the slope of `value` in ρ; 0 once it has reached the ceiling
    plain: float  # the mean of δ / q, `value` at ρ = 0
    ceiling: float  # the mean of δ / μ, `value` from `saturation` on
    saturation: float  # the ρ at which all rows with a loss are at the floor
    floor: float  # μ
    cost: Cost  # what moving a propensity costs


def certificates(
    losses: Floats,
    propensities: Floats,
    rhos: Sequence[float] | Floats,
    *,
    floor: float,
    cost: Cost = "absolute",
) -> list[Certificate]:
    """Return the smallest γρ + mean Δ_γ of each ρ: a concave curve that rises from the plain mean.

    Args:
        losses: δ of each row, 0 or more, `[n]`.
        propensities: The fitted q of each row, from the floor to 1, `[n]`.
        rhos: Radii ρ: how far exposure may be from the fitted one, in mean cost.
        floor: μ, the smallest propensity thought possible.
        cost: What moving a propensity costs.

    Example:
        >>> curve = certificates(np.ones(2), np.array([0.5, 1.0]), [0, 0.25, 1], floor=0.5)
        >>> [(point.value, point.gamma) for point in curve]
        [(1.5, 2.0), (2.0, 0.0), (2.0, 0.0)]
    """
    radii = np.asarray(rhos, np.float64)
    if not (radii.ndim == 1 and (radii >= 0).all()):
        raise ConfigError(f"rho must be 0 or more; found {rhos}; take 0 for the plain mean")
    delta, q = _checked(losses, propensities, floor, cost)
    lowered = np.where(delta > 0, q - floor, 0)
    plain, room = float((delta / q).mean()), float(_gains(delta, q, lowered).mean())
    saturation = float(_costs(q, lowered, cost).mean())
    if cost == "squared":
        added, gammas = _by_root(delta, q, radii, floor)
    else:
        added, gammas = _by_order(delta, q, radii, floor, cost)
    full = radii >= saturation
    added, gammas = np.where(full, room, np.minimum(added, room)), np.where(full, 0, gammas)
    return [
        Certificate(plain + more, rho, gamma, plain, plain + room, saturation, floor, cost)
        for more, rho, gamma in zip(added.tolist(), radii.tolist(), gammas.tolist(), strict=True)
    ]


def _gains(delta: Doubles, q: Doubles, drops: Doubles) -> Doubles:
    """Return δ / (q − drop) − δ / q."""
    return delta * drops / (q * (q - drops))


def _costs(q: Doubles, drops: Doubles, cost: Cost) -> Doubles:
    if cost == "absolute":
        return drops
    return drops**2 if cost == "squared" else drops / (q * (q - drops))


def _drops(delta: Doubles, q: Doubles, gamma: float, floor: float) -> Doubles:
    """Return by how much each propensity falls at the supremum, under the squared cost.

    With t = q' / q it is stationary at `t²(1 − t) = δ / 2γq³`; the larger root is the only maximum
    inside, to be compared with the floor.
    """
    full = q - floor
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):  # δ / 0, and 0 / 0
        sine = np.sqrt(27 / 8 * delta / (gamma * q**3))
    inner = 4 / 3 * q * np.sin(np.arcsin(np.minimum(sine, 1)) / 3) ** 2
    inner = np.where((sine <= 1) & (inner < full), inner, full)
    net, net_full = (_gains(delta, q, drop) - gamma * drop**2 for drop in (inner, full))
    return np.where(delta > 0, np.where(net >= net_full, inner, full), 0)


def _by_order(delta: Doubles, q: Doubles, radii: Doubles, floor: float, cost: Cost) -> _Solved:
    """Spend ρ on the rows that gain most for it; under these costs a row moves all or nothing."""
    delta, q, n = delta[q > floor], q[q > floor], len(q)
    rates = delta / (floor * q if cost == "absolute" else 1)  # gain / cost
    order = np.argsort(-rates)
    rates, paid = rates[order], _costs(q, q - floor, cost)[order]
    spent = np.concatenate([[0.0], np.cumsum(paid)]) / n
    gained = np.concatenate([[0.0], np.cumsum(rates * paid)]) / n
    place = np.searchsorted(spent[1:], radii, side="right")
    return np.interp(radii, spent, gained), np.append(rates, 0.0)[place]


def _by_root(delta: Doubles, q: Doubles, radii: Doubles, floor: float) -> _Solved:
    """Find the γ at which T_γ costs just ρ: the minimum, since T_γ costs less as γ grows."""

    def unspent(gamma: float, rho: float) -> float:
        return rho - float((_drops(delta, q, gamma, floor) ** 2).mean())

    # γ · drop² ≤ gain ≤ δ · drop / (μ q): beyond scale / √ρ, less than ρ is spent.
    scale = 2 * float((delta / (floor * q)).max())
    added, gammas = np.zeros_like(radii), np.full_like(radii, np.inf)
    for place in np.flatnonzero((radii > 0) & (radii < -unspent(0, 0))):
        rho = float(radii[place])
        end = scale / math.sqrt(rho)
        gamma = brentq(unspent, 0, end, args=(rho,), xtol=_SMALLEST, rtol=1e-14, maxiter=2000)
        drops = _drops(delta, q, gamma, floor)
        gained = _gains(delta, q, drops).mean() + gamma * (rho - (drops**2).mean())
        added[place], gammas[place] = gained, gamma
    return added, gammas


def _checked(
    losses: Floats, propensities: Floats, floor: float, cost: str
) -> tuple[Doubles, Doubles]:
    if cost not in get_args(Cost):
        known = ", ".join(get_args(Cost))
        raise ConfigError(f"the cost must be one of {known}; found {cost!r}; take one of them")
    if not 0 < floor < 1:
        raise ConfigError(f"the floor must be between 0 and 1; found {floor}; take 0.01, say")
    delta, q = np.asarray(losses, np.float64), np.asarray(propensities, np.float64)
    check_columns("losses and propensities", delta, q, "give one propensity for each loss")
    if not (np.isfinite(delta).all() and delta.min() >= 0):
        raise DataError(
            f"losses must be finite and 0 or more; found {delta.min():g} to {delta.max():g}; "
            "certify a loss, not a gain"
        )
    if not (q.min() >= floor * (1 - _ROUNDING) and q.max() <= 1):
        raise DataError(
            f"propensities must lie between the floor, {floor:g}, and 1; found "
            f"{q.min():g} to {q.max():g}; lower the floor, or raise them to it"
        )
    return delta, np.maximum(q, floor)
