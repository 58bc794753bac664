"""Being ended while libraries are loaded."""

from __future__ import annotations

import importlib
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from counterplay.cli import signals

LIBRARY = """
import os, signal
dropped = False
try:
    os.kill(os.getpid(), signal.SIGTERM)
    for _ in range(100_000):
        pass
except BaseException:  # as some libraries do when they look for others
    dropped = True
"""


@pytest.fixture
def listening(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(signals, "_received", [])
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)
    before = {number: signal.getsignal(number) for number in numbers}
    signals.listen()
    yield
    signals.ignore()
    for number, handler in before.items():
        signal.signal(number, handler)


def test_an_import_does_not_drop_the_signal_that_ends_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listening: None
) -> None:
    (tmp_path / "library_of_a_test.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(tmp_path)
    found = []
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - when it comes is what is tested
        found.append(importlib.import_module("library_of_a_test"))
        threading.Event().wait(30)
    assert not found[0].dropped
    assert signals.exit_code() == 143
