"""Names for arrays of numbers, as signatures use them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]
Doubles = NDArray[np.float64]
Integers = NDArray[np.integer]
Flags = NDArray[np.bool_]
