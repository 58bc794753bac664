"""Seconds that jobs took, and those that jobs which have not been run would take."""

from __future__ import annotations

import json
from functools import lru_cache
from statistics import fmean
from typing import TYPE_CHECKING

from reproduction.datasets import source_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from counterplay.data.jobs import Job, Results
    from reproduction.methods import TableMethod

_Kind = tuple[str, ...]


def expected_seconds(
    results: Results,
    dataset: str,
    method: TableMethod,
    *,
    n_trials: int,
    n_seeds: int,
    n_done: int,
) -> float | None:
    """Return what the rest of a cell would take, by the jobs in the folder that are most alike."""
    one = seconds_a_job(results.folder, dataset, method.method, method.candidate)
    return None if one is None else round(one * max(0, n_trials + n_seeds - n_done), 0)


def seconds_of_job(results: Results, job: Job) -> float | None:
    """Return what a job would take, by those that are most alike; None without any training."""
    method = getattr(job, "method", None)
    if method is None:
        return None
    data = source_of(str(getattr(job, "data", "")))
    return seconds_a_job(results.folder, data, method.method, method.candidate)


def seconds_a_job(folder: Path, dataset: str, method: str, candidate: str) -> float | None:
    """Return the mean seconds of trainings: of these data, method and model, or the next nearest.

    Where none of the model is there, those of the method count, then those of the data, then all.
    """
    found = _measured(folder, len(list(folder.glob("*.json"))) if folder.exists() else 0)
    wanted = (dataset, method, candidate)
    for n_alike in (3, 2, 1, 0):
        alike = [each for kind, each in found if kind[:n_alike] == wanted[:n_alike]]
        if alike:
            return fmean(alike)
    return None


@lru_cache(maxsize=4)
def _measured(folder: Path, n: int) -> tuple[tuple[_Kind, float], ...]:
    """Return what each training was, and its seconds; `n` files, so that more are read anew."""
    del n
    return tuple(_read(folder))


def _read(folder: Path) -> Iterator[tuple[_Kind, float]]:
    for path in sorted(folder.glob("*.json")):
        kept = json.loads(path.read_text(encoding="utf-8"))
        method = kept["job"].get("method")
        if isinstance(method, dict) and "seconds" in kept and method["candidate"] != "pop":
            kind = source_of(kept["job"]["data"]), method["method"], method["candidate"]
            yield kind, float(kept["seconds"])
