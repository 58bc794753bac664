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
    """Return the negative margin, `∓f`, which is `f − 2 y f`."""
    return torch.addcmul(f, y.to(f.dtype), f, value=-2)


def logistic(y: Tensor, f: Tensor) -> Tensor:
    """Return `log(1 + e^(−m))` for the margin `m = ±f`."""
    return F.softplus(_against(y, f))


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
