from __future__ import annotations

import hashlib
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray
from usearch.index import Index

import counterplay as cp
from counterplay.data.files import read_json
from counterplay.runs.config import run_config
from counterplay.serving import export as exporting
from counterplay.serving.export import export_run
from counterplay.serving.recommend import load_trained
from counterplay.serving.vectors import Vectors, write_vectors

FAST = ["method=erm", "candidate.dim=4", "candidate.length=5", "training.epochs=2",
        "training.batch_size=128", "validation.n_negatives=20"]  # fmt: skip
NAMES = ("pop", "cf", "mlp", "attn")


@pytest.fixture(scope="module")
def runs(dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for name in NAMES:
        cp.train(dataset, folder / name, run_config(None, [*FAST, f"candidate.name={name}"]))
    return folder


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def check_described(folder: Path, described: dict[str, Any]) -> None:
    assert read_json(folder / "export.json", "an export") == described
    assert sorted([*described["files"], "export.json"]) == names(folder)
    for name, digest in described["files"].items():
        content = (folder / name).read_bytes()
        assert digest == f"sha256:{hashlib.sha256(content).hexdigest()}"


@pytest.mark.parametrize("name", ["pop", "cf", "attn"])
def test_vectors_and_an_index_are_written_and_described(
    name: str, runs: Path, dataset: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    described = export_run(runs / name, out, ann=True)
    check_described(out, described)
    assert sorted(described["files"]) == ["items.parquet", "items.usearch", "users.parquet"]
    log = cp.data.load(dataset)
    assert (described["model"], described["dim"]) == (name, 4)
    assert (described["users"], described["items"]) == (log.n_users, log.n_items) == (40, 60)
    assert described["dataset"]["fingerprint"] == log.fingerprint
    assert described["ann"]["recall"] == 1.0
    assert described["onnx"] is None
    assert ("bias" in described["score"]) == (name == "cf")
    users, items = (pl.read_parquet(out / f"{role}.parquet") for role in ("users", "items"))
    scores = users["vector"].to_numpy() @ items["vector"].to_numpy().T
    if name == "cf":
        scores += users["bias"].to_numpy()[:, None]
    own = cp.metrics.ModelScores(load_trained(runs / name).model, log).of_all(np.arange(40))
    np.testing.assert_allclose(scores, own, rtol=1e-4, atol=1e-6)
    assert described["vectors"]["difference"] <= np.abs(scores - own).max() + 1e-6


def test_vectors_as_npy(runs: Path, tmp_path: Path) -> None:
    described = export_run(runs / "cf", tmp_path / "out", format="npy")
    check_described(tmp_path / "out", described)
    assert sorted(described["files"]) == [
        "item_ids.parquet",
        "items.npy",
        "user_biases.npy",
        "user_ids.parquet",
        "users.npy",
    ]


def test_a_model_without_vectors_is_onnx_with_its_ids(
    runs: Path, dataset: Path, tmp_path: Path
) -> None:
    for ann, onnx in ((False, False), (True, False), (True, True)):
        with pytest.raises(cp.ConfigError, match="found mlp; export it with --onnx, without an"):
            export_run(runs / "mlp", tmp_path / "out", ann=ann, onnx=onnx)
    assert names(tmp_path) == []
    described = export_run(runs / "mlp", tmp_path / "out", onnx=True)
    check_described(tmp_path / "out", described)
    assert sorted(described["files"]) == ["item_ids.parquet", "model.onnx", "user_ids.parquet"]
    assert described["vectors"] is None
    assert 0 <= described["onnx"]["relative_difference"] < 1e-5
    ids = pl.read_parquet(tmp_path / "out" / "item_ids.parquet")["item"]
    assert ids.equals(cp.data.load(dataset).items.ids, check_dtypes=True)


def test_everything_at_once_twice_is_the_same_bytes(runs: Path, tmp_path: Path) -> None:
    first, second = (
        export_run(runs / "cf", tmp_path / name, ann=True, onnx=True) for name in ("one", "two")
    )
    assert first == second
    assert (tmp_path / "one" / "export.json").read_bytes() == (
        tmp_path / "two" / "export.json"
    ).read_bytes()


@pytest.mark.parametrize("off", [0.01, np.nan])
def test_a_file_that_scores_otherwise_is_refused_and_nothing_left(
    off: float, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = load_trained(runs / "cf").scores

    def wrong(_: Path, users: Any, items: Any, history: None) -> NDArray[np.floating]:
        return scores.of(users, items) + np.float32(off)

    monkeypatch.setattr(exporting, "write_onnx", lambda _, path, *__: path.touch())
    monkeypatch.setattr(exporting, "onnx_scores", wrong)
    with pytest.raises(cp.CounterplayError, match="ONNX model must score as the model does"):
        export_run(runs / "cf", tmp_path / "out", onnx=True)
    assert names(tmp_path) == []


@pytest.mark.parametrize("kind", ["parquet", "npy"])
def test_vectors_are_checked_as_they_were_written(
    kind: Any, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spoil(vectors: Vectors, log: cp.Interactions, folder: Path, kind: Any) -> None:
        write_vectors(replace(vectors, items=vectors.items * np.float32(1.01)), log, folder, kind)

    monkeypatch.setattr(exporting, "write_vectors", spoil)
    with pytest.raises(cp.CounterplayError, match="the vectors must score as the model does"):
        export_run(runs / "cf", tmp_path / "out", format=kind)
    assert names(tmp_path) == []


def test_an_index_is_checked_as_it_was_written(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    described = export_run(runs / "cf", tmp_path / "out", ann=True)["ann"]
    assert described["pairs"] == 400
    assert 0 <= described["relative_difference"] < 1e-5
    restore = Index.restore

    def spoil(path: str) -> Any:
        index: Any = restore(path)
        other, keys = Index(ndim=index.ndim, metric="ip", dtype="f32"), np.arange(60)
        other.add(keys, np.stack(index.get(keys)) * np.float32(1.01))
        return other

    monkeypatch.setattr(Index, "restore", spoil)
    with pytest.raises(cp.CounterplayError, match="the index must score as the model does"):
        export_run(runs / "cf", tmp_path / "other", ann=True)
    assert names(tmp_path) == ["out"]


def test_what_is_missing_or_in_the_way_is_found_before_the_work(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(*_: object) -> None:
        raise AssertionError("it started")

    monkeypatch.setattr(exporting, "load_trained", work)
    with pytest.raises(cp.ConfigError, match="one of parquet, npy; found 'csv'"):
        export_run(runs / "cf", tmp_path / "out", format="csv")  # type: ignore[arg-type]
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "thesis.txt").write_text("years of work")
    with pytest.raises(cp.ConfigError, match="found something at"):
        export_run(runs / "cf", tmp_path / "there")
    for package, option in (("usearch.index", "ann"), ("onnxscript", "onnx")):
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(cp.ConfigError, match=rf"install counterplay\[{option}\]"):
            export_run(runs / "cf", tmp_path / "out", ann=option == "ann", onnx=option == "onnx")
    assert names(tmp_path) == ["there"]
