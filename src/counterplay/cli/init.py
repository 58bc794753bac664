"""`counterplay init`: a settings file with every setting, its default and its meaning.

All of it comes from the models of the settings: names and defaults from their fields, meanings from
the `Attributes` of their docstrings or from the comments beside the fields.
"""

from __future__ import annotations

import inspect
import json
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin

import typer

from counterplay.cli import console
from counterplay.cli.arguments import check_out
from counterplay.cli.options import Json, option
from counterplay.errors import ConfigError

if TYPE_CHECKING:
    from pydantic import BaseModel

_ATTRIBUTE = re.compile(r"^    (\w+): (.*(?:\n {8}.*)*)", re.MULTILINE)
_ABOVE = re.compile(r"    #: (.+)")
_FIELD = re.compile(r"    (\w+): .*?(?:  #:? (.+))?")
_HEAD = """\
Settings of `counterplay {command}`. Use this file with: counterplay {command} … --config {name}
Every setting is here with its default, as a comment. To change one, remove the # before it.
Options on the command line override this file.
"""


def init(
    out: Annotated[Path, typer.Argument(help="Settings file to write.")] = Path("counterplay.toml"),
    command: Annotated[
        Literal["run", "train"], option("Command that the settings are for.", "--for")
    ] = "run",
    as_json: Json = False,
) -> None:
    """Write a settings file with every setting, its default and its meaning.

    All settings are comments, so the file changes nothing until you edit it.

    Example: counterplay init study.toml
    """
    from counterplay.data.publishing import new_file

    check_out(out)
    if out.exists():
        raise ConfigError(
            f"a settings file must be a new file; found '{out}' there already; name another, or "
            "remove it"
        )
    head = _HEAD.format(command=command, name=out.name).splitlines()
    lines = [*(f"# {line}" for line in head), "", *commented(_settings(command))]
    with new_file(out) as path:
        path.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")
    if as_json:
        console.print_json({"out": str(out), "command": command})
        return
    console.out.print(f"wrote {out}\nnext: counterplay {command} … --config {out}")


def _settings(command: str) -> type[BaseModel]:
    if command == "run":
        from counterplay.study.config import StudyConfig

        return StudyConfig
    from counterplay.runs.config import RunConfig

    return RunConfig


def commented(kind: type[BaseModel], path: str = "") -> Iterator[str]:
    """Give the lines of a TOML file with every setting of `kind` and of its sections."""
    from pydantic import BaseModel

    said = meanings(kind)
    defaults = {name: field.get_default() for name, field in kind.model_fields.items()}
    for name, default in defaults.items():
        if not isinstance(default, BaseModel | dict):
            yield from _comment(said[name] + choices(kind.model_fields[name].annotation))
            yield f"#{name} =" + ("" if default is None else f" {json.dumps(default)}")
            yield ""
    for name, default in defaults.items():
        if isinstance(default, dict):  # its names are the user's own
            yield from _comment(said[name])
            yield f"#[{path}{name}]"
            yield ""
        elif isinstance(default, BaseModel):
            yield from _comment(said[name])
            yield from (f"[{path}{name}]", "")
            yield from commented(type(default), f"{path}{name}.")


def meanings(kind: type[BaseModel]) -> dict[str, str]:
    """Return what each setting means, as its class and those that it derives from say."""
    from pydantic import BaseModel

    found: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        if issubclass(each, BaseModel) and each is not BaseModel:
            found |= _of_docstring(each.__doc__ or "") | _of_comments(inspect.getsource(each))
    return {name: " ".join(text.split()) for name, text in found.items()}


def _of_docstring(text: str) -> dict[str, str]:
    _, _, attributes = inspect.cleandoc(text).partition("Attributes:\n")
    return dict(_ATTRIBUTE.findall(attributes))


def _of_comments(source: str) -> dict[str, str]:
    found: dict[str, str] = {}
    above: list[str] = []
    for line in textwrap.dedent(source).splitlines():
        if comment := _ABOVE.fullmatch(line):
            above.append(comment[1])
        elif field := _FIELD.fullmatch(line):
            text = " ".join([*above, field[2] or ""]).strip()
            found |= {field[1]: text} if text else {}
            above = []
    return found


def choices(annotation: Any) -> str:
    """Say which values a setting may have, where its type lists them."""
    parts = (annotation, *get_args(annotation))  # itself, or with None beside it
    listed = next((each for each in parts if get_origin(each) is Literal), None)
    return "" if listed is None else f" One of: {', '.join(get_args(listed))}."


def _comment(text: str) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(text, 98)]
