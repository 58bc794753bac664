"""Losses δ(y, f), elementwise: outcomes and scores in, a loss each out.

Implicit feedback has outcomes 1 and 0, read as the signs +1 and −1 of the margin losses φ(±f).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

if TYPE_CHECKING:
    from collections.abc import Callable

LossName = Literal["logistic", "hinge", "exponential", "squared"]


def _against(y: Tensor, f: Tensor) -> Tensor:
    """Return the negative margin, `∓f`."""
    return (1 - 2 * y) * f


def logistic(y: Tensor, f: Tensor) -> Tensor:
    """Return `log(1 + e^(−m))` for the margin `m = ±f`."""
    return F.binary_cross_entropy_with_logits(f, y.to(f.dtype), reduction="none")


def hinge(y: Tensor, f: Tensor) -> Tensor:
    """Return `max(0, 1 − m)`."""
    return F.relu(1 + _against(y, f))


def exponential(y: Tensor, f: Tensor) -> Tensor:
    """Return `e^(−m)`."""
    return torch.exp(_against(y, f))


def squared(y: Tensor, f: Tensor) -> Tensor:
    """Return `(y − f)²`, for ratings."""
    return (y - f) ** 2


LOSSES: dict[LossName, Callable[[Tensor, Tensor], Tensor]] = {
    "logistic": logistic,
    "hinge": hinge,
    "exponential": exponential,
    "squared": squared,
}


def weighted_mean(losses: Tensor, weights: Tensor, *, normalise: bool = False) -> Tensor:
    """Return `mean[w · δ]`; normalised, the weights of the batch have the mean 1."""
    weighted = losses * weights
    return weighted.sum() / weights.sum() if normalise else weighted.mean()


def balanced_mean(losses: Tensor, weights: Tensor) -> Tensor:
    """Return `mean[w · δ]` with weights of mean 1 among observed items, and among sampled ones.

    How many items are sampled for one that was observed is known. Were the weights free to move
    between the two, β, which wants losses small, would move them to whichever is the easier: the
    candidate would then learn little more than that most items are not observed.

    Args:
        losses: The observed item of each row first, `[B, 1 + n_negatives]`.
        weights: `[B, 1 + n_negatives]`.
    """
    if weights.shape[1] == 1:
        return (losses * (weights / weights.mean())).mean()
    sums, n = weights.sum(0), len(weights)  # by place: the observed item, then the sampled ones
    n_sampled = len(sums) - 1
    scales = torch.cat([n / sums[:1], (n * n_sampled / sums[1:].sum()).expand(n_sampled)])
    return (losses * (weights * scales)).mean()
