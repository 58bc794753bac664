"""Losses δ(y, f), elementwise: outcomes and scores in, a loss each out.

Implicit feedback has outcomes 1 and 0, read as the signs of the margin m = ±f.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional as F

if TYPE_CHECKING:
    from collections.abc import Callable

    from counterplay.learning.config import LossName


def _against(y: Tensor, f: Tensor) -> Tensor:
    """Return the negative margin −m, which is `f − 2 y f`."""
    return torch.addcmul(f, y.to(f.dtype), f, value=-2)


LOSSES: dict[LossName, Callable[[Tensor, Tensor], Tensor]] = {
    "logistic": lambda y, f: F.softplus(_against(y, f)),  # log(1 + e^(−m))
    "hinge": lambda y, f: F.relu(1 + _against(y, f)),  # max(0, 1 − m)
    "exponential": lambda y, f: torch.exp(_against(y, f)),  # e^(−m)
    "squared": lambda y, f: (y - f) ** 2,  # for ratings
}
