"""Mixed precision, where it is asked for."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from counterplay.learning.config import Training


def precision(config: Training) -> AbstractContextManager[object]:
    """Return the context of a step; gradients are computed outside of it, see `Optimizer.step`."""
    if config.precision == "float32":
        return nullcontext()
    # Without a cache: within one context a player moves and is asked again.
    return torch.autocast(torch.device(config.device).type, torch.bfloat16, cache_enabled=False)
