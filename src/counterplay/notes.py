"""Reservations that come up during work, kept with its result."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING

from counterplay.errors import CounterplayWarning

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


@contextmanager
def noted() -> Iterator[list[str]]:
    """Collect the reservations that come up meanwhile, each once; other warnings go on."""
    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CounterplayWarning)
        yield notes
    for each in caught:
        if not issubclass(each.category, CounterplayWarning):
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
        elif str(each.message) not in notes:
            notes.append(str(each.message))


def tell(notes: Iterable[str]) -> None:
    """Warn of what was noted, for whoever listens."""
    for note in dict.fromkeys(notes):
        warnings.warn(note, CounterplayWarning, stacklevel=3)
