"""A campaign: numbered cases, each in a process of its own, kept as they come."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

WORK = Path(__file__).parents[1] / ".work" / "faults"
CONTEXT = multiprocessing.get_context("forkserver")
_PRELOADED = [
    "pyarrow.parquet",
    "pydantic",
    "rich.console",
    "scipy.stats",
    "torch._dynamo",
    "typer",
]


class Cases(Protocol):
    """What a campaign tries."""

    seed: int

    def prepare(self, folder: Path) -> None:
        """Make what all cases begin with."""

    def try_case(self, number: int, folder: Path) -> dict[str, Any]:
        """Try one case; return its outcome, and its fault if there is one."""


def campaign(name: str, cases: Cases, n: int) -> list[dict[str, Any]]:
    """Try the cases that were not tried yet, and return what came of all."""
    WORK.mkdir(parents=True, exist_ok=True)
    kept = WORK / f"{name}-{cases.seed}.ndjson"
    done = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    left = sorted(set(range(n)) - {case["case"] for case in done})
    if not left:
        return done
    with tempfile.TemporaryDirectory(prefix="faults-") as folder, kept.open("a") as file:
        cases.prepare(Path(folder))
        for number in left:
            case = {"case": number, **cases.try_case(number, Path(folder))}
            print(json.dumps(case), file=file, flush=True)
            done.append(case)
            if case["fault"] or number % 100 == 99:
                print(f"{name} {number + 1:,} of {n:,}", case if case["fault"] else "", flush=True)
    return done


def rng_of(seed: int, *names: str | int) -> np.random.Generator:
    """Return the random numbers of a case."""
    words = [name if isinstance(name, int) else int.from_bytes(name.encode()) for name in names]
    return np.random.default_rng([seed, *words])


def started(work: Callable[..., None], *arguments: object, log: Path) -> Any:
    """Start work in a process of its own that has the libraries loaded; its words go to a file."""
    os.environ["OMP_NUM_THREADS"] = "1"
    CONTEXT.set_forkserver_preload(_PRELOADED)
    log.write_bytes(b"")
    process = CONTEXT.Process(target=_within, args=(work, arguments, log))
    process.start()
    return process


def command(*words: str) -> None:
    """Be the command line."""
    from counterplay.cli import main

    sys.argv = ["counterplay", *words]
    main()


def _within(work: Callable[..., None], arguments: tuple[object, ...], log: Path) -> None:
    with log.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    try:
        work(*arguments)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def said_wrongly(words: str) -> str | None:
    """Return what must never be said, if it was."""
    for sign in ("Traceback", "mistake in counterplay", "panicked", "RUST_BACKTRACE"):
        if sign in words:
            return f"said {sign!r}: {words.strip()[-300:]}"
    return None


def emptied(folder: Path) -> Path:
    """Return the folder, new."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
