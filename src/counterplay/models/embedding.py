"""A vector for every user or item: its own, and what its features say."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from itertools import pairwise
from typing import TYPE_CHECKING, Self, TypedDict, Unpack

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from counterplay.models.item_tables import ItemTable
from counterplay.models.rows import Bags, bag_sums, dots, products, rows
from counterplay.models.scorer import Scorer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from counterplay.data.features import FeatureTable
    from counterplay.data.interactions import Interactions
    from counterplay.groups import Share
    from counterplay.models.registry import ModelSettings
    from counterplay.seeding import Streams


FEATURES = ("tokens", "offsets", "shares", "numbers")  # what an encoder knows of each id
_without_items: ContextVar[bool] = ContextVar("tables of items have no values yet", default=False)


@contextmanager
def without_items() -> Iterator[None]:
    """Let tables of items have no values, and take no memory, until `share_out` gives them some."""
    token = _without_items.set(True)
    try:
        yield
    finally:
        _without_items.reset(token)


class Embedding(nn.Module):
    """Vectors by index; -1, an id that training never saw, gets the mean of all vectors.

    With features, an id's own part starts at zero, so that an id without training rows is
    exactly what its features say; else it starts with the standard deviation `scale`.
    """

    def __init__(
        self,
        n: int,
        width: int,
        *,
        features: FeatureTable | None = None,
        scale: float = 0.1,
        generator: torch.Generator | None = None,
        of_items: bool = False,
    ) -> None:
        super().__init__()
        self._scale = 0.0 if features is not None else scale
        empty = of_items and _without_items.get()
        own = torch.empty(n, width, device="meta") if empty else self._initial(n, width, generator)
        self.own = nn.Parameter(own)
        self.items = ItemTable(self, "own") if of_items else None
        self.n_of_all: int | None = None  # rows on all workers, where these are one worker's
        self.taken_of: int | None = None  # rows of the table that these few were taken from
        self.sparse = False  # whether its gradient is: the optimizer decides
        self.can_be_sparse = True  # not where a model uses the whole table in training
        self.features = (
            None if features is None else FeatureEncoder(features, width, scale, generator)
        )

    def _initial(self, n: int, width: int, generator: torch.Generator | None) -> Tensor:
        own = torch.zeros(n, width)
        return own.normal_(0, self._scale, generator=generator) if self._scale else own

    @property
    def is_part(self) -> bool:
        """Whether other workers have other rows of the table."""
        return self.n_of_all is not None

    @property
    def n_values(self) -> int:
        """Number of its own values, on all workers."""
        of_all = self.n_of_all if self.items is None else self.items.n_of_all
        return (len(self.own) if of_all is None else of_all) * self.own.shape[1]

    def share_out(self, share: Share, streams: Streams, number: int) -> None:
        """Make a table without rows that of a worker's users, or fill one of items.

        Both start by shard. Of items, a worker holds all, or those of its shards.
        """
        if self.items is None:
            cuts, shards, name = list(share.bounds), share.shards, "users"
            self.n_of_all = share.n_users
        else:
            shards, name = share.shards if share.owns_items else range(share.n_shards), "items"
            n = len(self.own)
            cuts = [share.items_of(each, n) for each in range(shards.start, shards.stop + 1)]
            self.items.n_of_all = n if share.owns_items else None
        parts = [
            self._initial(end - begin, self.own.shape[1], streams.torch(name, number, shard))
            for shard, (begin, end) in zip(shards, pairwise(cuts), strict=True)
        ]
        self.own = nn.Parameter(torch.cat(parts))

    def forward(self, index: Tensor) -> Tensor:
        """Return the vectors at `index`, `[*index.shape, width]`."""
        if self.is_apart:
            table, place = self.near(index)
            return rows(table, place)
        own, known = self._all, index
        unknown = None if self.training else index < 0
        if unknown is not None and bool(unknown.any()):
            known = index.clamp(min=0)
        if self.features is None:
            found = rows(own, known, sparse=self.sparse)
        elif self._whole(index):
            found = rows(self.table(), known)
        else:
            distinct, inverse = torch.unique(known, return_inverse=True)
            found = rows(own, known, sparse=self.sparse)
            found = found + rows(self.features(distinct), inverse)
        if known is not index and unknown is not None:
            found = torch.where(unknown[..., None], self.table().mean(0), found)
        return found

    def products(self, vectors: Tensor, index: Tensor) -> Tensor:
        """Return the inner products of `vectors` `[B, width]` with those at `index` `[B, K]`."""
        if self.is_apart:
            table, place = self.near(index)
            return products(vectors, table, place)
        if self.training or not bool((index < 0).any()):
            if self.features is None:
                return products(vectors, self._all, index, sparse=self.sparse)
            if self._whole(index):
                return products(vectors, self.table(), index)
        return dots(vectors, self(index))

    def table(self) -> Tensor:
        """Return all vectors, `[n, width]`."""
        if self.features is None:
            return self._all
        said: Tensor = self.features()
        return self._all + said

    def near(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Return a table that has the vectors at `index`, and where in it they are.

        It is the table of all, unless other workers have rows of it.
        """
        if not self.is_apart:
            return self.table(), index
        assert self.items is not None
        own, place, items = self.items.near(index)
        if self.features is not None:
            own = own + self.features(items)
        return own, place

    @property
    def is_apart(self) -> bool:
        """Whether rows that are asked for may be missing here: other workers own them."""
        return self.items is not None and self.items.is_apart

    @property
    def _all(self) -> Tensor:
        return self.own if self.items is None else self.items.whole()

    def _whole(self, index: Tensor) -> bool:
        """Tell whether so many are asked for that what all features say is sooner computed."""
        n = len(self.own) if self.taken_of is None else self.taken_of
        return index.numel() >= n and not self.sparse


