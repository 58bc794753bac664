from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from .conftest import Run, wait_for

FAST = ("--epochs", 2, "--dim", 4, "--set", "validation.n_negatives=5", "--set",
        "training.batch_size=64")  # fmt: skip


def test_a_model_is_trained(dataset: Path, tmp_path: Path, run: Run) -> None:
    outcome = run("train", dataset, "--out", tmp_path / "run", "--method", "acl", *FAST)
    assert outcome.code == 0, outcome.err
    for part in ("acl: gmf against gmf", "Hit@10", "effective sample"):
        assert part in outcome.out
    assert (tmp_path / "run" / "run.json").exists()


@pytest.mark.parametrize(
    ("method", "setting", "parts"),
    [
        ("dro", "training.radius=0.5", ("dro: gmf,", "effective sample")),
        ("rd", "training.gamma=3", ("rd: gmf against pop", "propensities", "β 0.00, 1.00, 0.00")),
        ("relmf", "training.floor=0.01", ("relmf: gmf,", "propensities", "effective sample")),
        ("dr", "training.floor=0.5", ("dr: gmf against imputation against pop", "propensities")),
    ],
)
def test_siblings_of_the_game_are_trained(
    method: str, setting: str, parts: tuple[str, ...], dataset: Path, tmp_path: Path, run: Run
) -> None:
    exposure = ("--exposure", "pop") if method in ("rd", "dr") else ()
    asked = ("--method", method, "--set", setting, *exposure, *FAST)
    outcome = run("train", dataset, "--out", tmp_path / "run", *asked)
    assert outcome.code == 0, outcome.err
    assert all(part in outcome.out for part in parts), outcome.out


def test_json_and_a_file_of_settings(dataset: Path, tmp_path: Path, run: Run) -> None:
    (tmp_path / "run.toml").write_text('method = "erm"\n[candidate]\nname = "cf"\n')
    settings = ("--config", tmp_path / "run.toml", *FAST, "--json")
    record = json.loads(run("train", dataset, "--out", tmp_path / "run", *settings).out)
    assert record["configuration"]["candidate"]["name"] == "cf"
    assert len(record["epochs"]) == 2


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--set", "training.epoch=3"), "did you mean 'epochs'"),
        (("--method", "erm", "--alpha", 2), "training.alpha with erm"),
        (("--exposure", "mlp"), "found exposure.name with erm"),
        (("--set", "exposure.exponent=0.5"), "found exposure.exponent with erm"),
        (("--method", "dro", "--exposure", "mlp"), "found exposure.name with dro"),
        (("--method", "acl", "--exposure", "pop"), "must have something to learn"),
        (
            ("--method", "acl", "--set", "training.regularizer=known"),
            "choose feedback, exposure or popularity",
        ),
        (("--set", "training.regularizer=wasserstein"), "'feedback', 'exposure', 'popularity'"),
    ],
)
def test_bad_settings_are_one_sentence_before_data_are_read(
    arguments: tuple[object, ...], expected: str, tmp_path: Path, run: Run
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/dataset.json").write_text("what nobody can read")
    outcome = run("train", tmp_path / "data", "--out", tmp_path / "run", *FAST, *arguments)
    assert outcome.code == 2
    assert outcome.err.count("\n") == 1
    assert expected in outcome.err
    assert [each.name for each in tmp_path.iterdir()] == ["data"]


BROKEN = """
from counterplay.learning.method import Method

class Mine(Method):
    def step(self, batch, meter):
        raise KeyError("margin")
"""
STEP = """
        loss = self.candidate(*batch.query).mean()
        self.optimizers["candidate"].step(loss)
        meter.add(batch, candidate_loss=loss)
"""


def test_a_method_of_the_user_that_fails_is_named_and_blocks_nothing(
    dataset: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "mine_that_fails.py"
    path.write_text(BROKEN)
    monkeypatch.syspath_prepend(str(tmp_path))
    options = (*FAST, "--method", "mine_that_fails:Mine")
    outcome = run("train", dataset, "--out", tmp_path / "run", *options)
    assert outcome.code == 2
    assert outcome.err.count("\n") == 1
    assert f"found KeyError: 'margin' in '{path}', line 6; correct it" in outcome.err
    assert not (tmp_path / "run").exists()
    outcome = run("tune", dataset, "--out", tmp_path / "tuned", "--methods", options[-1])
    assert outcome.code == 2
    assert f"'{path}', line 6" in outcome.err
    path.write_text(BROKEN.replace('        raise KeyError("margin")\n', STEP))
    monkeypatch.delitem(sys.modules, "mine_that_fails")
    assert run("train", dataset, "--out", tmp_path / "run", *options).code == 0
    trials = ("--trials", 1, "--epochs", 1)
    tuned = run("tune", dataset, "--out", tmp_path / "tuned", "--methods", options[-1], *trials)
    assert tuned.code == 0, tuned.err
    assert (tmp_path / "tuned" / "best-mine_that_fails-Mine" / "run.json").exists()


def test_killed_and_resumed_it_ends_in_the_same_bytes(
    dataset: Path, tmp_path: Path, run: Run
) -> None:
    """Ended and killed, one after the other."""
    options = (*FAST[2:], "--epochs", 20, "--set", "training.patience=20")
    whole = run("train", dataset, "--out", tmp_path / "whole", *options)
    assert whole.code == 0, whole.err
    asked = ("train", dataset, "--out", tmp_path / "broken", *options)
    checkpoint = tmp_path / "broken" / "checkpoint"
    before = _states(checkpoint)
    for how, resume in ((signal.SIGTERM, ()), (signal.SIGKILL, ("--resume",))):
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
        if how == signal.SIGTERM:
            assert process.returncode == 128 + how
            assert "same command and --resume" in said
    resumed = run(*asked, "--resume")
    assert resumed.code == 0, resumed.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broken", "whole"]
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
