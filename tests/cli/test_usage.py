from __future__ import annotations

import shlex

import pytest
import typer

from counterplay.cli.usage import UsageError, sentence

from .conftest import Run

TRAIN = "see counterplay train --help"


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("trian x", "a command must be one of those in the help; found 'trian'; "
         "did you mean train, or see counterplay --help"),
        ("zzz", "a command must be one of those in the help; found 'zzz'; see counterplay --help"),
        ("--", "a command must be one of those in the help; found none; see counterplay --help"),
        ("''", "a command must be one of those in the help; found ''; see counterplay --help"),
        ("--versio", "counterplay takes the options of its help; found '--versio'; "
         "did you mean --version, or see counterplay --help"),
        ("--json datasets", "counterplay takes the options of its help; found '--json'; "
         "see counterplay --help"),
        ("train x --out y --epoch 3", "train takes the options of its help; found '--epoch'; "
         f"did you mean --epochs, or {TRAIN}"),
        ("train x -x", f"train takes the options of its help; found '-x'; {TRAIN}"),
        ("train", f"train needs DATA; found nothing; {TRAIN}"),
        ("train x", f"train needs --out; found nothing; {TRAIN}"),
        ("train x --out", f"--out needs a value; found nothing; {TRAIN}"),
        ("train x --out y --resume=1", f"--resume must stand alone; found '--resume=1'; {TRAIN}"),
        ("train x --out y --recipe stabel", "--recipe must be one of paper, stable; "
         f"found 'stabel'; did you mean stable, or {TRAIN}"),
        ("train x --out y --epochs ten", f"--epochs must be a valid integer; found 'ten'; {TRAIN}"),
        ("train x --out y --epochs=", f"--epochs must be a valid integer; found ''; {TRAIN}"),
        ("train x --out y --rate fast", f"--rate must be a valid number; found 'fast'; {TRAIN}"),
        ("train x --out y --seed -1", "--seed must be greater than or equal to 0; found '-1'; "
         f"{TRAIN}"),
        ("evaluate x --k 5 0", "--k must be greater than or equal to 1; found '0'; "
         "see counterplay evaluate --help"),
        ("prepare x --out y --test-from noon", "--test-from must be a valid datetime or date; "
         "found 'noon'; see counterplay prepare --help"),
        ("datasets a b", "datasets takes no more arguments; found 'a b'; "
         "see counterplay datasets --help"),
        ("prepare x --out y --overwrit", "prepare takes the options of its help; found "
         "'--overwrit'; did you mean --overwrite, or see counterplay prepare --help"),
        ("train x --out y '--epo[red]chs'", "train takes the options of its help; found "
         f"'--epo[red]chs'; did you mean --epochs, or {TRAIN}"),
    ],
)  # fmt: skip
def test_bad_usage_is_one_sentence(typed: str, said: str, run: Run) -> None:
    outcome = run(*shlex.split(typed))
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == f"counterplay: {said}\n"


@pytest.mark.parametrize(
    "typed", ["train x --out y --method '\x1b[31mx'", "'\x1b[31mx'", "train '-\x07'"]
)
def test_what_was_typed_cannot_move_the_terminal(typed: str, run: Run) -> None:
    outcome = run(*shlex.split(typed))
    assert outcome.code == 2
    assert outcome.err.isascii()
    assert outcome.err.rstrip("\n").isprintable()


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("'ten' is not a valid integer range.", "must be a valid integer range; found 'ten'; see"),
        ("0 is not in the range x>=1.", "must be in the range x>=1; found 0; see"),
        (
            "'ac' is not one of 'acl', 'ps'.",
            "must be one of acl, ps; found 'ac'; did you mean acl,",
        ),
        ("It will not do.", "must have a value that fits; found It will not do; see"),
    ],
)
def test_other_words_for_a_bad_value(message: str, said: str) -> None:
    told = sentence(typer.BadParameter(message), "counterplay", ["train", "x"])
    assert told.startswith(f"a parameter {said}")
    assert told.endswith("see counterplay train --help")


def test_other_kinds_of_errors() -> None:
    error = UsageError("Something.")
    assert sentence(error, "counterplay", ["train"]) == (
        "a command line must be as the help says; found Something; see counterplay train --help"
    )
    assert issubclass(typer.BadParameter, UsageError)
