"""MovieLens-1M as the training benchmarks use it: prepared once, in a folder to work in."""

from __future__ import annotations

import warnings
from pathlib import Path

import counterplay as cp
from benchmarks.timing import real_data
from counterplay.data.preparation import prepare

WORK = Path(__file__).parent / ".work"
ABSENT = {"skipped": "MovieLens-1M is not there; point COUNTERPLAY_DATA at its folder"}


def movielens() -> Path | None:
    """Return the dataset directory, split by leave-last-two-out, or None without the data."""
    folder, prepared = real_data("ml-1m"), WORK / "ml-1m"
    if folder is None:
        return None
    if not prepared.exists():
        WORK.mkdir(exist_ok=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cp.CounterplayWarning)
            cp.data.save(prepare(folder), prepared)
    return prepared
