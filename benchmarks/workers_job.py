"""One worker of a training that is measured: prints seconds, rows and bytes of its last epoch.

Usage, with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT: python -m benchmarks.workers_job JOB.json
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import torch

from counterplay.data.shares import load_share
from counterplay.learning.batches import Batches
from counterplay.learning.fitting import fit
from counterplay.learning.methods import method_of
from counterplay.learning.shards import ShardBatches
from counterplay.runs.config import config_of
from counterplay.runs.workers import Workers, joined
from counterplay.seeding import Streams


def main(job: dict[str, Any]) -> None:
    """Train, and print what the last epoch took."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    config = config_of(job["config"])
    kind = method_of(config.method)
    with joined() as group:
        above = 0.0 if job.get("own_items") else float("inf")
        train = load_share(job["data"], group, job["shards"], owned_above=above).train
        players = config.players(train, Streams(0))
        ends: list[tuple[float, float, int]] = []

        def note(_: object) -> None:
            group.barrier()
            sent = group.n_bytes if isinstance(group, Workers) else 0
            ends.append((time.perf_counter(), time.process_time(), sent))

        source: Batches = ShardBatches(train, config.of_method(), *players.values())
        note(None)
        fit(kind(players, train, config.of_method()), callbacks=[note], batches=source)
        seconds, cpu_seconds, n_bytes = (
            after - before for before, after in zip(*ends[-2:], strict=True)
        )
        steps = source.n_steps if isinstance(source, ShardBatches) else 1
        n = int(group.total(torch.tensor([len(train)]).numpy())[0])
        if group.rank == 0:
            found = {"seconds": seconds, "cpu seconds": cpu_seconds, "rows": n, "steps": steps}
            print(json.dumps(found | {"bytes a step": n_bytes / steps}))


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
