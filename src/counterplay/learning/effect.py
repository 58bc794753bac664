"""Whether weights do anything; a file of its own, so that a report need not load torch."""

from __future__ import annotations

ALIKE = 0.98  # an effective sample size, as a share of the rows, above which weights do nothing


def has_no_effect(ess: float | None) -> bool:
    """Tell whether all weights are alike; their range, which one outlier widens, does not tell."""
    return ess is not None and ess > ALIKE
