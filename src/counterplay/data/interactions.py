"""The log as the library holds it: one immutable, column-wise object."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from counterplay.data.canonical import begins, offsets_of
from counterplay.data.findings import FILE_ORDER, Reading
from counterplay.data.findings import Step as Step
from counterplay.data.roles import COLUMNS, IMPRESSION_COLUMNS
from counterplay.display import Shown
from counterplay.errors import DataError
from counterplay.groups import ALONE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from counterplay.data.features import FeatureTable
    from counterplay.data.vocabulary import Vocabulary
    from counterplay.groups import Group, Share

_FIRST = 5  # rows that a notebook shows


@dataclass(frozen=True, eq=False, repr=False)
class Interactions(Shown):
    """What users did with items, with dense indices and vocabularies back to the ids.

    Rows stand in one canonical order: by user, then by time, then by a fixed mix of the ids of
    user and item, then by what else they say. So a user's rows are one slice, in the order in
    which they happened, and the order of the input does not matter, unless it was said to be the
    order of events (`in_file_order`). `counterplay.read` makes one.
    """

    users: Vocabulary  #: Original user ids.
    items: Vocabulary  #: Original item ids.
    user: NDArray[np.int32]  #: User index, `[n]`, ascending.
    item: NDArray[np.int32]  #: Item index, `[n]`.
    rating: NDArray[np.float32] | None = None  #: Explicit feedback, `[n]`; None for implicit.
    time: NDArray[np.int64] | None = None  #: Microseconds since 1970 UTC, `[n]`.
    exposed: NDArray[np.bool_] | None = None  #: Whether the pair was shown, `[n]`.
    propensity: NDArray[np.float64] | None = None  #: Logged probability of it, in (0, 1], `[n]`.
    position: NDArray[np.int16] | None = None  #: Place in the list that was shown, `[n]`.
    random: NDArray[np.bool_] | None = None  #: Whether the item was drawn at random, `[n]`.
    clicked: NDArray[np.bool_] | None = None  #: Of impressions, whether; None: all rows are clicks.
    user_features: FeatureTable | None = None  #: One row a user.
    item_features: FeatureTable | None = None  #: One row an item.
    name: str = "log"  #: What to call the log.
    source: str = ""  #: Where it came from.
    steps: tuple[Step, ...] = ()  #: What was done to its rows since.
    #: Whose users these are, where several workers have a log.
    share: Share | None = None
    reading: Reading | None = None  #: How its source was understood, where it was just read.

    def __post_init__(self) -> None:
        for name, column in list(self.columns()):
            if len(column) != len(self.user):
                raise DataError(
                    f"all columns must have {len(self.user):,} rows, as many as user; found "
                    f"{len(column):,} in {name}; make logs with counterplay.read"
                )
            fixed = column.view()
            fixed.flags.writeable = False
            object.__setattr__(self, name, fixed)

    def __len__(self) -> int:
        return len(self.user)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Interactions) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def _title(self) -> str:
        present = ", ".join(name for name, _ in self.columns())
        size = f"{len(self):,} rows, {self.n_users:,} users, {self.n_items:,} items"
        return f"{self.name!r}: {size}; {present}"

    def _columns(self) -> dict[str, list[str]]:
        frame = self.take(np.arange(min(len(self), _FIRST))).to_frame()
        more = ["…"] if len(self) > _FIRST else []
        return {each.name: [*map(str, each), *more] for each in frame}

    @property
    def n_users(self) -> int:
        """Number of users in the vocabulary."""
        return len(self.users)

    @property
    def n_items(self) -> int:
        """Number of items in the vocabulary."""
        return len(self.items)

    @property
    def is_explicit(self) -> bool:
        """Whether the rows carry ratings."""
        return self.rating is not None

    @property
    def in_file_order(self) -> bool:
        """Whether the input's order was said to be the order of events, where times do not tell."""
        return any(step.kind == FILE_ORDER.kind for step in self.steps)

    @property
    def group(self) -> Group:
        """The workers that have the log together."""
        return ALONE if self.share is None else self.share.group

    @property
    def item_events(self) -> NDArray[np.int64]:
        """Number of rows of each item, those of all workers, `[n_items]`."""
        return self.group.total(np.bincount(self.item, minlength=self.n_items))

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """Where each user's rows begin and end, `[n_users + 1]`."""
        return offsets_of(self.user, self.n_users)

    @property
    def pair(self) -> NDArray[np.int64]:
        """One number a (user, item) pair: `user · n_items + item`, `[n]`."""
        return self.user.astype(np.int64) * self.n_items + self.item

    @cached_property
    def distinct_pairs(self) -> NDArray[np.int64]:
        """The pairs that occur, each once and ascending; sorted once, whoever asks."""
        pairs = self.pair
        pairs.sort()
        distinct = pairs[begins(pairs)]
        distinct.flags.writeable = False
        return distinct

    @cached_property
    def fingerprint(self) -> str:
        """A digest of all that the log holds, independent of its name and its files."""
        digest = hashlib.sha256()
        for name, column in self.columns():
            digest.update(f"{name}:{column.dtype.str}:{len(column)};".encode())
            digest.update(np.ascontiguousarray(column).data)
        for name, vocabulary in (("users", self.users), ("items", self.items)):
            digest.update(name.encode())
            digest_series(digest, vocabulary.ids)
        for role, table in (("user", self.user_features), ("item", self.item_features)):
            for feature in table.frame if table else ():
                digest.update(f"{role}_features.{feature.name}".encode())
                digest_series(digest, feature)
        return f"sha256:{digest.hexdigest()}"

    def columns(self) -> Iterator[tuple[str, NDArray[Any]]]:
        """Yield the name and the array of every column that is present."""
        columns = ((name, getattr(self, name)) for name in (*COLUMNS, *IMPRESSION_COLUMNS))
        yield from ((name, column) for name, column in columns if column is not None)

    def take(self, rows: NDArray[Any], *steps: Step) -> Interactions:
        """Return some rows, by a mask or ascending places, with the same vocabularies."""
        chosen: dict[str, Any] = {name: column[rows] for name, column in self.columns()}
        return replace(self, **chosen, steps=(*self.steps, *steps))

    def compact(self) -> Interactions:
        """Return the same rows without the users and items that no row mentions."""
        parts: dict[str, Any] = {}
        for role, plural in (("user", "users"), ("item", "items")):
            vocabulary, index = getattr(self, plural), getattr(self, role)
            kept = np.flatnonzero(np.bincount(index, minlength=len(vocabulary)))
            if len(kept) == len(vocabulary):
                continue
            new_index = np.zeros(len(vocabulary), dtype=np.int32)
            new_index[kept] = np.arange(len(kept), dtype=np.int32)
            parts[role] = new_index[index]
            parts[plural] = type(vocabulary)(vocabulary.decode(kept))
            features = getattr(self, f"{role}_features")
            parts[f"{role}_features"] = features and features.take(kept)
        return replace(self, **parts)

    def to_implicit(self, threshold: float) -> Interactions:
        """Turn ratings into implicit feedback: rows rated `threshold` or more, without ratings.

        The vocabularies stay: an item that nobody liked is still one that can be recommended.
        """
        if self.rating is None:
            raise no_ratings()
        liked = self.rating >= np.float32(threshold)
        highest = float(self.rating.max())
        step = threshold_step(threshold, len(self), int(liked.sum()), highest)
        return replace(self.take(liked, step), rating=None)

    def to_frame(self) -> pl.DataFrame:
        """Return the rows as a polars frame, with the original ids."""
        frame = pl.DataFrame(dict(self.columns())).with_columns(
            self.users.decode(self.user).alias("user"), self.items.decode(self.item).alias("item")
        )
        if self.time is not None:
            frame = frame.with_columns(pl.col("time").cast(pl.Datetime("us", "UTC")))
        return frame


