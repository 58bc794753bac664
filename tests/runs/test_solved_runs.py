"""Models that are computed at once, from a dataset to lists: what every other model can do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import counterplay as cp
from counterplay.metrics.scoring import ModelScores
from counterplay.runs.config import run_config
from counterplay.runs.training import load_run
from counterplay.serving.export import export_run
from counterplay.serving.recommend import recommend
from counterplay.settings import configured
from counterplay.tuning.space import Tuning

NAMES = ("ease", "knn", "ials")
FAST = ["candidate.dim=4", "candidate.sweeps=3", "validation.n_negatives=20"]


@pytest.fixture(scope="module")
def runs(dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("solved")
    for name in NAMES:
        config = run_config(None, [*FAST, "method=erm", f"candidate.name={name}"])
        cp.train(dataset, folder / name, config)
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_a_run_is_one_epoch_goes_on_and_is_evaluated(
    name: str, runs: Path, dataset: Path, tmp_path: Path
) -> None:
    config = run_config(None, [*FAST, "method=erm", f"candidate.name={name}"])
    record = cp.train(dataset, runs / name, config, resume=True)
    assert (len(record.epochs), record.stopped) == (1, "the model is computed at once")
    assert record.parameters["candidate"] > 0
    again = cp.train(dataset, tmp_path / "again", config, resume=True)
    assert again.files == record.files  # the same bytes
    found = cp.evaluate(runs / name).estimates[0]
    assert found.value > 0.2  # half of 60 items are ruled out: by chance 10 of 60


@pytest.mark.parametrize("name", NAMES)
def test_a_loaded_run_scores_as_the_one_that_was_trained(
    name: str, runs: Path, dataset: Path, tmp_path: Path
) -> None:
    train = cp.data.load_split(dataset).train
    model, _, _ = load_run(runs / name, train)
    out = tmp_path / "lists.parquet"
    recommend(runs / name, out, k=3, include_seen=True)
    lists = pl.read_parquet(out)
    scores = ModelScores(model, train, train=train).of_all(np.arange(train.n_users))
    best = -np.sort(-scores, axis=1)[:, :3]
    np.testing.assert_allclose(
        lists.sort("user", "rank")["score"].to_numpy().reshape(-1, 3), best, rtol=1e-5
    )


def test_users_without_training_rows_get_popularity(runs: Path, dataset: Path) -> None:
    train = cp.data.load_split(dataset).train
    nobody = replace(train.take(train.user != 7), rating=None)
    popular = np.bincount(nobody.item, minlength=train.n_items)
    for name in NAMES:
        model, _, _ = load_run(runs / name, nobody)
        scores = ModelScores(model, nobody, train=nobody).of_all(np.array([7]))[0]
        assert (np.diff(scores[np.argsort(popular, kind="stable")]) >= 0).all()


def test_what_has_vectors_is_exported_and_the_rest_told_what_to_do(
    runs: Path, tmp_path: Path
) -> None:
    found = export_run(runs / "ials", tmp_path / "ials", onnx=True)
    assert found["score"] == "the inner product of a user's and an item's vector"
    for name in ("ease", "knn"):
        for onnx in (False, True):
            with pytest.raises(cp.ConfigError, match=f"found {name}, .*counterplay recommend"):
                export_run(runs / name, tmp_path / name, onnx=onnx)


@pytest.mark.parametrize(
    ("assignments", "expected"),
    [
        (["method=acl", "candidate.name=ease"], "candidate model of acl .* found ease"),
        (["method=ps", "exposure.name=knn"], "exposure model of ps .* found knn"),
        (["method=acl", "exposure.name=ials"], "exposure model of acl .* found ials"),
    ],
)
def test_what_does_not_go_together_is_refused_before_anything_is_written(
    assignments: list[str], expected: str, dataset: Path, tmp_path: Path
) -> None:
    with pytest.raises(cp.ConfigError, match=expected):
        cp.train(dataset, tmp_path / "run", run_config(None, assignments))
    assert not (tmp_path / "run").exists()


@pytest.mark.filterwarnings("ignore::counterplay.CounterplayWarning")
@pytest.mark.parametrize("name", NAMES)
def test_tuning_tries_the_model_s_own_settings(name: str, dataset: Path, tmp_path: Path) -> None:
    settings = [f"candidate.name={name}", "trials=3", "methods=['erm','ps']", "exposure.name=pop",
                "space.exposure=['pop']", "space.dim=[4, 8]"]  # fmt: skip
    found = cp.tune(dataset, tmp_path / "out", configured(Tuning, None, settings))
    for method in found["methods"]:
        tried = [trial["settings"] for trial in method["trials"]]
        assert len({str(each) for each in tried}) == 3
        assert not any(key.startswith("training.") for each in tried for key in each)
    (tmp_path / "out" / "best-ps" / "run.json").read_text("utf-8")
