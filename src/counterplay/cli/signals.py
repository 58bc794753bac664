"""Being interrupted (SIGINT) and being ended (SIGTERM) are the same, but for the exit code."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from types import FrameType

SAID = "interrupted; nothing half-written was left behind"
_AGAIN = 0.02  # seconds until an import that was under way may be over
_received: list[int] = []


def listen() -> None:
    """Let both end the work where it is, so that it cleans up after itself."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end)


def ignore() -> None:
    """Let none disturb the last moments of a command whose work is done."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, 0)


def received() -> bool:
    """Tell whether there was one."""
    return bool(_received)


def exit_code() -> int:
    """Return the usual code of a command that was interrupted: 128 and the signal's number."""
    return 128 + (_received[0] if _received else signal.SIGINT)


def leave() -> NoReturn:
    """End with that code at once.

    An interpreter that was interrupted in the middle of an import would end itself with SIGINT
    instead, whatever code it is asked to end with.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(exit_code())


def _end(number: int, frame: FrameType | None) -> None:
    """End the work; not within an import, where libraries drop whatever is raised."""
    _received.append(number)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a second one ends it at once
    if _imports(frame):
        signal.signal(signal.SIGALRM, _end)
        signal.setitimer(signal.ITIMER_REAL, _AGAIN)
        return
    raise KeyboardInterrupt


def _imports(frame: FrameType | None) -> bool:
    """Tell whether what is being done is part of an import."""
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return hasattr(signal, "setitimer")
        frame = frame.f_back
    return False
