from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from usearch.index import Index

import counterplay as cp
from counterplay.models.registry import ModelName
from counterplay.serving import vectors as module
from counterplay.serving.vectors import Vectors, vectors_of, write_index, write_vectors

N_USERS, N_ITEMS = 12, 9


def make_log(*, features: bool = False, text: bool = False) -> cp.Interactions:
    rng = np.random.default_rng(0)
    user, item = np.arange(60) % N_USERS, rng.integers(0, N_ITEMS, 60)
    item[:N_ITEMS] = np.arange(N_ITEMS)
    if text:
        return cp.read({"user": [f"ü{each}" for each in user], "item": [f"<{i}>" for i in item]})
    tables = {
        "user_features": {"id": range(N_USERS), "age": rng.normal(size=N_USERS)},
        "item_features": {"id": range(N_ITEMS), "brand": [None, *"abcabcab"]},
    }
    return cp.read({"user": user, "item": item}, **(tables if features else {}))  # type: ignore[arg-type]


def make_model(name: ModelName, log: cp.Interactions) -> cp.Scorer:
    """Return a model all of whose weights say something."""
    model = cp.models.build(name, log, dim=4, length=6, generator=torch.Generator().manual_seed(0))
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for value in model.parameters():
            value.add_(torch.empty_like(value).normal_(0, 0.3, generator=generator))
    return model.eval()


@pytest.mark.parametrize("features", [False, True])
@pytest.mark.parametrize("name", ["pop", "cf", "gmf", "attn", "ials"])
def test_inner_products_are_the_model_s_scores(
    name: ModelName, features: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = make_log(features=features)
    model, users = make_model(name, log), np.arange(N_USERS)
    found, scores = vectors_of(model, log), cp.metrics.ModelScores(model, log)
    assert found is not None
    np.testing.assert_allclose(found.of_all(users), scores.of_all(users), rtol=1e-5, atol=1e-6)
    items = np.random.default_rng(2).integers(0, N_ITEMS, (N_USERS, 5))
    np.testing.assert_allclose(
        found.of(users, items), scores.of(users, items), rtol=1e-5, atol=1e-6
    )
    monkeypatch.setattr(module, "MEMORY", 1)  # a user at a time
    again = vectors_of(model, log)
    assert again is not None
    np.testing.assert_allclose(again.users, found.users, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["mlp", "ncf"])
def test_layers_have_no_such_vectors(name: ModelName) -> None:
    log = make_log()
    assert vectors_of(make_model(name, log), log) is None


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("name", ["pop", "cf"])
def test_files_hold_vectors_and_ids_in_the_dataset_s_order(
    name: ModelName, text: bool, tmp_path: Path
) -> None:
    log = make_log(text=text)
    found = vectors_of(make_model(name, log), log)
    assert found is not None
    write_vectors(found, log, tmp_path, "parquet")
    users, items = (pl.read_parquet(tmp_path / f"{role}.parquet") for role in ("users", "items"))
    assert users["user"].equals(log.users.ids, check_dtypes=True)
    assert items["item"].equals(log.items.ids, check_dtypes=True)
    assert items.columns == ["item", "vector"]
    assert items.schema["vector"] == pl.Array(pl.Float32, found.items.shape[1])
    assert users.columns == ["user", "vector", *([] if found.biases is None else ["bias"])]
    np.testing.assert_array_equal(users["vector"].to_numpy(), found.users)
    np.testing.assert_array_equal(items["vector"].to_numpy(), found.items)
    (tmp_path / "npy").mkdir()
    write_vectors(found, log, tmp_path / "npy", "npy")
    np.testing.assert_array_equal(np.load(tmp_path / "npy" / "users.npy"), found.users)
    np.testing.assert_array_equal(np.load(tmp_path / "npy" / "items.npy"), found.items)
    ids = pl.read_parquet(tmp_path / "npy" / "user_ids.parquet")["user"]
    assert ids.equals(log.users.ids, check_dtypes=True)
    assert (tmp_path / "npy" / "user_biases.npy").exists() == (found.biases is not None)
    if found.biases is not None:
        np.testing.assert_array_equal(users["bias"].to_numpy(), found.biases)
        np.testing.assert_array_equal(np.load(tmp_path / "npy" / "user_biases.npy"), found.biases)


def random_log(n_users: int, n_items: int) -> cp.Interactions:
    n = max(n_users, n_items)
    return cp.read({"user": np.arange(n) % n_users, "item": np.arange(n) % n_items})


def test_recall_is_the_share_of_the_best_that_the_index_finds(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    users, items = (rng.normal(size=(n, 8)).astype(np.float32) for n in (50, 700))
    items *= np.exp(rng.normal(0, 1, (700, 1))).astype(np.float32)  # inner products like the long
    found = write_index(
        Vectors(users, items), random_log(50, 700), tmp_path, np.random.default_rng(1)
    )
    index: Any = Index.restore(str(tmp_path / found["file"]))
    index.expansion_search = found["expansion_search"]
    keys = index.search(users, 10).keys
    best = np.argsort(-(users @ items.T), axis=1)[:, :10]
    hits = [len(set(a) & set(b)) for a, b in zip(keys.tolist(), best.tolist(), strict=True)]
    assert found["recall"] == pytest.approx(np.mean(hits) / 10)
    assert found["recall"] > 0.95
    assert (found["users"], found["k"]) == (50, 10)


def test_an_index_that_finds_little_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_EXPANSION", 10)
    for name in ("connectivity", "expansion_add"):
        monkeypatch.setitem(module._INDEX, name, 2)
    rng = np.random.default_rng(0)
    users, items = (rng.normal(size=(n, 16)).astype(np.float32) for n in (50, 1500))
    with pytest.warns(cp.CounterplayWarning, match="% of the 10 best items"):
        found = write_index(Vectors(users, items), random_log(50, 1500), tmp_path, rng)
    assert 0 < found["recall"] < 0.9


def test_lists_are_no_longer_than_there_are_items_and_equals_are_as_good(tmp_path: Path) -> None:
    ones = np.ones((2, 1), dtype=np.float32)
    found = write_index(Vectors(ones, ones), random_log(2, 2), tmp_path, np.random.default_rng(0))
    assert (found["recall"], found["k"], found["users"]) == (1.0, 2, 2)


def test_without_the_package_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "usearch.index", None)
    ones = np.ones((2, 1), dtype=np.float32)
    with pytest.raises(cp.ConfigError, match=r"found no usearch.index; install counterplay\[ann\]"):
        write_index(Vectors(ones, ones), random_log(2, 2), tmp_path, np.random.default_rng(0))
    assert not list(tmp_path.iterdir())
