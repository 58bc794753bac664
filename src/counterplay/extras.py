"""What is asked for with an extra of its own, and may not be installed."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from counterplay.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def needed(what: str, extra: str) -> Iterator[None]:
    """Say which extra to install when an import within fails."""
    try:
        yield
    except ImportError as error:
        raise ConfigError(
            f"{what} needs packages of its own; found no {error.name}; install counterplay[{extra}]"
        ) from None
