from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import warnings
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import counterplay as cp

from .conftest import Run, wait_for

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
        (("--set", "training.regularizer=known"), "choose feedback, exposure or popularity"),
        (("--set", "training.regularizer=wasserstein"), "'feedback', 'exposure', 'popularity'"),
    ],
)
def test_bad_settings_are_one_sentence(
    arguments: tuple[object, ...], expected: str, dataset: Path, tmp_path: Path, run: Run
) -> None:
    outcome = run("train", dataset, "--out", tmp_path / "run", *FAST, *arguments)
    assert outcome.code == 2
    assert outcome.err.count("\n") == 1
    assert expected in outcome.err
    assert not (tmp_path / "run").exists()


def test_a_regularizer_that_can_only_fail_is_refused_before_data_are_read(
    tmp_path: Path, run: Run
) -> None:
    setting = ("--set", "training.regularizer=known")
    outcome = run("train", tmp_path / "no data", "--out", tmp_path / "run", *setting)
    assert outcome.code == 2
    assert outcome.err.count("\n") == 1
    assert "found training.regularizer=known" in outcome.err


def test_killed_and_resumed_it_ends_in_the_same_bytes(
    dataset: Path, tmp_path: Path, run: Run
) -> None:
    """Interrupted, ended and killed, one after the other."""
    options = (*FAST[2:], "--epochs", 60, "--set", "training.patience=60")
    whole = run("train", dataset, "--out", tmp_path / "whole", *options)
    assert whole.code == 0, whole.err
    asked = ("train", dataset, "--out", tmp_path / "broken", *options)
    checkpoint = tmp_path / "broken" / "checkpoint"
    before = _states(checkpoint)
    for how, resume in (
        (signal.SIGINT, ()),
        (signal.SIGTERM, ("--resume",)),
        (signal.SIGKILL, ("--resume",)),
    ):
        process = subprocess.Popen(
            [sys.executable, "-m", "counterplay", *map(str, (*asked, *resume))],
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        wait_for(process, partial(_changed, checkpoint, before))
        process.send_signal(how)
        said = process.communicate()[1]
        before = _states(checkpoint)
        assert process.returncode != 0, "it ended before it was killed"
        assert not (tmp_path / "broken" / "run.json").exists()
        if how != signal.SIGKILL:
            assert process.returncode == 128 + how
            assert said.startswith("counterplay: interrupted; ")
            assert "same command" in said
            assert "--resume" in said
    resumed = run(*asked, "--resume")
    assert resumed.code == 0, resumed.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broken", "data", "whole"]
    assert len(list((tmp_path / "broken").iterdir())) == 2
    for name in ("model.safetensors", "run.json"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "broken" / name).read_bytes()


def _changed(checkpoint: Path, before: set[tuple[str, int]]) -> bool:
    return bool(_states(checkpoint) - before)


def _states(checkpoint: Path) -> set[tuple[str, int]]:
    """Return the files of a checkpoint, each with the time of its writing."""
    with suppress(FileNotFoundError):  # exchanged meanwhile
        return {(each.name, each.stat().st_mtime_ns) for each in checkpoint.iterdir()}
    return set()
