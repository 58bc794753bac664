"""Estimates of what a metric would be had exposure been fair, each from rows and their weights.

An observed row has a value v and a propensity q, the probability that it was exposed. Weighting
it by 1/q makes up for the rows that were not. The plain mean, `mean[v/q]`, is the paper's; the
self-normalised one, `Σ v/q / Σ 1/q`, stays on the metric's scale. The standard estimator has q = 1.
"""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.display import Convertible, Shown, between, named
from counterplay.errors import ConfigError, CounterplayWarning, DataError
from counterplay.metrics.intervals import (
    bootstrap,
    effective_sample_size,
    interval,
    top_share,
    weight_warning,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from counterplay.metrics.arrays import Doubles, Floats, Integers

Values = dict[tuple[str, int], "Doubles"]  # by metric and k, a value for each row


class WithInterval(Shown, Convertible):
    """A dataclass of flat values, with an interval from `low` to `high`."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON; an interval that is not there is None."""
        values: dict[str, Any] = asdict(self)  # type: ignore[call-overload]
        return values | {"low": finite(values["low"]), "high": finite(values["high"])}

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one row of flat values."""
        return [self.to_dict()]

    def _columns(self) -> dict[str, list[object]]:
        return {name: [value] for name, value in self.to_dict().items()}


@dataclass(frozen=True, slots=True, repr=False)
class Estimate(WithInterval):
    """A metric's estimate, with what says how far to trust it."""

    metric: str
    k: int  #: The cutoff.
    estimator: str  #: Its name in `ESTIMATORS`.
    protocol: str  #: full, or sampled-n.
    value: float
    low: float  #: Lower end of the interval.
    high: float
    level: float  #: Of the interval.
    n: int  #: Number of rows.
    ess: float  #: Effective sample size of the weights.
    top_share: float  #: Share of the weight that the heaviest 1% of the rows carry.
    normalised: bool  #: Whether the weights were.

    def _title(self) -> str:
        return (
            f"{named(self.metric, self.k)} {self.value:.4f} "
            f"{between(self.low, self.high, self.level)}, {self.estimator}, {self.protocol}; "
            f"{self.n:,} rows, effective {self.ess:,.0f}"
        )


def finite(value: float) -> float | None:
    """Return the value, or None where it is not a number: JSON has no word for that."""
    return value if np.isfinite(value) else None


def weights_of(propensities: Floats, *, clip: float | None = None) -> Doubles:
    """Return `1 / max(q, clip)`, `[n]`.

    Example:
        >>> weights_of(np.array([1.0, 0.5, 0.001]), clip=0.1)
        array([ 1.,  2., 10.])
    """
    if clip is not None and not 0 < clip <= 1:
        raise ConfigError(f"the clip must be above 0 and at most 1; found {clip}; change it")
    q = np.asarray(propensities, dtype=np.float64)
    bad = ~((q > 0) & (q <= 1))
    if bad.any():
        raise DataError(
            f"propensities must be above 0 and at most 1; found {int(bad.sum()):,} that are not, "
            f"the first {q[bad][0]} at row {int(np.flatnonzero(bad)[0])}; correct them"
        )
    return 1 / (q if clip is None else np.maximum(q, clip))


def estimates(
    values: Mapping[tuple[str, int], Floats],
    weights: Doubles,
    clusters: Integers,
    rng: np.random.Generator,
    *,
    estimator: str,
    protocol: str,
    normalise: bool = True,
    level: float = 0.95,
    n_resamples: int = 1000,
    refits: Doubles | None = None,
) -> list[Estimate]:
    """Estimate every metric from its row values, with bootstrap intervals over users.

    `values` have by metric and k a value for each row, `weights` its inverse propensity, `clusters`
    its user. With `normalise` the divisor is the sum of the weights, else the number of rows.
    `estimator` and `protocol` are names for the record. `refits` `[n_refits, n]` are weights by
    other fits of what they rest on: intervals are wider by the variance over them.
    """
    lengths = {len(each) for each in values.values()}
    if not len(weights) or lengths != {len(weights)}:
        found = ", ".join(f"{length:,}" for length in sorted(lengths)) or "no"
        raise DataError(
            f"an estimate needs rows, and a weight for each; found {found} values and "
            f"{len(weights):,} weights; give both for the same rows"
        )
    matrix = np.stack([np.asarray(each, dtype=np.float64) for each in values.values()], axis=1)
    denominators = weights if normalise else np.ones_like(weights)
    numerators = matrix * weights[:, None]
    resamples = bootstrap(numerators, denominators, clusters, rng, n_resamples=n_resamples)
    low, high = interval(resamples, level)
    point = numerators.sum(0) / denominators.sum()
    if refits is not None:
        by_fit = refits @ matrix / (refits.sum(1)[:, None] if normalise else len(matrix))
        with np.errstate(divide="ignore", invalid="ignore"):
            wider = np.sqrt(1 + np.nan_to_num(by_fit.var(0) / resamples.var(0)))
        low, high = point - wider * (point - low), point + wider * (high - point)
    warning = weight_warning(weights)
    if warning is not None:
        warnings.warn(f"{estimator}: {warning}", CounterplayWarning, stacklevel=2)
    ess, share = effective_sample_size(weights), top_share(weights)
    return [
        Estimate(
            metric, k, estimator, protocol, float(point[place]), float(low[place]),
            float(high[place]), level, len(matrix), ess, share, normalise,
        )
        for place, (metric, k) in enumerate(values)
    ]  # fmt: skip


def popularity_propensities(
    items: Integers, events: Integers, *, exponent: float = 1.0, floor: float = 0.01
) -> Doubles:
    """Return `max(floor, (events / most events) ^ exponent)`: what is popular was exposed."""
    if not (0 < floor <= 1 and exponent >= 0):
        raise ConfigError(
            "popularity needs an exponent of 0 or more and a floor above 0 and at most 1; found "
            f"{exponent} and {floor}; change them"
        )
    share = events[items] / max(int(events.max(initial=0)), 1)
    propensities: Doubles = np.maximum(share**exponent, floor)
    return propensities
