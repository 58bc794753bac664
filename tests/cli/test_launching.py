"""Several processes train one model."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import typer
from safetensors.torch import load_file

import counterplay as cp
from counterplay.cli import launching
from counterplay.groups import PLACES

from .conftest import Run, wait_for

FAST = ("--dim", 4, "--set", "training.batch_size=64", "--shards", 8)


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "counterplay", *map(str, arguments)]


@pytest.fixture
def quick() -> dict[str, str]:
    return os.environ | {"OMP_NUM_THREADS": "1", "COUNTERPLAY_TIMEOUT": "60"}


@pytest.mark.parametrize("items", ["--copy-items", "--own-items"])
def test_two_workers_train_what_one_trains(
    dataset: Path, tmp_path: Path, run: Run, quick: dict[str, str], items: str
) -> None:
    given = ("train", dataset, "--method", "acl", "--epochs", 2, *FAST)
    alone = run(*given, "--out", tmp_path / "alone")
    assert alone.code == 0, alone.err
    both = subprocess.run(
        command(*given, "--out", tmp_path / "both", "--workers", 2, items),
        capture_output=True, text=True, env=quick, timeout=300,
    )  # fmt: skip
    assert both.returncode == 0, both.stderr
    assert both.stdout.replace("both", "alone").split()[:30] == alone.out.split()[:30]
    one, two = (load_file(tmp_path / name / "model.safetensors") for name in ("alone", "both"))
    assert one.keys() == two.keys()
    for name, table in one.items():  # Adam makes much of rounding in the tiny gradient of β
        atol = 1e-2 if name.startswith("link") else 1e-4
        assert torch.allclose(two[name], table, atol=atol, rtol=0), name
    again = run(*given, "--out", tmp_path / "both", "--resume")
    assert again.code == 0, again.err
    assert not (tmp_path / "both" / "checkpoint").exists()


def test_a_lost_worker_is_named_and_the_run_goes_on(
    dataset: Path, tmp_path: Path, run: Run, quick: dict[str, str]
) -> None:
    out = tmp_path / "run"
    given = ("train", dataset, "--out", out, "--method", "erm", "--epochs", 40, *FAST,
             "--set", "training.patience=40")  # fmt: skip
    straight = run(*given[:3], tmp_path / "straight", *given[4:])
    assert straight.code == 0, straight.err
    process = subprocess.Popen(
        command(*given, "--workers", 2), text=True, env=quick,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    wait_for(process, (out / "checkpoint" / "state.json").exists)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(children[1]), signal.SIGKILL)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 1
    assert said.count("counterplay: ") == 1
    assert "worker 1 on" in said
    assert "--resume" in said
    went_on = run(*given, "--resume")
    assert went_on.code == 0, went_on.err
    one, two = (load_file(each / "model.safetensors") for each in (tmp_path / "straight", out))
    assert all(torch.allclose(one[name], two[name], atol=1e-3) for name in one)


@pytest.mark.parametrize("which", ["first", "last"])
def test_what_one_worker_cannot_read_is_refused_by_all(
    tmp_path: Path, quick: dict[str, str], which: str
) -> None:
    """One user has all items: it is the first worker's, or the last one's."""
    ids = [f"user {number:02d}" for number in range(20)]
    full = ids[0] if which == "first" else ids[-1]
    rows = [(each, item) for each in ids for item in (range(6) if each == full else range(3))]
    log = cp.read({"user": [user for user, _ in rows], "item": [item for _, item in rows]})
    nothing = np.zeros(len(log), dtype=np.int8)
    cp.data.save(cp.Split(log, nothing, "nothing held out"), tmp_path / "data")
    outcome = subprocess.run(
        command("train", tmp_path / "data", "--out", tmp_path / "run", *FAST, "--workers", 2),
        capture_output=True, text=True, env=quick, timeout=300,
    )  # fmt: skip
    assert outcome.returncode == 2, outcome.stderr
    assert outcome.stderr.count("counterplay: ") == 1
    assert f"id '{full}'" in outcome.stderr
    assert not (tmp_path / "run").exists()


def test_workers_must_divide_the_shards(dataset: Path, tmp_path: Path, run: Run) -> None:
    outcome = run("train", dataset, "--out", tmp_path / "run", *FAST, "--workers", 3)
    assert outcome.code == 2
    assert outcome.err.count("counterplay: ") == 1
    for part in ("3 workers", "8 shards", "--workers"):
        assert part in outcome.err
    assert not (tmp_path / "run").exists()


def test_workers_must_be_those_that_were_started(
    dataset: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in zip(PLACES, ("0", "1", "127.0.0.1", "29500"), strict=True):
        monkeypatch.setenv(name, value)
    outcome = run("train", dataset, "--out", tmp_path / "run", "--workers", 3)
    assert outcome.code == 2
    for part in ("found 3", "WORLD_SIZE=1", "--workers"):
        assert part in outcome.err


def test_a_place_among_workers_is_a_number(
    dataset: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in zip(PLACES, ("abc", "1", "127.0.0.1", "29500"), strict=True):
        monkeypatch.setenv(name, value)
    outcome = run("train", dataset, "--out", tmp_path / "run")
    assert outcome.code == 2
    assert "RANK=abc" in outcome.err
    assert not (tmp_path / "run").exists()


def test_somebody_speaks_for_workers_who_end_without_a_word(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def start(children: list[Any], words: list[Path]) -> None:
        assert len(words) == 2
        children += [SimpleNamespace(returncode=code, poll=lambda: 0) for code in (0, 143)]

    monkeypatch.setattr(launching, "_start", start)
    with pytest.raises(typer.Exit) as ended:
        launching.launch(2, 8)
    assert ended.value.exit_code == 143
    assert capsys.readouterr().err == "counterplay: worker 1 ended with exit code 143\n"
