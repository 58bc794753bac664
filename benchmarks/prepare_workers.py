"""Prepare a generated log by ranges of users: two workers against one, a thread each.

Usage: python -m benchmarks.run prepare_workers, or python -m benchmarks.prepare_workers ROWS
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.prepare_scale import N_ITEMS, N_USERS, write_log

N_ROWS, SHARDS = 50_000_000, 64
GOAL_RATIO, GOAL_BYTES = 1.5, 3 * 2**30

PREPARE = """
import json, resource, sys, time, warnings
warnings.simplefilter("ignore")
from counterplay.data.jobs import processes
from counterplay.data.preparation import Preparation
from counterplay.data.sharded import prepare_shards
if __name__ == "__main__":
    log, out, workers, shards = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    lists, last = {}, [time.perf_counter(), ""]
    def told(what, done, total):
        now = time.perf_counter()
        if what != last[1]:
            lists[last[1]] = lists.get(last[1], 0) + now - last[0]
            last[:] = [now, what]
    begin = time.perf_counter()
    with processes(workers) as executor:
        how = {"shards": shards, "executor": executor, "progress": told}
        made = prepare_shards(log, out, Preparation(), **how)
    told("", 0, None)
    own = resource.getrusage(resource.RUSAGE_SELF)
    others = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(json.dumps({
        "seconds": time.perf_counter() - begin,
        "cpu_seconds": {"command": own.ru_utime + own.ru_stime,
                        "workers": others.ru_utime + others.ru_stime},
        "peak": {"command": own.ru_maxrss * 1024, "worker": others.ru_maxrss * 1024},
        "lists": {name: seconds for name, seconds in lists.items() if name},
        "fingerprint": made["fingerprint"],
    }))
"""


def measured(log: Path, workers: int) -> dict[str, Any]:
    """Prepare a log in a process of its own, and return time, memory and fingerprint."""
    script, out = log.with_name("prepare.py"), log.with_name(f"dataset-{workers}")
    script.write_text(PREPARE, encoding="utf-8")
    command = [sys.executable, str(script), str(log), str(out), str(workers), str(SHARDS)]
    output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    found: dict[str, Any] = json.loads(output)
    return found


def run(n_rows: int = N_ROWS) -> dict[str, Any]:
    """Measure both, and compare."""
    with tempfile.TemporaryDirectory() as scratch:
        log = Path(scratch) / "log.parquet"
        write_log(log, n_rows)
        one, two = measured(log, 1), measured(log, 2)
    assert one["fingerprint"] == two["fingerprint"]
    ratio = one["seconds"] / two["seconds"]
    peak = max(two["peak"].values())
    return {
        "rows_of_the_log": n_rows,
        "users": N_USERS,
        "items": N_ITEMS,
        "shards": SHARDS,
        "measured": {"1": one, "2": two},
        "rows": [
            {
                "what": f"prepare {n_rows / 1e6:g} million rows by two workers",
                "ours": f"{two['seconds']:.0f} s",
                "yardstick": f"{one['seconds']:.0f} s by one",
                "ratio": f"{ratio:.2f}",
                "goal": f"at least {GOAL_RATIO}",
                "met": ratio >= GOAL_RATIO,
            },
            {
                "what": "peak memory of a process",
                "ours": f"{peak / 2**30:.2f} GiB",
                "yardstick": f"{GOAL_BYTES / 2**30:g} GiB",
                "ratio": f"{peak / GOAL_BYTES:.2f}",
                "goal": "below 1",
                "met": peak < GOAL_BYTES,
            },
        ],
    }


if __name__ == "__main__":
    print(json.dumps(run(int(sys.argv[1])), indent=2))
