"""A worker of two is killed, stopped or ended at a random moment, also within a checkpoint.

All must end by themselves with one sentence, no process may stay, and the same command with
`--resume`, by one, two or four workers, must end in the run of one process. In about half of the
cases workers own the items' vectors, before the signal, after it, or both. Every case has a
number, and with the seed its number says all of it; finished ones are kept in `benchmarks/.work`.

Usage: python -m benchmarks.run worker_kills, or python -m benchmarks.worker_kills CASES
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from benchmarks.faults.campaign import campaign, rng_of
from benchmarks.two_hosts import checkerboard

SEED, N_CASES = 2026, 112  # a few end before their signal: at least 100 are hit
SIGNALS = (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM)
TIMEOUT, CLOSE = 5, 1e-4
_ITEMS = ("--copy-items", "--own-items")
TRAINING = ("--method", "erm", "--dim", "16", "--shards", "8", "--epochs", "12",
            "--set", "training.patience=12")  # fmt: skip


def run(n_cases: int = N_CASES) -> dict[str, Any]:
    cases = campaign("workers", WorkerKills(SEED), n_cases)
    faults = [each for each in cases if each["fault"]]
    hit = [each for each in cases if each["outcome"] != "ended before"]  # of the others, none was
    waits = sorted(each["seconds"] for each in hit)
    return {
        "seed": SEED,
        "cases": {"planned": N_CASES, "tried": len(cases), "hit by a signal": len(hit)},
        "outcomes": dict(sorted(Counter(each["outcome"] for each in cases).items())),
        "seconds": {"median": waits[len(waits) // 2], "longest": waits[-1]},
        "faults": faults,
        "rows": [
            {
                "what": "one of two workers killed, stopped or ended at random moments, then "
                "resumed by 1, 2 or 4: another result, a mixed epoch, a leftover process, or not "
                "one sentence",
                "ours": f"{len(faults)} of {len(hit)}, {N_CASES} planned",
                "yardstick": "",
                "ratio": "",
                "goal": "0",
                "met": not faults if faults or n_cases >= N_CASES else None,
            },
            {
                "what": f"the same: seconds until all had ended, timeout {TIMEOUT} s, median and "
                "longest",
                "ours": f"{waits[len(waits) // 2]:.0f} and {waits[-1]:.0f}",
                "yardstick": "",
                "ratio": "",
                "goal": "none",
                "met": None,
            },
        ],
    }


class WorkerKills:
    """Kills of a worker."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def prepare(self, folder: Path) -> None:
        """Make the data, and the run of one process with its seconds."""
        checkerboard(folder / "data", 500, 200, 20_000)
        begin = time.monotonic()
        process = self._started(folder, "whole", 2)
        said = process.communicate()[1]
        if process.returncode:
            raise RuntimeError(said)
        self._seconds = time.monotonic() - begin

    def try_case(self, number: int, folder: Path) -> dict[str, Any]:
        """Signal a worker of a run, then let another number of workers go on."""
        rng = rng_of(self.seed, "workers", number)
        which, kind, size = int(rng.integers(2)), SIGNALS[number % 3], (1, 2, 4)[rng.integers(3)]
        before, after = (_ITEMS[int(place)] for place in rng.integers(2, size=2))
        shutil.rmtree(folder / "run", ignore_errors=True)
        process = self._started(folder, "run", 2, before)
        time.sleep(float(rng.uniform(0.1, 0.9)) * self._seconds)
        children = _children(process.pid)
        case = {
            "signal": kind.name, "worker": which, "resumed by": size, "seconds": 0.0,
            "items": [before, after],
        }  # fmt: skip
        if len(children) < 2:
            process.communicate()
            return case | {"outcome": "ended before", "fault": None}
        begin = time.monotonic()
        os.kill(children[which], kind)
        said = process.communicate()[1]
        case["seconds"] = round(time.monotonic() - begin, 1)
        fault = self._fault(process, said, children)
        if fault is None:
            process = self._started(folder, "run", size, "--resume", after)
            words = process.communicate()[1]
            fault = words if process.returncode else self._apart(folder)
        begun = "after an epoch" if "--resume" in said else "before or after"
        return case | {"outcome": f"{kind.name}, {begun}", "said": said, "fault": fault}

    def _fault(self, process: subprocess.Popen[str], said: str, children: list[int]) -> str | None:
        """Return what is wrong with how all ended."""
        if process.returncode and said.count("counterplay: ") != 1:
            return f"not one sentence: {said}"
        if "Traceback" in said:
            return "a traceback"
        left = [each for each in children if Path(f"/proc/{each}").exists()]
        return f"processes that stay: {left}" if left else None

    def _apart(self, folder: Path) -> str | None:
        one, other = (load_file(folder / each / "model.safetensors") for each in ("whole", "run"))
        furthest = max(float(torch.max(torch.abs(one[key] - other[key]))) for key in one)
        return None if furthest <= CLOSE else f"an entry that is {furthest:.1e} from the run"

    def _started(self, folder: Path, name: str, size: int, *more: str) -> subprocess.Popen[str]:
        words = ["train", str(folder / "data"), "--out", str(folder / name), *TRAINING]
        return subprocess.Popen(
            [sys.executable, "-m", "counterplay", *words, "--workers", str(size), *more],
            env=os.environ | {"OMP_NUM_THREADS": "1", "COUNTERPLAY_TIMEOUT": str(TIMEOUT)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )


def _children(pid: int) -> list[int]:
    try:
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


if __name__ == "__main__":
    print(json.dumps(run(int(sys.argv[1])), indent=2))
