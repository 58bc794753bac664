from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import counterplay as cp
from counterplay.runs.config import run_config

from .conftest import Run, said_at_last, wait_for

pytestmark = pytest.mark.filterwarnings("ignore::counterplay.CounterplayWarning")

N_USERS, N_ITEMS = 60, 30
ONE_USER = ("--set", f"memory={32 * N_ITEMS}", "--set", "n_resamples=200")  # many parts


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset, and two runs on it."""
    folder, rng = tmp_path_factory.mktemp("shards"), np.random.default_rng(0)
    user, item = rng.integers(0, N_USERS, 1500), rng.integers(0, N_ITEMS, 1500)
    log = cp.read({"user": user, "item": item}, duplicates="first", name="shop")
    cp.data.save(cp.data.split_at_random(log, rng, fractions=(0.1, 0.3)), folder / "data")
    for name in ("gmf", "mlp"):
        settings = ["method=erm", f"candidate.name={name}", "candidate.dim=4", "training.epochs=1"]
        cp.train(folder / "data", folder / name, run_config(None, settings))
    return folder


def test_jobs_change_nothing_of_what_is_written(folder: Path, tmp_path: Path, run: Run) -> None:
    plain, many = tmp_path / "plain.json", tmp_path / "many.json"
    command = ("compare", folder / "gmf", folder / "mlp", *ONE_USER)
    one = run(*command, "--json")
    assert run(*command, "--out", plain).code == 0
    assert run(*command, "--out", many, "--shards", 9).code == 0
    assert many.read_bytes() == plain.read_bytes()
    with_shards = run(*command, "--json", "--shards", 3)  # without an output
    assert json.loads(with_shards.out) == json.loads(one.out)
    assert {each.name for each in tmp_path.iterdir()} == {"plain.json", "many.json"}


def test_a_sample_of_users_is_told(folder: Path, run: Run) -> None:
    command = ("evaluate", folder / "gmf", "--estimator", "standard", "--users", 25)
    found = json.loads(run(*command, "--json").out)
    assert found["sample"] == {"n": 25, "of": N_USERS}
    assert found["configuration"]["users"] == 25
    rows = found["estimates"][0]["n"]
    assert f"{rows} test rows of 25 of {N_USERS} users" in run(*command).out
    refused = run(*command[:-1], 0)
    assert refused.code == 2


@pytest.mark.parametrize("command", ["evaluate", "compare", "recommend"])
def test_processes_and_ray_are_one_or_the_other(
    command: str, folder: Path, tmp_path: Path, run: Run
) -> None:
    runs = [folder / "gmf", folder / "mlp"][: 2 if command == "compare" else 1]
    out = tmp_path / ("lists.parquet" if command == "recommend" else "found.json")
    refused = run(command, *runs, "--out", out, "--workers", 2, "--ray")
    assert refused.code == 2
    assert refused.err.count("\n") == 1
    assert "found both --workers and --ray" in refused.err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["evaluate", "compare"])
def test_jobs_on_ray_have_a_place_that_all_nodes_see(command: str, folder: Path, run: Run) -> None:
    runs = [folder / "gmf", folder / "mlp"][: 2 if command == "compare" else 1]
    refused = run(command, *runs, "--ray")
    assert refused.code == 2
    assert "found --ray without --out; name a file where all nodes see it" in refused.err


def test_lists_are_the_same_by_jobs(folder: Path, tmp_path: Path, run: Run) -> None:
    for name, more in (("one", ()), ("many", ("--shards", 5))):
        out = tmp_path / f"{name}.parquet"
        assert run("recommend", folder / "gmf", "--out", out, *more).code == 0
    one, many = (tmp_path / f"{name}.parquet" for name in ("one", "many"))
    assert one.read_bytes() == many.read_bytes()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_an_evaluation_that_is_ended_goes_on(
    number: signal.Signals, folder: Path, tmp_path: Path, run: Run
) -> None:
    out, plain = tmp_path / "found.json", tmp_path / "plain.json"
    command = ["compare", folder / "gmf", folder / "mlp", *ONE_USER, "--shards", 40]
    assert run(*command, "--out", plain).code == 0
    work = tmp_path / ".found.json.work"
    process = subprocess.Popen(
        [sys.executable, "-m", "counterplay", *map(str, command), "--out", out, "--workers", "2"],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    wait_for(process, lambda: any(work.glob("jobs/ranks*.json")))
    process.send_signal(number)
    _, said = process.communicate()
    assert process.returncode == (-number if number == signal.SIGKILL else 128 + number)
    if number != signal.SIGKILL:
        told = "counterplay: interrupted; give the same command again to go on"
        assert said_at_last(said) == told
    assert not out.exists()
    assert any(work.glob("jobs/ranks*.json"))
    assert run(*command, "--out", out).code == 0
    assert out.read_bytes() == plain.read_bytes()
    assert not work.exists()
