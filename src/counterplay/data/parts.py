"""Which part each row is in, from plain columns: of a whole log, or of a range of its users."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import numpy as np

from counterplay.data.canonical import begins, slices, stable_order
from counterplay.errors import ConfigError, DataError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

TRAIN, VALIDATION, TEST = 0, 1, 2
PARTS = ("train", "validation", "test")
Fractions = tuple[float, float]
_COLD = {
    "user": "users without a training row have {}: models rank for them by popularity, and "
    "evaluation shows these rows apart; split in another way for fewer",
    "item": "items without a training row are in {}: nothing was learnt from what users did "
    "with them",
}


def check_timed(kind: str, timed: bool) -> None:
    """Refuse a split by time of a log without times."""
    if kind == "leave-last-two" and not timed:
        raise DataError(
            "leave-last-two-out needs to know which rows are the last; found a log without times; "
            "name the time column, say that the file's order is the time with order='file' "
            "(--order file), or split at random"
        )
    if kind == "time" and not timed:
        raise DataError(
            "a split by time needs times; found a log without a time column; name the column, or "
            "split at random"
        )


def last_two(offsets: NDArray[np.int64]) -> tuple[NDArray[np.int8], NDArray[np.int64]]:
    """Hold out the last two rows of users with three or more; also return where those end."""
    ends = offsets[1:][np.diff(offsets) >= 3]
    part = np.zeros(int(offsets[-1]), dtype=np.int8)
    part[ends - 2] = VALIDATION
    part[ends - 1] = TEST
    return part, ends


def count_ties(time: NDArray[np.int64], ends: NDArray[np.int64]) -> tuple[int, int]:
    """Count the users whose last row, and whose row before it, has the time of the one before."""
    last, before = time[ends - 1] == time[ends - 2], time[ends - 2] == time[ends - 3]
    return int(last.sum()), int(before.sum())


def last_two_notes(
    n_users: int,
    ties: tuple[int, int] | None,
    n_short: int,
    short: Sequence[object],
    *,
    in_file_order: bool,
) -> list[str]:
    """Say what is to be known of holding out the last two; `ties` are None without times.

    `n_short` users have fewer than three rows, `short` are the ids of the first of them.
    """
    notes = []
    if ties is not None:
        notes.append(
            "leave-last-two-out leaks time: a training row of one user may be later than a test "
            "row of another; split by time to rule that out"
        )
    if ties is not None and any(ties):
        decides = "the order of the input" if in_file_order else "a fixed mix of the ids"
        notes.append(
            f"{ties[0]:,} of {n_users:,} users have a tied last row: another of their rows has the "
            f"same time, and {decides} tells which of them is the test row; for {ties[1]:,} users "
            "that goes for the validation row"
        )
    if n_short:
        named = ", ".join(repr(each) for each in short[:5])
        notes.append(
            f"{n_short:,} of {n_users:,} users have fewer than three rows and stay in "
            f"training whole: {named}{' …' if n_short > 5 else ''}"
        )
    return notes


def given_moments(
    validation_from: dt.date | None, test_from: dt.date | None
) -> tuple[int, int] | None:
    """Return two moments in microseconds, in order; None if none are given."""
    if validation_from is None and test_from is None:
        return None
    if validation_from is None or test_from is None:
        raise ConfigError(
            "a split by time needs both moments or neither; found one; give validation_from and "
            "test_from"
        )
    first, second = _moment(validation_from), _moment(test_from)
    if first > second:
        raise ConfigError(
            "validation must begin before the test; found "
            f"{validation_from} after {test_from}; exchange them"
        )
    return first, second


def time_places(n_rows: int, fractions: Fractions) -> list[int]:
    """Return the places, in order of time, of the first row of validation and of the test."""
    check_fractions(fractions)
    return [int(place) for place in bounds_of(n_rows, fractions)]


def time_parts(time: NDArray[np.int64], first: int, second: int) -> NDArray[np.int8]:
    """Return the parts of rows when validation begins at `first` and the test at `second`."""
    parts: NDArray[np.int8] = (time >= first).astype(np.int8) + (time >= second).astype(np.int8)
    return parts


def pair_groups(pair: NDArray[np.int64]) -> tuple[NDArray[np.int64] | None, NDArray[np.int64]]:
    """Return the order of the pairs, None if they are in order, and in it the pair's number."""
    order = stable_order(pair)
    group = np.cumsum(begins(pair if order is None else pair[order])) - 1
    return order, group


def drawn_parts(n_pairs: int, rng: np.random.Generator, fractions: Fractions) -> NDArray[np.int8]:
    """Draw the part of each pair; 8 bytes a pair are held meanwhile."""
    bounds, place = bounds_of(n_pairs, fractions), rng.permutation(n_pairs)
    parts = np.empty(n_pairs, dtype=np.int8)
    for some in slices(n_pairs):
        parts[some] = (place[some] >= bounds[0]).astype(np.int8) + (place[some] >= bounds[1])
    return parts


def bounds_of(n: int, fractions: Fractions) -> NDArray[np.float64]:
    """Return where validation and test begin among so many."""
    return np.round(np.array([1 - sum(fractions), 1 - fractions[1]]) * n)


def check_fractions(fractions: Fractions) -> None:
    """Refuse shares that are none."""
    validation, test = fractions
    if not (validation >= 0 and test >= 0 and validation + test < 1):
        raise ConfigError(
            "the shares of validation and test must be 0 or more and together less than 1; found "
            f"{validation:g} and {test:g}; lower them"
        )


def check_trained(n_train: int, kind: str) -> None:
    """Refuse a split without rows to train on."""
    if not n_train:
        raise DataError(
            f"a split must leave rows to train on; found none after {kind}; move the "
            "boundary, or take a longer log"
        )


def empty_notes(n_test: int, kind: str, fractions: Fractions) -> list[str]:
    """Say that a test that was asked for is empty."""
    if n_test or fractions[1] == 0:
        return []
    return [f"the test part of the split by {kind} is empty: there is nothing to judge by"]


def cold_notes_of(counts: Mapping[str, int], cold: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Say how many held-out rows have a user, or an item, that training knows nothing of."""
    notes = []
    for role, note in _COLD.items():
        found = [
            f"{each[role]:,} of {counts[name]:,} {name} rows ({each[role] / counts[name]:.1%})"
            for name, each in cold.items()
            if each[role]
        ]
        if found:
            notes.append(note.format(", ".join(found)))
    return notes


def _moment(time: dt.date) -> int:
    if not isinstance(time, dt.date):
        raise ConfigError(
            f"a moment must be a date or a datetime; found {time!r}; convert it with "
            "datetime.fromisoformat"
        )
    moment = time if isinstance(time, dt.datetime) else dt.datetime.combine(time, dt.time())
    aware = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
    return round(aware.timestamp() * 1e6)