class PairOptions(TypedDict, total=False):
    """What every model with a vector for each user and each item takes."""

    dim: int
    user_features: FeatureTable | None
    item_features: FeatureTable | None
    generator: torch.Generator | None


class PairScorer(Scorer):
    """A model with a vector for each user and each item, of `dim` and `extra` more places."""

    extra = 0
    searched = (*Scorer.searched, ("candidate.dim", "dim"))

    def __init__(self, n_users: int, n_items: int, **options: Unpack[PairOptions]) -> None:
        super().__init__(n_users, n_items)
        self.learns_each_user = options.get("user_features") is None
        self.dim = options.get("dim", 32)
        generator, width = options.get("generator"), self.dim + self.extra
        users, items = options.get("user_features"), options.get("item_features")
        self.user = Embedding(n_users, width, features=users, generator=generator)
        self.item = Embedding(n_items, width, features=items, generator=generator, of_items=True)

    @classmethod
    def of(
        cls, log: Interactions, size: ModelSettings, generator: torch.Generator | None = None
    ) -> Self:
        """Return a fresh model for a training log, with its features unless told otherwise."""
        users, items = log.user_features, log.item_features
        if not size.use_features:
            users = items = None
        return cls(
            log.n_users, log.n_items, dim=size.dim, user_features=users, item_features=items,
            generator=generator,
        )  # fmt: skip


class FeatureEncoder(nn.Module):
    """The part of a vector that features say.

    Categories and multi-valued columns are bags of tokens; a bag counts with the mean of its
    tokens. Numbers are standardised, a missing one is the mean.
    """

    tokens: Tensor
    offsets: Tensor
    shares: Tensor
    numbers: Tensor
    owners: Tensor
    begins: Tensor
    owner_shares: Tensor

    def __init__(
        self, table: FeatureTable, width: int, scale: float, generator: torch.Generator | None
    ) -> None:
        super().__init__()
        *bags, n_tokens = _token_bags(table)
        for name, values in zip(FEATURES, (*bags, _standardised(table)), strict=True):
            self.register_buffer(name, torch.from_numpy(values))
        self.token_vectors, self.number_vectors = (
            nn.Parameter(torch.zeros(n, width).normal_(0, scale, generator=generator))
            if n
            else None
            for n in (n_tokens, self.numbers.shape[1])
        )
        by_token = Bags(self.tokens, self.offsets, self.shares).by_entry(n_tokens)
        for name, value in zip(("owners", "begins", "owner_shares"), by_token, strict=True):
            self.register_buffer(name, value, persistent=False)

    def forward(self, index: Tensor | None = None) -> Tensor:
        """Return the vectors of the ids at `index` `[n]`, or of all of them, `[n, width]`."""
        numbers = self.numbers if index is None else self.numbers[index]
        said = 0 if self.number_vectors is None else numbers @ self.number_vectors
        if self.token_vectors is None:
            return said + numbers.new_zeros(len(numbers), 1)
        if index is None:
            bags = Bags(self.tokens, self.offsets, self.shares)
            by_token = Bags(self.owners, self.begins, self.owner_shares)
            return said + bag_sums(self.token_vectors, bags, by_token)
        begins, lengths = self.offsets[index], self.offsets[index + 1] - self.offsets[index]
        bag = torch.repeat_interleave(torch.arange(len(index), device=index.device), lengths)
        first = torch.cumsum(lengths, 0) - lengths
        place = begins[bag] + torch.arange(len(bag), device=index.device) - first[bag]
        return said + F.embedding_bag(
            self.tokens[place],
            self.token_vectors,
            first,
            mode="sum",
            per_sample_weights=self.shares[place],
        )


def _token_bags(
    table: FeatureTable,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32], int]:
    """Return tokens, offsets and shares of all non-numeric columns as one bag an id."""
    owners, tokens, shares, n_tokens = [], [], [], 0
    for name in table.categorical:
        codes, values = table.codes(name)
        owner = np.flatnonzero(codes >= 0)
        owners.append(owner)
        tokens.append(codes[owner].astype(np.int64) + n_tokens)
        shares.append(np.ones(len(owner), dtype=np.float32))
        n_tokens += len(values)
    for name in table.multivalued:
        begins, codes, values = table.bags(name)
        lengths = np.diff(begins)
        owners.append(np.repeat(np.arange(len(table)), lengths))
        tokens.append(codes.astype(np.int64) + n_tokens)
        shares.append(np.repeat(1 / np.maximum(lengths, 1), lengths).astype(np.float32))
        n_tokens += len(values)
    owner = np.concatenate([*owners, np.empty(0, dtype=np.int64)])
    order = np.argsort(owner, kind="stable")
    offsets = np.zeros(len(table) + 1, dtype=np.int64)
    np.cumsum(np.bincount(owner, minlength=len(table)), out=offsets[1:])
    token = np.concatenate([*tokens, np.empty(0, dtype=np.int64)])[order]
    share = np.concatenate([*shares, np.empty(0, dtype=np.float32)])[order]
    return token, offsets, share, n_tokens


def _standardised(table: FeatureTable) -> NDArray[np.float32]:
    numbers = table.numbers()
    mean, deviation = table.scale()
    centred = np.where(np.isfinite(numbers), numbers - mean, 0)
    return (centred / deviation).astype(np.float32)
