"""What it costs in quality that long logs are shuffled in chunks of few users.

A log of more than a million rows is learnt from chunk by chunk. Where a user has no more rows than
a chunk has batches, a chunk is made of blocks of the log, and so of few users. MovieLens-1M is
shorter than a chunk; here it is cut into smaller ones all the same. Small batches let its users'
rows find batches of their own; with large ones, blocks are forced on it, to see what the rule is
good for. Validation Hit@10 of GMF at the best epoch, against one chunk, paired by seeds.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from benchmarks.movielens import ABSENT, movielens
from counterplay import RunConfig, train_run
from counterplay.data.store import load_split
from counterplay.experiments.agreement import mean_over_repetitions
from counterplay.learning import batches

SEEDS = 5
CASES: dict[str, dict[str, Any]] = {
    "by the rule": {
        "chunk": 1 << 18,
        "training": {"epochs": 16, "patience": 16, "rate": 0.003, "batch_size": 1024},
    },
    "blocks forced": {
        "chunk": 1 << 17,
        "training": {"epochs": 40, "patience": 10, "rate": 0.01, "batch_size": 8192},
    },
}


def run() -> dict[str, Any]:
    data = movielens()
    if data is None:
        return ABSENT
    log = load_split(data).train
    cases = {}
    for name, case in CASES.items():
        size = case["training"]["batch_size"]
        together = batches._rows_together(log, case["chunk"] // size)
        assert (together > 1) == (name == "by the rule")
        whole, cut = (
            np.array(
                [
                    _validation(data, case["training"] | {"seed": seed}, chunk)
                    for seed in range(SEEDS)
                ]
            )
            for chunk in (batches._CHUNK, case["chunk"])
        )
        cases[name] = case | {
            "one chunk": whole.tolist(),
            "several": cut.tolist(),
            "difference": mean_over_repetitions(100 * (cut - whole)),
        }
    return {"cases": cases, "rows": [_row(name, case) for name, case in cases.items()]}


def _validation(data: Path, training: dict[str, Any], chunk: int) -> float:
    config = RunConfig.model_validate(
        {
            "method": "erm",
            "candidate": {"name": "gmf", "use_features": False},
            "training": training | {"l2": 1e-6, "optimizer": "lazy"},
        }
    )
    with (
        mock.patch.object(batches, "_CHUNK", chunk),
        mock.patch.object(batches, "_rows_together", return_value=batches._BLOCK),
        tempfile.TemporaryDirectory() as folder,
    ):
        record = train_run(data, Path(folder) / "run", config)
        return float(record["validation"]["value"])


def _row(name: str, case: dict[str, Any]) -> dict[str, Any]:
    whole, cut = (100 * np.mean(case[key]) for key in ("one chunk", "several"))
    difference = case["difference"]
    forced = name != "by the rule"
    return {
        "what": f"GMF, validation Hit@10, MovieLens-1M in chunks of {case['chunk']:,} rows, "
        f"batches of {case['training']['batch_size']:,}, {name}, {SEEDS} seeds",
        "ours": f"{cut:.2f}",
        "yardstick": f"{whole:.2f} in one chunk; difference [{{low:+.2f}}, {{high:+.2f}}]".format(
            **difference
        ),
        "ratio": f"{cut / whole:.3f}",
        "goal": "none" if forced else "at most 0.5 points lost",
        "met": None if forced else difference["low"] > -0.5,
    }
