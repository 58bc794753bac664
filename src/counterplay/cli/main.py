"""The command `counterplay`."""

from __future__ import annotations

import signal
import sys
from typing import Annotated, NoReturn

import typer

import counterplay
from counterplay.cli import console
from counterplay.cli.arguments import spread
from counterplay.cli.datasets import datasets
from counterplay.cli.download import download
from counterplay.cli.evaluate import compare, evaluate
from counterplay.cli.prepare import prepare
from counterplay.cli.train import train
from counterplay.cli.worlds import check_world, online, simulate
from counterplay.errors import ConfigError, CounterplayError, DataError

NAME = "counterplay"
FAILED, BAD_INPUT, INTERRUPTED, TERMINATED = 1, 2, 130, 143

app = typer.Typer(
    name=NAME,
    help="Learn and evaluate recommenders from logs that do not say what users were shown.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(prepare)
app.command()(train)
app.command()(evaluate)
app.command()(compare)
app.command()(simulate)
app.command()(online)
app.command()(check_world)
app.command()(datasets)
app.command()(download)


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
    try:
        app(spread(sys.argv[1:] if arguments is None else arguments), prog_name=NAME)
    except SystemExit as ended:  # typer has spoken already, except of an interruption
        if ended.code == INTERRUPTED:
            _say("interrupted; nothing half-written was left behind")
        raise
    except (DataError, ConfigError) as error:
        _leave(BAD_INPUT, str(error))
    except CounterplayError as error:
        _leave(FAILED, str(error))
    except MemoryError as error:
        _leave(
            FAILED, f"the work must fit into memory; found {error or 'too little'}; ask for less"
        )
    except OSError as error:
        known = isinstance(error, PermissionError | NotADirectoryError)
        _leave(
            BAD_INPUT if known else FAILED,
            f"files must be readable and writable; found {error}; check the path and the disk",
        )


def _leave(code: int, text: str) -> NoReturn:
    _say(text)
    sys.exit(code)


def _say(text: str) -> None:
    console.err.print(f"counterplay: {text}", markup=False)
