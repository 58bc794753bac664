"""What lies under an estimate: its propensities, the popularity of lists, metrics by popularity.

Items are told apart by deciles of popularity. A decile holds about a tenth of the training
*events*: 10 the few most popular items, 1 the long tail and all that training never saw.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.errors import DataError
from counterplay.metrics.arrays import check_columns
from counterplay.metrics.estimation import finite
from counterplay.metrics.intervals import bootstrap, effective_sample_size, interval, top_share
from counterplay.metrics.measures import coverage, gini_of_lists, mean_popularity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from counterplay.metrics.arrays import Doubles, Floats, Integers

N_DECILES = 10
QUANTILES = (0.0, 0.01, 0.25, 0.5, 0.75, 0.99, 1.0)
_N_BINS = 24  # of the histogram of propensities
_N_CALIBRATION_BINS = 10


def spread_of_propensities(weights: Doubles, *, floor: float = 0.01) -> dict[str, Any]:
    """Return quantiles and a histogram of the propensities behind some weights `[n]`.

    The histogram's edges are log-spaced from the floor to 1, or from the smallest propensity where
    that is smaller: so estimators that keep to the floor have the same edges.
    """
    ess, share = effective_sample_size(weights), top_share(weights)
    if weights.min() < 1:
        raise DataError(
            "weights must be inverse propensities, 1 or more; found "
            f"{weights.min()}; divide 1 by probabilities"
        )
    propensities = 1 / weights
    edges = np.geomspace(min(floor, float(propensities.min())), 1, _N_BINS + 1)
    counts, _ = np.histogram(propensities, edges)
    quantiles = np.quantile(propensities, QUANTILES)
    named = zip((f"{level:.0%}" for level in QUANTILES), quantiles.tolist(), strict=True)
    return {
        "n": len(weights),
        "ess": ess,
        "top_share": share,
        "quantiles": dict(named),
        "edges": edges.tolist(),
        "counts": counts.tolist(),
    }


def popularity_deciles(events: Integers) -> NDArray[np.int64]:
    """Return the decile of each item by its training events, 1 to 10, `[n_items]`.

    With items in ascending order of events, the lower index first among equals, it is
    `⌈10 · events up to and with the item / all events⌉`, at least 1. The most popular item is
    always in 10; an item with more than a tenth of all events leaves deciles below it empty.
    """
    order = np.argsort(events, kind="stable")
    so_far = np.cumsum(events[order], dtype=np.int64)
    deciles = np.empty(len(events), dtype=np.int64)
    # Whole numbers throughout: a share of exactly 0.3 is in 3, not in 4 by rounding.
    deciles[order] = np.maximum(1, -(-N_DECILES * so_far // max(1, int(events.sum()))))
    return deciles


def decile_shares(deciles: Integers, amounts: NDArray[np.number] | None = None) -> list[float]:
    """Return each decile's share of the rows, or of their amounts; all 0 where there are none."""
    totals = np.bincount(deciles, amounts, N_DECILES + 1)[1:]
    shares: list[float] = (totals / max(1, totals.sum())).tolist()
    return shares


def deciles_of_items(deciles: Integers, events: Integers) -> list[dict[str, Any]]:
    """Return how many items each decile has, and its share of the training events."""
    items = np.bincount(deciles, minlength=N_DECILES + 1)[1:].tolist()
    shares = decile_shares(deciles, events)
    return [
        {"decile": decile, "items": n, "logged": share}
        for decile, (n, share) in enumerate(zip(items, shares, strict=True), 1)
    ]


def popularity_of_lists(
    lists: Integers, deciles: Integers, events: Integers
) -> dict[str, Any] | None:
    """Return how popular the items of lists `[U, k]` are; None where they have only padding, -1.

    Deciles and training events are those of all items, `[n_items]`.
    """
    recommended = lists[lists >= 0]
    if not recommended.size:
        return None
    return {
        "shares": decile_shares(deciles[recommended]),
        "mean_popularity": mean_popularity(lists, events),
        "coverage": coverage(lists, len(events)),
        "gini": gini_of_lists(lists, len(events)),
    }


def means_by_decile(
    values: Mapping[tuple[str, int], Floats],
    deciles: Integers,
    clusters: Integers,
    rng: np.random.Generator,
    *,
    level: float = 0.95,
    n_resamples: int = 200,
) -> list[dict[str, Any]]:
    """Return the plain mean of each metric's rows, decile by decile, with intervals over users.

    `values`, `deciles` of the items and `clusters`, the users, have a value for each row, `[n]`. A
    decile without rows has no mean, and one with fewer than two users no interval.
    """
    matrix = np.stack([np.asarray(each, dtype=np.float64) for each in values.values()], axis=1)
    counts = np.bincount(deciles, minlength=N_DECILES + 1)[1:]
    found = np.full((3, N_DECILES, len(values)), np.nan)  # mean, low and high
    for place in np.flatnonzero(counts):
        rows = deciles == place + 1
        some, n = matrix[rows], np.ones(counts[place])
        resamples = bootstrap(some, n, clusters[rows], rng, n_resamples=n_resamples)
        found[:, place] = some.mean(0), *interval(resamples, level)
    return [
        {
            "metric": metric,
            "k": k,
            "decile": place + 1,
            "n": int(counts[place]),
            **dict(zip(("value", "low", "high"), map(finite, each.tolist()), strict=True)),
        }
        for column, (metric, k) in enumerate(values)
        for place, each in enumerate(found[:, :, column].T)
    ]


def calibration(estimated: Floats, true: Floats) -> dict[str, Any]:
    """Return how estimated propensities compare with true ones, in bins of about equal count.

    Rows of equal estimates stay in one bin, so a constant has one. Self-normalised estimates need
    propensities only up to a factor: both are reported as they are, and bins on any line through
    the origin are as good as on the diagonal. The correlation is Spearman's, None if either is
    constant.
    """
    check_columns("estimated and true propensities", estimated, true, "give both of each row")
    ranks, true_ranks = _ranks(estimated), _ranks(true)
    # Twice a rank is a whole number, so rows fall into bins without rounding.
    twice = np.rint(2 * ranks).astype(np.int64)
    _, bins = np.unique((twice - 1) * _N_CALIBRATION_BINS // (2 * len(ranks)), return_inverse=True)
    counts = np.bincount(bins)
    means = ((np.bincount(bins, each) / counts).tolist() for each in (estimated, true))
    varied = np.ptp(ranks) > 0 and np.ptp(true_ranks) > 0
    return {
        "correlation": float(np.corrcoef(ranks, true_ranks)[0, 1]) if varied else None,
        "bins": [
            {"n": n, "estimated": one, "true": other}
            for n, one, other in zip(counts.tolist(), *means, strict=True)
        ],
    }


def _ranks(values: Floats) -> Floats:
    """Return ranks from 1, of equals the mean; scipy's own loads its distributions for it."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    ranks: Floats = ((ends - counts + 1 + ends) / 2)[place]
    return ranks
