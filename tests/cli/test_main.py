from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import counterplay as cp

from .conftest import Outcome, Run


def test_version(run: Run) -> None:
    outcome = run("--version")
    assert (outcome.code, outcome.out) == (0, f"counterplay {cp.__version__}\n")


@pytest.mark.parametrize("command", [(), ("prepare",), ("datasets",), ("download",), ("train",)])
def test_help_at_every_level(command: tuple[str, ...], run: Run) -> None:
    outcome = run(*command, "--help")
    assert outcome.code == 0
    assert "Usage: counterplay" in outcome.out
    if command:
        assert "Example: counterplay" in outcome.out


@pytest.mark.parametrize(
    "arguments", [("prepair",), ("prepare",), ("prepare", "x.csv", "--out", "y", "--splitt", "z")]
)
def test_bad_usage_exits_2(arguments: tuple[str, ...], run: Run) -> None:
    outcome = run(*arguments)
    assert outcome.code == 2
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (cp.DataError("a; b; c"), 2, "counterplay: a; b; c\n"),
        (cp.ConfigError("a; b; c"), 2, "counterplay: a; b; c\n"),
        (cp.DivergedError("a; b; c"), 1, "counterplay: a; b; c\n"),
        (PermissionError("locked"), 2, "found locked"),
        (OSError("disk full"), 1, "found disk full"),
    ],
)
def test_every_way_out_has_a_sentence_and_a_code(
    error: BaseException, code: int, text: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = run_failing(error, run, monkeypatch)
    assert outcome.code == code
    assert text in outcome.err
    assert "Traceback" not in outcome.err


def test_an_interruption_exits_130(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = run_failing(KeyboardInterrupt(), run, monkeypatch)
    assert (outcome.code, outcome.out) == (130, "")
    assert outcome.err == "counterplay: interrupted; nothing half-written was left behind\n"


def run_failing(error: BaseException, run: Run, monkeypatch: pytest.MonkeyPatch) -> Outcome:
    def failing(*_: object) -> None:
        raise error

    monkeypatch.setattr("counterplay.cli.console.print_json", failing)
    return run("datasets", "--json")


def test_the_module_is_the_command(tmp_path: Path) -> None:
    outcome = subprocess.run(
        [sys.executable, "-m", "counterplay", "prepare", "none.csv", "--out", "out"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert outcome.returncode == 2
    assert outcome.stderr == (
        "counterplay: a file must exist to be read; found nothing at 'none.csv'; check the path\n"
    )
    assert outcome.stdout == ""
    assert list(tmp_path.iterdir()) == []
