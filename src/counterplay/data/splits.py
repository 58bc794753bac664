"""Divide a log into training, validation and test rows; every row is in exactly one part."""

from __future__ import annotations

import hashlib
import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from counterplay.data.canonical import begins
from counterplay.data.parts import PARTS as PARTS
from counterplay.data.parts import TEST as TEST
from counterplay.data.parts import TRAIN as TRAIN
from counterplay.data.parts import VALIDATION as VALIDATION
from counterplay.data.parts import (
    check_fractions,
    check_timed,
    check_trained,
    cold_notes_of,
    count_ties,
    drawn_parts,
    empty_notes,
    given_moments,
    last_two,
    last_two_notes,
    pair_groups,
    time_parts,
    time_places,
)
from counterplay.display import Shown
from counterplay.errors import CounterplayWarning, DataError

if TYPE_CHECKING:
    import datetime as dt

    import polars as pl
    from numpy.typing import NDArray

    from counterplay.data.interactions import Interactions


@dataclass(frozen=True, eq=False, repr=False)
class Split(Shown):
    """A log and the part that each of its rows is in."""

    interactions: Interactions  #: The whole log.
    part: NDArray[np.int8]  #: 0 train, 1 validation, 2 test, `[n]`.
    kind: str  #: How the parts were made, in words.
    random: Interactions | None = None  #: Impressions of random items, never trained on.
    unclicked: Interactions | None = None  #: Other impressions that were not clicked.
    unclicked_part: NDArray[np.int8] | None = None  #: The part of each of them.

    def __post_init__(self) -> None:
        part = self.part.view()
        part.flags.writeable = False
        object.__setattr__(self, "part", part)
        here = len(part) > 0 or self.interactions.share is not None  # a worker may have none
        in_range = here and part.min(initial=TRAIN) >= TRAIN and part.max(initial=TEST) <= TEST
        if len(part) != len(self.interactions) or not in_range:
            raise DataError(
                "a split must give each row the part 0, 1 or 2; found "
                f"{len(part):,} parts for {len(self.interactions):,} rows; make the split again"
            )
        if self.interactions.clicked is not None:
            raise DataError(
                "a split must be of clicks; found a log of rows that were clicked and others; "
                "counterplay.prepare takes them apart"
            )
        if self.interactions.share is None:  # a worker may have no rows
            check_trained(int((part == TRAIN).sum()), self.kind)

    @cached_property
    def train(self) -> Interactions:
        """Rows to learn from."""
        return self.interactions.take(self.part == TRAIN)

    @cached_property
    def validation(self) -> Interactions:
        """Rows to select and stop by."""
        return self.interactions.take(self.part == VALIDATION)

    @cached_property
    def test(self) -> Interactions:
        """Rows to judge by, and for nothing else."""
        return self.interactions.take(self.part == TEST)

    def undivided(self) -> Split:
        """Return the same log with every row in training; random rows stay apart."""
        unclicked = None if self.unclicked_part is None else np.zeros_like(self.unclicked_part)
        return replace(self, part=np.zeros_like(self.part), unclicked_part=unclicked)

    @property
    def counts(self) -> dict[str, int]:
        """Number of rows in each part."""
        return {name: int((self.part == part).sum()) for part, name in enumerate(PARTS)}

    @property
    def fingerprint(self) -> str:
        """A digest of the parts, and of the impressions that were not clicked."""
        digest = hashlib.sha256(np.ascontiguousarray(self.part).data)
        if self.unclicked is not None and self.unclicked_part is not None:
            for _, column in self.unclicked.columns():
                digest.update(np.ascontiguousarray(column).data)
            digest.update(np.ascontiguousarray(self.unclicked_part).data)
        return f"sha256:{digest.hexdigest()}"

    @cached_property
    def seen_share(self) -> float:
        """Share of test rows whose pair is in training too; NaN without test rows."""
        return float(np.isin(self.test.pair, self.train.pair).mean()) if len(self.test) else np.nan

    @property
    def users_without_test(self) -> pl.Series:
        """Ids of the users who have no test row."""
        return self._absent_from(TEST)

    @property
    def users_without_train(self) -> pl.Series:
        """Ids of the users who have no training row: a model knows nothing of them."""
        return self._absent_from(TRAIN)

    def cold(self, part: int, role: str = "user") -> NDArray[np.bool_]:
        """Return which rows of a part have a user, or an item, without a training row."""
        log = self.interactions
        index, n = (log.user, log.n_users) if role == "user" else (log.item, log.n_items)
        untrained: NDArray[np.bool_] = np.bincount(index[self.part == TRAIN], minlength=n) == 0
        return np.asarray(untrained[index[self.part == part]])

    @cached_property
    def cold_counts(self) -> dict[str, dict[str, int]]:
        """Number of held-out rows whose user, and whose item, has no training row."""
        return {
            PARTS[part]: {role: int(self.cold(part, role).sum()) for role in ("user", "item")}
            for part in (VALIDATION, TEST)
        }

    @cached_property
    def n_distinct(self) -> NDArray[np.int64]:
        """Number of different items that each user has up to each part, `[3, n_users]`."""
        return _distinct_up_to(self.interactions, self.part)

    def _absent_from(self, part: int) -> pl.Series:
        log = self.interactions
        present = np.bincount(log.user[self.part == part], minlength=log.n_users)
        return log.users.decode(np.flatnonzero(present == 0))

    def _title(self) -> str:
        parts = ", ".join(f"{count:,} {name}" for name, count in self.counts.items())
        return f"of {self.interactions.name!r} by {self.kind}: {parts}"

    def _columns(self) -> dict[str, list[object]]:
        counts, user = self.counts, self.interactions.user
        users = [np.bincount(user[self.part == part]) for part in range(len(PARTS))]
        return {
            "part": list(counts),
            "rows": list(counts.values()),
            "share": [f"{count / len(self.part):.1%}" for count in counts.values()],
            "users": [np.count_nonzero(each) for each in users],
        }


