"""Worst-case weights in closed form: the opponent of `dro` and of `rd`.

Each takes losses without a gradient and returns the weights, or the factors, that make the weighted
mean loss as large as its set allows. By Danskin's theorem the gradient of that maximum is the
gradient of the weighted mean with the weights held fixed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor

    from counterplay.learning.weighting import Groups

_CLOSE = 1e-7  # of the radius: how near to it a solution must be
_STEPS = 100


def in_kl_ball(losses: Tensor, shares: Tensor, radius: float) -> Tensor:
    """Return weights of mean 1 under the shares p, `[n]`, with `Σ p w log w` at most the radius.

    They are `w ∝ e^(t · loss)`, with t such that the bound holds with equality; where the radius
    allows it, all weight is on the largest loss.
    """
    if radius == 0:
        return torch.ones_like(losses)
    p, z = shares.double() / shares.double().sum(), losses.double() - losses.double().max()
    worst = p[z == 0].sum()
    if radius >= -math.log(worst):
        return ((z == 0) / worst).to(losses.dtype)
    low, high, wanted = 0.0, math.inf, math.sqrt(2 * radius)
    t = wanted / _deviation(p, z)
    for _ in range(_STEPS):
        raised = p * torch.exp(t * z)  # [n]
        total = raised.sum()
        mean = float(raised @ z / total)
        found = t * mean - math.log(total)  # KL, which rises with t
        if abs(found - radius) <= _CLOSE * radius:
            break
        low, high = (t, high) if found < radius else (low, t)
        # Newton's step on √(2 KL), which is nearly linear in t: its slope is t · Var / √(2 KL).
        root, variance = math.sqrt(max(2 * found, 0)), _deviation(raised / total, z) ** 2
        t += (wanted - root) * root / (t * variance) if variance else math.inf
        if not low < t < high:
            t = (low + high) / 2 if high < math.inf else 2 * low
    return (torch.exp(t * z) / total).to(losses.dtype)


def by_cvar(losses: Tensor, shares: Tensor, radius: float) -> Tensor:
    """Return weights of mean 1 under the shares p, `[n]`, none above `1 + radius`.

    The largest losses have that weight, until the worst `1 / (1 + radius)` of the shares is used.
    """
    if radius == 0:
        return torch.ones_like(losses)
    order = losses.argsort(descending=True, stable=True)
    p = shares.double()[order] / shares.double().sum()
    most = 1 + radius
    left = 1 - most * (p.cumsum(0) - p)  # of the whole, before each
    weights = torch.empty_like(losses)
    weights[order] = (left / p).clamp(0, most).to(losses.dtype)
    return weights


def of_odds(losses: Tensor, odds: Tensor, gamma: float, groups: Groups) -> Tensor:
    """Return the factors of the odds, `1/Γ` to `Γ`, that are worst for weights `1 + factor · odds`.

    Losses and odds are `[B, W]`. Without groups the weighted sum is made large, row by row. A group
    of places has a mean weight of 1: then `Σ w · loss / Σ w` is made large, by a threshold on the
    losses. Losses may be differences to a benchmark, of either sign.
    """
    if not groups:
        return torch.where(losses > 0, gamma, 1 / gamma).to(odds.dtype)
    columns = zip(losses.split(groups, dim=1), odds.split(groups, dim=1), strict=True)
    return torch.cat([_by_threshold(*column, gamma) for column in columns], dim=1)


def _by_threshold(losses: Tensor, odds: Tensor, gamma: float) -> Tensor:
    order = losses.flatten().argsort(descending=True, stable=True)
    loss, odd = (each.flatten().double()[order] for each in (losses, odds))
    low, gain = 1 + odd / gamma, odd * (gamma - 1 / gamma)
    sums = (low * loss).sum() + (gain * loss).cumsum(0)  # with the first k + 1 raised
    means = sums / (low.sum() + gain.cumsum(0))
    n_raised = int(means.argmax()) + 1
    factors = odds.new_full(order.shape, 1 / gamma)
    factors[order[:n_raised]] = gamma
    return factors.view(odds.shape)


def _deviation(p: Tensor, z: Tensor) -> float:
    return math.sqrt(float(p @ (z - p @ z).square()))
