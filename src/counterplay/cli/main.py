"""The command `counterplay`."""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import counterplay
from counterplay.cli import console, signals
from counterplay.cli.arguments import spread
from counterplay.cli.exits import BAD_INPUT, FAILED, INTERRUPTED, MEANINGS
from counterplay.cli.options import Command, Shown
from counterplay.cli.usage import UsageError, sentence
from counterplay.errors import CheckpointError, ConfigError, CounterplayError, DataError
from counterplay.groups import is_worker

NAME = "counterplay"
DEBUG = "COUNTERPLAY_DEBUG"
_FULL = re.compile(r"no space left on device|os error 28|quota exceeded|disk is full", re.I)
_REFUSED = re.compile(r"permission denied|read-only file system|\bos error \d+", re.I)

COMMANDS: dict[str, dict[str, str]] = {  # panels of the help, in the order of use: module of each
    "From a log to a decision": {
        "look": "reading",
        "run": "run",
        "init": "init",
        "report": "report",
        "demo": "run",
    },
    "From a decision to production": {
        "refit": "serving",
        "recommend": "serving",
        "export": "serving",
    },
    "Step by step": {
        "prepare": "prepare",
        "train": "train",
        "tune": "tune",
        "evaluate": "evaluate",
        "compare": "evaluate",
    },
    "Simulated worlds": {"simulate": "worlds", "online": "worlds", "check-world": "checks"},
    "Public datasets": {"datasets": "datasets", "download": "datasets"},
}


@cache
def _command(name: str) -> Any:
    """Return a command; it is put together when it is asked for, and no other with it."""
    panel = next(panel for panel, modules in COMMANDS.items() if name in modules)
    module = import_module(f"counterplay.cli.{COMMANDS[panel][name]}")
    alone = typer.Typer(add_completion=False)
    alone.command(name, cls=Command, rich_help_panel=panel)(getattr(module, name.replace("-", "_")))
    return typer.main.get_command(alone)


class _Commands(Mapping[str, Any]):
    """All commands by name."""

    def __init__(self) -> None:
        self._names = [name for modules in COMMANDS.values() for name in modules]

    def __getitem__(self, name: str) -> Any:
        if name not in self._names:
            raise KeyError(name)
        return _command(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class Group(Shown, TyperGroup):
    """What stands before the commands."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands: Any = _Commands()

    def get_params(self, ctx: Any) -> list[Any]:
        """Return its own options; whoever names a command first asks for none of them."""
        return [] if ctx.obj and ctx.obj[0] in self.commands else super().get_params(ctx)


app = typer.Typer(
    name=NAME,
    cls=Group,
    help="Learn and evaluate recommenders from logs that do not say what users were shown.",
    epilog="Exit codes: " + ". ".join(f"{code} {text}" for code, text in MEANINGS.items()) + ".",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        console.out.print(f"counterplay {counterplay.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    pass


@cache
def _parser(asked: typer.Typer) -> Callable[..., int | None]:
    """Return a command line, whose making takes a while, for all that one process asks of it."""
    return typer.main.get_command(asked)


def main(arguments: list[str] | None = None, asked: typer.Typer = app, name: str = NAME) -> None:
    """Run a command line, `counterplay` itself or one beside it; every way out has one line."""
    is_command = arguments is None
    if arguments is None:
        signals.listen()
        sys.path.append(str(Path.cwd()))  # at the end: for a method of one's own, and nothing else
        if isinstance(sys.stdout, TextIOWrapper):  # ids may hold what the terminal cannot show
            sys.stdout.reconfigure(errors="backslashreplace")
        arguments = sys.argv[1:]
    words = spread(arguments) or ["--help"]
    try:
        code = _parser(asked)(words, prog_name=name, standalone_mode=False, obj=words)  # or None
        if code == INTERRUPTED:
            raise KeyboardInterrupt
        sys.stdout.flush()  # here: later, nobody could say that it failed
        text = ""
    except KeyboardInterrupt:
        code, text = signals.exit_code(), signals.SAID
    except Exception as error:
        if os.environ.get(DEBUG):
            import traceback

            traceback.print_exception(error)
        code, text = _account(error, words, name)
    if is_command:
        signals.ignore()
    if signals.received():  # whoever dropped what it raised, the exit code is not the only word
        text = text or signals.SAID
    if text:
        console.say(text)
        if is_command:
            _discard_output()
    if signals.received():
        signals.leave()
    if code and is_command and is_worker():
        from counterplay.cli import launching

        launching.leave(code)
    sys.exit(code or 0)


def _discard_output() -> None:
    """Forget what standard output did not take: it would be tried again at the very end."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _account(error: Exception, arguments: list[str], name: str) -> tuple[int, str]:
    """Give the exit code of an error, and its sentence."""
    if isinstance(error, UsageError):
        return BAD_INPUT, sentence(error, name, arguments)
    if isinstance(error, console.Interrupted):
        return signals.exit_code(), f"interrupted; {error}"
    if signals.received():  # what it was noticed by in the middle of something
        return signals.exit_code(), signals.SAID
    if isinstance(error, DataError | ConfigError | CheckpointError):
        return BAD_INPUT, str(error)
    if isinstance(error, CounterplayError):
        return FAILED, str(error)
    if isinstance(error, MemoryError) or "allocate memory" in str(error):  # torch has no class
        found = str(error) or "too little"
        return FAILED, f"the work must fit into memory; found {found}; ask for less"
    if refusal := _refusal(error):
        return BAD_INPUT, refusal
    return FAILED, (
        f"this is a mistake in {NAME}; found {type(error).__name__}: {error}; "
        f"run again with {DEBUG}=1 for the details, and report it"
    )


def _refusal(error: Exception) -> str | None:
    """Return the sentence of what the system refused, whoever asked it; None if it was not that."""
    number, place, reason = (
        getattr(error, name, None) for name in ("errno", "filename", "strerror")
    )
    where = "" if place is None else f" at '{os.fsdecode(place)}'"
    if number in (errno.ENOSPC, errno.EDQUOT) or _FULL.search(str(error)):
        return (
            f"the disk must have room for what is written; found no space left{where}; free some, "
            "and give the same command again"
        )
    if isinstance(error, OSError) or _REFUSED.search(str(error)):
        return (
            f"files must be readable and writable; found {reason or error}{where}; check the path, "
            "its permissions and the disk"
        )
    return None
