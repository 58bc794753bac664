from __future__ import annotations

import shlex

import pytest
import typer

from counterplay.cli.usage import UsageError, sentence

from .conftest import Run


@pytest.mark.parametrize(
    ("typed", "said", "where"),
    [
        ("trian x", "found 'trian'; did you mean train", ""),
        ("zzz", "found 'zzz'; see", ""),
        ("--", "Missing command", ""),
        ("''", "found ''", ""),
        ("--versio", "found '--versio'; did you mean --version", ""),
        ("--json datasets", "found '--json'; see", ""),
        ("train x --out y --epoch 3", "found '--epoch'; did you mean --epochs", "train"),
        ("train x --out y '--epo[red]chs'", "'--epo[red]chs'; did you mean --epochs", "train"),
        ("train x -x", "found '-x'; see", "train"),
        ("train", "train needs DATA", "train"),
        ("train x", "train needs --out", "train"),
        ("train x --out", "'--out' requires", "train"),
        ("train x --out y --resume=1", "'--resume' does not take a value", "train"),
        (
            "train x --out y --recipe stabel",
            "--recipe must .*'stabel' .*'paper', 'stable'",
            "train",
        ),
        ("train x --out y --epochs ten", "--epochs must be a whole number; found 'ten'", "train"),
        ("train x --out y --epochs=", "--epochs must be a whole number; found ''", "train"),
        ("train x --out y --rate fast", "--rate must be a number; found 'fast'", "train"),
        ("train x --out y --seed -1", "--seed must be at least 0; found '-1'", "train"),
        ("evaluate x --k 5 0", "--k must be at least 1; found '0'", "evaluate"),
        ("prepare x --out y --test-from noon", "--test-from must be a date.*'noon'", "prepare"),
        ("datasets a b", "a b", "datasets"),
        ("prepare x --out y --overwrit", "'--overwrit'; did you mean --overwrite", "prepare"),
    ],
)
def test_bad_usage_is_one_sentence(typed: str, said: str, where: str, run: Run) -> None:
    outcome = run(*shlex.split(typed))
    assert (outcome.code, outcome.out) == (2, "")
    place = 0
    for part in said.split(".*"):  # in this order
        assert part in outcome.err[place:]
        place = outcome.err.index(part, place) + len(part)
    assert outcome.err.count("\n") == 1
    assert outcome.err.endswith(f"see {' '.join(filter(None, ('counterplay', where)))} --help\n")


@pytest.mark.parametrize(
    "typed", ["train x --out y --method '\x1b[31mx'", "'\x1b[31mx'", "train '-\x07'"]
)
def test_what_was_typed_cannot_move_the_terminal(typed: str, run: Run) -> None:
    outcome = run(*shlex.split(typed))
    assert outcome.code == 2
    assert outcome.err.isascii()
    assert outcome.err.rstrip("\n").isprintable()


def test_errors_that_say_no_more_than_their_sentence() -> None:
    assert issubclass(typer.BadParameter, UsageError)
    for error in (UsageError("It will not do."), typer.BadParameter("It will not do.")):
        told = sentence(error, "counterplay", ["train", "x"])
        assert told.endswith("It will not do; see counterplay train --help")
