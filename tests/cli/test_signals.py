"""Being ended while libraries are loaded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

LIBRARY = """
import os, signal
try:
    os.kill(os.getpid(), signal.SIGTERM)
    for _ in range(100_000):
        pass
except BaseException:  # as some libraries do when they look for others
    dropped = True
"""
COMMAND = """
import time
from counterplay.cli import signals
signals.listen()
try:
    import library
    time.sleep(60)
except KeyboardInterrupt:
    print(hasattr(library, "dropped"), signals.exit_code())
    signals.ignore()
"""


def test_an_import_does_not_drop_the_signal_that_ends_a_command(tmp_path: Path) -> None:
    (tmp_path / "library.py").write_text(LIBRARY)
    path = f"import sys; sys.path.append({str(tmp_path)!r})"
    found = subprocess.run(
        [sys.executable, "-c", path + COMMAND],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert found.stdout.split() == ["False", "143"]
