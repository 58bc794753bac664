"""Run the benchmarks and write what they found to `benchmarks/results`.

Usage: python -m benchmarks.run [NAME ...]

Every benchmark measures its yardstick in the same run and reports the ratio; seconds alone say
little on a noisy machine. Files that a benchmark needs and that are absent make it report so.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

from reproduction.records import write_record, write_summary

RESULTS = Path(__file__).parent / "results"
COMMAND = "python -m benchmarks.run"
NAMES = (
    "prepare_movielens",
    "negatives",
    "prepare_scale",
    "impressions",
    "training",
    "training_scale",
    "workers",
    "owned_items",
    "two_hosts",
    "shuffling",
    "quality",
    "sasrec_speed",
    "ranking",
    "classical",
    "uncertainty",
    "dials",
    "scored_rows",
    "open_bandit",
    "worlds",
    "demo",
    "study",
    "startup",
    "faults",
    "switches",
    "newcomer",
)
LONG = ("prepare_workers", "evaluate_workers", "worker_kills", "sasrec")  # run only when named
ALL = (*NAMES, *LONG)
ABOUT = (
    "# Benchmark results",
    "",
    "Each row was measured against its yardstick in one run; the JSON beside this page has the "
    "details, the machine and the versions. Made by `make bench`, but what takes long by "
    f"`{COMMAND} NAME`: {', '.join(f'`{name}`' for name in LONG)}.",
)


def main(names: list[str]) -> None:
    """Run the named benchmarks, or all that do not take long, and rewrite the summary."""
    RESULTS.mkdir(exist_ok=True)
    for name in names or NAMES:
        print(f"{name} …", flush=True)
        result = importlib.import_module(f"benchmarks.{name}").run()
        print(json.dumps(result, indent=2))
        if "skipped" not in result:
            write_record(result, RESULTS, name, COMMAND)
    write_summary(RESULTS, ABOUT, ALL, COMMAND)


if __name__ == "__main__":
    main(sys.argv[1:])
