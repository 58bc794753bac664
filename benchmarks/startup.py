"""CPU seconds of helps and of mistakes, beside an empty Python and the import of torch."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

REPEATS = 3
HELP, MISTAKE = 0.3, 0.5  # CPU seconds, at most
HELPS = ("--help", "run --help", "train --help", "evaluate --help")
MISTAKES = {
    "a missing file": "run none.csv",
    "a missing dataset": "train none --out new",
    "a missing run": "evaluate none",
    "an unknown option": "run log.csv --usr uid",
    "an unknown setting": "train data --out new --set training.nope=1",
    "an unknown column": "prepare log.csv --user nope --out new",
    "an unknown column, in a study": "run log.csv --user nope",
    "scores with other columns": "evaluate --scores log.csv --data data",
}


def run() -> dict[str, Any]:
    commands = {words: ("-m", "counterplay", *words.split()) for words in HELPS}
    commands |= {name: ("-m", "counterplay", *words.split()) for name, words in MISTAKES.items()}
    commands |= {"python": ("-c", "pass"), "torch": ("-c", "import torch")}
    found: dict[str, list[float]] = {name: [] for name in commands}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "log.csv").write_text("uid,sku\n1,2\n")
        (folder / "data").mkdir()
        (folder / "data/dataset.json").write_text("{}")
        for _ in range(REPEATS):  # they take turns: the machine is not the same all the time
            for name, words in commands.items():
                found[name].append(_cpu_seconds(words, folder))
    best = {name: min(seconds) for name, seconds in found.items()}
    limits = dict.fromkeys(HELPS, HELP) | dict.fromkeys(MISTAKES, MISTAKE)
    return {
        "cpu_seconds": best,
        "rows": [
            {
                "what": f"CPU of counterplay {name}" if name in HELPS else f"CPU to tell {name}",
                "ours": f"{best[name]:.2f} s, {best[name] / best['python']:.0f} × python -c pass",
                "yardstick": f"{best['torch']:.2f} s, import torch",
                "ratio": f"{best[name] / best['torch']:.2f}",
                "goal": f"at most {limit:g} s",
                "met": best[name] <= limit,
            }
            for name, limit in limits.items()
        ],
    }


def _cpu_seconds(words: tuple[str, ...], folder: Path) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *words], cwd=folder, capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
