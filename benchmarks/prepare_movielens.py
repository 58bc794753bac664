"""Prepare MovieLens-1M, from ratings.dat to a split dataset directory, against polars alone."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import Any

import polars as pl

import counterplay as cp
from benchmarks.timing import best_of, real_data
from counterplay.data.preparation import prepare

GOAL = 4.0


def run() -> dict[str, Any]:
    folder = real_data("ml-1m")
    if folder is None:
        return {"skipped": "MovieLens-1M is not there; point COUNTERPLAY_DATA at its folder"}
    types = {"user": pl.Int32, "a": pl.String, "item": pl.Int32, "b": pl.String}
    types |= {"rating": pl.Float32, "c": pl.String, "time": pl.Int64}
    ratings = pl.scan_csv(
        folder / "ratings.dat", separator=":", has_header=False, schema=types
    ).select("user", "item", "rating", "time")
    with tempfile.TemporaryDirectory() as scratch, warnings.catch_warnings():
        warnings.simplefilter("ignore", cp.CounterplayWarning)
        target = Path(scratch) / "ml-1m"
        ours, alone = best_of(
            15, lambda: cp.data.save(prepare(folder), target, overwrite=True), ratings.collect
        )
    return {
        "seconds": {"prepare": ours, "polars_parse": alone},
        "rows": [
            {
                "what": "prepare MovieLens-1M with features and split",
                "ours": f"{ours:.3f} s",
                "yardstick": f"{alone:.3f} s, polars parsing ratings.dat",
                "ratio": f"{ours / alone:.2f}",
                "goal": f"at most {GOAL:g}",
                "met": ours / alone <= GOAL,
            }
        ],
    }
