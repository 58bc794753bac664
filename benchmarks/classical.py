"""ease, ials and knn on MovieLens-1M against what they are made of, and what they reach.

ease against the inversion of its matrix, a sweep of ials and all of knn against implicit's. Ours
and the yardsticks take turns, with as many threads each; the best turn of each counts. Hit@10 and
NDCG@10 are those of the last item of each user by full ranks, with the default settings, none of
them chosen on test rows.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import counterplay as cp
from benchmarks.movielens import ABSENT, WORK, movielens
from benchmarks.timing import real_data
from benchmarks.yardsticks import measure
from counterplay.data.directory import load_split
from counterplay.data.preparation import prepare
from counterplay.data.splits import TEST, Split
from counterplay.learning.config import Training
from counterplay.learning.methods.erm import erm
from counterplay.metrics.measures import ranking_metrics
from counterplay.metrics.ranks import full_ranks
from counterplay.metrics.scoring import ModelScores
from counterplay.models.als import Als
from counterplay.models.ease import Ease
from counterplay.models.registry import build
from counterplay.models.solved import Solved, clicks_of

ROUNDS = 2
SETTINGS: dict[str, float] = {
    "dim": 64, "sweeps": 10, "neighbours": 50, "confidence": 3.0, "ridge": 10.0,
}  # fmt: skip
GOALS = {"ease": 1.3, "ials": 1.0, "knn": 1.0}
MODELS: dict[str, dict[str, Any]] = {
    "pop": {}, "knn": {}, "ials": {}, "ials, dim 64": {"dim": 64}, "ease": {},
}  # fmt: skip


def run() -> dict[str, Any]:
    data = movielens()
    if data is None:
        return ABSENT
    train = _clicks(load_split(data).train)
    matrix = _matrix(train)
    best: dict[str, float] = {}

    def keep(name: str, seconds: float) -> None:
        best[name] = min(seconds, best.get(name, seconds))

    arrays: dict[str, Any] = {"user": train.user, "item": train.item}
    arrays["threads"] = np.array(torch.get_num_threads())
    arrays |= {name: np.array(value) for name, value in SETTINGS.items()}
    with tempfile.TemporaryDirectory() as scratch:
        for _ in range(ROUNDS):
            keep("ease", _seconds("ease", train))
            keep("inverse", _timed(lambda: torch.linalg.inv(matrix)))
            theirs = measure("implicit", "implicit_classical", arrays, Path(scratch))
            keep("knn", _seconds("knn", train))
            sweeps = int(SETTINGS["sweeps"])
            short, long = (_seconds("ials", train, sweeps=each) for each in (1, sweeps))
            keep("ials", (long - short) / (sweeps - 1))
            keep("implicit's sweep", theirs["sweep"])
            keep("implicit's cosine", theirs["cosine"])
    reached = {name: _reached(name) for name in ("ml-1m", "ml-100k")}
    ours = _objective(train)
    return {
        "settings": SETTINGS,
        "threads": torch.get_num_threads(),
        "seconds": best,
        "objective": {"ours": ours, "implicit": theirs["objective"]},
        "reached": reached,
        "rows": [
            _row("ease, all of it", best["ease"], best["inverse"], "torch's inverse", "ease"),
            _row("ials, a sweep of dimension 64", best["ials"], best["implicit's sweep"],
                 "implicit's", "ials"),
            _row("knn, all of it", best["knn"], best["implicit's cosine"],
                 "implicit's CosineRecommender", "knn"),
            {
                "what": "ials, its objective after 10 sweeps",
                "ours": f"{ours:,.0f}",
                "yardstick": f"{theirs['objective']:,.0f}, implicit's",
                "ratio": f"{ours / theirs['objective']:.4f}",
                "goal": "at most 1.001",
                "met": ours <= 1.001 * theirs["objective"],
            },
            *(
                {
                    "what": f"{model}: Hit@10 and NDCG@10 of {name}'s last items, full ranks",
                    "ours": f"{100 * found['hit']:.1f} and {100 * found['ndcg']:.2f}",
                    "yardstick": f"{100 * each['pop']['hit']:.1f} and "
                    f"{100 * each['pop']['ndcg']:.2f}, popularity",
                    "ratio": f"{found['hit'] / each['pop']['hit']:.2f}",
                    "goal": "none",
                    "met": None,
                }
                for name, each in reached.items()
                for model, found in each.items()
            ),
        ],
    }  # fmt: skip


def _clicks(log: cp.Interactions) -> cp.Interactions:
    return replace(log, rating=None, user_features=None, item_features=None)


def _row(what: str, ours: float, theirs: float, whose: str, goal: str | None) -> dict[str, Any]:
    return {
        "what": what,
        "ours": f"{ours:.3f} s",
        "yardstick": f"{theirs:.3f} s, {whose}",
        "ratio": f"{ours / theirs:.2f}",
        "goal": "none" if goal is None else f"at most {GOALS[goal]:g}",
        "met": None if goal is None else ours <= GOALS[goal] * theirs,
    }


def _timed(work: Any) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def _solved(name: str, log: cp.Interactions, **changes: Any) -> Solved:
    size = {
        key: value for key, value in SETTINGS.items() if not (name == "ease" and key == "ridge")
    }
    model = build(name, log, generator=cp.Streams(0).torch("candidate"), **size | changes)
    assert isinstance(model, Solved)
    return model


def _seconds(name: str, log: cp.Interactions, **changes: Any) -> float:
    model = _solved(name, log, **changes)
    return _timed(lambda: model.solve(log))


def _matrix(log: cp.Interactions) -> torch.Tensor:
    """Return what ease inverts."""
    model, clicks = _solved("ease", log), clicks_of(log)
    assert isinstance(model, Ease)
    products = (clicks.T @ clicks).toarray().astype(np.float64)
    return torch.from_numpy(products + model.ridge * np.eye(log.n_items))


def _objective(log: cp.Interactions) -> float:
    model, alpha, ridge = _solved("ials", log), SETTINGS["confidence"], SETTINGS["ridge"]
    model.solve(log)
    assert isinstance(model, Als)
    users, items = (each.own.detach().double().numpy() for each in (model.user, model.item))
    scores = (users[log.user] * items[log.item]).sum(1)
    everywhere = ((users.T @ users) * (items.T @ items)).sum()
    observed = ((1 + alpha) * (1 - scores) ** 2 - scores**2).sum()
    return float(everywhere + observed + ridge * ((users**2).sum() + (items**2).sum()))


def _split(name: str) -> Split:
    folder, prepared = real_data(name), WORK / name
    if not prepared.exists():
        assert folder is not None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cp.CounterplayWarning)
            cp.data.save(prepare(folder), prepared)
    return load_split(prepared)


def _reached(name: str) -> dict[str, dict[str, float]]:
    """Return what models with their defaults reach on the last item of each user."""
    split = _split(name)
    train, seen = _clicks(split.train), split.interactions.take(split.part != TEST)
    found = {}
    for label, size in MODELS.items():
        generator = cp.Streams(0).torch("initial", "candidate")
        model = build(label.split(",")[0], train, generator=generator, **size)
        if isinstance(model, Solved):
            erm(model, train, Training())
        ranks = full_ranks(ModelScores(model, seen, train=train), split.test, seen)
        values = ranking_metrics(ranks, np.arange(len(ranks)), names=["hit", "ndcg"], k=[10])
        found[label] = {metric: float(values[metric, 10].mean()) for metric in ("hit", "ndcg")}
    return found
