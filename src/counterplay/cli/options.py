"""Options that several commands share, and how the help shows all options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperCommand, TyperGroup

Data = Annotated[
    Path | None, typer.Option(help="Dataset directory.", show_default="the dataset of the run")
]
Protocol = Annotated[
    Literal["full", "sampled"] | None,
    typer.Option(
        help="Rank among all unseen items (full) or among 100 sampled items (sampled).",
        show_default="full",
    ),
]
Seed = Annotated[int | None, typer.Option(help="Random seed.", min=0, show_default="0")]
Config = Annotated[
    Path | None, typer.Option(help="TOML file with settings. Command-line options override it.")
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def several_settings(example: str) -> Any:
    """Return the option `--set` with an example of a setting that the command has."""
    return typer.Option(
        "--set",
        metavar="<name=value>",
        help=f"Change one setting, for example {example}. Repeatable.",
    )


class Command(TyperCommand):
    """A command whose help shows options as readers know them."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options and arguments, as the help shows them."""
        return _plain(super().get_params(ctx))


class Group(TyperGroup):
    """The same for what stands before the commands."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options, as the help shows them."""
        return _plain(super().get_params(ctx))


def _plain(parameters: list[Any]) -> list[Any]:
    """Show flags without `<bool>`, and defaults that are texts without typer's parentheses."""
    for each in parameters:
        if getattr(each, "is_flag", False):
            each.metavar = ""
        if isinstance(each.show_default, str):
            each.help = f"{each.help} [dim]\\[default: {each.show_default}][/dim]"
            each.show_default = False
    return parameters
