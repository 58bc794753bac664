"""The command `counterplay`."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from io import TextIOWrapper
from typing import Annotated

import typer

import counterplay
from counterplay.cli import console
from counterplay.cli.arguments import spread
from counterplay.cli.datasets import datasets
from counterplay.cli.download import download
from counterplay.cli.evaluate import compare, evaluate
from counterplay.cli.export import export
from counterplay.cli.prepare import prepare
from counterplay.cli.recommend import recommend
from counterplay.cli.report import report
from counterplay.cli.reproduce import reproduce
from counterplay.cli.run import demo, run
from counterplay.cli.train import train
from counterplay.cli.tune import tune
from counterplay.cli.usage import UsageError, sentence
from counterplay.cli.worlds import check_world, online, simulate
from counterplay.errors import ConfigError, CounterplayError, DataError

NAME = "counterplay"
DEBUG = "COUNTERPLAY_DEBUG"
FAILED, BAD_INPUT, INTERRUPTED, TERMINATED = 1, 2, 130, 143

COMMANDS: dict[str, list[Callable[..., None]]] = {  # panels of the help, in the order of use
    "From a log to a decision": [run, report, demo],
    "Step by step": [prepare, train, tune, evaluate, compare, recommend, export],
    "Worlds": [simulate, online, check_world],
    "Public data": [datasets, download],
    "The paper": [reproduce],
}

app = typer.Typer(
    name=NAME,
    help="Learn and evaluate recommenders from logs that do not say what users were shown.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _panel, _commands in COMMANDS.items():
    for _command in _commands:
        app.command(rich_help_panel=_panel)(_command)


def _version(wanted: bool) -> None:
    if wanted:
        console.out.print(f"counterplay {counterplay.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    pass


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; every way out has one line and one exit code."""
    if arguments is None:  # a real command: being ended must clean up, as being interrupted does
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
        if isinstance(sys.stdout, TextIOWrapper):  # ids may hold what the terminal cannot show
            sys.stdout.reconfigure(errors="backslashreplace")
        arguments = sys.argv[1:]
    words = spread(arguments) or ["--help"]
    try:
        code = app(words, prog_name=NAME, standalone_mode=False, obj=words)  # an exit code, or None
        if code == INTERRUPTED:
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        code, text = INTERRUPTED, "interrupted; nothing half-written was left behind"
    except Exception as error:
        if os.environ.get(DEBUG):
            traceback.print_exception(error)
        code, text = _account(error, words)
    else:
        sys.exit(code or 0)
    console.say(text)
    sys.exit(code)


def _account(error: Exception, arguments: list[str]) -> tuple[int, str]:
    """Give the exit code of an error, and its sentence."""
    if isinstance(error, UsageError):
        return BAD_INPUT, sentence(error, NAME, arguments)
    if isinstance(error, console.Interrupted):
        return INTERRUPTED, f"interrupted; {error}"
    if isinstance(error, DataError | ConfigError):
        return BAD_INPUT, str(error)
    if isinstance(error, CounterplayError):
        return FAILED, str(error)
    if isinstance(error, MemoryError) or "allocate memory" in str(error):  # torch has no class
        found = str(error) or "too little"
        return FAILED, f"the work must fit into memory; found {found}; ask for less"
    if isinstance(error, OSError):
        known = isinstance(error, PermissionError | NotADirectoryError)
        return (
            BAD_INPUT if known else FAILED,
            f"files must be readable and writable; found {error}; check the path and the disk",
        )
    return FAILED, (
        f"this is a mistake in {NAME}; found {type(error).__name__}: {error}; "
        f"run again with {DEBUG}=1 for the details, and report it"
    )
