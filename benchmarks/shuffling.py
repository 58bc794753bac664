"""What it costs in quality that very long logs are shuffled in chunks of few of their users.

A log of more than a million rows is learnt from chunk by chunk. If its users are so many, with so
few rows each, that it does no harm, a chunk is made of blocks of the log, and so of few of the
users. Here logs are cut so into smaller chunks: one of 200,000 users as the rule allows, and
MovieLens-1M twice against it, to see what the rule is good for. Validation Hit@10 of GMF at the
best epoch, paired by seeds with the same log in one chunk.

Finished trainings are kept in `benchmarks/.work`; the command goes on where it was.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

import counterplay as cp
from benchmarks.movielens import ABSENT, WORK, movielens
from counterplay.data.directory import load_split
from counterplay.learning import batches
from counterplay.simulation.writing import write_world
from reproduction.agreement import mean_over_repetitions

WHOLE = 1 << 23  # rows of a chunk, more than any log here has


class Case(NamedTuple):
    """A log, and how it is cut and learnt from."""

    data: str
    chunk: int
    seeds: int
    training: dict[str, Any]

    @property
    def name(self) -> str:
        """Return what tells it from others."""
        return f"{self.data}-{self.chunk}-{self.training['batch_size']}"


CASES = (
    Case(
        *("synthetic", 1 << 19, 3),
        {"epochs": 10, "rate": 0.01, "l2": 1e-6, "batch_size": 16384},
    ),
    Case(
        *("ml-1m", 1 << 18, 5),
        {"epochs": 16, "patience": 16, "rate": 0.003, "l2": 1e-6, "batch_size": 1024},
    ),
    Case(
        *("ml-1m", 1 << 17, 5),
        {"epochs": 40, "patience": 10, "rate": 0.01, "l2": 1e-6, "batch_size": 8192},
    ),
)


def run() -> dict[str, Any]:
    if movielens() is None:
        return ABSENT
    found = {case.name: _compared(case) for case in CASES}
    return {"cases": found, "rows": [_row(case, found[case.name]) for case in CASES]}


def _log(case: Case) -> Path:
    """Return the dataset directory of a case."""
    if case.data == "ml-1m":
        found = movielens()
        assert found is not None
        return found
    folder = WORK / "shuffling-world"
    if not folder.exists():
        world = cp.simulation.Synthetic(n_users=200_000, n_items=2000, seed=0).world()
        write_world(world, folder, rates=(1.0, 0.02, 0.02))
    return folder / "log"


def _compared(case: Case) -> dict[str, Any]:
    log = load_split(_log(case)).train
    n_batches = case.chunk // case.training["batch_size"]
    whole, cut = (
        [_validation(case, chunk, seed) for seed in range(case.seeds)]
        for chunk in (WHOLE, case.chunk)
    )
    return case._asdict() | {
        "rows": len(log),
        "users": log.n_users,
        "by the rule": batches._rows_together(log, n_batches, case.chunk) > 1,
        "one chunk": whole,
        "several chunks": cut,
        "difference": mean_over_repetitions(100 * (np.array(cut) - whole)),
    }


def _validation(case: Case, chunk: int, seed: int) -> float:
    """Train, or take what is finished, and return the validation value."""
    kept = WORK / "shuffling" / f"{case.name}-in-{chunk}-{seed}.json"
    if not kept.exists():
        config = cp.runs.RunConfig.model_validate(
            {
                "method": "erm",
                "candidate": {"name": "gmf", "use_features": False},
                "training": case.training | {"optimizer": "lazy", "seed": seed},
            }
        )
        folder = kept.with_suffix("")
        shutil.rmtree(folder, ignore_errors=True)
        with (
            mock.patch.object(batches, "_CHUNK", chunk),
            mock.patch.object(batches, "_rows_together", return_value=batches._BLOCK),
        ):
            record = cp.train(_log(case), folder, config)
        kept.write_text(json.dumps(record.validation.value if record.validation else None))
        shutil.rmtree(folder)
    return float(json.loads(kept.read_text()))


def _row(case: Case, found: dict[str, Any]) -> dict[str, Any]:
    whole, cut = (100 * np.mean(found[key]) for key in ("one chunk", "several chunks"))
    difference, rule = found["difference"], found["by the rule"]
    return {
        "what": f"GMF, validation Hit@10, {found['rows']:,} rows of {found['users']:,} users in "
        f"chunks of {case.chunk:,}, batches of {case.training['batch_size']:,}, "
        f"{'by' if rule else 'against'} the rule, {case.seeds} seeds",
        "ours": f"{cut:.2f}",
        "yardstick": f"{whole:.2f} in one chunk; difference [{{low:+.2f}}, {{high:+.2f}}]".format(
            **difference
        ),
        "ratio": f"{cut / whole:.3f}",
        "goal": "at most 0.5 points lost" if rule else "none",
        "met": difference["low"] > -0.5 if rule else None,
    }
