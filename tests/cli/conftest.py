"""Run the command line in this process, as a user would see it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest

from counterplay.cli import console
from counterplay.cli.main import main


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


Run = Callable[..., Outcome]


def wait_for(process: subprocess.Popen[Any], happened: Callable[[], bool]) -> None:
    """Wait until something has happened, or the process has ended, and leave it the processor."""
    while not happened():
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.01)
            return


def said_at_last(err: str) -> str:
    """Return the one sentence of ours; slow jobs are told of before it, a line each."""
    *before, last = err.splitlines()
    assert all(" jobs, " in line and line.endswith(" left") for line in before), err
    return last


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr(console.out, "_width", 200)
    monkeypatch.setattr(console.err, "_width", 200)

    def run_command(*arguments: object) -> Outcome:
        with pytest.raises(SystemExit) as caught:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        assert isinstance(caught.value.code, int)
        return Outcome(caught.value.code, captured.out, captured.err)

    return run_command
