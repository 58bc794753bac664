"""Whether what was exported scores as the model does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from counterplay.errors import CounterplayError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TOLERANCE = 1e-4  # relative to the largest score


def agreement(
    what: str, found: NDArray[np.floating], own: NDArray[np.floating]
) -> dict[str, float | int]:
    """Return how far exported scores are from the model's own; refuse them if it is too far."""
    difference = float(np.abs(found - own).max())
    relative = difference / (float(np.abs(own).max()) or 1.0)
    if not relative <= _TOLERANCE:  # so that NaN is refused too
        raise CounterplayError(
            f"{what} must score as the model does, to {_TOLERANCE:g} of the largest score; found "
            f"a difference of {relative:.2g}; look at the model's weights, and report it"
        )
    return {"pairs": own.size, "difference": difference, "relative_difference": relative}