def _distinct_up_to(log: Interactions, part: NDArray[np.int8]) -> NDArray[np.int64]:
    keys = log.pair * len(PARTS) + part
    keys.sort()
    pairs = keys // len(PARTS)
    first = begins(pairs)  # where a pair is met for the first time
    places = (keys[first] % len(PARTS)) * log.n_users + pairs[first] // log.n_items
    counts = np.bincount(places, minlength=len(PARTS) * log.n_users)
    return counts.reshape(len(PARTS), -1).cumsum(0)


def cold_notes(split: Split) -> list[str]:
    """Say how many held-out rows have a user, or an item, that training knows nothing of."""
    return cold_notes_of(split.counts, split.cold_counts)


def leave_last_two_out(log: Interactions) -> Split:
    """Hold out each user's last row for the test and the one before for validation.

    Between rows of one user at the same time the canonical order decides, a fixed mix of the
    ids, so that no item is held out for its id. A log without times is refused, unless the input's
    order was said to be that of events (`read(…, order="file")`). A user with fewer than three
    rows keeps all of them in training (`users_without_test`). Warnings say how many users have
    ties or too few rows, and that training rows of one user may be later than another's test rows.
    """
    check_timed("leave-last-two", log.time is not None or log.in_file_order)
    part, ends = last_two(log.offsets)
    split = Split(log, part, "leave-last-two")
    ties = None if log.time is None else count_ties(log.time, ends)
    short = split.users_without_test
    named = short.head(5).to_list()
    in_order = log.in_file_order
    for note in last_two_notes(log.n_users, ties, len(short), named, in_file_order=in_order):
        _warn(note)
    return split


def split_by_time(
    log: Interactions,
    *,
    validation_from: dt.date | None = None,
    test_from: dt.date | None = None,
    fractions: tuple[float, float] = (0.1, 0.1),
) -> Split:
    """Cut the whole log at two moments (UTC without a zone): train, validation, test.

    Without moments, `fractions` are the shares of rows for validation and test. Rows at the
    same time stay together, so the shares are met as closely as that allows.
    """
    check_timed("time", log.time is not None)
    assert log.time is not None
    moments = given_moments(validation_from, test_from)
    if moments is None:
        places = time_places(len(log), fractions)
        ordered = np.append(np.sort(log.time), log.time.max() + 1)
        moments = int(ordered[places[0]]), int(ordered[places[1]])
    return _made(log, time_parts(log.time, *moments), "time", fractions)


def split_at_random(
    log: Interactions, rng: np.random.Generator, *, fractions: tuple[float, float] = (0.1, 0.1)
) -> Split:
    """Draw validation and test rows uniformly, in the given shares.

    Rows of one pair of user and item go into the same part, so that no test pair is trained on.
    """
    check_fractions(fractions)
    order, group = pair_groups(log.pair)
    part_of_pair = drawn_parts(int(group[-1]) + 1, rng, fractions)
    part = np.empty(len(log), dtype=np.int8)
    part[slice(None) if order is None else order] = part_of_pair[group]
    return _made(log, part, "random", fractions)


def _made(
    log: Interactions, part: NDArray[np.int8], kind: str, fractions: tuple[float, float]
) -> Split:
    for note in empty_notes(int((part == TEST).sum()), kind, fractions):
        _warn(note)
    return Split(log, part, kind)


def _warn(text: str) -> None:
    warnings.warn(text, CounterplayWarning, stacklevel=3)
