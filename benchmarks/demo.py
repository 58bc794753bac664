"""How often the demo's message holds: the same demo in other worlds, seed by seed."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import Any

import counterplay as cp
from counterplay.cli.run import demo_world
from counterplay.study.config import StudyConfig
from reproduction.agreement import mean_over_repetitions

N_SEEDS = 10
ESTIMATORS = ("standard", "popularity", "dials", "robust", "oracle")


def run() -> dict[str, Any]:
    seeds = []
    for seed in range(N_SEEDS):
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore", cp.CounterplayWarning)
            world = demo_world(Path(folder), seed)
            study = cp.run(world, Path(folder) / "study", StudyConfig(seed=seed))
            record = study.record.to_dict()
        found = record["verdict"]
        choices = {each["estimator"]: each for each in found["choices"]}
        truth = found["truth"]
        seeds.append(
            {
                "seed": seed,
                "best": truth["candidate"],
                "truth": truth["values"],
                "ships": {name: choices[name]["candidate"] for name in ESTIMATORS},
                "decided": {name: choices[name]["decided"] for name in ESTIMATORS},
                "regret": {name: truth["regret"][name] for name in ESTIMATORS},
                "estimated_over_true": {
                    name: choices[name]["value"] / truth["values"][choices[name]["candidate"]]
                    for name in ESTIMATORS
                },
            }
        )
    return {"n_seeds": N_SEEDS, "seeds": seeds, "rows": [row(name, seeds) for name in ESTIMATORS]}


def row(name: str, seeds: list[dict[str, Any]]) -> dict[str, Any]:
    right = sum(each["ships"][name] == each["best"] for each in seeds)
    regret = mean_over_repetitions([each["regret"][name] for each in seeds])
    over = mean_over_repetitions([each["estimated_over_true"][name] for each in seeds])
    decided = [each for each in seeds if each["decided"][name]]
    wrong = sum(each["ships"][name] != each["best"] for each in decided)
    return {
        "what": f"demo, {len(seeds)} worlds: {name} puts the truly best first",
        "ours": f"{right} of {len(seeds)}; decided in {len(decided)}, {wrong} of them wrongly",
        "yardstick": f"loses {regret['value']:.1%} [{regret['low']:.1%}, {regret['high']:.1%}]",
        "ratio": f"estimated / true {over['value']:.1f}",
        "goal": "",
        "met": None,
    }
