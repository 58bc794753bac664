"""The command `counterplay`."""

from __future__ import annotations

import sys
from typing import Annotated

import click
import typer

import counterplay
from counterplay.cli import console
from counterplay.cli.datasets import datasets
from counterplay.cli.download import download
from counterplay.cli.prepare import prepare
from counterplay.errors import ConfigError, CounterplayError, DataError

FINE, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130

app = typer.Typer(
    name="counterplay",
    help="Learn and evaluate recommenders from logs that do not say what users were shown.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(prepare)
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
    try:
        code = app(arguments, prog_name="counterplay", standalone_mode=False)
        sys.exit(code if isinstance(code, int) else FINE)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (DataError, ConfigError) as error:
        _say(str(error))
        sys.exit(BAD_INPUT)
    except CounterplayError as error:
        _say(str(error))
        sys.exit(FAILED)
    except OSError as error:
        _say(f"files must be readable and writable; found {error}; check the path and the disk")
        sys.exit(BAD_INPUT if isinstance(error, PermissionError | NotADirectoryError) else FAILED)
    except (KeyboardInterrupt, click.Abort):
        _say("interrupted; nothing half-written was left behind")
        sys.exit(INTERRUPTED)


def _say(text: str) -> None:
    console.err.print(f"counterplay: {text}", markup=False)
