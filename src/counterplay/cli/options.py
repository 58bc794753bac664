"""Options that several commands share, and how the help shows all options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperCommand

from counterplay.models.names import MODELS


def option(text: str, *names: str, default: bool | str = True, **more: Any) -> Any:
    """Return an option with its help; a default that is a text stands for one that is None."""
    return typer.Option(*names, help=text, show_default=default, **more)


def several_settings(example: str) -> Any:
    """Return the option `--set` with an example of a setting that the command has."""
    text = f"Change one setting, for example {example}. Repeatable."
    return option(text, "--set", metavar="<name=value>")


def model_option(text: str, *without: str) -> Any:
    """Return an option that names a model; those of `without` make no sense."""
    names = [name for name in MODELS if name not in without]
    shown = f"<{'|'.join(names)}>"
    return option(text, metavar=shown, default="gmf", autocompletion=lambda: names)


SplitData = Annotated[Path, typer.Argument(help="Dataset directory with a split.")]
Data = Annotated[Path | None, option("Dataset directory.", default="the dataset of the run")]
Cutoffs = Annotated[
    list[int] | None,
    typer.Option("--k", help="Cutoffs k of the metrics, one or more.", min=1, show_default="10"),
]
Candidate = Annotated[str | None, model_option("Model to train.")]
Exposure = Annotated[str | None, model_option("Exposure model, for methods that have one.")]
RandomRows = Annotated[
    Path | None,
    option(
        "File with columns user, item and clicked: impressions whose items were drawn at random. "
        "They are never trained on."
    ),
]
Protocol = Annotated[
    Literal["full", "sampled"] | None,
    option("Rank among all unseen items (full) or 100 sampled items (sampled).", default="full"),
]
Seed = Annotated[int | None, option("Random seed.", min=0, default="0")]
Config = Annotated[
    Path | None, option("TOML file with settings. Command-line options override it.")
]
_MANY = "More than one process"
Shards = Annotated[
    int | None,
    option(
        "Maximum number of jobs that users are cut into.",
        min=1,
        default="64",
        rich_help_panel=_MANY,
    ),
]
Workers = Annotated[
    int | None,
    option("Number of processes that share the jobs.", min=1, default="1", rich_help_panel=_MANY),
]
Ray = Annotated[
    bool,
    option(
        "Run the jobs on a Ray cluster (needs counterplay\\[ray]).",
        "--ray",
        default=False,
        rich_help_panel=_MANY,
    ),
]


def _known_tracker(track: str | None) -> str | None:
    """Refuse a tracker that is not known or not installed, before any work."""
    from counterplay.learning.tracking import check_tracker

    check_tracker(track)
    return track


Track = Annotated[
    str | None,
    option(
        "Log metrics to tensorboard, mlflow or wandb; where may follow, as in mlflow:URI "
        "(needs counterplay\\[track]).",
        metavar="<tracker>",
        callback=_known_tracker,
        autocompletion=lambda: ["tensorboard", "mlflow", "wandb"],
    ),
]
Overwrite = Annotated[bool, option("Replace what is at --out.", default=False)]
Json = Annotated[bool, option("Print the result as JSON.", "--json")]


class Shown:
    """Shows options in the help as readers know them."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options and arguments, as the help shows them."""
        return _plain(super().get_params(ctx))  # type: ignore[misc] # of the class beside it


class Command(Shown, TyperCommand):
    """A command."""


def _plain(parameters: list[Any]) -> list[Any]:
    """Show flags without `<bool>`, and defaults that are texts without typer's parentheses."""
    for each in parameters:
        if getattr(each, "is_flag", False):
            each.metavar = ""
        if isinstance(each.show_default, str):
            each.help = f"{each.help} [dim]\\[default: {each.show_default}][/dim]"
            each.show_default = False
    return parameters


PopularityShare = Annotated[
    float | None,
    typer.Option(
        help="Share of popularity that is exposure, if you know it (0 to 1).",
        min=0,
        max=1,
        show_default="unknown",
    ),
]
PersonalShare = Annotated[
    float | None,
    typer.Option(
        help="Share of the personal signal in clicks that is exposure, if you know it (0 to 1).",
        min=0,
        max=1,
        show_default="unknown: up to 0.4",
    ),
]
