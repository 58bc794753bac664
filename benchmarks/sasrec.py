"""Attn by a softmax beside RecTools' SASRec by a softmax: NDCG@10 by full ranks.

MovieLens-1M, leave-last-two-out: the last item of each user is ranked among all that the user has
not seen, after a history that ends with the validation item. Both have the same dimension, heads,
blocks, length and dropout, and one setting of rate and batch that first looks with another seed
suggested; epochs are chosen on the validation items. An epoch of RecTools has the last 50 rows of
each user, ours all. Every training is kept in `benchmarks/.work`, so the command can be stopped and
goes on where it was.
"""

from __future__ import annotations

import json
import shutil
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

import counterplay as cp
from benchmarks.movielens import ABSENT, WORK, movielens
from benchmarks.yardsticks import measure
from counterplay.data.directory import load_split
from counterplay.data.splits import TEST
from counterplay.metrics.measures import ranking_metrics
from counterplay.metrics.ranks import full_ranks
from counterplay.metrics.scoring import ModelScores
from counterplay.runs.config import kind_of
from counterplay.runs.training import load_run

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from counterplay.data.splits import Split

SIZE: dict[str, Any] = {"dim": 64, "heads": 2, "blocks": 2, "length": 50, "dropout": 0.2}
EPOCHS = {"epochs": 40, "patience": 5}
OURS: dict[str, Any] = {"n_shared": 512, "rate": 0.003, "batch_size": 1600}
THEIRS: dict[str, Any] = {"rate": 0.001, "sessions": 16}
FOLDER = WORK / "sasrec"
SEEDS = (0, 1, 2)


def run() -> dict[str, Any]:
    data = movielens()
    if data is None:
        return ABSENT
    torch.set_num_threads(1)  # as the yardstick
    split = load_split(data)
    FOLDER.mkdir(exist_ok=True)
    found: dict[str, Any] = {}
    gains: dict[str, NDArray[np.float64]] = {}
    for name, one, settings in (("theirs", _theirs, THEIRS), ("ours", _ours, OURS)):
        reported = [one(data, settings, seed) for seed in SEEDS]
        gains[name] = np.array([_gains(split, each) for each in reported])  # [seeds, users]
        found[name] = {"settings": settings, "reported": reported}
        print(name, gains[name].mean(1), flush=True)
    difference = _difference(gains["ours"], gains["theirs"])
    return {
        "size": SIZE,
        "training": EPOCHS,
        "ndcg": {name: each.mean(1).tolist() for name, each in gains.items()},
        "difference": difference,
        **found,
        "rows": _rows(gains, difference),
    }


def _ours(data: Path, settings: dict[str, Any], seed: int) -> dict[str, Any]:
    """Train one setting, or take it from what is finished."""
    run = FOLDER / _label("ours", settings, seed)
    summary = run / "summary.json"
    if not summary.exists():
        shutil.rmtree(run, ignore_errors=True)
        config = kind_of({"method": "softmax"}).model_validate(
            {
                "method": "softmax",
                "candidate": {"name": "attn", "use_features": False} | SIZE,
                "training": EPOCHS | settings | {"seed": seed},
                "validation": {"protocol": "full", "metric": "ndcg", "k": 10},
            }
        )
        values: list[float] = []
        begin = time.process_time()
        record = cp.train(
            data, run, config, callbacks=[lambda it: values.append(it.validation or 0.0)]
        )
        result = {
            "settings": settings,
            "seed": seed,
            "validation": values,
            "parameters": record.parameters["candidate"],
            "seconds": time.process_time() - begin,
        }
        summary.write_text(json.dumps(result))
        print(run.name, f"{result['seconds']:.0f} s", max(values), flush=True)
    finished: dict[str, Any] = json.loads(summary.read_text())
    return finished


def _theirs(data: Path, settings: dict[str, Any], seed: int) -> dict[str, Any]:
    """Train one setting of RecTools', or take it from what is finished."""
    label = _label("theirs", settings, seed)
    summary, lists = FOLDER / f"{label}.json", FOLDER / f"{label}.npz"
    if not summary.exists():
        asked = SIZE | EPOCHS | settings | {"seed": seed, "out": str(lists)}
        answer = measure("rectools", "rectools_ranking", given(load_split(data), asked), FOLDER)
        result = {"settings": settings, "seed": seed} | answer
        summary.write_text(json.dumps(result))
        print(label, f"{result['seconds']:.0f} s", max(result["validation"]), flush=True)
    finished: dict[str, Any] = json.loads(summary.read_text())
    return finished


def _label(whose: str, settings: dict[str, Any], seed: int) -> str:
    return "-".join([whose, *(f"{key}={value}" for key, value in settings.items()), f"{seed}"])


def given(split: Split, asked: dict[str, Any]) -> dict[str, Any]:
    """Return what the yardstick reads: rows in the order of time, and an item for each user."""
    train, validation = split.train, split.validation
    wanted = validation.item[np.argsort(validation.user)]
    return {
        "user": train.user,
        "item": train.item,
        "validation": wanted,
        "asked": np.array(json.dumps(asked)),
    }


def _gains(split: Split, of: dict[str, Any]) -> NDArray[np.float64]:
    """Return NDCG@10 of each user's last item, `[n_users]`."""
    order = np.argsort(split.test.user)
    if "sessions" in of["settings"]:
        label = _label("theirs", of["settings"], of["seed"])
        best = np.load(FOLDER / f"{label}.npz")["best"]  # [n_users, 10]
        hits = best == split.test.item[order][:, None]
        return np.asarray((hits / np.log2(np.arange(2, 12))).sum(1))
    label = _label("ours", of["settings"], of["seed"])
    candidate, _, _ = load_run(FOLDER / label, split.train)
    seen = split.interactions.take(split.part != TEST)
    ranks = full_ranks(ModelScores(candidate, seen), split.test, seen)
    found = ranking_metrics(ranks, np.arange(len(ranks)), names=("ndcg",), k=(10,))
    return found["ndcg", 10][order]


def _difference(ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> dict[str, float]:
    """Return the mean difference, with an interval over users, paired, and over seeds."""
    by_user = ours.mean(0) - theirs.mean(0)
    variance = by_user.var(ddof=1) / len(by_user)
    variance += sum(each.mean(1).var(ddof=1) / len(each) for each in (ours, theirs))
    mean, margin = float(by_user.mean()), 1.96 * float(variance) ** 0.5
    return {"value": mean, "low": mean - margin, "high": mean + margin, "n": len(by_user)}


def _rows(
    gains: dict[str, NDArray[np.float64]], difference: dict[str, float]
) -> list[dict[str, Any]]:
    ours, theirs = (float(gains[name].mean()) for name in ("ours", "theirs"))
    return [
        {
            "what": "Attn by a softmax, NDCG@10 of ml-1m's last items, full ranks, 3 seeds",
            "ours": f"{ours:.4f}",
            "yardstick": f"{theirs:.4f}, RecTools SASRec",
            "ratio": f"{ours / theirs:.2f}",
            "goal": "at least 1; 95% interval of the difference "
            f"[{difference['low']:+.4f}, {difference['high']:+.4f}]",
            "met": difference["value"] >= 0,
        },
    ]
