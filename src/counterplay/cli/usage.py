"""What is wrong with a command line, said as all other errors are."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

import typer

UsageError: type[Exception] = typer.BadParameter.__mro__[1]  # their parent, public by no name


def sentence(error: Any, program: str, arguments: list[str]) -> str:
    """Say what must hold, what was found and what to do next, by the attributes of an error.

    Where they do not say it, Click's own sentence does.
    """
    word = next((each for each in arguments if not each.startswith("-")), None)  # the command
    said, near = _said(error, word)
    meant = f"did you mean {near[0]}, or " if near else ""
    path = error.ctx.command_path if error.ctx else " ".join(filter(None, (program, word)))
    return f"{said}; {meant}see {path} --help"


def _said(error: Any, word: str | None) -> tuple[str, list[str]]:
    """Give what must hold and what was found, and what could have been meant."""
    kind, command = type(error).__name__, error.ctx and error.ctx.command
    if kind == "NoSuchOption":
        found = f"{command.name} takes the options of its help; found {error.option_name!r}"
        return found, get_close_matches(
            error.option_name, error.possibilities or (), n=1, cutoff=0.7
        )
    if kind == "MissingParameter":
        return f"{command.name} needs {_name(error.param)}; found nothing", []
    own = str(getattr(error, "message", error)).rstrip(".")
    if kind == "BadParameter":
        name, details = _name(error.param), getattr(error.__cause__, "errors", None)
        first: dict[str, Any] = details()[0] if details else {}
        cause = first.get("ctx", {}).get("error", own)
        if first.get("type", "value_error") == "value_error":  # a sentence: typer's, or ours
            return f"{name} must be valid: {cause}".rstrip("."), []
        from counterplay.settings import expected

        return f"{name} must be {expected(first)}; found {first['input']!r}", []
    commands = list(getattr(command, "commands", ()))
    if commands and word is not None:
        near = get_close_matches(word, commands, n=1, cutoff=0.7)
        return f"a command must be one of those in the help; found {word!r}", near
    return own, []


def _name(parameter: Any) -> str:
    if parameter is None:
        return "a parameter"
    is_option = parameter.param_type_name == "option"
    return str(parameter.opts[0] if is_option else parameter.name.upper())
