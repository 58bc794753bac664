"""Run the command line in this process, as a user would see it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from counterplay.cli import console
from counterplay.cli.main import main


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


Run = Callable[..., Outcome]


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
