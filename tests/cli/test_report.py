from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import warnings
from html import unescape
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import counterplay as cp
from counterplay.cli.report import report
from counterplay.evaluation.stage import Evaluation
from counterplay.runs.config import run_config
from counterplay.simulation.synthetic import Synthetic
from counterplay.simulation.writing import write_world
from counterplay.study.config import StudyConfig

from .conftest import Outcome, Run

METHODS = ("erm", "ps", "acl")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs on a dataset whose items are called by HTML, and a comparison of them."""
    folder = tmp_path_factory.mktemp("report")
    rng = np.random.default_rng(0)
    items = np.array([f"<b>{item}</b>" for item in range(30)])
    log = cp.read(
        {"user": rng.integers(0, 20, 400), "item": items[rng.integers(0, 30, 400)]},
        duplicates="first",
        name="<i>shop</i>",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cp.CounterplayWarning)
        cp.data.save(cp.data.split_at_random(log, rng, fractions=(0.1, 0.3)), folder / "data")
        for method in METHODS:
            settings = ["candidate.dim=4", "exposure.dim=4", "training.epochs=3",
                        "training.batch_size=64", "validation.n_negatives=3"]  # fmt: skip
            config = run_config(None, [*settings, f"method={method}"])
            cp.train(folder / "data", folder / method, config)
        how = Evaluation(
            k=(5,), estimators=("standard", "popularity"), gamma=(1.5, 2.0), n_resamples=200
        )
        found = cp.compare([folder / method for method in METHODS], config=how)
    (folder / "result.json").write_text(json.dumps(found.to_dict()), encoding="utf-8")
    return folder


def one_sentence(outcome: Outcome) -> bool:
    """Whether a command ended as a bad input must."""
    lines = outcome.err.splitlines()
    said = len(lines) == 1 and lines[0].startswith("counterplay: ")
    return outcome.code == 2 and said and outcome.out == "" and lines[0].count("; ") >= 2


def test_help_has_an_example(run: Run) -> None:
    outcome = run("report", "--help")
    assert outcome.code == 0
    for text in ("Usage: counterplay report", "Example: counterplay report", "--evaluation"):
        assert text in outcome.out


def test_runs_and_their_comparison(folder: Path, tmp_path: Path, run: Run) -> None:
    out = tmp_path / "report.html"
    runs = [folder / method for method in METHODS]
    outcome = run("report", *runs, "--evaluation", folder / "result.json", "--out", out)
    assert outcome.code == 0, outcome.err
    assert "<i>shop</i>" in outcome.out
    assert str(out) in outcome.out
    page = out.read_text(encoding="utf-8")
    found = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    for each in found["estimates"]:
        assert f"{each['value']:.4f}" in page
    assert "<h1>&lt;i&gt;shop&lt;/i&gt;</h1>" in page
    assert "<i>shop" not in page
    assert str(folder) not in page
    assert list(tmp_path.iterdir()) == [out]


def test_one_run_and_the_same_bytes_again(folder: Path, tmp_path: Path, run: Run) -> None:
    for name in ("first.html", "second.html"):
        assert run("report", folder / "acl", "--out", tmp_path / name).code == 0
    first, second = ((tmp_path / name).read_bytes() for name in ("first.html", "second.html"))
    assert first == second
    assert b"1 run: acl." in first


def test_the_record_as_json(folder: Path, tmp_path: Path, run: Run) -> None:
    outcome = run("report", folder / "erm", folder / "acl", "--out", tmp_path / "x.html", "--json")
    record = json.loads(outcome.out)
    assert [each["name"] for each in record["runs"]] == ["erm", "acl"]
    assert record["evaluation"] is None
    assert (tmp_path / "x.html").exists()


def test_runs_of_one_name_are_told_apart(folder: Path, tmp_path: Path, run: Run) -> None:
    other = tmp_path / "again" / "acl"
    other.mkdir(parents=True)
    (other / "run.json").write_bytes((folder / "acl" / "run.json").read_bytes())
    outcome = run("report", folder / "acl", other, "--out", tmp_path / "x.html", "--json")
    names = [each["name"] for each in json.loads(outcome.out)["runs"]]
    assert names == [str(folder / "acl"), str(other)]


def test_bad_input_is_one_sentence(folder: Path, tmp_path: Path, run: Run) -> None:
    out = tmp_path / "report.html"
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.json").write_text("{")
    (tmp_path / "strange").mkdir()
    strange = '{"configuration": 1, "dataset": 2, "data": 3}'
    (tmp_path / "strange" / "run.json").write_text(strange)
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "study.json").write_text("[]")
    (tmp_path / "list.json").write_text("[]")
    (tmp_path / "strange.json").write_text('{"estimates": [{"metric": "hit"}]}')
    erm, given = folder / "erm", folder / "result.json"
    for arguments, said in (
        ((tmp_path / "nowhere",), "no folder at"),
        ((tmp_path / "empty",), "holds neither"),
        ((tmp_path / "list.json",), "no folder at"),
        ((tmp_path / "broken",), "must be the record of a run"),
        ((tmp_path / "strange",), "in format 2; found format None; train again"),
        ((tmp_path / "study",), "study"),
        ((tmp_path / "study", erm), "name studies alone, or runs alone"),
        ((tmp_path / "study", "--evaluation", folder / "result.json"), "leave it out"),
        ((erm, folder / "acl" / ".." / "erm"), "name each once"),
        ((erm, "--evaluation", tmp_path / "none.json"), "found nothing there; write it again"),
        ((erm, "--evaluation", erm / "model.safetensors"), "must be the JSON that"),
        ((erm, "--evaluation", tmp_path / "list.json"), "must be the JSON that"),
        ((erm, "--evaluation", tmp_path / "strange.json"), "must be the JSON that"),
        ((erm, "--out", tmp_path / "none" / "x.html"), "--out must name a file"),
        ((erm, "--out", tmp_path), "--out must name a file"),
        ((erm, "--out", erm / "run.json"), "must not replace a part of a dataset, run, study"),
        ((erm, "--evaluation", given, "--out", given), "must not replace what it is made of"),
    ):
        outcome = run("report", "--out", out, *arguments)
        assert one_sentence(outcome), (arguments, outcome)
        assert said in outcome.err
        assert not out.exists()


@pytest.mark.parametrize("kind", ["world", "ratings"])
def test_a_study(kind: str, tmp_path: Path, run: Run) -> None:
    rng = np.random.default_rng(0)
    settings: dict[str, object] = {
        "candidates": ("pop", "erm", "acl"),
        "dim": 4,
        "training": {"epochs": 2, "batch_size": 64},
        "evaluation": {"n_resamples": 200, "gamma": (1, 2), "opponent": {"epochs": 3}},
    }
    if kind == "world":
        source: object = tmp_path / "world"
        made = Synthetic(n_users=60, n_items=40, n_shown=10, sharpness=3, seed=0).world()
        write_world(made, tmp_path / "world", rates=(1.0, 0.3, 0.5))
    else:
        settings |= {"feedback": "ratings", "candidates": ("erm", "acl")}
        n = 400
        columns = {"user": rng.integers(0, 20, n), "item": rng.integers(0, 40, n)}
        source = pl.DataFrame(columns | {"rating": rng.integers(1, 6, n), "time": np.arange(n)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cp.CounterplayWarning)
        study = cp.run(source, tmp_path / "study", StudyConfig.model_validate(settings))
    outcome = run("report", tmp_path / "study", "--out", tmp_path / "report.html", "--json")
    assert outcome.code == 0, outcome.err
    assert json.loads(outcome.out) == json.loads(json.dumps(study.record.to_dict()))
    page = unescape((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert study.record.verdict.headline in page
    for each in study.record.evaluation.estimates:
        assert f"{each.value:.4f}" in page
    chapters = {
        "reservations", "next", "glance", "estimates", "differences", "segments", "users",
        "sensitivity", "training", "exposure", "data", "origin",
    }  # fmt: skip
    chapters |= {"online", "quality"} if kind == "world" else set()
    assert set(re.findall(r'<section id="(\w+)"', page)) == chapters


def test_studies_side_by_side(tmp_path: Path, run: Run) -> None:
    places = [tmp_path / each / name for each, name in (("a", "<b>one"), ("b", "other"))]
    for seed, place in enumerate(places):
        rng = np.random.default_rng(seed)
        columns = {"user": rng.integers(0, 20, 300), "item": rng.integers(0, 40, 300)}
        settings = {"candidates": ("pop", "knn"), "evaluation": {"n_resamples": 200}}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cp.CounterplayWarning)
            cp.run(
                pl.DataFrame(columns | {"time": np.arange(300)}),
                place,
                StudyConfig.model_validate(settings),
            )
    out = tmp_path / "both.html"
    outcome = run("report", *places, "--out", out, "--json")
    assert outcome.code == 0, outcome.err
    records = json.loads(outcome.out)["studies"]
    assert list(records) == ["<b>one", "other"]
    page = out.read_text(encoding="utf-8")
    assert "<b>one" not in page
    for n, record in enumerate(records.values()):
        assert unescape(page).count(record["verdict"]["headline"]) >= 2
        assert f'href="#study-{n}"' in page
        assert f'id="lead-{n}-0"' in page
        for each in record["evaluation"]["estimates"]:
            if each["metric"] == "hit" and each["estimator"] == record["verdict"]["estimator"]:
                assert page.count(f"{each['value']:.4f}") >= 2
    outcome = run("report", places[0], places[0], "--out", out)
    assert one_sentence(outcome)
    assert "each study once" in outcome.err
    twins = tmp_path / "twin" / "other"
    shutil.copytree(places[1], twins)
    assert run("report", places[1], twins, "--out", out).code == 0
    assert str(twins) in out.read_text(encoding="utf-8")


def test_the_command_loads_nothing_heavy() -> None:
    heavy = {"torch", "polars", "plotly", "jinja2"}
    code = f"import sys, {report.__module__}; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
