"""Write the reference pages: `python docs/make_reference.py`.

The page of the command line comes from the commands themselves, and those of the Python names from
the public names of each namespace. A test says when they are out of date.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from pydantic import BaseModel
from rich.text import Text
from typer.main import get_command

import counterplay
from counterplay.cli.exits import MEANINGS
from counterplay.cli.main import COMMANDS, app

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = Path(__file__).parent / "reference"
REMAKE = "<!-- Made by `python docs/make_reference.py`; do not edit. -->"
GUIDES = {  # where to read on about a namespace
    "counterplay": "guide/deciding.md",
    "data": "guide/data.md",
    "evaluation": "guide/evaluation.md",
    "learning": "algorithms/index.md",
    "metrics": "algorithms/evaluation.md",
    "models": "algorithms/models.md",
    "report": "guide/deciding.md",
    "runs": "guide/training.md",
    "serving": "guide/serving.md",
    "simulation": "guide/worlds.md",
    "study": "guide/deciding.md",
    "testing": "add/index.md",
    "tuning": "guide/tuning.md",
}


def pages() -> dict[str, str]:
    """Return all reference pages by file name."""
    made = {"cli.md": cli_page()} | {
        f"{name}.md": namespace_page(name) for name in ("counterplay", *_rooms())
    }
    return {name: f"{REMAKE}\n\n{text.strip()}\n" for name, text in made.items()}


def cli_page() -> str:
    """Return the page of the command line, in the order of its help."""
    root: Any = get_command(app)
    lines = ["# Command line", "", str(root.help), ""]
    for panel, commands in COMMANDS.items():
        lines += [f"## {panel}", ""]
        for name in commands:
            lines += [*_command(name, root.commands[name]), ""]
    lines += ["## Exit codes", "", "| code | meaning |", "|---|---|", *_exit_codes()]
    return "\n".join(lines)


def _command(name: str, command: Any) -> Iterator[str]:
    text, _, example = inspect.cleandoc(command.help).partition("\n\nExample: ")
    context = typer.Context(command, info_name=f"counterplay {name}")
    yield from (f"### counterplay {name}", "", text, "")
    yield from ("```sh", " ".join(example.split()), "```", "")
    yield from ("| argument or option | meaning |", "|---|---|")
    for parameter in command.get_params(context):
        if "--help" not in parameter.opts:
            option, meaning = parameter.get_help_record(context)
            said = Text.from_markup(parameter.help).plain + meaning.removeprefix(parameter.help)
            yield f"| `{_cell(_plain(option))}` | {_cell(' '.join(said.split()))} |"


def _exit_codes() -> list[str]:
    return [f"| {code} | {meaning} |" for code, meaning in MEANINGS.items()]


def _plain(option: str) -> str:
    """Return an option with the types of its values in plain words."""
    return re.sub(r"list\[(\w+)\]", r"\1 …", option).replace(" range>", ">").replace("Path", "path")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _rooms() -> list[str]:
    names = [name for name in counterplay.__all__ if inspect.ismodule(getattr(counterplay, name))]
    return sorted(names)


def namespace_page(room: str) -> str:
    """Return the page of a namespace: a table of its names, and then each in full."""
    place = room if room == "counterplay" else f"counterplay.{room}"
    package = importlib.import_module(place)
    names = [
        name
        for name in package.__all__
        if not name.startswith("__") and not inspect.ismodule(getattr(package, name))
    ]
    names.sort(key=lambda name: (inspect.isclass(getattr(package, name)), name.lower()))
    lines = [f"# {place}", "", inspect.cleandoc(package.__doc__ or ""), ""]
    lines += [f"[The guide](../{GUIDES[room]}) shows how to use it.", ""]
    lines += ["| name | what it is |", "|---|---|"]
    for name in names:
        lines.append(f"| {{py:obj}}`~{place}.{name}` | {_cell(_summary(getattr(package, name)))} |")
    lines += ["", "```{eval-rst}"]
    for name in names:
        lines += _directive(f"{place}.{name}", getattr(package, name))
    return "\n".join([*lines, "```"])


def _summary(value: object) -> str:
    if isinstance(value, dict):
        return f"By name: {', '.join(f'`{key}`' for key in value)}."
    return (inspect.getdoc(value) or "").partition("\n\n")[0].replace("\n", " ")


def _members(kind: type) -> list[str]:
    """Ask for all members; of settings, whose fields the class itself lists, for the methods."""
    if not issubclass(kind, BaseModel):
        return ["   :members:"]
    ours = (each for each in kind.__mro__ if each.__module__.startswith("counterplay"))
    names = {name for each in ours for name in vars(each)} - kind.model_fields.keys()
    shown = sorted(name for name in names if not name.startswith(("_", "model_")))
    return [f"   :members: {', '.join(shown)}"] if shown else []


def _directive(place: str, value: object) -> list[str]:
    if inspect.isclass(value):
        return [f".. autoclass:: {place}", *_members(value)]
    if callable(value):
        return [f".. autofunction:: {place}"]
    return [f".. py:data:: {place}", "", f"   {_summary(value)}", ""]


def main() -> None:
    """Write the pages, and remove those of what is gone."""
    FOLDER.mkdir(exist_ok=True)
    made = pages()
    for path in FOLDER.glob("*.md"):
        if path.name not in made and path.name != "index.md":
            path.unlink()
    for name, text in made.items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
