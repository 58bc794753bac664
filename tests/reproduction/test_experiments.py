from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from counterplay.data.jobs import Job, Result, Results
from counterplay.errors import CounterplayError
from reproduction import estimators, execution, randomised, recipes
from reproduction.curves import rows as curve_rows
from reproduction.datasets import Place
from reproduction.experiments import COMMAND, EXPERIMENTS, RESULTS
from reproduction.headroom import rows as headroom_rows
from reproduction.jobs import RandomisedJob, WorldJob

from .conftest import Run


def kept(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_has_its_help(name: str, run: Run) -> None:
    code, out, _ = run(name, "--help")
    assert code == 0
    assert f"Usage: {COMMAND} {name} [OPTIONS]" in out
    assert (EXPERIMENTS[name].__doc__ or "").split("\n")[0] in " ".join(out.split())


def test_what_is_found_is_written_with_its_pages(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found(place: Place) -> dict[str, Any]:
        assert place.out == tmp_path / "out"
        return {"rows": [], "pages": {"small.md": "# Small\n"}}

    monkeypatch.setitem(EXPERIMENTS, "headroom", SimpleNamespace(SOURCES=(), run=found))
    code, out, err = run("headroom", "--data", tmp_path / "absent", "--out", tmp_path / "out")
    assert (code, err) == (0, "")
    written = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert written == ["README.md", "headroom.json", "small.md"]
    assert all(name in out for name in written)
    record = json.loads((tmp_path / "out" / "headroom.json").read_text())
    assert (record["command"], record["rows"]) == (f"{COMMAND} headroom", [])
    assert "pages" not in record


def test_absent_data_are_told_before_anything_is_done(run: Run, tmp_path: Path) -> None:
    code, _, err = run("recipes", "--data", tmp_path / "absent", "--out", tmp_path / "out")
    assert code == 2
    assert "--data must be a folder" in err
    code, _, err = run("recipes", "--data", tmp_path, "--out", tmp_path / "out")
    assert code == 2
    assert "MovieLens-100K must be there to be read" in err
    assert not (tmp_path / "out").exists()


def test_jobs_that_are_done_are_taken_and_a_failure_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def execute(job: Job, place: Place) -> Result:
        if job == jobs[2]:
            raise CounterplayError("no luck")
        return {"seconds": 2.0, "of": job.label}

    monkeypatch.setattr(execution, "execute", execute)
    jobs = [RandomisedJob(data="coat", seed=seed) for seed in range(3)]
    place = Place(tmp_path, tmp_path)
    Results(tmp_path / "runs").keep(jobs[0], {"seconds": 1.0, "of": "before"})
    assert [found["of"] for found in execution.results_of(jobs[:2], place)] == [
        "before",
        "coat/estimators/seed-1",
    ]
    assert capsys.readouterr().err == "coat/estimators/seed-1: 2 s\n"
    with pytest.raises(CounterplayError, match="failures of coat/estimators/seed-2; see why above"):
        execution.results_of(jobs, place)
    assert capsys.readouterr().err == "coat/estimators/seed-2: no luck\n"


def said(estimator: str, kind: str, floor: float, values: list[float]) -> dict[str, Any]:
    metrics = dict.fromkeys(("hit@10", "ndcg@10"), values)
    about = {"estimator": estimator, "kind": kind, "floor": floor}
    return about | {"candidates": ["pop", "gmf", "acl"], "values": metrics}


def test_estimators_are_summarised_by_family(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Standard is off by 10 points, the shared opponent by 1."""

    def results_of(jobs: list[WorldJob], place: Place) -> list[Result]:
        assert [job.seed for job in jobs] == list(range(estimators.N_WORLDS))
        online = np.array([0.2, 0.3, 0.4])
        real = dict.fromkeys(("hit@10", "ndcg@10"), online.tolist())
        offline = [
            said("standard", "", 0.0, (online + 0.1).tolist()),
            said("robust-shared", "item", 0.01, (online + 0.01).tolist()),
        ]
        names = ["pop", "gmf", "acl"]
        trial = {"candidates": names, "online": real, "truth": real, "offline": offline}
        return [{"trial": trial} for _ in jobs]

    monkeypatch.setattr(estimators, "results_of", results_of)
    found = estimators.run(Place(tmp_path, tmp_path))
    assert list(found["summaries"]) == list(kept("estimators")["summaries"])
    assert {row["ratio"] for row in found["rows"]} == {"0.10"}
    line = "| robust-shared | item | 0.01 | 1.00 [1.00, 1.00] | +1.00 | +1.00 [+1.00, +1.00] |"
    assert found["pages"]["estimators.md"].count(line) == 5


def test_lines_are_those_of_what_was_found() -> None:
    """All that was measured, told by the functions that tell it today."""
    found = kept("estimators")
    summaries = found["summaries"].items()
    assert [estimators._row(*each) for each in summaries] == found["rows"]
    found = kept("randomised")
    lines = randomised.rating_rows(found["ratings"]) + randomised.policy_rows(found["policies"])
    assert lines == found["rows"]
    found = kept("recipes")
    assert found["rows"] == [
        recipes.row(family, name, each)
        for family, methods in found["summaries"].items()
        for name, each in methods.items()
        if name != "erm"
    ]
    found = kept("curves")
    assert [line for world in found["worlds"] for line in curve_rows(world)] == found["rows"]
    found = kept("headroom")
    assert headroom_rows(found["worlds"]) == found["rows"]
