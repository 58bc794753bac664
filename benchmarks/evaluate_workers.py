"""Evaluate by jobs: two workers against one, a thread each; and ranks among very many items.

The rate is that of the second half of the jobs: by then all processes have started and loaded. What
ranks by blocks of items hold is measured against rows of all scores, and what one job of many holds
against the same ranks by a candidate with all its users, each in a process of its own.
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
from counterplay.data.workplace import Workplace
from counterplay.metrics.ranks import MEMORY, rows_at_once
from counterplay.runs.config import run_config
from counterplay.runs.rank_jobs import RankJob
from counterplay.runs.record import read_record
from counterplay.runs.sources import Source, run_scores

N_ROWS, N_USERS, N_ITEMS = 1_000_000, 40_000, 100_000
SHARDS, ROUNDS, GOAL = 64, 2, 1.6
MANY_USERS = {"rows": 10_000_000, "users": 1_000_000, "items": 20_000, "dim": 64}
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

HOLD = """
import json, sys, time, warnings
from pathlib import Path
warnings.simplefilter("ignore")
import numpy as np
import counterplay as cp
from counterplay.data.workplace import Workplace
from counterplay.runs.rank_jobs import RankJob
from counterplay.runs.record import read_record
from counterplay.runs.sources import run_scores
import counterplay.models.factorization, safetensors.torch
how, folder = sys.argv[1], Path(sys.argv[2])
place, job = Workplace(folder), RankJob.model_validate_json((folder / "job.json").read_text())
def kept(name):
    found = open("/proc/self/status").read().split(name + ":")[1]
    return int(found.split()[0]) * 1024
open("/proc/self/clear_refs", "w").write("5")
held, begin = kept("VmRSS"), time.perf_counter()
if how == "job":
    found = job.run(place)
else:
    split = cp.data.load_split(job.source.data)
    seen = split.interactions.take(split.part < job.before)
    scores = run_scores(job.source.run[0], read_record(job.source.run[0]), split, seen)
    found = job.kept(place, place.map_array(*job.rows), scores, seen)
print(json.dumps({
    "seconds": time.perf_counter() - begin,
    "bytes": kept("VmHWM") - held,
    "found": found,
}))
"""


def run() -> dict[str, Any]:
    place = _trained("evaluate-workers", N_ROWS, N_USERS, N_ITEMS, 32)
    turns = [
        {size: _python(EVALUATE, place, size, SHARDS) for size in (1, 2)} for _ in range(ROUNDS)
    ]
    if len({tuple(each["values"]) for turn in turns for each in turn.values()}) != 1:
        raise RuntimeError("evaluations by different numbers of workers must be the same")
    ranked = {
        name: {items: _python(RANK, items, TARGETS, int(name == "blocks")) for items in MANY_ITEMS}
        for name in ("blocks", "rows")
    }
    held = _held()
    return {
        "log": {"rows": N_ROWS, "users": N_USERS, "items": N_ITEMS, "shards": SHARDS},
        "turns": turns,
        "many items": {"targets": TARGETS, **ranked},
        "many users": {"log": MANY_USERS, "shards": SHARDS, **held},
        "rows": [_rate(turns), _memory(ranked), _of_a_job(held)],
    }


def _trained(name: str, n_rows: int, n_users: int, n_items: int, dim: int) -> Path:
    """Return a run on a log of its own, which is made and trained once."""
    data, place = WORK / name, WORK / f"{name}-run"
    if not data.exists():
        rng = cp.Streams(0).numpy("evaluate workers")
        user = (n_users * rng.random(n_rows)).astype(np.int32)
        item = (n_items * rng.random(n_rows) ** 3).astype(np.int32)
        item[:n_items] = rng.permutation(n_items)
        log = cp.read(pl.DataFrame({"user": user, "item": item}))
        cp.data.save(cp.data.split_at_random(log, rng), data)
    if not place.exists():
        settings = ["method=erm", "candidate.name=gmf", f"candidate.dim={dim}"]
        settings += ["training.epochs=1", "validation.users=500"]
        cp.train(data, place, run_config(None, settings))
    return place


def _held() -> dict[str, Any]:
    """Return what the middle one of many jobs holds, and what all users take for the same ranks."""
    run = _trained("evaluate-many-users", *MANY_USERS.values())
    data, record = WORK / "evaluate-many-users", read_record(run)
    split = cp.data.load_split(data)
    n, middle = split.interactions.n_users, SHARDS // 2
    test, first, last = split.test, n * middle // SHARDS, n * (middle + 1) // SHARDS
    test = test.take((test.user >= first) & (test.user < last))
    scores = run_scores(run, record, split, split.train)
    assert scores.fallback is not None
    with tempfile.TemporaryDirectory() as folder:
        place = Workplace(Path(folder))
        files = {
            name: (name, place.put_array(name, values))
            for name, values in (
                ("rows", np.column_stack([test.user, test.item])),
                ("everybody", scores.fallback.items),
            )
        }
        prints = split.interactions.fingerprint, split.fingerprint
        source = Source.of(data, prints, 2, run).model_copy(
            update={"everybody": files["everybody"]}
        )
        job = RankJob(
            what="ranks", source=source, shard=middle, rows=files["rows"], before=2, memory=MEMORY,
            at_once=rows_at_once(last - first, test.n_items, MEMORY),
        )  # fmt: skip
        (Path(folder) / "job.json").write_text(job.model_dump_json())
        found = {how: _python(HOLD, how, folder) for how in ("job", "whole")}
    if found["job"]["found"] != found["whole"]["found"]:
        raise RuntimeError("a job must make the ranks that a candidate with all users makes")
    return found


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


def _of_a_job(held: dict[str, Any]) -> dict[str, Any]:
    job, whole = (held[how]["bytes"] / 2**20 for how in ("job", "whole"))
    rows, users, items, dim = MANY_USERS.values()
    return {
        "what": f"peak MiB beside what is imported, of one of {SHARDS} jobs: {rows:,} rows of "
        f"{users:,} users and {items:,} items, GMF of dimension {dim}",
        "ours": f"{job:,.0f}",
        "yardstick": f"{whole:,.0f}, with the rows and vectors of all users",
        "ratio": f"{job / whole:.2f}",
        "goal": "at most 0.25",
        "met": job / whole <= 0.25,
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
