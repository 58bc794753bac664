"""What typer finds wrong with a command line, said as all other errors are."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Any

import typer

UsageError: type[Exception] = typer.BadParameter.__mro__[1]  # their parent, public by no name


def sentence(error: Any, program: str, arguments: list[str]) -> str:
    """Say what must hold, what was found and what to do next.

    Typer words its messages anew from version to version, so they are read for their parts, and a
    part that is not found leaves a plainer sentence.
    """
    must, found, known = _parts(error, arguments)
    near = get_close_matches(found.strip("'"), known, n=1, cutoff=0.7)
    meant = f"did you mean {near[0]}, or " if near else ""
    command = _word(arguments)
    path = error.ctx.command_path if error.ctx else " ".join(filter(None, (program, command)))
    return f"{must}; found {found}; {meant}see {path} --help"


def _word(arguments: list[str]) -> str | None:
    """Give the word that stands where the command must: options before it take no values."""
    return next((each for each in arguments if not each.startswith("-")), None)


def _parts(error: Any, arguments: list[str]) -> tuple[str, str, list[str]]:
    """Give what must hold, what was found, and what could have been meant."""
    kind, message = type(error).__name__, str(error.format_message())
    command = error.ctx and error.ctx.command
    if kind == "NoSuchOption":
        options = [
            option
            for each in command.params
            for option in (*each.opts, *each.secondary_opts)
            if option.startswith("-")
        ]
        return f"{command.name} takes the options of its help", repr(error.option_name), options
    if kind == "MissingParameter":
        return f"{command.name} needs {_name(error.param)}", "nothing", []
    if kind == "BadParameter":
        return _bad_value(error)
    if kind == "BadOptionUsage":
        given = [each for each in arguments if each.startswith(f"{error.option_name}=")]
        must = "must stand alone" if given else "needs a value"
        return f"{error.option_name} {must}", repr(given[0]) if given else "nothing", []
    commands, word = list(getattr(command, "commands", ())), _word(arguments)
    if commands:
        must = "a command must be one of those in the help"
        return (must, "none", []) if word is None else (must, repr(word), commands)
    extra = re.search(r"extra arguments?(?:\(s\))? \((.*)\)", message, re.DOTALL)
    if extra:
        return f"{command.name} takes no more arguments", repr(extra[1]), []
    return "a command line must be as the help says", message.rstrip("."), []


def _bad_value(error: Any) -> tuple[str, str, list[str]]:
    name, message = _name(error.param), str(error.message).rstrip(".")
    told = re.fullmatch(r"(?:Value error, )?('.*'|\S+) is not (.*)", message, re.DOTALL)
    if told:  # such as: 'x' is not one of 'a', 'b'
        choices = re.findall(r"'([^']*)'", told[2])
        return f"{name} must be {told[2].replace(chr(39), '')}", told[1], choices
    described: list[dict[str, Any]] = getattr(error.__cause__, "errors", list)()
    if described and message.startswith("Input should be "):
        must = message.removeprefix("Input should be ").split(",")[0]
        return f"{name} must be {must}", repr(described[0]["input"]), []
    return f"{name} must have a value that fits", message, []


def _name(parameter: Any) -> str:
    if parameter is None:
        return "a parameter"
    is_option = parameter.param_type_name == "option"
    return str(parameter.opts[0] if is_option else parameter.name.upper())
