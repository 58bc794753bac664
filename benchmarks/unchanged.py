"""Whether this version computes what another one did: the same commands by both, compared.

Usage: python -m benchmarks.unchanged [REVISION]      (the last commit, if omitted)

Weights and lists of recommendations must be the same to the byte, JSON the same values under the
same keys; a new key is told and is no difference. Bytes differ between processors, so both versions
run here and now, each in a process of its own, and nothing of it is kept.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
METHODS, MODELS = ("erm", "ps", "acl"), ("gmf", "mlp")
FAST = ("--dim", "8", "--epochs", "3", "--seed", "5", "--set", "training.batch_size=128")
QUICK = ("--set", "opponent.epochs=2", "--set", "n_resamples=200")


def write_logs(folder: Path) -> None:
    """Write a log of clicks with times, and one of ratings with features and repeated pairs."""
    import numpy as np
    import polars as pl

    rng = np.random.default_rng(16)
    n = 3000
    users, items = rng.integers(0, 80, n), (60 * rng.random(n) ** 2).astype(int)
    clicks = pl.DataFrame({"user": users, "item": items, "time": np.arange(n) // 3})
    clicks.unique(["user", "item"], keep="first", maintain_order=True).write_csv(
        folder / "clicks.csv"
    )
    ratings = pl.DataFrame(
        {
            "uid": [f"u{user}" for user in users],
            "sku": [f"i{item}" for item in items],
            "rating": rng.integers(1, 6, n),
            "ts": 1_600_000_000 + rng.permutation(n),
        }
    )
    ratings.write_ndjson(folder / "ratings.ndjson")


def commands() -> list[list[str]]:
    """Return the command lines, in order, all within one folder."""
    columns = ["--user", "uid", "--item", "sku", "--time", "ts", "--rating", "rating"]
    found = [
        ["prepare", "clicks.csv", "--out", "clicks"],
        ["prepare", "ratings.ndjson", *columns, "--out", "ratings"],
    ]
    for log in ("clicks", "ratings"):
        runs = [(method, model) for method in METHODS for model in MODELS]
        for method, model in runs:
            out, players = f"runs/{log}-{method}-{model}", ["--candidate", model]
            players += ["--exposure", model] if method != "erm" else []
            found.append(["train", log, "--out", out, "--method", method, *players, *FAST])
        for method in METHODS:
            run = f"runs/{log}-{method}-gmf"
            found.append(["evaluate", run, "--k", "5", "10", *QUICK, "--out", f"{run}.json"])
            found.append(["recommend", run, "--k", "7", "--out", f"{run}.parquet"])
        several = [f"runs/{log}-{method}-gmf" for method in METHODS]
        found.append(["compare", *several, *QUICK, "--out", f"runs/{log}.json"])
        found.append(
            [
                "tune",
                log,
                "--out",
                f"tuned-{log}",
                "--methods",
                "erm",
                "acl",
                "--trials",
                "2",
                "--epochs",
                "2",
                "--seed",
                "3",
            ]
        )
    found.append(["run", "clicks.csv", "--out", "study-clicks", "--epochs", "3"])
    found.append(
        [
            "run",
            "ratings.ndjson",
            *columns,
            "--feedback",
            "ratings",
            "--out",
            "study-ratings",
            "--epochs",
            "3",
        ]
    )
    found.append(["demo", "--out", "demo"])
    return found


def run_all(folder: Path) -> None:
    """Run the commands in a folder, by the version that Python finds."""
    from counterplay.cli.main import main

    os.chdir(folder)
    write_logs(folder)
    for words in commands():
        print(" ".join(words), flush=True)
        try:
            main(words)
        except SystemExit as error:
            if error.code:
                raise RuntimeError(f"exit code {error.code} of {' '.join(words)}") from None


def computed(folder: Path) -> dict[str, Any]:
    """Return the digests of weights and lists, and the content of all JSON files, by path."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.suffix == ".json":
            found[name] = json.loads(path.read_text(encoding="utf-8"))
        elif path.suffix in (".safetensors", ".parquet"):
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def differences(before: Any, after: Any, place: str = "") -> tuple[list[str], list[str]]:
    """Return where values differ or are missing, and which keys are new."""
    if isinstance(before, dict) and isinstance(after, dict):
        found, new = [], [f"{place}/{key}" for key in after if key not in before]
        for key, value in before.items():
            if key not in after:
                found.append(f"{place}/{key} is missing")
                continue
            inner = differences(value, after[key], f"{place}/{key}")
            found += inner[0]
            new += inner[1]
        return found, new
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = [
            differences(one, other, f"{place}[{number}]")
            for number, (one, other) in enumerate(zip(before, after, strict=True))
        ]
        return [each for pair in pairs for each in pair[0]], [e for pair in pairs for e in pair[1]]
    same = before == after or (before != before and after != after)
    return ([] if same else [f"{place}: {str(before)[:80]} became {str(after)[:80]}"]), []


def main(revision: str = "HEAD") -> int:
    """Compare, say what differs, and return the exit code."""
    with tempfile.TemporaryDirectory(prefix="unchanged-") as name:
        folder = Path(name)
        tree = folder / "tree"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--detach", str(tree), revision], check=True)
        try:
            for version, source in (("before", tree), ("after", ROOT)):
                work = folder / "work"  # records hold paths: both work in the same place
                work.mkdir()
                subprocess.run(
                    [sys.executable, __file__, "--in", str(work)],
                    env=os.environ | {"PYTHONPATH": str(source / "src"), "OMP_NUM_THREADS": "1"},
                    stdout=subprocess.DEVNULL,
                    check=True,
                )
                work.rename(folder / version)
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)
        before, after = (computed(folder / version) for version in ("before", "after"))
    found, new = differences(before, after)
    print(f"{len(before)} files of {revision} compared: {len(found)} differences")
    for words in found[:40]:
        print(f"  {words}")
    print(f"{len(new)} new keys" + (f", such as {new[0]}" if new else ""))
    return 1 if found else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--in"]:
        run_all(Path(sys.argv[2]))
    else:
        sys.exit(main(*sys.argv[1:]))
