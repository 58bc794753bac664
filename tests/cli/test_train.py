from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest

import counterplay as cp

from .conftest import Run

FAST = (
    "--epochs",
    2,
    "--dim",
    4,
    "--set",
    "validation.n_negatives=5",
    "--set",
    "training.batch_size=64",
)


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    log = cp.read({"user": rng.integers(0, 9, 200), "item": rng.integers(0, 40, 200)})
    cp.save(cp.split_at_random(log, rng, fractions=(0.1, 0.1)), tmp_path / "data")
    return tmp_path / "data"


@pytest.mark.parametrize("method", ["erm", "ps", "acl"])
def test_a_model_is_trained(method: str, dataset: Path, tmp_path: Path, run: Run) -> None:
    outcome = run("train", dataset, "--out", tmp_path / "run", "--method", method, *FAST)
    assert outcome.code == 0, outcome.err
    assert f"{method}: gmf" in outcome.out
    assert "Hit@10" in outcome.out
    assert (tmp_path / "run" / "run.json").exists()


def test_json_and_a_file_of_settings(dataset: Path, tmp_path: Path, run: Run) -> None:
    (tmp_path / "run.toml").write_text('method = "erm"\n[candidate]\nname = "cf"\n')
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        outcome = run(
            "train",
            dataset,
            "--out",
            tmp_path / "run",
            "--config",
            tmp_path / "run.toml",
            *FAST,
            "--json",
        )
    record = json.loads(outcome.out)
    assert record["configuration"]["candidate"]["name"] == "cf"
    assert len(record["epochs"]) == 2


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--set", "training.epoch=3"), "did you mean 'epochs'"),
        (("--method", "erm", "--alpha", 2), "training.alpha with erm"),
        (("--exposure", "pop"), "must have something to learn"),
    ],
)
def test_bad_settings_are_one_sentence(
    arguments: tuple[object, ...], expected: str, dataset: Path, tmp_path: Path, run: Run
) -> None:
    outcome = run("train", dataset, "--out", tmp_path / "run", *FAST, *arguments)
    assert outcome.code == 2
    assert outcome.err.count("\n") == 1
    assert expected in outcome.err
