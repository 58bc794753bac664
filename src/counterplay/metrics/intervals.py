"""Intervals of ratios of sums, with users as the unit of resampling, and checks of weights.

An estimate is Σ numerator / Σ denominator over rows: weight · value over weight when it is
self-normalised, weight · value over 1 when it is a plain mean. Rows of one user hang together,
so rows are first added up to clusters, and whole clusters are resampled, numerator and
denominator together: with a constant value every self-normalised resample is that constant.

The bootstrap is Poisson's: in each resample every cluster occurs Poisson(1) times, independently
of the others, so no resample needs all clusters in memory at once.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np

from counterplay.errors import ConfigError, DataError

if TYPE_CHECKING:
    from collections.abc import Callable

    from counterplay.metrics.arrays import Doubles, Floats, Integers

# How many of 65,536 equally likely draws stand for a count of 0, 1, …, 8: Poisson(1) to within
# 2e-5, with a mean and a variance of exactly 1.
_POISSON = (24109, 24110, 12055, 4017, 1005, 201, 34, 4, 1)
_COUNT_OF = np.repeat(np.arange(len(_POISSON), dtype=np.float64), _POISSON)  # [65536]
_BLOCK = 4096  # clusters at a time: part of the order of draws, so it must not follow `memory`
_BYTES_A_DRAW = 20  # 2 of random bits, 8 as an index into the table, 8 as a factor, and change
_MEMORY = 2 * 2**20  # stays in the processor's cache; more is slower
_SPREAD = 4  # ids up to that many times the rows are counted as they are, larger ones renumbered

BEYOND = 5  # resamples that must be expected beyond each end of an interval
FEW_ROWS = 100  # an effective sample below this, by the weights' fault, is a handful
SMALL_SHARE = 0.01  # so is an effective sample below this share of the rows


def bootstrap(
    numerators: Floats,
    denominators: Floats,
    clusters: Integers,
    rng: np.random.Generator,
    *,
    n_resamples: int = 1000,
    memory: int = _MEMORY,
) -> Doubles:
    """Return the ratio Σ_u c_u · numerator_u / Σ_u c_u · denominator_u of each resample.

    The counts c_u ~ Poisson(1) are the same for all columns, so differences of columns are
    paired. A resample whose denominator is 0 is NaN, and so is all of a column with fewer than
    two clusters of non-zero denominator: nothing can be said of its spread.

    Numerators and denominators are `[n]` or `[n, m]`, and one column of denominators serves all
    numerators; clusters are the users of the rows, any integers of 0 or more, `[n]`. The result is
    `[n_resamples, m]`, and does not depend on the `memory`, in bytes, to work in.

    Example:
        >>> rng, weights = np.random.default_rng(0), np.array([1.0, 2.0, 4.0])
        >>> interval(bootstrap(3 * weights, weights, np.array([0, 1, 2]), rng))
        (array([3.]), array([3.]))
    """
    top = cluster_sums(numerators, clusters)
    bottom = cluster_sums(denominators, clusters)
    sums = np.concatenate([top, bottom], axis=1)
    totals = random_sums(poisson_counts, sums, n_resamples, rng, memory=memory)
    above, below = totals[:, : top.shape[1]], totals[:, top.shape[1] :]
    usable = (below != 0) & (np.count_nonzero(bottom, axis=0) > 1)
    ratios = np.full(np.broadcast_shapes(above.shape, below.shape), np.nan)
    np.divide(above, below, out=ratios, where=usable)
    return ratios


def interval(resamples: Floats, level: float = 0.95) -> tuple[Doubles, Doubles]:
    """Return the percentile interval of resamples, `[r]` or `[r, m]`, as two arrays `[]` or `[m]`.

    NaN resamples are left out; a column of nothing else has the bounds NaN. A level that needs
    more resamples than there are is refused.

    Example:
        >>> interval(np.arange(101.0), level=0.9)
        (array(5.), array(95.))
    """
    check_resamples(len(resamples), level)
    columns = resamples.reshape(len(resamples), -1)
    known = ~np.isnan(columns).all(axis=0)
    bounds = np.full((2, columns.shape[1]), np.nan)
    bounds[:, known] = np.nanquantile(columns[:, known], [(1 - level) / 2, (1 + level) / 2], axis=0)
    low, high = bounds.reshape(2, *resamples.shape[1:])
    return np.asarray(low), np.asarray(high)


def resamples_needed(level: float) -> int:
    """Return the fewest resamples that tell an interval at `level`: `BEYOND` beyond each end."""
    if not 0 < level < 1:
        raise ConfigError(
            f"the level of an interval must lie between 0 and 1; found {level}; give 0.95 for 95%"
        )
    return math.ceil(2 * BEYOND / (1 - Decimal(str(level))))  # as floats, 1 - 0.9 is below 0.1


def check_resamples(n_resamples: int, level: float) -> None:
    """Refuse a level that so many resamples cannot tell."""
    needed = resamples_needed(level)
    if n_resamples < needed:
        raise ConfigError(
            f"an interval at the level {level:.12g} needs n_resamples of {needed:,} or more, so "
            f"that {BEYOND} lie beyond each end; found {n_resamples:,}; raise n_resamples, or "
            "lower the level"
        )


def effective_sample_size(weights: Floats) -> float:
    """Return (Σ w)² / Σ w²: the number of equally weighted rows that would vary as much."""
    check_weights(weights)
    scaled = weights.astype(np.float64) / weights.max()  # squares of large weights overflow
    return float(scaled.sum() ** 2 / np.square(scaled).sum())


def top_share(weights: Floats) -> float:
    """Return the part of the total weight that the heaviest 1% of rows, at least one, carries."""
    check_weights(weights)
    n_top = max(1, round(0.01 * len(weights)))
    scaled = weights.astype(np.float64) / weights.max()
    heaviest = np.partition(scaled, len(scaled) - n_top)[len(scaled) - n_top :]
    return float(heaviest.sum() / scaled.sum())


def weight_warning(weights: Floats) -> str | None:
    """Return a sentence when a handful of rows carries the estimate, None when all is well.

    A handful is an effective sample below `SMALL_SHARE` of the rows, or below `FEW_ROWS` and
    half of the rows: few rows of like weight are not the weights' fault.
    """
    effective, n = effective_sample_size(weights), len(weights)
    if effective >= SMALL_SHARE * n and effective >= min(FEW_ROWS, n / 2):
        return None
    return (
        f"weights must spread over the rows for an estimate to hold; found about {effective:,.0f} "
        f"of {n:,} rows effectively carrying it, the heaviest 1% with {top_share(weights):.0%} of "
        "the weight; clip the weights, raise the floor of the propensities, or report it with care"
    )


def cluster_sums(values: Floats, clusters: Integers) -> Doubles:
    """Add rows up to clusters: values `[n]` or `[n, m]` to sums `[n_clusters, m]`.

    The clusters come in ascending order; ids without a row are left out.
    """
    if not len(values) or clusters.shape != values.shape[:1]:
        raise DataError(
            "values and clusters must have the same rows, at least one; found "
            f"{values.shape} values and {clusters.shape} clusters; give each row its user"
        )
    if clusters.dtype.kind not in "iu" or int(clusters.min()) < 0:
        raise DataError(
            "clusters must be integers of 0 or more; found "
            f"{clusters.dtype} from {clusters.min()}; give the index of each row's user"
        )
    if int(clusters.max()) >= _SPREAD * len(clusters):
        clusters = np.unique(clusters, return_inverse=True)[1]
    ids = clusters.astype(np.int64, copy=False)
    present = np.bincount(ids) > 0
    columns = values.reshape(len(values), -1).T
    sums: Doubles = np.stack([np.bincount(ids, weights=column)[present] for column in columns])
    if not np.isfinite(sums).all():
        raise DataError(
            "values must be finite numbers to be added up; found NaN or infinity in the sums of "
            f"{int((~np.isfinite(sums)).any(axis=0).sum()):,} clusters; leave those rows out"
        )
    return sums.T


def random_sums(
    draw: Callable[[int, int, np.random.Generator], Doubles],
    sums: Doubles,
    n: int,
    rng: np.random.Generator,
    *,
    memory: int = _MEMORY,
) -> Doubles:
    """Return Σ_u factor_u · sums_u for `n` draws of the factors, `[n_clusters, k]` to `[n, k]`.

    `draw(rows, width, rng)` returns factors `[rows, width]`, for one block of clusters after the
    other, so how many rows are asked for at a time changes nothing.
    """
    if n < 1:
        raise ConfigError(f"at least one draw must be asked for; found {n}; give 1000 or more")
    totals = np.zeros((n, sums.shape[1]))
    for begin in range(0, len(sums), _BLOCK):
        block = np.asfortranarray(sums[begin : begin + _BLOCK])
        rows = max(1, memory // (_BYTES_A_DRAW * len(block)))
        for first in range(0, n, rows):
            factors = draw(min(rows, n - first), len(block), rng)
            # A product row by row: that of whole matrices rounds by how many rows there are.
            totals[first : first + rows] += (factors[:, None, :] @ block)[:, 0]
    return totals


def check_weights(weights: Floats) -> None:
    """Raise unless weights are finite, none is below 0, and one is above it."""
    if not (len(weights) and np.isfinite(weights).all() and weights.min() >= 0 < weights.max()):
        found = f"{weights.min()} to {weights.max()}" if len(weights) else "none"
        raise DataError(
            f"weights must be finite, none below 0 and at least one above it; found {found}; "
            "check the propensities they were made from"
        )


def poisson_counts(rows: int, width: int, rng: np.random.Generator) -> Doubles:
    """Return how often each cluster is in each resample, `[rows, width]`."""
    size = (rows, -(-16 * width // 64))  # 16 random bits a count, row after row in the stream
    words = rng.integers(2**64 - 1, size=size, dtype=np.uint64, endpoint=True)
    draws = words.view(np.uint16)
    counts: Doubles = _COUNT_OF.take(draws[:, :width], mode="clip")
    return counts
