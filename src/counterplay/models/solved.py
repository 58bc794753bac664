"""Models that are computed from a log at once, and those that score by a user's own items."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
from scipy import sparse
from torch import Tensor
from torch.nn import functional as F

from counterplay.data.canonical import offsets_of
from counterplay.models.scorer import History, Scorer
from counterplay.threads import in_threads

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from numpy.typing import NDArray

    from counterplay.data.interactions import Interactions

_BLOCK = 1 << 20  # numbers that are held at a time, when pairs are scored
_ITEMS = 64  # that are compared with all others at a time
_FASTER = 30  # how much faster a step of dense products is than one of sparse products, about
_USERS = 1 << 18  # beyond which their table is too large for it


class Solved:
    """A model in closed form, or solved without gradients; `of` returns it empty.

    It is fitted by `solve`, which the training loop calls once.
    """

    name: ClassVar[str]  #: What messages call it.

    def solve(self, log: Interactions, weights: NDArray[np.float64] | None = None) -> None:
        """Compute it from the rows of a log; `weights` `[n]` have a mean of 1, None means 1."""
        raise NotImplementedError


def clicks_of(log: Interactions, weights: NDArray[np.float64] | None = None) -> sparse.csr_array:
    """Return users by items: 1 for a pair that occurs, or the mean weight of its rows."""
    values = np.ones(len(log.distinct_pairs))
    if weights is not None:
        place = np.searchsorted(log.distinct_pairs, log.pair)
        values = np.bincount(place, weights) / np.bincount(place)
    user, item = np.divmod(log.distinct_pairs, log.n_items)
    begins = offsets_of(user.astype(np.int32), log.n_users)
    parts = values.astype(np.float32), item.astype(np.int32), begins
    return sparse.csr_array(parts, shape=(log.n_users, log.n_items))


def item_products(
    clicks: sparse.csr_array, use: Callable[[slice, Any], None], *, half: bool = False
) -> None:
    """Give `use` the products of items, `X'X`, some rows at a time, in several threads.

    With `half` a block begins at its own column: what is below the diagonal is left out.
    """
    n_users, n_items = clicks.shape
    by_item, each = clicks.T.tocsr(), np.diff(clicks.indptr).astype(np.int64)
    dense = n_users <= _USERS and clicks.nnz * n_items <= _FASTER * int((each**2).sum())
    products = _DenseProducts(by_item) if dense else _SparseProducts(by_item, clicks)

    def block(rows: slice) -> None:
        use(rows, products.of(rows, rows.start if half else 0))

    blocks = (slice(begin, min(begin + _ITEMS, n_items)) for begin in range(0, n_items, _ITEMS))
    for _ in in_threads(block, blocks, most=n_items):
        pass


class _SparseProducts:
    """Products of items with few common users: entry by entry."""

    def __init__(self, by_item: sparse.csr_array, clicks: sparse.csr_array) -> None:
        self._by_item, self._clicks = by_item, clicks

    def of(self, rows: slice, begin: int) -> NDArray[np.float32]:
        columns = self._clicks[:, begin:] if begin else self._clicks
        found: NDArray[np.float32] = (self._by_item[rows] @ columns).toarray()
        return found


class _DenseProducts:
    """Products of items with many: sums of dense rows, which take more steps and less time."""

    def __init__(self, by_item: sparse.csr_array) -> None:
        self._begins, self._users = (
            torch.from_numpy(each.astype(np.int64)) for each in (by_item.indptr, by_item.indices)
        )
        self._values, self._n_users = torch.from_numpy(by_item.data), by_item.shape[1]
        self._alike = bool((self._values == 1).all())

    def of(self, rows: slice, begin: int) -> NDArray[np.float32]:
        n, begins = rows.stop - rows.start, self._begins
        own = slice(int(begins[rows.start]), int(begins[rows.stop]))
        counts = begins[rows.start : rows.stop + 1].diff()
        table = torch.zeros(self._n_users, n)
        table[self._users[own], torch.arange(n).repeat_interleave(counts)] = self._values[own]
        first = int(begins[begin])
        sums = F.embedding_bag(
            self._users[first:],
            table,
            begins[begin:] - first,
            mode="sum",
            per_sample_weights=None if self._alike else self._values[first:],
            include_last_offset=True,
        )  # [n_items - begin, n]
        return sums.T.contiguous().numpy()


class FromOwnItems(Solved, Scorer):
    """A score that adds up what each of the user's own training items says of an item.

    Those items come from the log that the model is made for, and are no part of its state. Who has
    none, as an unknown user (-1), scores 0; and so does an unknown item.
    """

    learns_each_user = True
    own: Tensor
    begins: Tensor
    counts: Tensor

    def __init__(self, log: Interactions) -> None:
        super().__init__(log.n_users, log.n_items)
        self.know(log)

    def know(self, log: Interactions) -> None:
        """Let its users be those of a log, with their items."""
        clicks = clicks_of(log)
        parts = {
            "own": clicks.indices,  # [n_pairs]
            "begins": np.append(clicks.indptr[:-1], 0),  # [n_users + 1], the last is unknown
            "counts": np.append(np.diff(clicks.indptr), 0),
        }
        for name, values in parts.items():
            values = torch.from_numpy(values.astype(np.int64))
            self.register_buffer(name, values, persistent=False)

    def effects(self, sources: Tensor, items: Tensor) -> Tensor:
        """Return what `sources` `[n]` say of `items` `[n, K]`, `[n, K]`."""
        raise NotImplementedError

    def forward(self, users: Tensor, items: Tensor, history: History | None = None) -> Tensor:
        """Return the scores of `items` `[B, K]`."""
        known, n_items = items.clamp(min=0), items.shape[1]
        scores = torch.zeros(items.shape, device=items.device)
        longest = int(self.counts[users].max()) if len(users) else 0
        size = max(1, _BLOCK // max(1, n_items * longest))
        for begin in range(0, len(users), size):
            part = slice(begin, begin + size)
            sources, query, _ = self.sources(users[part])
            scores[part].index_add_(0, query, self.effects(sources, known[part][query]))
        return scores.masked_fill_(items < 0, 0)

    def sources(self, users: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the items of `users` `[B]`, the query of each, and where each query begins."""
        counts = self.counts[users]
        begins = torch.cumsum(counts, 0) - counts
        query = torch.repeat_interleave(torch.arange(len(users), device=users.device), counts)
        place = torch.arange(len(query), device=users.device) - begins[query]
        return self.own[self.begins[users][query] + place], query, begins
