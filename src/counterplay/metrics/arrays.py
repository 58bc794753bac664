"""Names for arrays of numbers, as signatures use them, and a check of two of one length."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from counterplay.errors import DataError

Floats = NDArray[np.floating]
Doubles = NDArray[np.float64]
Integers = NDArray[np.integer]
Numbers = NDArray[np.number]
Flags = NDArray[np.bool_]


def check_columns(what: str, first: Numbers, second: Numbers, remedy: str, least: int = 1) -> None:
    """Refuse what are not two columns of one length."""
    if first.ndim != 1 or first.shape != second.shape or len(first) < least:
        raise DataError(
            f"{what} must be two columns of one length, {least} or more; found the shapes "
            f"{first.shape} and {second.shape}; {remedy}"
        )
