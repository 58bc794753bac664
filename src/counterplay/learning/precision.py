"""Mixed precision, where it is asked for."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from counterplay.learning.config import Training


def precision(config: Training) -> AbstractContextManager[object]:
    """Return the context of a forward pass."""
    if config.precision == "float32":
        return nullcontext()
    return torch.autocast(torch.device(config.device).type, dtype=torch.bfloat16)
