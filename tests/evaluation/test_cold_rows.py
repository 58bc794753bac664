"""A log whose later rows are mostly those of users who are not in the earlier ones."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import counterplay as cp
from counterplay.evaluation.records import EvaluationRecord, GroupEstimate
from counterplay.evaluation.stage import Evaluation
from counterplay.report.page import render
from counterplay.runs.candidates import evaluate_run
from counterplay.runs.config import run_config
from counterplay.serving.export import export_run
from counterplay.serving.onnx import onnx_scores
from counterplay.serving.recommend import load_trained

FAST = ["method=erm", "candidate.dim=4", "candidate.length=5", "training.epochs=3",
        "training.batch_size=64", "training.rate=0.05"]  # fmt: skip
NAMES = ("pop", "cf", "gmf", "mlp", "ncf", "attn")
HOW = Evaluation(estimators=("standard",), metrics=("hit", "mrr"), k=(5,), n_resamples=200)


def make_log() -> cp.Interactions:
    rng = np.random.default_rng(3)
    n = 1200
    time = np.arange(n)
    user = rng.integers(0, 30, n) + 30 * (time >= 800)  # all later rows but …
    user[1000::5] -= 30  # … some are of users who came late
    return cp.read(
        {
            "user": user,
            "item": (rng.beta(1, 3, n) * 40).astype(int),
            "rating": rng.integers(1, 6, n),
            "time": time,
        }
    )


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cold") / "data"
    split = cp.data.split_by_time(make_log(), fractions=(0.2, 0.2))
    cp.data.save(split, folder)
    return folder


@pytest.fixture(scope="module")
def runs(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for name in NAMES:
        cp.train(data, folder / name, run_config(None, [*FAST, f"candidate.name={name}"]))
    ratings = run_config(None, [*FAST, "candidate.name=cf", "training.loss=squared"])
    cp.train(data, folder / "ratings", ratings)
    return folder


def values(found: EvaluationRecord, rows: str, metric: str = "mrr") -> dict[str, GroupEstimate]:
    assert found.cold is not None
    return {
        each.candidate: each
        for each in found.cold.estimates
        if each.rows == rows and each.metric == metric
    }


def test_cold_rows_are_evaluated_apart(data: Path, runs: Path) -> None:
    split = cp.data.load_split(data)
    cold = ~np.isin(split.test.user, split.train.user)
    assert 0.5 < cold.mean() < 1
    found = cp.compare([runs / name for name in NAMES], data, HOW)
    assert found.cold is not None
    assert found.cold.rows == cold.sum()
    assert found.cold.share == cold.mean()
    warm, others = values(found, "warm"), values(found, "cold")
    whole = {each.candidate: each.value for each in found.estimates if each.metric == "mrr"}
    for name in NAMES:
        assert (warm[name].n, others[name].n) == ((~cold).sum(), cold.sum())
        mixed = cold.mean() * others[name].value + (1 - cold.mean()) * warm[name].value
        assert whole[name] == pytest.approx(mixed)
        low, high = warm[name].low, warm[name].high
        assert low is not None
        assert high is not None
        assert low <= warm[name].value <= high
    for name in ("cf", "gmf", "mlp", "ncf"):
        assert others[name] == others["pop"].model_copy(update={"candidate": name})
        assert warm[name].value != warm["pop"].value
    assert others["attn"].value != others["pop"].value  # it reads rows after training


def test_without_cold_rows_nothing_is_said_of_them(dataset: Path, tmp_path: Path) -> None:
    cp.train(dataset, tmp_path / "run", run_config(None, FAST))
    assert evaluate_run(tmp_path / "run", dataset, HOW).cold is None


def test_where_all_rows_are_cold_there_are_no_warm_estimates(tmp_path: Path) -> None:
    log = make_log()
    part = np.where(log.user < 30, 0, 2).astype(np.int8)
    cp.data.save(cp.Split(log, part, "any"), tmp_path / "data")
    cp.train(tmp_path / "data", tmp_path / "run", run_config(None, FAST))
    found = evaluate_run(tmp_path / "run", tmp_path / "data", HOW).cold
    assert found is not None
    assert found.share == 1
    assert {each.rows for each in found.estimates} == {"cold"}


def test_ratings_of_cold_users_are_the_items_means(data: Path, runs: Path) -> None:
    split = cp.data.load_split(data)
    scores = load_trained(runs / "ratings", data).scores
    cold = np.setdiff1d(split.test.user, split.train.user)
    found = scores.of_all(cold)
    assert split.train.rating is not None
    mean = split.train.rating.mean()
    for item in range(5):
        own = split.train.rating[split.train.item == item]
        np.testing.assert_allclose(found[:, item], (own.sum() + mean) / (len(own) + 1), rtol=1e-5)
    assert values(evaluate_run(runs / "ratings", data, HOW), "cold", "mse")["ratings"].n > 0


@pytest.mark.parametrize("name", ["cf", "gmf", "mlp", "ncf"])
def test_lists_of_cold_users_are_the_popular_items(
    name: str, data: Path, runs: Path, tmp_path: Path
) -> None:
    split = cp.data.load_split(data)
    warm = np.isin(np.arange(split.interactions.n_users), split.train.user)
    found = {}
    for each in ("pop", name):
        result = cp.recommend(runs / each, tmp_path / f"{each}.parquet", k=6)
        assert result["cold"] == (0 if each == "pop" else (~warm).sum())
        found[each] = pl.read_parquet(tmp_path / f"{each}.parquet")
    cold = pl.col("user").is_in(split.interactions.users.decode(np.flatnonzero(~warm)).to_list())
    assert found[name].filter(cold).equals(found["pop"].filter(cold))
    assert not found[name].filter(~cold).equals(found["pop"].filter(~cold))


@pytest.mark.parametrize("name", ["cf", "gmf", "attn"])
def test_vectors_of_cold_users_score_by_popularity(
    name: str, data: Path, runs: Path, tmp_path: Path
) -> None:
    described = export_run(runs / name, tmp_path / "out", data=data)
    trained = load_trained(runs / name, data)
    split = cp.data.load_split(data)
    cold = ~np.isin(np.arange(split.interactions.n_users), split.train.user)
    n_cold = 0 if name == "attn" else cold.sum()  # every user has a history by now
    assert described["cold"] == n_cold
    users, items = (pl.read_parquet(tmp_path / "out" / f"{x}.parquet") for x in ("users", "items"))
    scores = users["vector"].to_numpy() @ items["vector"].to_numpy().T
    if "bias" in users.columns:
        scores += users["bias"].to_numpy()[:, None]
    own = trained.scores.of_all(np.arange(split.interactions.n_users))
    np.testing.assert_allclose(scores, own, rtol=1e-4, atol=1e-5)
    if n_cold:
        pop = load_trained(runs / "pop", data).scores.of_all(np.flatnonzero(cold))
        np.testing.assert_allclose(scores[cold], pop, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["mlp", "attn"])
def test_onnx_models_rank_for_cold_users_by_popularity(
    name: str, data: Path, runs: Path, tmp_path: Path
) -> None:
    described = export_run(runs / name, tmp_path / "out", data=data, onnx=True)
    assert ("[B, 5]" in str(described["onnx"]["inputs"].get("history"))) == (name == "attn")
    trained, split = load_trained(runs / name, data), cp.data.load_split(data)
    users = np.append(np.arange(split.interactions.n_users), -1)
    items = np.tile(np.arange(trained.log.n_items), (len(users), 1))
    length, n_items = trained.model.history_length, trained.log.n_items
    history = None
    if length:
        history = np.full((len(users), length), n_items)
        history[:-2] = trained.scores.histories.last(users[:-2], length)
    found = onnx_scores(tmp_path / "out" / "model.onnx", users, items, history)
    pop = load_trained(runs / "pop", data).scores.of_all(users[:1])[0]
    cold = np.append(~np.isin(users[:-1], split.train.user), True)
    if length:
        cold = np.arange(len(users)) >= len(users) - 2  # those without a history
    assert 1 < cold.sum() < len(cold)
    np.testing.assert_array_equal(found[cold], np.tile(pop, (cold.sum(), 1)))
    own = trained.scores.of_all(users[~cold])
    np.testing.assert_allclose(found[~cold], own, rtol=1e-4, atol=1e-5)


def test_a_study_says_so(tmp_path: Path) -> None:
    log = replace(make_log(), rating=None)
    frame = log.to_frame()
    config = cp.study.StudyConfig.model_validate(
        {
            "candidates": ["pop", "erm"],
            "dim": 4,
            "training": {"epochs": 2},
            "preparation": {"split": "time", "validation": 0.2, "test": 0.2},
            "evaluation": {"n_resamples": 200, "estimators": ["standard", "popularity"]},
        }
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cp.CounterplayWarning)
        study = cp.run(frame, tmp_path / "study", config)
    counts = study.record.split.cold
    assert study.record.evaluation.cold is not None
    n = study.record.evaluation.cold.rows
    assert counts["test"]["user"] == n > 100
    told = [note for note in study.record.evaluation.notes if "without a training" in note]
    assert sum(f"{n:,} of 240 test rows" in note for note in told) == 1
    page = render(study.record)
    assert "test rows of users without training rows" in page
    assert "for whom models rank by popularity" in page
