"""How far long work has come, told to whoever shows it."""

from __future__ import annotations

from collections.abc import Callable

Steps = Callable[[str, int, int | None], None]  # what is being done, how much of it, of how much
