"""Metrics of ranks and ratings, one number a user or row, and of recommended lists."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Literal

import numpy as np

from counterplay.errors import ConfigError, DataError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

SMALLER_IS_BETTER = ("mse", "mae", "rmse")


def ranking_metrics(
    ranks: NDArray[np.floating],
    group: NDArray[np.integer],
    *,
    names: Sequence[str] = ("hit", "ndcg"),
    k: Sequence[int] = (5, 10, 20),
    n_groups: int | None = None,
) -> dict[tuple[str, int], NDArray[np.float64]]:
    """Return each metric at each cut-off, one number a group; NaN for groups without targets.

    With the ranks r of a group's n targets, those with r ≤ k count:

    - hit: 1 if there are any; mrr: 1 / the best r
    - recall: their number / n; precision: their number / k
    - dcg: Σ 1 / log2(1 + r); ndcg: dcg / the dcg of ranks 1, 2, …, min(n, k)
    - map: Σ p(r) / min(n, k), where p(r) is the number of targets at or before r, over r

    A group's ranks are places in one list. Without ties no two are equal, and all but dcg are at
    most 1. Expected ranks of ties can crowd: of 3, 3, 3, 3, 3 five are within 3. They count as
    given, but as k places hold at most k targets, precision, p, ndcg and map are cut to 1.
    Targets that were each ranked among candidates of their own are lists of their own: give
    them `group=np.arange(n)` and average what comes back.

    Args:
        ranks: From 1, the expected one where scores tie; infinite if not ranked, `[n]`.
        group: Whose target it is, in 0 … n_groups − 1 and in any order, `[n]`.
        names: Any of `METRICS`.
        k: Cut-offs.
        n_groups: The length of what comes back; the largest group + 1 if not given.

    Example:
        >>> ranks, users = np.array([1.0, 4.0, 2.5]), np.array([0, 0, 2])
        >>> ranking_metrics(ranks, users, names=["recall"], k=[3])
        {('recall', 3): array([0.5, nan, 1. ])}
    """
    _check_options(names, k)
    places, group = np.asarray(ranks, dtype=np.float64), np.asarray(group)
    n_groups = _checked_groups(places, group, n_groups)
    n_targets = np.bincount(group.astype(np.int64), minlength=n_groups)
    within = places <= max(k, default=0)
    targets = _Targets(places[within], group[within].astype(np.int64), n_targets)
    found = {(name, cutoff): _FORMULAS[name](targets, cutoff) for cutoff in k for name in names}
    for values in found.values():
        values[n_targets == 0] = np.nan
    return found


class _Targets:
    """The targets within the largest cut-off, by group and rank."""

    def __init__(
        self, ranks: NDArray[np.float64], group: NDArray[np.int64], n_targets: NDArray[np.int64]
    ) -> None:
        if not (group[1:] > group[:-1]).all():  # sums do not depend on the order of rows
            order = np.lexsort((ranks, group))
            ranks, group = ranks[order], group[order]
        self.ranks, self.group = ranks, group
        self.gain = 1 / np.log2(1 + ranks)
        self.n = n_targets  # within the cut-off or not, [n_groups]

    def total(self, values: NDArray[np.float64] | float, k: int) -> NDArray[np.float64]:
        """Return the sum of each group's values within k, `[n_groups]`."""
        counted = np.where(self.ranks <= k, values, 0.0)
        return np.bincount(self.group, counted, len(self.n)).astype(np.float64, copy=False)

    def possible(self, k: int) -> NDArray[np.int64]:
        """Return the hits that a list of k may have, `[n_groups]`; 1 where there are no targets."""
        return np.clip(self.n, 1, k)

    def ideal(self, k: int) -> NDArray[np.float64]:
        """Return the dcg of a list of k that begins with all of the targets, `[n_groups]`."""
        possible = self.possible(k)
        dcg = np.cumsum(1 / np.log2(1 + np.arange(1.0, possible.max(initial=1) + 1)))
        best: NDArray[np.float64] = dcg[possible - 1]
        return best

    def first(self) -> NDArray[np.bool_]:
        """Return whether a target is the best of its group."""
        return np.diff(self.group, prepend=-1) > 0

    def precision(self) -> NDArray[np.float64]:
        """Return p(r) of every target; those that share a rank are all at or before it."""
        last = (np.diff(self.group, append=-1) != 0) | (np.diff(self.ranks, append=-1) != 0)
        ends = np.flatnonzero(last) + 1
        at_or_before = np.repeat(ends, np.diff(ends, prepend=0))
        begins = np.searchsorted(self.group, self.group)
        return np.minimum((at_or_before - begins) / self.ranks, 1)


_FORMULAS: dict[str, Callable[[_Targets, int], NDArray[np.float64]]] = {
    "hit": lambda targets, k: np.minimum(targets.total(1.0, k), 1),
    "recall": lambda targets, k: targets.total(1.0, k) / np.maximum(targets.n, 1),
    "precision": lambda targets, k: np.minimum(targets.total(1.0, k) / k, 1),
    "dcg": lambda targets, k: targets.total(targets.gain, k),
    "ndcg": lambda targets, k: np.minimum(targets.total(targets.gain, k) / targets.ideal(k), 1),
    "mrr": lambda targets, k: targets.total(targets.first() / targets.ranks, k),
    "map": lambda targets, k: np.minimum(
        targets.total(targets.precision(), k) / targets.possible(k), 1
    ),
}
METRICS: tuple[str, ...] = tuple(_FORMULAS)


