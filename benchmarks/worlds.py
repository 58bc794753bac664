"""Worlds: building one from MovieLens-1M, and a log of 20 million rows."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

from benchmarks.movielens import ABSENT, movielens
from benchmarks.training_job import in_a_process, peak_bytes
from counterplay.data.directory import load_split
from counterplay.simulation.synthetic import Synthetic
from counterplay.simulation.two_stage import TwoStage

EPOCHS = 15  # of one GMF training run
N_USERS, N_ITEMS, N_SHOWN = 1_000_000, 100_000, 125.0
RATES = 0.1, 1.0  # a short log and one of 20 million rows


def run() -> dict[str, Any]:
    data = movielens()
    if data is None:
        return ABSENT
    training = in_a_process(data, candidate="gmf", method="erm", epochs=EPOCHS, batch_size=8192)
    seconds = training["seconds"] * EPOCHS
    built = _in_a_process("two-stage", str(data))
    short, long = (_in_a_process("log", str(rate)) for rate in RATES)
    per_row = [each["seconds"] / each["rows"] * 1e6 for each in (short, long)]
    return {
        "two_stage": built,
        "gmf_seconds": seconds,
        "logs": [short, long],
        "rows": [
            {
                "what": "two-stage world from MovieLens-1M",
                "ours": f"{built['seconds']:.1f} s",
                "yardstick": f"{seconds:.1f} s, {EPOCHS} epochs of GMF",
                "ratio": f"{built['seconds'] / seconds:.2f}",
                "goal": "below 3",
                "met": built["seconds"] < 3 * seconds,
            },
            {
                "what": "its peak memory",
                "ours": f"{built['peak'] / 2**30:.2f} GiB",
                "yardstick": "2 GiB",
                "ratio": f"{built['peak'] / 2**31:.2f}",
                "goal": "below 1",
                "met": built["peak"] < 2**31,
            },
            {
                "what": f"a log of {long['rows'] / 1e6:.1f} million clicks, 1 million users and "
                f"100,000 items, time a row ({long['seconds']:.0f} s, peak "
                f"{long['peak'] / 2**30:.2f} GiB)",
                "ours": f"{per_row[1]:.1f} µs",
                "yardstick": f"{per_row[0]:.1f} µs, with {short['rows'] / 1e6:.1f} million",
                "ratio": f"{per_row[1] / per_row[0]:.2f}",
                "goal": "at most 1.2",
                "met": per_row[1] <= 1.2 * per_row[0],
            },
        ],
    }


def _in_a_process(*job: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.worlds", *job]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    answer: dict[str, float] = json.loads(output)
    return answer


def _job(kind: str, argument: str) -> dict[str, float]:
    """Do one job, with its time and its peak memory."""
    if kind == "two-stage":
        log = load_split(argument).interactions
        begin = time.perf_counter()
        n_rows = TwoStage().world(log).n_users
    else:
        world = Synthetic(n_users=N_USERS, n_items=N_ITEMS, n_shown=N_SHOWN).world()
        begin = time.perf_counter()
        n_rows = len(world.log((float(argument),)))
    return {"seconds": time.perf_counter() - begin, "rows": n_rows, "peak": peak_bytes()}


if __name__ == "__main__":
    print(json.dumps(_job(*sys.argv[1:])))
