from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.console import Console

import counterplay as cp
from counterplay.cli import console
from counterplay.data.files import read_json
from counterplay.data.jobs import Finished, Work, in_turn
from counterplay.tuning.search import TrialJob

from .conftest import Run, wait_for

FAST = ("--methods", "erm", "acl", "--trials", 2, "--epochs", 2, "--set", "candidate.dim=4",
        "--set", "validation.n_negatives=5")  # fmt: skip


def test_trials_are_shown_from_the_best_on(dataset: Path, tmp_path: Path, run: Run) -> None:
    out, options = tmp_path / "my tuning", (*FAST, "--trials", 7, "--metric", "ndcg", "--k", 5)
    (tmp_path / "tune.toml").write_text("seed = 3\n[selection]\nestimator = 'propensity'\n")
    settings = ("--config", tmp_path / "tune.toml", "--estimator", "standard")
    outcome = run("tune", dataset, "--out", out, *options, *settings)
    assert outcome.code == 0, outcome.err
    result = json.loads(run("tune", dataset, "--out", out, *options, *settings, "--json").out)
    assert result == read_json(out / "tuning.json", "a result")
    assert result["configuration"]["seed"] == 3
    assert result["configuration"]["training"] == {"epochs": 2}
    lines = [line.strip() for line in outcome.out.splitlines() if ": rate " in line]
    for found, shown in zip(result["methods"], (lines[:5], lines[5:]), strict=True):
        title = f"{found['method']}: 7 trials, 0 failed; ndcg@5 by standard, full, 40 validation"
        assert title in outcome.out
        best = sorted(found["trials"], key=lambda each: -each["estimate"]["value"])[:5]
        assert [line.split(":")[0] for line in shown] == [str(each["number"]) for each in best]
        assert shown[0].startswith(f"{found['best']}:")
        assert f"{best[0]['estimate']['value']:.4f}" in shown[0]
    said = f"counterplay compare '{out}/best-erm' '{out}/best-acl'"
    assert outcome.out.splitlines()[-1].endswith(f": {said}")


def test_trials_on_ray_are_those_in_turn(
    dataset: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever runs them works elsewhere, so places are whole paths."""
    ran: list[TrialJob] = []

    def on_ray(work: Work, jobs: Sequence[TrialJob]) -> Finished:
        ran.extend(jobs)
        return in_turn(work, jobs)

    monkeypatch.setattr("counterplay.data.jobs.on_ray", lambda: on_ray)
    monkeypatch.chdir(tmp_path)
    found = [
        run("tune", os.path.relpath(dataset), "--out", name, *FAST, "--json", *more)
        for name, more in (("here", ()), ("there", ("--ray",)))
    ]
    assert [each.code for each in found] == [0, 0]
    assert found[0].out == found[1].out
    assert len(ran) == 4
    assert all(Path(place).is_absolute() for each in ran for place in (each.data, each.folder))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--set", "space.rates=[0.1,0.2]"), "did you mean 'rate'"),
        (("--estimator", "opponent"), "found 'opponent'; choose one of them"),
        (("--estimator", "standard", "popularity"), "['standard', 'popularity']"),
        (("--k", 5, 10), "selection.k must be a whole number; found selection.k=[5, 10]"),
        (("--exposure", "pop"), "must have something to learn"),
        (("--methods", "erms"), "or your own as module:name; found 'erms'; did"),
        (("--workers", 2, "--ray"), "found both --workers and --ray; leave one out"),
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


def test_failures_are_told_and_an_interruption_says_how_it_goes_on(
    dataset: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(error: BaseException) -> None:
        def failing(*_: object, **__: object) -> None:
            raise error

        monkeypatch.setattr("counterplay.runs.training.train", failing)

    fail(KeyboardInterrupt())
    outcome = run("tune", dataset, "--out", tmp_path / "out", *FAST)
    assert outcome.code == 130
    assert "same command" in outcome.err
    fail(cp.DivergedError("losses must stay finite; found nan; lower the rates"))
    outcome = run("tune", dataset, "--out", tmp_path / "out", *FAST)
    assert outcome.code == 0, outcome.err
    for method in ("erm", "acl"):
        assert f"{method}: 2 trials, 2 failed; the first: losses must stay finite" in outcome.out
    assert "counterplay " not in outcome.out


def test_a_terminal_shows_the_best_so_far(
    dataset: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Console(file=io.StringIO(), force_terminal=True, width=200)
    monkeypatch.setattr(console, "err", terminal)
    options = (*FAST, "--methods", "erm")[3:]
    (found,) = json.loads(run("tune", dataset, "--out", tmp_path / "out", *options, "--json").out)[
        "methods"
    ]
    value = found["trials"][found["best"]]["estimate"]["value"]
    assert isinstance(terminal.file, io.StringIO)
    assert f"tuning on data, best erm {value:.4f}" in terminal.file.getvalue()
    assert "2/2" in terminal.file.getvalue()


def test_killed_and_started_again_it_ends_in_the_same_bytes(
    dataset: Path, tmp_path: Path, run: Run
) -> None:
    options = (*FAST, "--trials", 3)
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
