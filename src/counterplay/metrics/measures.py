"""Metrics of ranks and ratings, one number a user or row, and of recommended lists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from counterplay.errors import ConfigError, DataError
from counterplay.metrics.arrays import check_columns
from counterplay.metrics.formulas import METRICS, known
from counterplay.metrics.ranks import Ranks
from counterplay.metrics.ties import TiedBlocks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from counterplay.metrics.arrays import Doubles, Floats, Integers, Numbers

SMALLER_IS_BETTER = ("mse", "mae", "rmse", "log_loss")
IMPRESSION_METRICS = ("auc", "log_loss")  # of what was shown, clicked or not


def ranking_metrics(
    ranks: Ranks | Floats,
    group: Integers,
    *,
    names: Sequence[str] = ("hit", "ndcg"),
    k: Sequence[int] = (5, 10, 20),
    n_groups: int | None = None,
) -> dict[tuple[str, int], Doubles]:
    """Return each metric at each cut-off, one number a group; NaN for groups without targets.

    With the ranks r of a group's n targets, those with r ≤ k count:

    - hit: 1 if there are any; mrr: 1 / the best r
    - recall: their number / n; precision: their number / k
    - dcg: Σ 1 / log2(1 + r); ndcg: dcg / the dcg of ranks 1, 2, …, min(n, k)
    - map: Σ p(r) / min(n, k), where p(r) is the number of targets at or before r, over r

    Where scores tie, it is the mean of the metric over all orders of what ties: a target that ties
    with everything has hit@10 = 10 / n_candidates. A group's ranks are places in one list, so all
    but dcg are at most 1. Targets that were each ranked among candidates of their own are lists of
    their own: give them `group=np.arange(n)` and average what comes back.

    Args:
        ranks: Of `full_ranks` or `sampled_ranks`; or exact ranks, whole numbers from 1, infinite
            if not ranked, `[n]`.
        group: Whose target it is, in 0 … n_groups − 1 and in any order, `[n]`.
        names: Any of `counterplay.metrics.formulas.METRICS`.
        k: Cut-offs.
        n_groups: The length of what comes back; the largest group + 1 if not given.

    Example:
        >>> ranks, users = np.array([1.0, 4.0, 2.0]), np.array([0, 0, 2])
        >>> ranking_metrics(ranks, users, names=["recall"], k=[3])
        {('recall', 3): array([0.5, nan, 1. ])}
        >>> constant = Ranks(above=np.array([0]), tied=np.array([19]))
        >>> ranking_metrics(constant, np.array([0]), names=["hit"], k=[10])
        {('hit', 10): array([0.5])}
    """
    _check_options(names, k)
    above, tied = _checked_ranks(ranks)
    group = np.asarray(group)
    n_groups = _checked_groups(above, group, n_groups)
    n_targets = np.bincount(group.astype(np.int64), minlength=n_groups)
    within = above < max(k, default=0)
    blocks = TiedBlocks(
        above[within].astype(np.int64),
        tied[within].astype(np.int64),
        group[within].astype(np.int64),
        n_targets,
    )
    found = {
        (name, cutoff): METRICS[name].formula(blocks, cutoff) for cutoff in k for name in names
    }
    for values in found.values():
        values[n_targets == 0] = np.nan
    return found


def _check_options(names: Sequence[str], k: Sequence[int]) -> None:
    for name in names:
        known(name)
    for cutoff in k:
        if not isinstance(cutoff, int | np.integer) or cutoff < 1:
            raise ConfigError(
                f"a cut-off k must be a whole number of 1 or more; found {cutoff!r}; "
                "give the lengths of lists, such as 5, 10, 20"
            )


def _checked_ranks(ranks: Ranks | Floats) -> tuple[Numbers, Numbers]:
    """Return how many candidates are above each target and beside it; refuse what cannot be."""
    if isinstance(ranks, Ranks):
        above, tied = np.asarray(ranks.above), np.asarray(ranks.tied)
        wrong = ~((above >= 0) & (tied >= 0)) if above.shape == tied.shape else np.ones(1, np.bool_)
        if wrong.any() or above.dtype.kind not in "iu" or tied.dtype.kind not in "iu":
            raise DataError(
                "ranks must have two columns of whole numbers of 0 or more, above and tied; found "
                f"{above.dtype} {above.shape} and {tied.dtype} {tied.shape}; count candidates"
            )
        return above, tied
    places = np.asarray(ranks, dtype=np.float64)
    wrong = ~((places >= 1) & (np.floor(places) == places))
    if wrong.any():
        row = np.unravel_index(int(wrong.argmax()), wrong.shape)
        raise DataError(
            f"ranks must be whole numbers from 1; found {places[row]} in row {int(row[0])}; count "
            "places from 1, give Ranks(above, tied) where scores tie, and look for scores that are "
            "not numbers"
        )
    return places - 1, np.zeros(places.shape, dtype=np.int64)


def _checked_groups(ranks: Numbers, group: Integers, n_groups: int | None) -> int:
    """Refuse what cannot be groups of the ranks; return their number."""
    check_columns("ranks and groups", ranks, group, "give both for each target", least=0)
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


def rating_errors(predicted: Floats, rating: Numbers) -> dict[Literal["mse", "mae"], Doubles]:
    """Return `(predicted − rating)²` and `|predicted − rating|` of every row, `[n]` each."""
    predicted, truth = np.asarray(predicted, np.float64), np.asarray(rating, np.float64)
    check_columns("predictions and ratings", predicted, truth, "give both of each row", least=0)
    error = predicted - truth
    return {"mse": error**2, "mae": np.abs(error)}


def coverage(items: Integers, n_items: int) -> float:
    """Return the share of items that any of the lists `[U, k]` has; -1 is padding."""
    return float(np.mean(_times_recommended(items, n_items) > 0))


def gini_of_lists(items: Integers, n_items: int) -> float:
    """Return the Gini coefficient of how often the lists `[U, k]` have each item; -1 is padding.

    It is 0 where all items are recommended equally often, 1 − 1/n where one takes every place.

    Example:
        >>> gini_of_lists(np.array([[0, 1], [1, -1]]), n_items=4)  # 0, 0, 1 and 2 times
        0.5833333333333334
    """
    from counterplay.data.profiling import gini  # which reads tables: ranks need none

    return gini(_times_recommended(items, n_items, least=1))


def mean_popularity(items: Integers, events: Integers) -> float:
    """Return the mean training events `[n_items]` of what lists `[U, k]` have; -1 is padding."""
    times = _times_recommended(items, len(events), least=1)
    return float((times @ np.asarray(events, dtype=np.float64)) / times.sum())


def _times_recommended(items: Integers, n_items: int, *, least: int = 0) -> NDArray[np.int64]:
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
