"""What the library says of data as small as those of a contract is not of interest."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING

from counterplay.errors import CounterplayWarning

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def without_notes() -> Iterator[None]:
    """Ignore the library's warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CounterplayWarning)
        yield
