"""Twelve million scored rows, two files of six, compared from the files to the verdict."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import counterplay as cp
from counterplay.data.directory import save
from counterplay.evaluation.evaluator import compared
from counterplay.evaluation.given_scores import given_candidate
from counterplay.evaluation.settings import Evaluation
from counterplay.evaluation.stage import Stage

N_USERS, N_ITEMS, N_SCORED, N_CLICKS = 60_000, 5_000, 100, 20
SECONDS = 60.0


def run() -> dict[str, Any]:
    rng = cp.Streams(0).numpy("scored rows")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        split = _log(rng)
        save(split, folder / "data")
        files = [folder / f"{name}.parquet" for name in ("one", "other")]
        for file in files:
            _scores(split, rng).write_parquet(file)
        stages: dict[str, float] = {}
        begin = last = time.perf_counter()
        what = "reading the log"

        def tell(text: str, *_: object) -> None:
            nonlocal last, what
            now = time.perf_counter()
            stages[what] = stages.get(what, 0.0) + now - last
            last, what = now, text

        split = cp.data.load_split(folder / "data")
        stage = Stage(split, Evaluation(), explicit=False, progress=tell)
        contestants = []
        for file in files:
            tell(f"reading {file.stem}")
            contestants.append(given_candidate(file.stem, file, stage))
        compared(stage, contestants)
        tell("")
        seconds = time.perf_counter() - begin
        begin = time.perf_counter()
        for file in files:
            frame = pl.read_parquet(file)
            frame.select(pl.col("score").rank("min", descending=True).over("user")).height  # noqa: B018
        plain = time.perf_counter() - begin
    n = 2 * N_USERS * N_SCORED
    return {
        "scored_rows": n,
        "seconds": seconds,
        "polars_seconds": plain,
        "stages": stages,
        "rows": [
            {
                "what": f"comparing two candidates of {n:,} scored rows, all usual estimators",
                "ours": f"{seconds:.1f} s",
                "yardstick": f"{plain:.1f} s, polars reads and ranks the same rows",
                "ratio": f"{seconds / plain:.1f}",
                "goal": f"at most {SECONDS:g} s",
                "met": seconds <= SECONDS,
            }
        ],
    }


def _log(rng: np.random.Generator) -> Any:
    """Return a split log in which some items are clicked far more often than others."""
    chances = 1 / np.arange(1, N_ITEMS + 1)
    user = np.repeat(np.arange(N_USERS), N_CLICKS)
    item = rng.choice(N_ITEMS, len(user), p=chances / chances.sum())
    log = cp.read({"user": user, "item": item, "time": np.arange(len(user))})
    return cp.data.leave_last_two_out(log)


def _scores(split: Any, rng: np.random.Generator) -> pl.DataFrame:
    """Return scores of the test items and of others, for every user with test rows."""
    test = split.test
    item = (test.item[:, None] + rng.integers(0, N_ITEMS // N_SCORED, 1)) % N_ITEMS
    item = (item + np.arange(N_SCORED) * (N_ITEMS // N_SCORED)) % N_ITEMS
    item[:, 0] = test.item
    score = rng.normal(size=item.shape) + (np.arange(N_SCORED) == 0)
    ids = {
        "user": np.repeat(test.user, N_SCORED),
        "item": item.reshape(-1),
        "score": score.reshape(-1),
    }
    frame = pl.DataFrame(ids).unique(["user", "item"], keep="first", maintain_order=True)
    users, items = split.interactions.users.ids, split.interactions.items.ids
    return frame.with_columns(user=users.gather(frame["user"]), item=items.gather(frame["item"]))
