"""Sums over users of what a click model says of each item, block by block of users.

    log Σ_u a_u exp((1 − λ) · w · x(u, i))
    x_k(u, i) = −log(rank_k(u, i) + 5) + log(n_items / 2)        one feature a candidate k

a_u are the shares of users in the clicks. The sums run over users who have not seen the item,
because that is where w was fitted. No table of users × items is made: where users are many, a
sample of them drawn by a_u stands for all, with a stated standard error. Groups of users can be
added up elsewhere, as the jobs of a ranking.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.metrics.blocks import Elsewhere
from counterplay.metrics.ranks import (
    MEMORY,
    full_ranks,
    hide,
    rows_at_once,
    with_all_scores,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from counterplay.data.interactions import Interactions
    from counterplay.metrics.scoring import Scores

    Floats = NDArray[np.float64]

SUMMED = 1 << 23  # pairs of users and items in the sums; of more users a sample is drawn
_OFFSET = 5.0  # added to a rank: the first few places are nearly alike
_FEWEST = 256  # users of a sample
# Groups of users, whose sums are added one after the other, whoever made them: to the same bytes.
_GROUPS = 16


@dataclass(frozen=True, slots=True, eq=False)
class ItemSums:
    """The sums over users that T is centred by, and A_λ.

    Attributes:
        lambdas: Of the sums; the first is 0.
        logs: `log Σ_u a_u exp((1 − λ) · w · x(u, i))`, `[L, n_items]`.
        errors: Standard error of log q at each λ that the sample of users causes, `[L, n_items]`;
            0 where all users are in the sums.
        n_users: How many different users are in them.
    """

    lambdas: tuple[float, ...]
    logs: Floats
    errors: Floats
    n_users: int

    @property
    def shifts(self) -> Floats:
        """A_λ of each item, `[L, n_items]`."""
        shifts: Floats = self.logs - (1 - np.array(self.lambdas))[:, None] * self.logs[0]
        return shifts


def rank_features(ranks: NDArray[np.floating], n_items: int) -> Floats:
    """Return `−log(rank + 5) + log(n_items / 2)`, of any shape: about 0 in the middle of a list."""
    features: Floats = np.log(n_items / 2) - np.log(np.asarray(ranks, np.float64) + _OFFSET)
    return features


def candidate_ranks(
    candidates: Sequence[Scores], rows: Interactions, seen: Interactions, *, memory: int = MEMORY
) -> Floats:
    """Return the mean rank of each row's item by each candidate, `[n, K]`."""
    found = np.empty((len(rows), len(candidates)))
    for place, scores in enumerate(candidates):
        found[:, place] = full_ranks(scores, rows, seen, memory=memory).expected
    return found


class Personal:
    """w · x(u, i) of all items, as scores."""

    def __init__(
        self, coefficients: Floats, candidates: Sequence[Scores], seen: Interactions
    ) -> None:
        self._parts = list(zip(coefficients.tolist(), candidates, strict=True))
        self._seen = seen

    def of_all(self, users: NDArray[np.integer]) -> Floats:
        """Return it for `users` `[B]`, `[B, n_items]`; of what they have seen it says nothing."""
        total = np.zeros((len(users), self._seen.n_items))
        for coefficient, scores in self._parts:
            ranks = all_ranks(hide(scores.of_all(users), users, self._seen))
            total += coefficient * rank_features(ranks, self._seen.n_items)
        return total

    def of(self, users: NDArray[np.integer], items: NDArray[np.integer]) -> Floats:
        """Return it for `items` `[B, K]` of `users` `[B]`, `[B, K]`."""
        return np.take_along_axis(self.of_all(users), items, axis=1)


def all_ranks(scores: NDArray[np.floating]) -> Floats:
    """Return the mean rank of every score of a row among those that are not NaN, `[B, n_items]`.

    Example:
        >>> all_ranks(np.array([[3.0, np.nan, 5.0, 3.0]]))[0, [0, 2, 3]]
        array([2.5, 1. , 2.5])
    """
    order = np.argsort(scores, axis=1, kind="stable")
    ordered = np.take_along_axis(scores, order, axis=1)
    place = np.broadcast_to(np.arange(scores.shape[1]), scores.shape)
    new = np.ones(scores.shape, dtype=np.bool_)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    begin = np.maximum.accumulate(np.where(new, place, 0), axis=1)
    last = np.ones(scores.shape, dtype=np.bool_)
    last[:, :-1] = new[:, 1:]
    ends = np.where(last, place, scores.shape[1])[:, ::-1]
    end = np.minimum.accumulate(ends, axis=1)[:, ::-1]
    n_there = (~np.isnan(scores)).sum(axis=1, keepdims=True)
    ranks = np.empty(scores.shape)
    np.put_along_axis(ranks, order, np.maximum(n_there - (begin + end) / 2, 1), axis=1)
    return ranks


