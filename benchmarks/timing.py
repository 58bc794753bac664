"""What the benchmarks share: real data, and the best of several interleaved runs."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def real_data(name: str) -> Path | None:
    """Return the folder of a real dataset, or None where it is absent."""
    beside = Path(__file__).parents[2] / "shared" / "data"
    folder = Path(os.environ.get("COUNTERPLAY_DATA", beside)) / name
    return folder if folder.exists() else None


def best_of(repeats: int, *jobs: Callable[[], object]) -> list[float]:
    """Return the shortest time of each job in seconds, the jobs taking turns."""
    best = [float("inf")] * len(jobs)
    for _ in range(repeats):
        for place, job in enumerate(jobs):
            begin = time.perf_counter()
            job()
            best[place] = min(best[place], time.perf_counter() - begin)
    return best
