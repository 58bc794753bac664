from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import counterplay as cp
from counterplay.data.files import read_json

from .conftest import Run


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from counterplay.runs.config import run_config
    from counterplay.runs.training import train_run

    folder = tmp_path_factory.mktemp("export")
    rng = cp.Streams(0).numpy("rows")
    log = cp.read({"user": rng.integers(0, 9, 200), "item": rng.integers(0, 40, 200)})
    cp.save(cp.split_at_random(log, rng, fractions=(0, 0.1)), folder / "data")
    for name in ("gmf", "mlp"):
        settings = [f"candidate.name={name}", "candidate.dim=4", "training.epochs=1", "method=erm"]
        train_run(folder / "data", folder / name, run_config(None, settings))
    return folder


def test_vectors_index_and_onnx_are_written(trained: Path, tmp_path: Path, run: Run) -> None:
    outcome = run("export", trained / "gmf", "--out", tmp_path / "out", "--ann", "--onnx")
    assert outcome.code == 0, outcome.err
    assert "gmf of 9 users and 40 items" in outcome.out
    assert "finds 100.0% of the 10 best items, on 9 users" in outcome.out
    assert outcome.out.count("of the model's scores, on 16,384 pairs") == 2
    assert outcome.err == ""
    assert (tmp_path / "out" / "model.onnx").exists()


def test_json_is_what_is_in_the_directory(trained: Path, tmp_path: Path, run: Run) -> None:
    out = tmp_path / "out"
    outcome = run(
        "export", trained / "gmf", "--data", trained / "data", "--out", out, "--format", "npy",
        "--json",
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    described = json.loads(outcome.out)
    assert described == read_json(out / "export.json", "an export")
    assert described["vectors"]["format"] == "npy"
    assert described["ann"] is described["onnx"] is None


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("mlp", "--out", "TMP/out"), "found mlp; export it with --onnx"),
        (("gmf", "--out", "TMP"), "found something at"),
        (("gmf", "--out", "TMP/out", "--data", "TMP"), "readable dataset.json"),
        (("gmf", "--out", "TMP/out", "--format", "csv"), "--format"),
        (("data", "--out", "TMP/out"), "readable run.json"),
        (("gmf",), "--out"),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_nothing(
    arguments: tuple[str, ...], expected: str, trained: Path, tmp_path: Path, run: Run
) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    name, *options = (each.replace("TMP", str(tmp_path)) for each in arguments)
    outcome = run("export", trained / name, *options)
    assert outcome.code == 2
    assert expected in outcome.err
    assert "Traceback" not in outcome.err
    assert [entry.name for entry in tmp_path.iterdir()] == ["mine.txt"]


def test_an_extra_that_is_not_installed_is_named(
    trained: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "usearch.index", None)
    outcome = run("export", trained / "gmf", "--out", tmp_path / "out", "--ann")
    assert outcome.code == 2
    assert "install counterplay[ann]" in outcome.err
    assert not list(tmp_path.iterdir())
