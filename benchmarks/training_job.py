"""Train one model in this process and print seconds an epoch and peak memory as JSON.

Usage: python -m benchmarks.training_job DATASET '{"candidate": "gmf", "method": "erm"}'
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from counterplay.data.directory import load_split
from counterplay.learning.config import Game, Training
from counterplay.learning.methods.acl import acl
from counterplay.learning.methods.erm import erm
from counterplay.models.registry import ModelName, build
from counterplay.seeding import Streams


def in_a_process(data: Path, **job: Any) -> dict[str, Any]:
    """Run a job in a fresh process, so that its peak memory is its own."""
    command = [sys.executable, "-m", "benchmarks.training_job", str(data), json.dumps(job)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    answer: dict[str, Any] = json.loads(output)
    return answer


def peak_bytes() -> int:
    """Return this process's peak memory; getrusage would count its parent's too."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if "VmHWM" in line).split()[1]) * 1024


def run(
    data: str, candidate: ModelName, method: str, epochs: int, batch_size: int, l2: float = 0.0
) -> dict[str, Any]:
    """Train on the training rows, without features or ratings, and without validation."""
    split = load_split(data)
    log = replace(split.train, rating=None, user_features=None, item_features=None)
    stream = Streams(0).torch
    model = build(candidate, log, generator=stream("candidate"))
    ends: list[float] = []
    shared: dict[str, Any] = {"epochs": epochs, "batch_size": batch_size, "l2": l2}
    seen: dict[str, Any] = {"callbacks": [lambda _: ends.append(time.perf_counter())]}
    if method == "erm":
        erm(model, log, Training(**shared), **seen)
    else:
        opponent = build(candidate, log, generator=stream("exposure"))
        acl(model, opponent, log, Game(**shared), **seen)
    taken = np.diff(ends)
    return {
        "seconds": float(taken.mean()),
        "epochs": taken.tolist(),
        "rows": len(log),
        "peak": peak_bytes(),
    }


if __name__ == "__main__":
    import warnings

    warnings.simplefilter("ignore")  # a few epochs say nothing about the link
    job = json.loads(sys.argv[2])
    print(json.dumps(run(sys.argv[1], **job)))