def _check_options(names: Sequence[str], k: Sequence[int]) -> None:
    unknown = next((name for name in names if name not in METRICS), None)
    if unknown is not None:
        (nearest,) = difflib.get_close_matches(unknown.lower(), METRICS, n=1, cutoff=0.0)
        raise ConfigError(
            f"a metric must be one of {', '.join(METRICS)}; found {unknown!r}; "
            f"did you mean {nearest!r}?"
        )
    for cutoff in k:
        if not isinstance(cutoff, int | np.integer) or cutoff < 1:
            raise ConfigError(
                f"a cut-off k must be a whole number of 1 or more; found {cutoff!r}; "
                "give the lengths of lists, such as 5, 10, 20"
            )


def _checked_groups(
    ranks: NDArray[np.float64], group: NDArray[np.integer], n_groups: int | None
) -> int:
    """Refuse what cannot be ranks and their groups; return the number of groups."""
    if ranks.ndim != 1 or ranks.shape != group.shape:
        raise DataError(
            "ranks and groups must be two columns of one length; found the shapes "
            f"{ranks.shape} and {group.shape}; give one rank and one group for each target"
        )
    wrong = ~(ranks >= 1)
    if wrong.any():
        row = int(wrong.argmax())
        raise DataError(
            f"ranks must be numbers from 1; found {ranks[row]} in row {row}; "
            "count places from 1, and look for scores that are not numbers"
        )
    if group.dtype.kind not in "iu":
        raise DataError(
            f"groups must be whole numbers; found the type {group.dtype}; give indices of users"
        )
    lowest, highest = int(group.min(initial=0)), int(group.max()) if len(group) else -1
    n_groups = highest + 1 if n_groups is None else n_groups
    if lowest < 0 or highest >= n_groups:
        raise DataError(
            f"groups must be in 0 to n_groups - 1 = {n_groups - 1:,}; found "
            f"{lowest if lowest < 0 else highest:,}; give indices of users, and their number"
        )
    return n_groups


def rating_errors(
    predicted: NDArray[np.floating], rating: NDArray[np.number]
) -> dict[Literal["mse", "mae"], NDArray[np.float64]]:
    """Return `(predicted − rating)²` and `|predicted − rating|` of every row, `[n]` each.

    Example:
        >>> rating_errors(np.array([3.0, 4.5]), np.array([5, 4]))
        {'mse': array([4.  , 0.25]), 'mae': array([2. , 0.5])}
    """
    predicted, truth = np.asarray(predicted, np.float64), np.asarray(rating, np.float64)
    if predicted.ndim != 1 or predicted.shape != truth.shape:
        raise DataError(
            "predictions and ratings must be two columns of one length; found the shapes "
            f"{predicted.shape} and {truth.shape}; give one prediction for each rating"
        )
    error = predicted - truth
    return {"mse": error**2, "mae": np.abs(error)}


def rmse(squared_errors: NDArray[np.floating]) -> float:
    """Return √ of the mean of squared errors, `[n]`.

    Example:
        >>> rmse(np.array([1.0, 7.0]))
        2.0
    """
    if not len(squared_errors):
        raise DataError("a mean must have rows; found none; leave empty parts out")
    return float(np.sqrt(np.mean(squared_errors, dtype=np.float64)))


def coverage(items: NDArray[np.integer], n_items: int) -> float:
    """Return the share of items that any of the lists `[U, k]` has; -1 is padding.

    Example:
        >>> coverage(np.array([[0, 1], [1, -1]]), n_items=4)
        0.5
    """
    return float(np.mean(_times_recommended(items, n_items) > 0))


def gini(items: NDArray[np.integer], n_items: int) -> float:
    """Return the Gini coefficient of how often the lists `[U, k]` have each item; -1 is padding.

    Σ (2i − n − 1) xᵢ / (n Σ xᵢ) with x ascending, i from 1: 0 where all items are recommended
    equally often, 1 − 1/n where one takes every place.

    Example:
        >>> gini(np.array([[0, 1], [1, -1]]), n_items=4)  # 0, 0, 1 and 2 times
        0.5833333333333334
    """
    times = np.sort(_times_recommended(items, n_items, least=1))
    weights = 2 * np.arange(1, n_items + 1) - n_items - 1
    return float((weights @ times) / (n_items * times.sum()))


def mean_popularity(items: NDArray[np.integer], events: NDArray[np.integer]) -> float:
    """Return the mean training events `[n_items]` of what lists `[U, k]` have; -1 is padding.

    Example:
        >>> mean_popularity(np.array([[0, 1], [1, -1]]), events=np.array([9, 3]))
        5.0
    """
    times = _times_recommended(items, len(events), least=1)
    return float((times @ np.asarray(events, dtype=np.float64)) / times.sum())


def _times_recommended(
    items: NDArray[np.integer], n_items: int, *, least: int = 0
) -> NDArray[np.int64]:
    """Return how often the lists have each item, `[n_items]`; refuse fewer than `least` in all."""
    items = np.asarray(items)
    lowest, highest = items.min(initial=0), items.max(initial=0)
    if items.dtype.kind not in "iu" or lowest < -1 or highest >= n_items:
        raise DataError(
            f"lists must have items in 0 to n_items - 1 = {n_items - 1:,}, or -1 for padding; "
            f"found {lowest:,} to {highest:,} of the type {items.dtype}; give indices of items"
        )
    recommended = items[items >= 0]
    if recommended.size < least:
        raise DataError("lists must recommend an item; found only padding; leave them out")
    return np.bincount(recommended.astype(np.int64), minlength=n_items)
