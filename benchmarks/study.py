"""CPU seconds of `counterplay run` on MovieLens-100K: the default field beside the one of before.

The field of before had popularity and GMF by three methods; by default there are ease, knn and attn
too. One thread computes, so that seconds do not depend on who waits for whom.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.timing import real_data

REPEATS = 2
BEFORE = ("pop", "erm", "ps", "acl")
GOAL = 1.0  # times those of before, at most
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS")


def run() -> dict[str, Any]:
    log = real_data("ml-100k")
    if log is None:
        return {"skipped": "MovieLens-100K is not there; point COUNTERPLAY_DATA at its folder"}
    fields = {"default": (), "before": tuple(f"--candidates={name}" for name in BEFORE)}
    found: dict[str, list[float]] = {name: [] for name in fields}
    for _ in range(REPEATS):  # they take turns: the machine is not the same all the time
        for name, words in fields.items():
            found[name].append(_cpu_seconds(log, words))
    best = {name: min(seconds) for name, seconds in found.items()}
    ratio = best["default"] / best["before"]
    return {
        "cpu_seconds": best,
        "rows": [
            {
                "what": "CPU of counterplay run on MovieLens-100K, default field",
                "ours": f"{best['default']:.1f} s",
                "yardstick": f"{best['before']:.1f} s, {', '.join(BEFORE)} alone",
                "ratio": f"{ratio:.2f}",
                "goal": f"at most {GOAL:g}",
                "met": ratio <= GOAL,
            }
        ],
    }


def _cpu_seconds(log: Path, words: tuple[str, ...]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as scratch:
        command = [sys.executable, "-m", "counterplay", "run", str(log), *words]
        subprocess.run(
            [*command, "--out", str(Path(scratch) / "study")],
            env=os.environ | dict.fromkeys(THREADS, "1"),
            capture_output=True,
            check=True,
        )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
