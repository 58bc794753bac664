"""Ranks of targets among their candidates, by counting: nothing is sorted.

A rank is 1 for the best. Where scores tie, a target has no one rank: candidates above it and beside
it are counted, and `ranking_metrics` takes the mean of a metric over the tied places. What a user
has in training is no candidate, unless it is the target itself. Work goes in chunks under a budget
of memory. A model is asked for the same number of users each time, because matrix products round
differently by shape: so results do not depend on the budget, unless it is tiny. Very many items are
counted block by block: what is above a target in each block adds up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from counterplay.errors import ConfigError, DataError, TooFewError
from counterplay.metrics.blocks import BLOCK, Elsewhere, block_scores, blocks_of
from counterplay.threads import in_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from counterplay.data.interactions import Interactions
    from counterplay.metrics.arrays import Flags, Floats, Integers
    from counterplay.metrics.scoring import Scores

Found = TypeVar("Found")
MEMORY = 1 << 28  # bytes, by default
_AT_ONCE = 1 << 20  # scores that are computed at a time, if memory allows: they stay in a cache
_ROWS = 32, 1 << 10  # users that a model is asked for at a time, at least and at most
_BYTES_A_SCORE = 32  # a number, what a model holds to compute it, and what is done with it
_COUNTED = 1 << 18  # scores that are counted at a time


@dataclass(frozen=True, slots=True, eq=False)
class Ranks:
    """Where targets stand: each on one of the places above + 1 … above + tied + 1.

    Ties are broken at random, so each of these places is equally likely.
    """

    above: NDArray[np.int64]  #: Candidates with a better score, `[n]`.
    tied: NDArray[np.int64]  #: Other candidates with the same score, `[n]`.

    def __len__(self) -> int:
        return len(self.above)

    @property
    def expected(self) -> NDArray[np.float64]:
        """The mean rank, `1 + above + tied / 2`; the mean of a metric is no function of it."""
        return 1 + self.above + self.tied / 2


def full_ranks(
    scores: Scores,
    targets: Interactions,
    seen: Interactions,
    *,
    memory: int = MEMORY,
    at_once: int | None = None,
    block: int = BLOCK,
    progress: Callable[[int], None] = lambda _: None,
) -> Ranks:
    """Return where each target stands among all items that its user has not `seen`, `[n]`.

    What has no score, −inf, comes last, in an order that chance decides; lists leave it out. A
    model is asked for `at_once` users, by default `rows_at_once`, and for a `block` of items.
    `progress` is called with the number of targets so far.
    """
    if isinstance(scores, Elsewhere):
        return scores.full_ranks(targets, seen, memory)
    above, tied = np.empty((2, len(targets)), dtype=np.int64)
    users, place = np.unique(targets.user, return_inverse=True)
    blocks = blocks_of(seen.n_items, block)

    def count(part: slice, asked: Integers) -> None:
        begin, end = np.searchsorted(place, [part.start, part.stop])
        rows, items = place[begin:end] - part.start, targets.item[begin:end]

        def ask(some: slice) -> Floats:
            found = block_scores(scores, asked, some, seen.n_items)
            return checked(found[: part.stop - part.start])

        def conceal(found: Floats, some: slice) -> Floats:
            return hide(found, users[part], seen, some.start)

        above[begin:end], tied[begin:end] = _standing(ask, conceal, blocks, rows, items)

    for part, _ in in_parts(count, users, min(block, seen.n_items), memory, at_once):
        progress(int(np.searchsorted(place, part.stop)))
    return Ranks(above, tied)


def _standing(
    ask: Callable[[slice], Floats],
    conceal: Callable[[Floats, slice], Floats],
    blocks: Sequence[slice],
    rows: NDArray[np.int64],
    items: Integers,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return how many candidates are above targets and beside them, block by block, `[n]` each.

    Args:
        ask: Scores of a block of items, `[B, block]`.
        conceal: Makes what was seen incomparable in them.
        blocks: All items.
        rows: Of the scores, whose targets they are, `[n]`.
        items: The targets, `[n]`.
    """
    mine = [np.flatnonzero((items >= each.start) & (items < each.stop)) for each in blocks]
    found: Floats = np.empty((0, 0))
    wanted: Floats = np.zeros(len(items))
    last = 0
    for number in (number for number, own in enumerate(mine) if len(own)):
        # A target's score is taken from its block, which rounds as it does when it is counted.
        found, last, own = ask(blocks[number]), number, mine[number]
        wanted = wanted.astype(found.dtype, copy=False)
        wanted[own] = found[rows[own], items[own] - blocks[number].start]
    above, beside = np.zeros((2, len(items)), dtype=np.int64)
    for number in (last, *(each for each in range(len(blocks)) if each != last)):
        each, own = blocks[number], mine[number]
        found = conceal(found if number == last else ask(each), each)
        hidden = np.isnan(found[rows[own], items[own] - each.start])  # seen by their users too
        beside[own] -= ~hidden  # a target that is not hidden is beside itself
        more, equal = _counted(found, rows, wanted)
        above += more
        beside += equal
    return above, beside


