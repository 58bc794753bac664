"""What lists are like besides being right: how new, how varied, and how popular their items are.

One number a list, so that intervals over users come as for any mean. With c_i the users who have
item i in training, n of them in all, and a user's list of m items:

- novelty: the mean of log2((n + 1) / (c_i + 1)), the self-information of an item in bits; 0 for
  what everybody has (Zhou et al. 2010; Vargas and Castells 2011).
- diversity: 1 − the mean of cos(i, j) over the pairs of the list, where the cosine is that of the
  users who have each, |U_i ∩ U_j| / √(c_i · c_j) (Ziegler et al. 2005); an item that nobody has is
  like no other.
- popularity lift: Σ_u the mean events of u's list / Σ_u the mean events of u's history, minus 1; 0
  where lists are as popular as what users chose (Abdollahpouri et al. 2020).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array

from counterplay.errors import DataError
from counterplay.metrics.intervals import bootstrap, interval

if TYPE_CHECKING:
    from counterplay.metrics.arrays import Doubles, Floats, Integers, Numbers

_ENTRIES = 1 << 22  # of sparse sums at a time


def novelty(lists: Integers, n_users_of: Integers, n_users: int) -> Doubles:
    """Return the mean self-information of each list `[U, k]` in bits, `[U]`; -1 is padding.

    `n_users_of` `[n_items]` are the users who have each item; a list of nothing has NaN.

    Example:
        >>> novelty(np.array([[0, 1], [1, -1]]), n_users_of=np.array([3, 0]), n_users=3)
        array([1., 2.])
    """
    return means_of_lists(lists, np.log2((n_users + 1) / (np.asarray(n_users_of) + 1)))


def means_of_lists(lists: Integers, numbers: Numbers) -> Doubles:
    """Return the mean of the items' numbers `[n_items]` over each list `[U, k]`, `[U]`."""
    lists = _checked(lists, len(numbers))
    there = lists >= 0
    sums = np.where(there, np.asarray(numbers, np.float64)[lists], 0.0).sum(axis=1)
    return _divided(sums, there.sum(axis=1))


def intra_list_diversity(
    lists: Integers, users: Integers, items: Integers, n_items: int
) -> Doubles:
    """Return 1 − the mean cosine of the pairs of each list `[U, k]`, `[U]`; -1 is padding.

    `users` and `items` `[n]` say who has what, each pair once. A list of fewer than two items has
    NaN. The sum over pairs is (‖Σ x_i‖² − Σ ‖x_i‖²) / 2 with x_i the unit vector of an item's
    users, so no matrix of items by items is made.

    Example:
        >>> who, what = np.array([0, 1, 1]), np.array([0, 0, 1])
        >>> intra_list_diversity(np.array([[0, 1]]), who, what, n_items=2).round(3)
        array([0.293])
    """
    lists = _checked(lists, n_items)
    n_users_of = np.bincount(items, minlength=n_items)
    lengths = 1 / np.sqrt(np.maximum(n_users_of, 1))
    n_users = int(np.max(users, initial=0)) + 1
    unit = csr_array((lengths[items], (items, users)), shape=(n_items, n_users))
    there = lists >= 0
    n_listed, total = there.sum(axis=1), np.zeros(len(lists))
    step = max(1, _ENTRIES // max(1, lists.shape[1] * int(n_users_of.max(initial=1))))
    for begin in range(0, len(lists), step):
        part = slice(begin, begin + step)
        row, place = np.nonzero(there[part])
        listed = lists[part][row, place]
        shape = (len(lists[part]), n_items)
        sums = csr_array((np.ones(len(row)), (row, listed)), shape=shape) @ unit
        own = np.bincount(row, n_users_of[listed] > 0, minlength=shape[0])  # Σ ‖x_i‖²
        total[part] = sums.multiply(sums).sum(axis=1) - own
    found: Doubles = np.clip(1 - _divided(total, n_listed * (n_listed - 1)), 0, 1)  # but rounding
    return found


def popularity_lift(of_lists: Floats, of_histories: Floats) -> float:
    """Return Σ of the mean events of users' lists / Σ of those of their histories, minus 1.

    Both are `[U]`; a user with NaN in one is left out of both.

    Example:
        >>> popularity_lift(np.array([6.0, 6.0]), np.array([3.0, 5.0]))
        0.5
    """
    above, below = _both(of_lists, of_histories)
    return float(above.sum() / below.sum() - 1) if below.sum() else float("nan")


def with_interval(
    numerators: Floats,
    denominators: Floats,
    rng: np.random.Generator,
    *,
    level: float = 0.95,
    n_resamples: int = 200,
) -> tuple[int, float, float, float]:
    """Return how many users count, Σ numerators / Σ denominators, and its interval over users.

    Users with NaN in one are left out; without any the rest is NaN.
    """
    above, below = _both(numerators, denominators)
    if not len(above) or not below.sum():
        return 0, np.nan, np.nan, np.nan
    resamples = bootstrap(above, below, np.arange(len(above)), rng, n_resamples=n_resamples)
    low, high = interval(resamples[:, 0], level)
    return len(above), float(above.sum() / below.sum()), float(low), float(high)


def _both(first: Floats, second: Floats) -> tuple[Doubles, Doubles]:
    if first.shape != second.shape or first.ndim != 1:
        raise DataError(
            "lists and histories must be those of the same users; found the shapes "
            f"{first.shape} and {second.shape}; give a number a user in both"
        )
    known = ~(np.isnan(first) | np.isnan(second))
    return first[known].astype(np.float64), second[known].astype(np.float64)


def _divided(sums: Doubles, counts: Integers) -> Doubles:
    """Return sums by counts, NaN where there is nothing to divide by."""
    found = np.full(len(sums), np.nan)
    np.divide(sums, counts, out=found, where=counts > 0)
    return found


def _checked(lists: Integers, n_items: int) -> Integers:
    lists = np.asarray(lists)
    if lists.ndim != 2 or lists.dtype.kind not in "iu" or lists.max(initial=-1) >= n_items:
        raise DataError(
            f"lists must be indices of items [n_users, k] below n_items = {n_items:,}, with -1 for "
            f"padding; found {lists.dtype} of shape {lists.shape} up to {lists.max(initial=-1)}; "
            "give what top_k returns"
        )
    return lists
