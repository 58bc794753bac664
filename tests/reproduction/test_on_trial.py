from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from counterplay.data.jobs import Results
from reproduction.datasets import Place
from reproduction.jobs import Plan, WorldJob
from reproduction.on_trial import EstimatorTable, _seconds, squared_errors
from reproduction.page import markdown
from reproduction.reproduce import Reproduction


def said(estimator: str, kind: str, candidates: list[str], values: list[float]) -> dict[str, Any]:
    metrics = dict.fromkeys(("hit@5", "ndcg@5", "hit@10", "ndcg@10"), values)
    about = {"estimator": estimator, "kind": kind, "floor": 0.01, "candidates": candidates}
    return about | {"values": metrics, "ess": [1.0] * len(values)}


def trial(shift: float) -> dict[str, Any]:
    """Standard is off by 10 points, the shared opponent by 1, that of the game by 20."""
    names, online = ["pop", "gmf", "acl"], [0.2 + shift, 0.3, 0.4]
    off = np.array(online)
    real = dict.fromkeys(("hit@5", "ndcg@5", "hit@10", "ndcg@10"), online)
    return {
        "candidates": names,
        "online": real,
        "truth": real,
        "offline": [
            said("standard", "", names, list(off + 0.1 + shift)),
            said("robust-shared", "item", names, list(off + 0.01)),
            said("robust", "as trained", ["acl"], [0.6]),
        ],
    }


def test_errors_are_of_the_candidates_that_are_judged() -> None:
    found = squared_errors(trial(0.0), "hit@5", "robust", "as trained")
    assert found is not None
    assert found[0] == pytest.approx(400)
    standard = squared_errors(trial(0.0), "hit@5", "standard", "", found[1])
    assert standard is not None
    assert standard[0] == pytest.approx(100)
    assert squared_errors(trial(0.0), "hit@5", "robust", "item") is None


def test_claims_are_judged_world_by_world(
    public: Path, tmp_path: Path, plan: Callable[..., Plan]
) -> None:
    small = plan(seeds=3)
    results = Results(tmp_path / "runs")
    for seed in range(3):
        job = WorldJob(family="synthetic", seed=seed, epochs=2)
        results.keep(job, {"trial": trial(0.01 * seed), "seconds": 1.0 + seed})
    found = EstimatorTable().summary(small, results, Place(public, tmp_path))
    states = {family["family"]: family["state"] for family in found["families"]}
    assert (states["synthetic"], states["ml-1m"]) == ("done", "not run")
    missing = {family["family"]: family["missing_seconds"] for family in found["families"]}
    assert (missing["synthetic"], missing["ml-1m"]) == (0, 3 * 2.0)
    verdicts = {
        (claim["second"], claim["metric"]): claim["verdict"]
        for claim in found["claims"]
        if claim["n"]
    }
    assert verdicts["robust-shared, item", "hit@5"] == "reproduced"
    assert verdicts["robust, as trained", "hit@5"] == "not reproduced"
    assert found["claims"][0]["paper"] == 0.06
    result = Reproduction("table3", public, tmp_path, small).result()
    page = markdown(result)
    assert "| robust-shared | item | 0.01 | 1.00 [1.00, 1.00] | +1.00 |" in page
    assert "The rest would take 6 s." in page
    assert result["jobs"]["done"] == 3


def test_a_world_takes_what_its_family_takes_where_one_is_done() -> None:
    families = ("synthetic", "synthetic", "ml-100k")
    worlds = [WorldJob(family=each, seed=seed) for seed, each in enumerate(families)]
    done = [
        (job, {"seconds": seconds}) for job, seconds in zip(worlds, (1.0, 3.0, 8.0), strict=True)
    ]
    found = [_seconds(family, done) for family in ("synthetic", "ml-100k", "ml-1m")]
    assert found == [2.0, 8.0, 4.0]
