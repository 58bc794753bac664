"""Whether weights do anything, judged by their effective sample size."""

from __future__ import annotations

ALIKE = 0.98  # the share of the rows from which on weights have no effect


def has_no_effect(ess: float | None) -> bool:
    """Tell whether weights with this effective sample size, a share of the rows, are all alike.

    The range of propensities does not tell: one outlier widens it. Without weights there is
    nothing to have an effect.

    Example:
        >>> has_no_effect(0.997), has_no_effect(0.6), has_no_effect(None)
        (True, False, False)
    """
    return ess is not None and ess > ALIKE
