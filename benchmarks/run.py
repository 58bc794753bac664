"""Run the benchmarks and write what they found to `benchmarks/results`.

Usage: python -m benchmarks.run [NAME ...]

Every benchmark measures its yardstick in the same run and reports the ratio; seconds alone say
little on a noisy machine. Files that a benchmark needs and that are absent make it report so.
"""

from __future__ import annotations

import importlib
import json
import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RESULTS = HERE / "results"
NAMES = (
    "prepare_movielens",
    "negatives",
    "prepare_scale",
    "training",
    "training_scale",
    "shuffling",
    "quality",
    "ranking",
    "uncertainty",
    "open_bandit",
    "worlds",
    "randomised",
    "recipes",
    "curves",
    "headroom",
    "demo",
    "faults",
    "estimators",
)
# Measured before rows at one time had an order of their own, ties a mean metric, and epochs were
# chosen by full ranks: their figures would come out a little different now.
OLDER = (
    "training",
    "training_scale",
    "shuffling",
    "quality",
    "randomised",
    "recipes",
    "curves",
    "headroom",
    "demo",
    "estimators",
)


def machine() -> dict[str, Any]:
    """Return what the figures depend on."""
    packages = ("numpy", "polars", "pyarrow", "torch")
    return {
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "versions": {package: version(package) for package in packages},
    }


def main(names: list[str]) -> None:
    """Run the named benchmarks, or all of them, and rewrite the summary."""
    RESULTS.mkdir(exist_ok=True)
    for name in names or NAMES:
        print(f"{name} …", flush=True)
        result = importlib.import_module(f"benchmarks.{name}").run()
        print(json.dumps(result, indent=2))
        if "skipped" not in result:
            command = f"python -m benchmarks.run {name}"
            record = {"name": name, "command": command, "machine": machine(), **result}
            (RESULTS / f"{name}.json").write_text(json.dumps(record, indent=2) + "\n")
    summarise()


def summarise() -> None:
    """Write the table of all results that are there."""
    lines = [
        "# Benchmark results",
        "",
        "Each row was measured against its yardstick in one run; the JSON beside this page has the "
        "details, the machine and the versions. Made by `make bench`.",
        "",
        "| what | ours | yardstick | ratio | goal | met |",
        "|---|---|---|---|---|---|",
    ]
    for path in (RESULTS / f"{name}.json" for name in NAMES):
        if path.exists():
            for row in json.loads(path.read_text())["rows"]:
                met = {True: "yes", False: "no", None: ""}[row["met"]]
                cells = (row[key] for key in ("what", "ours", "yardstick", "ratio", "goal"))
                mark = " †" if path.stem in OLDER else ""
                lines.append(f"| {' | '.join(cells).replace(' |', f'{mark} |', 1)} | {met} |")
    lines += [
        "",
        "† Measured before rows of one user at one time had an order of their own, before ties "
        "counted by the mean of a metric, and before epochs were chosen by full ranks; "
        "`python -m benchmarks.run NAME` measures anew.",
    ]
    (RESULTS / "README.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
