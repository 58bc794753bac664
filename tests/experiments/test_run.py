from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import counterplay as cp
from counterplay.experiments.config import run_config
from counterplay.experiments.run import load_run, read_record, train_run
from counterplay.learning.records import Epoch

FAST = ["candidate.dim=4", "exposure.dim=4", "training.epochs=4", "training.batch_size=128",
        "training.rate=0.03", "validation.n_negatives=20"]  # fmt: skip
pytestmark = pytest.mark.filterwarnings("ignore:the (opponent has|weights have) no effect")


@pytest.mark.parametrize("method", ["erm", "ps", "acl"])
@pytest.mark.parametrize("name", ["gmf", "attn"])
def test_a_run_leaves_a_record_and_a_model_that_loads(
    method: str, name: str, dataset: Path, tmp_path: Path
) -> None:
    config = run_config(None, [*FAST, f"method={method}", f"candidate.name={name}"])
    record = train_run(dataset, tmp_path / "run", config)
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [
        "model.safetensors",
        "run.json",
    ]
    assert json.loads(json.dumps(record)) == read_record(tmp_path / "run")
    assert record["dataset"]["fingerprint"] == cp.load(dataset).fingerprint
    assert set(record["parameters"]) == (
        {"candidate"} if method == "erm" else {"candidate", "exposure"}
    )
    assert record["ess"] == record["epochs"][record["best_epoch"]]["ess"]
    assert (record["ess"] is None) == (method == "erm")
    found = record["validation"]
    assert found["low"] <= found["value"] <= found["high"]
    assert found["n"] == 40
    assert found["value"] == pytest.approx(record["epochs"][record["best_epoch"]]["validation"])
    train = replace(cp.load_split(dataset).train, rating=None)
    candidate, exposure, link = load_run(tmp_path / "run", train)
    assert (
        sum(value.numel() for value in candidate.parameters()) == record["parameters"]["candidate"]
    )
    assert (exposure is None, link is None) == (method == "erm", method == "erm")
    if link is not None:
        assert link.beta == pytest.approx(record["epochs"][record["best_epoch"]]["beta"], rel=1e-5)


def test_the_same_seed_gives_the_same_files(dataset: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        train_run(dataset, tmp_path / name, run_config(None, FAST))
    for file in ("run.json", "model.safetensors"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


def test_an_interrupted_run_goes_on(dataset: Path, tmp_path: Path) -> None:
    config = run_config(None, FAST)
    train_run(dataset, tmp_path / "whole", config)

    def interrupt(epoch: Epoch) -> None:
        if epoch.epoch == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_run(dataset, tmp_path / "broken", config, callbacks=[interrupt])
    with pytest.raises(cp.ConfigError, match="found something at"):
        train_run(dataset, tmp_path / "broken", config)
    train_run(dataset, tmp_path / "broken", config, resume=True)
    for file in ("run.json", "model.safetensors"):
        assert (tmp_path / "whole" / file).read_bytes() == (tmp_path / "broken" / file).read_bytes()
    again = train_run(dataset, tmp_path / "broken", config, resume=True)
    assert again == read_record(tmp_path / "whole")


def test_selection_never_sees_the_test_rows(dataset: Path, tmp_path: Path) -> None:
    """With other test rows of the same users, everything that is written stays the same."""
    config = run_config(None, FAST)
    split = cp.load_split(dataset)
    item = np.array(split.interactions.item)
    rng = np.random.default_rng(0)
    test = np.flatnonzero(split.part == 2)
    for row in test:
        own = set(item[split.interactions.user == split.interactions.user[row]].tolist())
        item[row] = rng.choice(
            [each for each in range(split.interactions.n_items) if each not in own]
        )
    other = cp.Split(replace(split.interactions, item=item), split.part, split.kind)
    cp.save(other, tmp_path / "data")
    first = train_run(dataset, tmp_path / "one", config)
    second = train_run(tmp_path / "data", tmp_path / "two", config)
    assert first["epochs"] == second["epochs"]
    assert first["validation"] == second["validation"]


def test_ratings_are_predicted_with_the_squared_loss(dataset: Path, tmp_path: Path) -> None:
    config = run_config(None, [*FAST, "training.loss=squared", "candidate.name=cf"])
    record = train_run(dataset, tmp_path / "run", config)
    assert record["validation"] is None
    losses = [epoch["candidate_loss"] for epoch in record["epochs"]]
    assert losses[-1] < losses[0]


def test_what_cannot_be_run_is_refused(dataset: Path, tmp_path: Path) -> None:
    with pytest.raises(cp.ConfigError, match="must have something to learn"):
        train_run(dataset, tmp_path / "a", run_config(None, [*FAST, "exposure.name=pop"]))
    assert not (tmp_path / "a").exists()
    with pytest.raises(cp.DataError, match=r"readable dataset.json"):
        train_run(tmp_path, tmp_path / "b", run_config(None, FAST))
    with pytest.raises(cp.DataError, match=r"readable run.json"):
        read_record(tmp_path)
    assert torch.get_num_threads() == 1
