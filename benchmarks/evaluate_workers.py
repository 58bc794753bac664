"""Evaluate by jobs: two workers against one, a thread each; and ranks among very many items.

The rate is that of the second half of the jobs: by then all processes have started and loaded. What
ranks by blocks of items hold is measured against rows of all scores, each in a process of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import counterplay as cp
from benchmarks.movielens import WORK
from counterplay.runs.config import run_config

N_ROWS, N_USERS, N_ITEMS = 1_000_000, 40_000, 100_000
SHARDS, ROUNDS, GOAL = 64, 2, 1.6
MANY_ITEMS, TARGETS = (5_000_000, 20_000_000), 16

EVALUATE = """
import json, resource, sys, time, warnings
warnings.simplefilter("ignore")
from counterplay.data.jobs import processes
from counterplay.evaluation.stage import Evaluation
from counterplay.runs.candidates import evaluate_run
from counterplay.runs.ranking import ranking_for
if __name__ == "__main__":
    run, workers, shards = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    ended, begin = [], time.perf_counter()
    def told(what, done, total):
        if done:
            ended.append(time.perf_counter())
    how = Evaluation(estimators=("standard",))
    with processes(workers) as executor:
        with ranking_for(None, shards=shards, executor=executor, progress=told) as ranking:
            found = evaluate_run(run, None, how, ranking=ranking)
    seconds, half = time.perf_counter() - begin, len(ended) // 2
    own = resource.getrusage(resource.RUSAGE_SELF)
    others = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(json.dumps({
        "seconds": seconds,
        "jobs a second": (len(ended) - half - 1) / (ended[-1] - ended[half]),
        "cpu seconds": {"command": own.ru_utime + own.ru_stime,
                        "workers": others.ru_utime + others.ru_stime},
        "peak": {"command": own.ru_maxrss * 1024, "worker": others.ru_maxrss * 1024},
        "values": [each.value for each in found.estimates],
    }))
"""

RANK = """
import json, sys, time
import numpy as np, torch
torch.set_num_threads(1)
from counterplay.data.interactions import Interactions
from counterplay.data.vocabulary import Vocabulary
from counterplay.metrics.ranks import full_ranks
from counterplay.metrics.scoring import ModelScores
from counterplay.models.factorization import GMF
n_items, n, block = map(int, sys.argv[1:])
users, items = (Vocabulary.of(np.arange(each)) for each in (n, n_items))
rng = np.random.default_rng(0)
index = np.arange(n, dtype=np.int32)
seen = Interactions(users, items, index, rng.integers(n_items, size=n, dtype=np.int32))
rows = Interactions(users, items, index, rng.integers(n_items, size=n, dtype=np.int32))
scores = ModelScores(GMF(n, n_items, dim=8, generator=torch.Generator().manual_seed(0)), seen)
def kept(name):
    found = open("/proc/self/status").read().split(name + ":")[1]
    return int(found.split()[0]) * 1024
open("/proc/self/clear_refs", "w").write("5")  # the peak begins anew: making the model had one
held = kept("VmRSS")
begin = time.perf_counter()
how = {} if block else {"block": n_items, "memory": 32 * n_items}
ranks = full_ranks(scores, rows, seen, **how)
print(json.dumps({
    "seconds": time.perf_counter() - begin,
    "bytes": kept("VmHWM") - held,
    "ranks": ranks.expected.tolist(),
}))
"""


def run() -> dict[str, Any]:
    data, place = WORK / "evaluate-workers", WORK / "evaluate-workers-run"
    if not data.exists():
        cp.data.save(_split(), data)
    if not place.exists():
        settings = ["method=erm", "candidate.name=gmf", "candidate.dim=32", "training.epochs=1"]
        cp.train(data, place, run_config(None, [*settings, "validation.users=500"]))
    turns = [
        {size: _python(EVALUATE, place, size, SHARDS) for size in (1, 2)} for _ in range(ROUNDS)
    ]
    if len({tuple(each["values"]) for turn in turns for each in turn.values()}) != 1:
        raise RuntimeError("evaluations by different numbers of workers must be the same")
    ranked = {
        name: {items: _python(RANK, items, TARGETS, int(name == "blocks")) for items in MANY_ITEMS}
        for name in ("blocks", "rows")
    }
    return {
        "log": {"rows": N_ROWS, "users": N_USERS, "items": N_ITEMS, "shards": SHARDS},
        "turns": turns,
        "many items": {"targets": TARGETS, **ranked},
        "rows": [_rate(turns), _memory(ranked)],
    }


def _split() -> cp.Split:
    rng = cp.Streams(0).numpy("evaluate workers")
    user = (N_USERS * rng.random(N_ROWS)).astype(np.int32)
    item = (N_ITEMS * rng.random(N_ROWS) ** 3).astype(np.int32)
    item[:N_ITEMS] = rng.permutation(N_ITEMS)
    return cp.data.split_at_random(cp.read(pl.DataFrame({"user": user, "item": item})), rng)


def _python(script: str, *arguments: object) -> dict[str, Any]:
    """Run a script in a process of its own, a thread each, and return what it printed."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "script.py"
        path.write_text(script, encoding="utf-8")
        command = [sys.executable, str(path), *map(str, arguments)]
        output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    found: dict[str, Any] = json.loads(output)
    return found


def _rate(turns: list[dict[int, dict[str, Any]]]) -> dict[str, Any]:
    one, two = (max(turn[size]["jobs a second"] for turn in turns) for size in (1, 2))
    peak = max(turn[2]["peak"]["worker"] for turn in turns) / 2**30
    return {
        "what": f"GMF, full ranks of {N_USERS:,} users among {N_ITEMS:,} items, jobs a second of 2 "
        f"workers, {SHARDS} jobs; a worker holds {peak:.2f} GiB",
        "ours": f"{two:.2f}",
        "yardstick": f"{one:.2f}, 1 worker",
        "ratio": f"{two / one:.2f}",
        "goal": f"at least {GOAL}",
        "met": two / one >= GOAL,
    }


def _memory(ranked: dict[str, dict[int, dict[str, Any]]]) -> dict[str, Any]:
    held = {
        name: [found[items]["bytes"] / 2**20 for items in MANY_ITEMS]
        for name, found in ranked.items()
    }
    ranks = [np.array(ranked[name][MANY_ITEMS[1]]["ranks"]) for name in ("blocks", "rows")]
    away = float(np.abs(ranks[0] - ranks[1]).max())  # products of other shapes round otherwise
    growth = {name: more / few for name, (few, more) in held.items()}
    words = {name: f"{few:,.0f} → {more:,.0f}" for name, (few, more) in held.items()}
    return {
        "what": f"full ranks among {MANY_ITEMS[0]:,} → {MANY_ITEMS[1]:,} items: MiB beside the "
        f"model; {TARGETS} ranks differ by {away:g} at most, by rounding",
        "ours": f"{words['blocks']}, blocks of items",
        "yardstick": f"{words['rows']}, rows of one user's scores",
        "ratio": f"{growth['blocks']:.2f}, against {growth['rows']:.2f}",
        "goal": "at most 1.2: it does not grow with the items",
        "met": growth["blocks"] <= 1.2,
    }
