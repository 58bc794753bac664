"""Compare models on the same rows: paired differences, and which of them are beyond chance.

All differences that are looked at together are judged together, by one studentised bootstrap over
users. A user has the sums T of weighted differences and B of weights; a difference is d = ΣT / ΣB,
and its standard error s = √Σ(T − d·B)² / ΣB. With d* and s* those of a resample,

    t*  = the largest of |d* − d| / s* over all differences       one number a resample
    c   = the quantile of t* at the level
    d ± c · s                                                     the interval of a difference
    p   = (1 + #{t* ≥ |d| / s}) / (1 + n_resamples)

So all intervals hold at once with the level's probability, p is adjusted for the number of
differences, and p ≤ 1 − level exactly where an interval leaves out 0. Where a resample has none of
the users in whom two models differ, or one user alone, their |d* − d| / s* is infinite. If that
happens in more than (1 − level) / 2m of the resamples, one of m differences rests on too few users
(six or fewer, at 95%): it has no interval, is not beyond chance, and the others are judged without.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from counterplay.display import between
from counterplay.errors import ConfigError, DataError
from counterplay.metrics.estimation import WithInterval
from counterplay.metrics.intervals import (
    check_resamples,
    check_weights,
    cluster_sums,
    poisson_counts,
    random_sums,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from counterplay.metrics.arrays import Doubles, Floats, Integers


_ROUNDING = 1e-12  # spreads below that share of what they are made of are none


def beyond_chance(p_value: float, level: float) -> bool:
    """Tell whether a difference is beyond chance: its interval at `level` leaves out 0."""
    return p_value <= 1 - level


@dataclass(frozen=True, slots=True, repr=False)
class Difference(WithInterval):
    """A difference of two models over `n` rows; its interval and p-value are over users.

    Both are for all differences that were compared together; `p_value <= 1 - level` where the
    interval leaves out 0, and only there.
    """

    value: float
    low: float
    high: float
    level: float
    n: int
    n_clusters: int
    p_value: float

    def _title(self) -> str:
        return (
            f"{self.value:+.4f} {between(self.low, self.high, self.level, '+')}, "
            f"p {self.p_value:.4f}; {self.n:,} rows of {self.n_clusters:,} users"
        )


def comparisons(
    values: Mapping[str, Floats],
    weights: Floats,
    clusters: Integers,
    rng: np.random.Generator,
    *,
    reference: str | None = None,
    n_resamples: int = 1000,
    level: float = 0.95,
    normalise: bool = True,
    refits: Floats | None = None,
) -> list[tuple[str, str, Difference]]:
    """Return (one model, another, one minus the other) for each comparison, all in one pass.

    Each model's values, the weights and the clusters, which are users, are of the same rows, `[n]`.
    All others are compared with the `reference`, to be chosen before seeing the values; None
    compares all pairs. Intervals and p-values are for all of them at once: under the null the
    probability that any interval leaves out 0 is 1 − level. With `normalise` the divisor is the sum
    of the weights, else n. `refits` `[n_refits, n]` are weights by other fits of what they rest on:
    the variance of a difference over them is added to its own.

    Example:
        >>> hits = {"pop": np.array([1.0, 0.0, 0.0]), "mf": np.array([1.0, 1.0, 1.0])}
        >>> rng = np.random.default_rng(0)
        >>> comparisons(hits, np.ones(3), np.arange(3), rng, reference="pop")[0][:2]
        ('mf', 'pop')
    """
    names = list(values)
    if len(names) < 2 or (reference is not None and reference not in values):
        raise ConfigError(
            "a comparison needs two models or more, the reference among them; found "
            f"{', '.join(names) or 'none'} with reference {reference}; name one of the models"
        )
    if reference is None:
        pairs = list(combinations(range(len(names)), 2))
    else:
        base = names.index(reference)
        pairs = [(other, base) for other in range(len(names)) if other != base]
    check_resamples(n_resamples, level)
    check_weights(weights)
    table = _table(list(values.values()), weights)
    one, other = np.array(pairs).T
    gaps = (table[:, one] - table[:, other]) * weights[:, None]
    scale = weights.astype(np.float64) if normalise else np.ones(len(weights))
    tops, bottoms = cluster_sums(gaps, clusters), cluster_sums(scale, clusters)
    extra = np.zeros(len(pairs))
    if refits is not None:
        values_by_fit = refits @ (table[:, one] - table[:, other])
        extra = (values_by_fit / (refits.sum(axis=1)[:, None] if normalise else len(table))).var(0)
    found = np.stack(_simultaneous(tops, bottoms, rng, n_resamples, level, extra), axis=1)
    return [
        (names[i], names[j], Difference(value, low, high, level, len(table), len(bottoms), p))
        for (i, j), (value, low, high, p) in zip(pairs, found.tolist(), strict=True)
    ]


def comparisons_of_sums(
    sums: Mapping[str, Doubles],
    denominators: Doubles,
    rng: np.random.Generator,
    *,
    n: int,
    n_resamples: int = 1000,
    level: float = 0.95,
) -> list[Difference]:
    """Return all differences of models that are known by a sum a user, over one of denominators.

    As `comparisons`, in the order of `itertools.combinations`; `n` is the number of rows behind.
    """
    check_resamples(n_resamples, level)
    tops = np.stack([sums[one] - sums[other] for one, other in combinations(sums, 2)], axis=1)
    found = np.stack(_simultaneous(tops, denominators[:, None], rng, n_resamples, level), axis=1)
    return [
        Difference(value, low, high, level, n, len(tops), p)
        for value, low, high, p in found.tolist()
    ]


def _simultaneous(
    tops: Doubles,
    bottoms: Doubles,
    rng: np.random.Generator,
    n_resamples: int,
    level: float,
    extra: Doubles | float = 0.0,
) -> tuple[Doubles, Doubles, Doubles, Doubles]:
    """Return ΣT / ΣB, the ends of its interval and its p-value, `[m]` each.

    T is `[n_users, m]`, a column a difference; B is `[n_users, 1]`; `extra` is added to variances.
    """
    value = tops.sum(axis=0) / bottoms.sum()
    rest = tops - value * bottoms
    still = (rest**2).sum(axis=0) <= _ROUNDING**2 * (tops**2).sum(axis=0)
    rest[:, still] = 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.sqrt((rest**2).sum(axis=0)) / bottoms.sum()
        error = np.where(extra > 0, np.sqrt(error**2 + extra), error)
        lead = np.where(value == 0, 0.0, np.abs(value) / error)  # ∞ where nothing varies
    deviations = _deviations(rest, bottoms, rng, n_resamples)
    most = (1 - level) / (2 * len(value))  # of the resamples may tell nothing
    told = (np.isinf(deviations).mean(axis=0) <= most) & (_lonely(bottoms) <= most)
    largest = np.where(told, deviations, 0.0).max(axis=1, keepdims=True)  # [n_resamples, 1]
    p_value = np.where(told, (1 + (largest >= lead).sum(axis=0)) / (1 + n_resamples), 1.0)
    # t* that are as large as c or larger have a share of 1 − level at most, with one to spare.
    spare = math.floor((1 - level) * (1 + n_resamples)) - 1
    critical = float(np.sort(largest[:, 0])[-1 - spare])
    # The p-value decides, so that rounding cannot tear it and the interval apart.
    decided, size = p_value <= 1 - level, np.abs(value)
    reach = np.where(
        decided,
        np.minimum(critical * error, np.nextafter(size, 0)),
        np.maximum(critical * error, size),
    )
    reach[~told & tops.any(axis=0)] = np.nan  # what is equal row by row is equal
    return value, value - reach, value + reach, p_value


def _deviations(
    rest: Doubles, bottoms: Doubles, rng: np.random.Generator, n_resamples: int
) -> Doubles:
    """Return |d* − d| / s* of each resample, `[n_resamples, m]`, from T − d·B `[n_users, m]` and B.

    It is |Σ e| / √Σ(e − (Σe / ΣB) · B)² over the resample's users, with e = T − d·B; 0 for a
    difference that varies nowhere, infinite where a resample has nothing that varies.
    """
    m = rest.shape[1]
    columns = np.concatenate([rest, rest**2, rest * bottoms, bottoms, bottoms**2], axis=1)
    sums = random_sums(poisson_counts, columns, n_resamples, rng)
    shift, squares, products = sums[:, :m], sums[:, m : 2 * m], sums[:, 2 * m : 3 * m]
    below, below_squares = sums[:, 3 * m : 3 * m + 1], sums[:, 3 * m + 1 :]
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = shift / below
        spread = squares - 2 * mean * products + mean**2 * below_squares
        spread[~(spread > _ROUNDING * squares)] = 0.0
        found: Doubles = np.abs(shift) / np.sqrt(spread)
    found[np.isnan(found)] = np.inf
    found[:, ~rest.any(axis=0)] = 0.0
    return found


def _lonely(bottoms: Doubles) -> float:
    """Return the share of resamples that have one user alone, or nobody.

    A user is absent with probability 1 / e, so it is e⁻ⁿ · (1 + n · (e − 1)).
    """
    n = np.count_nonzero(bottoms)
    return math.exp(-n) * (1 + n * (math.e - 1))


def _table(columns: list[Floats], weights: Floats) -> Doubles:
    shapes = {column.shape for column in columns}
    if shapes != {weights.shape} or weights.ndim != 1:
        raise DataError(
            "models must be compared on the same rows, with one value and one weight each; found "
            f"values of shapes {', '.join(map(str, sorted(shapes)))} and weights of shape "
            f"{weights.shape}; evaluate all models on one log"
        )
    return np.stack(columns, axis=1).astype(np.float64)
