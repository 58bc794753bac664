from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import counterplay as cp
from counterplay.cli import console
from counterplay.data.files import read_json
from counterplay.tuning import search

from .conftest import Run, wait_for

FAST = (
    "--methods",
    "erm",
    "acl",
    "--trials",
    2,
    "--epochs",
    2,
    "--set",
    "candidate.dim=4",
    "--set",
    "validation.n_negatives=5",
)


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    log = cp.read({"user": rng.integers(0, 9, 200), "item": rng.integers(0, 40, 200)})
    cp.save(cp.split_at_random(log, rng, fractions=(0.1, 0.1)), tmp_path / "data")
    return tmp_path / "data"


def test_methods_are_tuned(dataset: Path, tmp_path: Path, run: Run) -> None:
    out = tmp_path / "my tuning"
    outcome = run("tune", dataset, "--out", out, *FAST, "--metric", "ndcg", "--k", 5)
    assert outcome.code == 0, outcome.err
    n = cp.load_split(dataset).counts["validation"]
    for method in ("erm", "acl"):
        title = f"{method}: 2 trials, 0 failed; ndcg@5 by popularity, full, {n} validation rows"
        assert title in outcome.out
    assert "0: rate 0.01, l2 0.01, batch_size 256, n_negatives 4, alpha 1," in outcome.out
    assert "ps: " not in outcome.out
    said = f"counterplay compare '{out}/best-erm' '{out}/best-acl'"
    assert outcome.out.splitlines()[-1].endswith(f": {said}")
    assert run("compare", out / "best-erm", out / "best-acl").code == 0


def test_trials_are_shown_from_the_best_on(dataset: Path, tmp_path: Path, run: Run) -> None:
    options = (*FAST, "--methods", "ps", "--trials", 7, "--json")[3:]
    result = json.loads(run("tune", dataset, "--out", tmp_path / "out", *options).out)
    shown = run("tune", dataset, "--out", tmp_path / "out", *options[:-1]).out
    (found,) = result["methods"]
    trials = sorted(found["trials"], key=lambda each: -each["estimate"]["value"])
    lines = [line for line in shown.splitlines() if ": rate " in line]
    assert [line.strip().split(":")[0] for line in lines] == [str(t["number"]) for t in trials[:5]]
    assert all(
        f"{t['estimate']['value']:.4f}" in line for t, line in zip(trials[:5], lines, strict=True)
    )
    assert lines[0].strip().startswith(f"{found['best']}:")
    best = tmp_path / "out" / "best-ps"
    assert shown.splitlines()[-1].endswith(f": counterplay evaluate {best}")


def test_json_is_what_is_written(dataset: Path, tmp_path: Path, run: Run) -> None:
    (tmp_path / "tune.toml").write_text("seed = 3\n[selection]\nestimator = 'standard'\n")
    settings = ("--config", tmp_path / "tune.toml", "--estimator", "propensity", "--json")
    outcome = run("tune", dataset, "--out", tmp_path / "out", *FAST, *settings)
    assert json.loads(outcome.out) == read_json(tmp_path / "out" / "tuning.json", "a result")
    configuration = json.loads(outcome.out)["configuration"]
    assert configuration["seed"] == 3
    assert configuration["selection"]["estimator"] == "propensity"
    assert configuration["training"] == {"epochs": 2}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--set", "space.rates=[0.1,0.2]"), "did you mean 'rate'"),
        (("--estimator", "robust-shared"), "found 'robust-shared'; choose one of them"),
        (("--estimator", "standard", "popularity"), "['standard', 'popularity']"),
        (("--k", 5, 10), "selection.k must be a whole number; found selection.k=[5, 10]"),
        (("--exposure", "pop"), "must have something to learn"),
        (("--methods", "ips"), "one of erm, ps, acl, or your own as module:name; found 'ips'; did"),
    ],
)
def test_bad_settings_are_one_sentence(
    arguments: tuple[object, ...], expected: str, dataset: Path, tmp_path: Path, run: Run
) -> None:
    outcome = run("tune", dataset, "--out", tmp_path / "out", *FAST, *arguments)
    assert outcome.code == 2
    assert outcome.err.count("\n") == 1
    assert expected in outcome.err
    assert not (tmp_path / "out").exists()


def test_failures_are_told(
    dataset: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def diverge(*_: object, **__: object) -> None:
        raise cp.DivergedError("losses must stay finite; found nan; lower the rates")

    monkeypatch.setattr(search, "train_run", diverge)
    outcome = run("tune", dataset, "--out", tmp_path / "out", *FAST)
    assert outcome.code == 0, outcome.err
    for method in ("erm", "acl"):
        assert f"{method}: 2 trials, 2 failed; the first: losses must stay finite" in outcome.out
    assert "counterplay " not in outcome.out


def test_an_interruption_says_how_it_goes_on(
    dataset: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(search, "train_run", interrupt)
        outcome = run("tune", dataset, "--out", tmp_path / "out", *FAST)
    assert outcome.code == 130
    assert "same command" in outcome.err
    assert run("tune", dataset, "--out", tmp_path / "out", *FAST).code == 0


def test_a_terminal_shows_the_best_so_far(
    dataset: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Console(file=io.StringIO(), force_terminal=True, width=200)
    monkeypatch.setattr(console, "err", terminal)
    outcome = run("tune", dataset, "--out", tmp_path / "out", *FAST, "--json")
    best = json.loads(outcome.out)["methods"][0]
    value = best["trials"][best["best"]]["estimate"]["value"]
    assert isinstance(terminal.file, io.StringIO)
    assert f"tuning on data, best erm {value:.4f}, acl" in terminal.file.getvalue()
    assert "4/4" in terminal.file.getvalue()


def test_killed_and_started_again_it_ends_in_the_same_bytes(
    dataset: Path, tmp_path: Path, run: Run
) -> None:
    options = (*FAST, "--trials", 6)
    whole = run("tune", dataset, "--out", tmp_path / "whole", *options)
    assert whole.code == 0, whole.err
    command = [sys.executable, "-m", "counterplay", "tune", dataset, "--out", tmp_path / "broken"]
    process = subprocess.Popen(
        [str(part) for part in (*command, *options)],
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    wait_for(process, (tmp_path / "broken" / "best-acl").exists)
    process.send_signal(signal.SIGKILL)
    assert process.wait() != 0, "it ended before it was killed"
    assert not (tmp_path / "broken" / "tuning.json").exists()
    again = run("tune", dataset, "--out", tmp_path / "broken", *options)
    assert again.code == 0, again.err
    for name in ("tuning.json", "best-erm/model.safetensors", "best-acl/run.json"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "broken" / name).read_bytes()