def item_sums(
    coefficients: Floats,
    candidates: Sequence[Scores],
    seen: Interactions,
    lambdas: Sequence[float],
    rng: np.random.Generator,
    *,
    summed: int = SUMMED,
    memory: int = MEMORY,
) -> ItemSums:
    """Add up exp((1 − λ) · w · x) over users, by their clicks: all of them, or a sample.

    Args:
        coefficients: w, `[K]`.
        candidates: Whose ranks are the features, K of them.
        seen: What users have done: no pair of it is in the sums; its clicks are a_u.
        lambdas: Of the sums.
        rng: Of the sample.
        summed: Pairs of users and items to add up, about; where there are more, users are drawn
            with the probability a_u, with replacement.
        memory: Bytes at a time.
    """
    clicks = np.bincount(seen.user, minlength=seen.n_users)
    at_most = max(summed // seen.n_items, _FEWEST)
    sampled = np.count_nonzero(clicks) > at_most
    if sampled:
        clicks = rng.multinomial(at_most, clicks / clicks.sum())
    users = np.flatnonzero(clicks)
    shares = np.array([0.0, *(each for each in lambdas if each != 0)])
    at_once = rows_at_once(len(users), seen.n_items, memory)
    cuts = _groups(len(users), at_once)
    how: Any = {"memory": memory, "at_once": at_once}
    given = coefficients, candidates, users, clicks[users], shares, seen, cuts
    other = next((each for each in candidates if isinstance(each, Elsewhere)), None)
    groups = None if other is None else other.group_sums(*given, **how)
    total = np.zeros((3 * len(shares) + 1, seen.n_items))
    for each in group_sums(*given, **how) if groups is None else groups:
        total += each
    sums, there = total[:-1].reshape(3, len(shares), -1), total[-1]
    firsts, squares, crossed = sums
    nobody = there == 0  # an item that everybody has seen: nothing to centre by
    firsts[:, nobody] = there[nobody] = 1.0
    errors = np.zeros(firsts.shape)
    if sampled:
        variance = squares / firsts**2 + squares[0] / firsts[0] ** 2
        variance -= 2 * crossed / (firsts * firsts[0])
        errors = np.sqrt(np.maximum(variance, 0))
    return ItemSums(tuple(shares.tolist()), np.log(firsts / there), errors, len(users))


def _groups(n: int, at_once: int) -> list[int]:
    """Return where groups of `n` users begin, and where the last one ends; parts stay whole."""
    n_parts = -(-n // at_once)
    n_groups = max(1, min(_GROUPS, n_parts))
    return [min(n, n_parts * group // n_groups * at_once) for group in range(n_groups + 1)]


def group_sums(
    coefficients: Floats,
    candidates: Sequence[Scores],
    users: NDArray[np.integer],
    weights: NDArray[np.integer],
    shares: Floats,
    seen: Interactions,
    cuts: Sequence[int],
    *,
    memory: int,
    at_once: int,
) -> Iterator[Floats]:
    """Yield the sums of each group of users, the users between two cuts, `[3 L + 1, n_items]`.

    By λ they are those of r = exp((1 − λ) · w · x), of r², and of r · exp(w · x); the last row has
    the weights of all who have not seen the item.
    """

    def add(part: slice, found: NDArray[np.floating]) -> Floats:
        hidden = hide(np.asarray(found, np.float64), users[part], seen)
        weight = weights[part].astype(np.float64)
        there = ~np.isnan(hidden)
        plain = np.where(there, np.exp(hidden), 0.0)
        sums = np.empty((3 * len(shares) + 1, seen.n_items))
        for place, share in enumerate(shares):
            raised = np.where(there, np.exp((1 - share) * hidden), 0.0)
            sums[place :: len(shares)][:3] = (
                weight @ raised,
                weight @ raised**2,
                weight @ (raised * plain),
            )
        sums[-1] = weight @ there
        return sums

    personal, ends, total = Personal(coefficients, candidates, seen), set(cuts[1:]), None
    for part, more in with_all_scores(add, personal, users, seen.n_items, memory, at_once):
        total = more if total is None else np.add(total, more, out=total)
        if part.stop in ends:
            yield total
            total = None