def sampled_ranks(
    scores: Scores,
    users: Integers,
    candidates: Integers,
    *,
    memory: int = MEMORY,
    at_once: int | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> Ranks:
    """Return where each row's first candidate stands among all of the row `[n, 1 + n_sampled]`."""
    if isinstance(scores, Elsewhere):
        return scores.sampled_ranks(users, candidates, memory)
    above, tied = np.empty((2, len(users)), dtype=np.int64)
    size = at_once or rows_at_once(len(users), candidates.shape[1], memory)
    for part, rows in _parts(np.arange(len(users)), size):
        found = scores.of(users[rows], candidates[rows])[: part.stop - part.start]
        ranks = ranks_of_first(checked(found))
        above[part], tied[part] = ranks.above, ranks.tied
        progress(part.stop)
    return Ranks(above, tied)


def in_parts(
    work: Callable[[slice, Integers], Found],
    users: Integers,
    n_scores: int,
    memory: int,
    at_once: int | None = None,
) -> Iterator[tuple[slice, Found]]:
    """Yield parts of `users` in order, with what `work` makes of them.

    Each part is worked on by one thread, with room for `n_scores` of each of its users. `work` also
    gets the users to ask a model for: the part, filled up to the length of all parts.
    """
    size = at_once or rows_at_once(len(users), n_scores, memory)
    most = _fitting(n_scores, memory) // size
    for (place, _), found in in_threads(lambda part: work(*part), _parts(users, size), most):
        yield place, found


def with_all_scores(
    work: Callable[[slice, Floats], Found],
    scores: Scores,
    users: Integers,
    n_items: int,
    memory: int,
    at_once: int | None = None,
) -> Iterator[tuple[slice, Found]]:
    """Yield parts of `users` in order, with what `work` makes of their scores of all items.

    The scores, `[part, n_items]`, are free to be changed. Parts are worked on at the same time.
    """

    def score(place: slice, asked: Integers) -> Found:
        return work(place, checked(scores.of_all(asked)[: place.stop - place.start]))

    yield from in_parts(score, users, n_items, memory, at_once)


def hide(found: Floats, users: Integers, seen: Interactions, first: int = 0) -> Floats:
    """Make what the users have seen incomparable: NaN is neither above nor below a target.

    `first` is the item of the first column, where the scores are those of a block.
    """
    begins = seen.offsets[users]
    lengths = seen.offsets[users + 1] - begins
    rows = np.repeat(np.arange(len(users)), lengths)
    within = np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    items = seen.item[begins[rows] + within] - first
    if found.shape[1] < seen.n_items:
        here = (items >= 0) & (items < found.shape[1])
        rows, items = rows[here], items[here]
    found[rows, items] = np.nan
    return found


def _parts(values: Integers, size: int) -> Iterator[tuple[slice, Integers]]:
    """Yield parts of `values`, all of one length; the last is filled up with its last value."""
    for begin in range(0, len(values), size):
        part = slice(begin, min(begin + size, len(values)))
        fill = np.repeat(values[part.stop - 1 :][:1], size - (part.stop - part.start))
        yield part, np.concatenate([values[part], fill])


def rows_at_once(n_rows: int, n_scores: int, memory: int) -> int:
    """Return for how many of `n_rows` a model is asked at a time, `n_scores` of each."""
    few, many = _ROWS
    fitting = _fitting(n_scores, memory)
    return max(1, min(fitting, max(few, _AT_ONCE // max(n_scores, 1)), many, n_rows))


def _fitting(n_scores: int, memory: int) -> int:
    """Return of how many rows the memory holds the scores."""
    fitting = memory // (_BYTES_A_SCORE * max(n_scores, 1))
    if fitting < 1:
        raise ConfigError(
            f"the memory must hold one user's scores of {n_scores:,} items, "
            f"{_BYTES_A_SCORE * n_scores:,} bytes; found {memory:,}; raise it"
        )
    return fitting


def checked(found: Floats) -> Floats:
    """Refuse scores that cannot be compared."""
    if found.size and np.isnan(found.min()):
        raise DataError(
            f"scores must be numbers; found {int(np.isnan(found).sum()):,} that are none among "
            f"{found.size:,}; train again, or correct the scores"
        )
    return found


def _counted(
    found: Floats, rows: NDArray[np.int64], wanted: Floats
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return how many scores of a row are above the wanted one, and how many equal it, `[n]` each.

    Blocks stay in the processor's cache.
    """
    n_items = found.shape[1]
    size = max(1, _COUNTED // n_items)
    n_words = -(-n_items // 8)
    a_sum = min(n_words, 255)
    flags = np.zeros((min(size, len(rows)), -(-n_words // a_sum), a_sum * 8), dtype=np.bool_)
    flat = flags.reshape(len(flags), -1)
    above, beside = np.empty((2, len(rows)), dtype=np.int64)
    for begin in range(0, len(rows), size):
        part = rows[begin : begin + size]
        n, one_by_one = len(part), bool((np.diff(part) == 1).all())
        block = found[part[0] : part[-1] + 1] if one_by_one else found[part]
        value, flag = wanted[begin : begin + size, None], flat[:n, :n_items]
        np.greater(block, value, out=flag)
        above[begin : begin + n] = _sums(flags[:n])
        np.equal(block, value, out=flag)
        beside[begin : begin + n] = _sums(flags[:n])
    return above, beside


def _sums(flags: Flags) -> NDArray[np.int64]:
    """Count flags `[n, m, 8 k]` by row, eight at a time: k ≤ 255 words add up without a carry."""
    words = flags.view(np.uint64).sum(2)
    counts: NDArray[np.int64] = words.view(np.uint8).sum(1, dtype=np.int64)
    return counts


def ranks_of_first(scores: Floats) -> Ranks:
    """Return where each row's first score stands among all of the row."""
    first, others = scores[:, :1], scores[:, 1:]
    return Ranks((others > first).sum(1), (others == first).sum(1))


def sampled_candidates(
    seen: Interactions, targets: Interactions, n: int, rng: np.random.Generator
) -> NDArray[np.int32]:
    """Return each target's item and `n` distinct other items that its user has not seen.

    The paper's protocol: uniform negatives that are neither in `seen` nor the target. Draw once,
    and use the same candidates for every model, `[len(targets), 1 + n]`.
    """
    from counterplay.data.negatives import NegativeSampler  # which reads tables

    known = NegativeSampler(_both(seen, targets))
    room = known.n_unseen(targets.user)
    if len(room) and int(room.min()) < n:
        raise TooFewError(
            f"every user must have {n:,} unseen items to be ranked among; found one with "
            f"{int(room.min()):,}; take fewer negatives, or rank among all items"
        )
    drawn = known.draw(targets.user, n, rng)
    while True:  # items that occur twice in a row are drawn again: the others stay as they are
        order = np.argsort(drawn, axis=1, kind="stable")
        ordered = np.take_along_axis(drawn, order, axis=1)
        again = np.zeros(drawn.shape, dtype=np.bool_)
        np.put_along_axis(again, order[:, 1:], ordered[:, 1:] == ordered[:, :-1], axis=1)
        rows = np.nonzero(again)[0]
        if not len(rows):
            return np.concatenate([targets.item[:, None], drawn], axis=1)
        drawn[again] = known.draw(targets.user[rows], 1, rng)[:, 0]


def _both(seen: Interactions, targets: Interactions) -> Interactions:
    """Return the pairs of two logs with the same vocabularies as one log."""
    user = np.concatenate([seen.user, targets.user])
    order = np.argsort(user, kind="stable")
    item = np.concatenate([seen.item, targets.item])
    return type(seen)(seen.users, seen.items, user[order], item[order])
