"""What is asked for with an extra of its own, and may not be installed."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from counterplay.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator


def check_installed(what: str, extra: str, *packages: str) -> None:
    """Say which extra to install where a package is absent; none is loaded."""
    for package in packages:
        known = sys.modules.get(package, package)  # None: somebody says that it is not there
        if known is None or find_spec(package) is None:
            raise _missing(what, extra, package)


@contextmanager
def needed(what: str, extra: str) -> Iterator[None]:
    """Say which extra to install when an import within fails."""
    try:
        yield
    except ImportError as error:
        raise _missing(what, extra, error.name) from None


def _missing(what: str, extra: str, package: str | None) -> ConfigError:
    return ConfigError(
        f"{what} needs packages of its own; found no {package or 'such one'}; install "
        f"counterplay[{extra}]"
    )
