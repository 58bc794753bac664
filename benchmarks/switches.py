"""How many files a small log passes through in `counterplay run`, and how they call each other.

Usage: python -m benchmarks.run switches

Counted by a profiler. A file is passed if one of its functions is called; a switch is a pair of
files of which the first calls the second, with or without a library in between.
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import counterplay

PACKAGE = str(Path(counterplay.__file__).parent)
GOAL_FILES, BEFORE = 45, (119, 286)  # the second: before there were rooms and methods as values


def run() -> dict[str, Any]:
    files, switches = counted()
    return {
        "rows": [
            {
                "what": f"`counterplay run` on a small log: {what}",
                "ours": f"{n}",
                "yardstick": f"{before} before the rooms",
                "ratio": f"{n / before:.2f}",
                "goal": f"≤ {goal}",
                "met": n <= goal,
            }
            for what, n, before, goal in (
                ("files passed", files, BEFORE[0], GOAL_FILES),
                ("switches between files", switches, BEFORE[1], BEFORE[1] // 2),
            )
        ]
    }


def counted() -> tuple[int, int]:
    from counterplay.cli.main import main

    rng = np.random.default_rng(0)
    rows = {"user": rng.integers(0, 40, 600), "item": rng.integers(0, 60, 600)}
    log = pl.DataFrame(rows | {"time": np.arange(600)}).unique(["user", "item"])
    files: set[str] = set()
    switches: set[tuple[str, str]] = set()

    def watch(frame: Any, event: str, _: object) -> None:
        name = frame.f_code.co_filename
        if event != "call" or not name.startswith(PACKAGE) or frame.f_code.co_name == "<module>":
            return
        files.add(name)
        caller = frame.f_back
        while caller is not None and not caller.f_code.co_filename.startswith(PACKAGE):
            caller = caller.f_back
        if caller is not None and caller.f_code.co_filename != name:
            switches.add((caller.f_code.co_filename, name))

    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        log.write_csv(Path(folder) / "log.csv")
        study = Path(folder) / "study"
        sys.setprofile(watch)
        try:
            main(["run", str(Path(folder) / "log.csv"), "--out", str(study), "--epochs", "2"])
        except SystemExit:
            pass
        finally:
            sys.setprofile(None)
        assert (study / "report.html").exists()
    return len(files), len(switches)
