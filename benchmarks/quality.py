"""Hit@10 on MovieLens-1M's test rows: each model with a few settings, chosen on validation.

After the six models under ERM come games of GMF against GMF, by either recipe, with as many
settings; what they differ from GMF under ERM is paired over users.

The paper's protocol: leave-last-two-out, 100 sampled negatives that the user has not seen,
dimension 32, 4 negatives in training, one seed. Every setting is a run of its own; finished ones
are kept in `benchmarks/.work`, so the command can be stopped and goes on where it was.
"""

from __future__ import annotations

import json
import shutil
import time
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import binomtest

import counterplay as cp
from benchmarks.movielens import ABSENT, WORK, movielens
from counterplay.data.directory import load_split
from counterplay.data.splits import TEST
from counterplay.metrics.measures import ranking_metrics
from counterplay.metrics.ranks import ranks_of_first, sampled_candidates
from counterplay.metrics.scoring import ModelScores
from counterplay.runs.config import RunConfig
from counterplay.runs.training import load_run
from counterplay.seeding import Streams

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

GOALS = {"pop": 45, "cf": 64, "mlp": 64, "ncf": 66, "gmf": 66, "attn": 82}
_PAIR: list[dict[str, Any]] = [{"rate": 0.003}, {"rate": 0.01}, {"rate": 0.01, "l2": 1e-6}]
SETTINGS: dict[str, list[dict[str, Any]]] = {
    "pop": [{"epochs": 1}],
    "cf": _PAIR,
    "mlp": _PAIR,
    "ncf": _PAIR,
    "gmf": _PAIR,
    "attn": [
        *({"rate": rate, "batch_size": 6400} for rate in (0.001, 0.003, 0.01)),
        {"rate": 0.01, "batch_size": 6400, "epochs": 80},  # 40 were not enough for it
    ],
    **{
        f"gmf game {recipe}": [
            {"recipe": recipe, "rate": 0.01, "exposure_rate": 0.01, "alpha": alpha}
            for alpha in (0.3, 1.0, 3.0)
        ]
        for recipe in ("paper", "stable")
    },
}
GAMES = [name for name in SETTINGS if "game" in name]
TRAINING: dict[str, Any] = {"epochs": 40, "patience": 10, "n_negatives": 4, "seed": 0}


def run() -> dict[str, Any]:
    data = movielens()
    if data is None:
        return ABSENT
    chosen: dict[str, dict[str, Any]] = {}
    hits: dict[str, NDArray[np.float64]] = {}
    for name, settings in SETTINGS.items():
        found = [_fit(data, name, each) for each in settings]
        chosen[name] = max(found, key=lambda each: each["validation"]["value"])
        chosen[name]["tried"] = [
            {key: each[key] for key in ("settings", "seconds", "epochs", "best_epoch")}
            | {"validation": each["validation"]["value"]}
            for each in found
        ]
        hits[name] = _hits(data, chosen[name].pop("run"))
        chosen[name]["test"] = _estimate(hits[name])
        if name in GAMES:
            chosen[name]["minus_erm"] = _paired(hits[name], hits["gmf"])
        print(name, json.dumps(chosen[name]["test"]), flush=True)
    return {
        "training": TRAINING,
        "models": chosen,
        "rows": [
            {
                "what": f"{name}: Hit@10 on test rows among 100 sampled items",
                "ours": f"{100 * each['test']['value']:.1f} "
                f"[{100 * each['test']['low']:.1f}, {100 * each['test']['high']:.1f}], "
                f"after {each['seconds']:.0f} s",
                **_judgement(name, each, chosen["gmf"]["test"]["value"]),
            }
            for name, each in chosen.items()
        ],
    }


def _judgement(name: str, found: dict[str, Any], erm: float) -> dict[str, Any]:
    value = found["test"]["value"]
    if name in GAMES:
        low, high = (100 * found["minus_erm"][key] for key in ("low", "high"))
        return {
            "yardstick": f"{100 * erm:.1f}, ERM; difference [{low:+.1f}, {high:+.1f}]",
            "ratio": f"{value / erm:.2f}",
            "goal": "none",
            "met": None,
        }
    return {
        "yardstick": f"{GOALS[name]}",
        "ratio": f"{100 * value / GOALS[name]:.2f}",
        "goal": "at least 1",
        "met": 100 * value >= GOALS[name],
    }


def _fit(data: Path, name: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Train one setting, or take it from what is finished; `seconds` is up to the best epoch."""
    label = "-".join([name, *(f"{key}={value}" for key, value in settings.items())])
    folder = WORK / "quality" / label
    summary = folder / "summary.json"
    if not summary.exists():
        shutil.rmtree(folder, ignore_errors=True)
        ends: list[float] = []
        begin = time.perf_counter()
        model = {"name": name.split()[0], "use_features": False}
        config = RunConfig.model_validate(
            {
                "method": "acl" if name in GAMES else "erm",
                "candidate": model,
                "exposure": model if name in GAMES else {},
                "training": TRAINING | settings,
                "validation": {"protocol": "sampled"},  # as the test rows are judged
            }
        )
        record = cp.train(
            data, folder, config, callbacks=[lambda _: ends.append(time.perf_counter() - begin)]
        )
        result = {
            "settings": settings,
            "seconds": ends[record.best_epoch],
            "epochs": len(ends),
            "best_epoch": record.best_epoch,
            "parameters": record.parameters["candidate"],
            "validation": record.to_dict()["validation"],
        }
        summary.write_text(json.dumps(result))
        print(label, f"{result['seconds']:.0f} s", result["validation"]["value"], flush=True)
    finished: dict[str, Any] = json.loads(summary.read_text())
    return finished | {"run": folder}


def _hits(data: Path, folder: Path) -> NDArray[np.float64]:
    """Return hit@10 of each test row; the same candidates for all."""
    split = load_split(data)
    seen = split.interactions.take(split.part != TEST)
    items = sampled_candidates(seen, split.test, 100, Streams(0).numpy("test"))
    candidate, _, _ = load_run(folder, split.train)
    ranks = ranks_of_first(ModelScores(candidate, seen).of(split.test.user, items))
    return ranking_metrics(ranks, np.arange(len(ranks)), names=("hit",), k=(10,))["hit", 10]


def _estimate(hits: NDArray[np.float64]) -> dict[str, Any]:
    interval = binomtest(round(hits.sum()), len(hits)).proportion_ci(0.95, method="wilson")
    return {
        "metric": "hit",
        "k": 10,
        "estimator": "standard",
        "protocol": "sampled-100",
        "value": float(hits.mean()),
        "low": float(interval.low),
        "high": float(interval.high),
        "level": 0.95,
        "n": len(hits),
    }


def _paired(hits: NDArray[np.float64], others: NDArray[np.float64]) -> dict[str, float]:
    difference = hits - others
    margin = 1.96 * float(difference.std()) / len(difference) ** 0.5
    mean = float(difference.mean())
    return {"value": mean, "low": mean - margin, "high": mean + margin, "n": len(difference)}
