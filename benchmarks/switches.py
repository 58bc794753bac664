"""How many of our files a log passes through in `counterplay run`, and how often it switches file.

Usage: python -m benchmarks.run switches

Counted by a profiler: a switch is a call, or a return, from one file of the package to another.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import counterplay

PACKAGE = str(Path(counterplay.__file__).parent)


def run() -> dict[str, Any]:
    from counterplay.cli.main import main

    rng = np.random.default_rng(0)
    rows = {"user": rng.integers(0, 40, 600), "item": rng.integers(0, 60, 600)}
    log = pl.DataFrame(rows | {"time": np.arange(600)}).unique(["user", "item"])
    files: Counter[str] = Counter()
    last, n_switches = "", 0

    def watch(frame: Any, event: str, _: object) -> None:
        nonlocal last, n_switches
        if event not in ("call", "return"):
            return
        seen = frame if event == "call" else frame.f_back
        name = "" if seen is None else seen.f_code.co_filename
        if name.startswith(PACKAGE) and name != last:
            files[name] += 1
            n_switches += last != ""
            last = name

    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        log.write_csv(Path(folder) / "log.csv")
        os.environ["COUNTERPLAY_DEBUG"] = "1"
        with contextlib.redirect_stderr(io.StringIO()), contextlib.suppress(SystemExit):
            main(["--version"])  # what is loaded once is not counted
        asked = ["run", str(Path(folder) / "log.csv"), "--out", str(Path(folder) / "study")]
        sys.setprofile(watch)
        try:
            with contextlib.redirect_stderr(io.StringIO()), contextlib.suppress(SystemExit):
                main([*asked, "--epochs", "2"])
        finally:
            sys.setprofile(None)
        assert (Path(folder) / "study" / "report.html").exists()
    most = {str(Path(name).relative_to(PACKAGE)): n for name, n in files.most_common(12)}
    return {"files": len(files), "switches": n_switches, "most_entered": most}
