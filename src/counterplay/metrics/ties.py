"""Means of ranking metrics over all orders of what ties.

Targets of one list whose scores tie are a block: m targets and s − m others share the places
a + 1 … a + s, in an order that chance decides, and blocks do not know of each other. With N
targets in the blocks before and c of the block's places within k, a block adds

    their number        m · c / s
    Σ 1 / log2(1 + r)   m / s · Σ over r of 1 / log2(1 + r)
    Σ p(r)              m / s · Σ over r of (N + 1 + (r − a − 1) (m − 1) / (s − 1)) / r

with r over the c places, and p(r) the number of targets at or before r, over r: given a target at
r, each of the m − 1 others is before it with probability (r − a − 1) / (s − 1). The best target of
a list is in its first block, at the block's place j with probability

    M(j − 1) · m / (s − j + 1),     M(j) = Π over i < j of (s − m − i) / (s − i)

where M(j) is the probability that none is on the first j places.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from counterplay.metrics.arrays import Doubles

    Counts = NDArray[np.int64]


class TiedBlocks:
    """The targets within the largest cut-off, by group and place; those that tie are a block.

    Candidates `above` each target and `tied` with it, and the target's `group`, are `[n]`; the
    groups' numbers of targets `n`, within the cut-off or not, `[n_groups]`.
    """

    def __init__(self, above: Counts, tied: Counts, group: Counts, n: Counts) -> None:
        self.n = n
        if (group[1:] > group[:-1]).all():  # one target a group
            self.group, self.above, self.size = group, above, tied + 1
            self.targets, self.before = np.ones_like(above), np.zeros_like(above)
            self.is_first = np.ones(len(above), dtype=np.bool_)
        else:
            self._gather(above, tied, group)
        longest = int(np.max(self.above + self.size, initial=0))
        places = np.arange(1.0, longest + 1)
        self._gains = 1 / np.log2(1 + places)
        self._inverses = 1 / places

    def _gather(self, above: Counts, tied: Counts, group: Counts) -> None:
        """Put targets that tie together, list by list, from the top down."""
        order = np.lexsort((above, group))
        above, tied, group = above[order], tied[order], group[order]
        begins = np.flatnonzero(
            (np.diff(group, prepend=-1) != 0) | (np.diff(above, prepend=-1) != 0)
        )
        self.group, self.above = group[begins], above[begins]
        self.targets = np.diff(begins, append=len(above))
        self.size = np.maximum(np.maximum.reduceat(tied, begins) + 1, self.targets)
        self.is_first = np.diff(self.group, prepend=-1) != 0
        of_group = np.cumsum(self.is_first) - 1
        self.before = begins - begins[self.is_first][of_group]
        self._push_down(of_group)

    def _push_down(self, of_group: Counts) -> None:
        """Let no two blocks of a list overlap: rows that occur twice take a place each.

        A block begins after the one before, at the earliest: at the largest of `above_j` + the
        sizes from j on, over the blocks j up to it.
        """
        sizes = np.cumsum(self.size) - self.size
        sizes -= sizes[self.is_first][of_group]  # of the list's blocks before
        free = self.above - sizes
        apart = of_group * (int(np.ptp(free)) + 1)  # lists do not reach into each other
        self.above = np.maximum.accumulate(free + apart) - apart + sizes

    def hit(self, k: int) -> Doubles:
        """Return the probability of a target within k, `[n_groups]`."""
        return self._total(self._of_first(k)[0])

    def first(self, k: int) -> Doubles:
        """Return the mean of 1 / the best rank, 0 beyond k, `[n_groups]`."""
        return self._total(self._of_first(k)[1])

    def count(self, k: int) -> Doubles:
        """Return the mean number of targets within k, `[n_groups]`."""
        return self._total(self.targets * self._within(k) / self.size)

    def dcg(self, k: int) -> Doubles:
        """Return the mean of Σ 1 / log2(1 + r) over ranks r within k, `[n_groups]`."""
        return self._total(self.targets / self.size * self._sums(self._gains, k))

    def precisions(self, k: int) -> Doubles:
        """Return the mean of Σ p(r) over targets within k, `[n_groups]`."""
        inverses = self._sums(self._inverses, k)
        # Σ (r − a − 1) / r = c − (a + 1) Σ 1 / r
        earlier = self._within(k) - (self.above + 1) * inverses
        others = (self.targets - 1) / np.maximum(self.size - 1, 1)
        share = self.targets / self.size  # how likely each of a block's places has a target
        return self._total(share * ((self.before + 1) * inverses + others * earlier))

    def possible(self, k: int) -> Counts:
        """Return the hits that a list of k may have, `[n_groups]`; 1 where there are no targets."""
        return np.clip(self.n, 1, k)

    def ideal(self, k: int) -> Doubles:
        """Return the dcg of a list of k that begins with all of the targets, `[n_groups]`."""
        possible = self.possible(k)
        dcg = np.cumsum(1 / np.log2(1 + np.arange(1.0, possible.max(initial=1) + 1)))
        best: Doubles = dcg[possible - 1]
        return best

    def _within(self, k: int) -> Counts:
        """Return how many of each block's places are within k."""
        return np.clip(k - self.above, 0, self.size)

    def _sums(self, values: Doubles, k: int) -> Doubles:
        """Add `values` of places up over each block's places within k."""
        within = self._within(k)
        up_to = np.concatenate([[0.0], np.cumsum(values)])
        sums: Doubles = up_to[self.above + within] - up_to[self.above]
        alone = within == 1  # exactly, not by a difference
        sums[alone] = values[self.above[alone]]
        return sums

    def _of_first(self, k: int) -> tuple[Doubles, Doubles]:
        """Return the probability of a list's best target within k, and the mean of its 1 / r.

        Both are 0 for blocks that are not the first of their list.
        """
        within = self._within(k)
        hit, inverse = within / self.size, self._sums(self._inverses, k) / self.size  # of 1 target
        several = np.flatnonzero(self.is_first & (self.targets > 1))
        above, size, m, c = (
            each[several] for each in (self.above, self.size, self.targets, within)
        )
        missed, mean = np.ones(len(several)), np.zeros(len(several))
        for place in range(int(c.max(initial=0))):
            reached = np.where(
                place < c, missed * np.minimum(m / np.maximum(size - place, 1), 1), 0
            )
            mean += reached / (above + place + 1)
            missed -= reached
        hit[several], inverse[several] = 1 - missed, mean
        return hit * self.is_first, inverse * self.is_first

    def _total(self, values: Doubles) -> Doubles:
        """Add blocks up to groups, `[n_groups]`."""
        return np.bincount(self.group, values, len(self.n)).astype(np.float64, copy=False)