def no_ratings() -> DataError:
    """Return what is wrong with a threshold where there are no ratings."""
    return DataError(
        "a rating threshold needs ratings; found a log without a rating column; leave the "
        "threshold out, or name the column"
    )


def threshold_step(threshold: float, n_rows: int, n_liked: int, highest: float) -> Step:
    """Say how many of so many rows reach a threshold; refuse one that none reaches."""
    if not n_liked:
        raise DataError(
            f"at least one rating must reach the threshold of {threshold:g}; found the "
            f"highest to be {highest:g}; lower the threshold"
        )
    text = f"kept the {n_liked:,} of {n_rows:,} rows rated {threshold:g} or more"
    return Step("threshold", text, {"rows": n_rows - n_liked})


def digest_series(digest: Any, series: pl.Series) -> None:
    """Add a series to a digest, value by value, whatever its layout in memory."""
    digest.update(f"{series.dtype}:{len(series)};".encode())
    digest.update(np.packbits(series.is_null().to_numpy()).data)
    if isinstance(series.dtype, pl.List):
        digest.update(series.list.len().fill_null(0).to_numpy().astype(np.int64).data)
        digest_series(digest, series.explode(empty_as_null=False, keep_nulls=False))
    elif series.dtype == pl.String:
        digest.update(series.str.len_bytes().fill_null(0).to_numpy().astype(np.int64).data)
        digest.update((series.str.join("").item() or "").encode())
    else:
        digest.update(np.ascontiguousarray(series.fill_null(0).to_numpy()).data)
