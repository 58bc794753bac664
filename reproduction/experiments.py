"""Experiments beside the paper's tables: what methods and estimators are worth, by the truth.

NAME.json    what was found, with the command and the machine
README.md    all of them, a line a comparison
runs/, work/ finished jobs, and those under way, as the tables have them
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated, Any, Protocol

import typer

from counterplay.cli import console
from counterplay.data.publishing import working_directory
from counterplay.errors import CounterplayWarning
from reproduction import (
    curves,
    estimators,
    exposure,
    exposure_evaluation,
    exposure_settings,
    headroom,
    learners,
    learners_settings,
    levels,
    models,
    models_settings,
    published,
    random_clicks,
    randomised,
    ratings,
    ratings_settings,
    recipes,
    theory,
    trials,
    trials_opponent,
    trials_settings,
)
from reproduction.datasets import Place, check_data, public_folder
from reproduction.records import write_record, write_summary

COMMAND = "python -m reproduction"
RESULTS = Path(__file__).parent / "results"


class Experiment(Protocol):
    """A module that is one; its docstring is the help of its command."""

    SOURCES: tuple[str, ...]  # the public datasets that it needs

    def run(self, place: Place) -> dict[str, Any]:
        """Return what was found, with the `rows` of the summary."""
        ...


EXPERIMENTS: dict[str, Experiment] = {
    "estimators": estimators,
    "randomised": randomised,
    "random-clicks": random_clicks,
    "recipes": recipes,
    "curves": curves,
    "headroom": headroom,
    "trials-settings": trials_settings,
    "trials": trials,
    "trials-opponent": trials_opponent,
    "exposure-settings": exposure_settings,
    "exposure": exposure,
    "exposure-evaluation": exposure_evaluation,
    "learners-settings": learners_settings,
    "learners": learners,
    "ratings-settings": ratings_settings,
    "ratings": ratings,
    "models-settings": models_settings,
    "models": models,
    "published": published,
    "theory": theory,
    "levels": levels,
}
ABOUT = (
    "# What methods and estimators are worth",
    "",
    "Each row was measured in worlds whose truth is known, or on randomised data; the JSON beside "
    f"this page has the details, the machine and the versions. Made by `{COMMAND} NAME`.",
)

app = typer.Typer(
    name=COMMAND,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def experiment(
    context: typer.Context,
    data: Annotated[
        Path,
        typer.Option(help="Folder with public datasets, a folder each.", envvar="COUNTERPLAY_DATA"),
    ] = Path("data"),
    out: Annotated[Path, typer.Option(help="Folder for results.", show_default=False)] = RESULTS,
) -> None:
    """Run an experiment, and write what it found."""
    name = context.info_name
    assert name is not None
    with console.resumable("estimators, randomised and trials continue from their finished jobs"):
        written = measure(name, data, out)
    console.print_pairs({"written to": ", ".join(map(str, written))})


def measure(name: str, data: Path, out: Path) -> list[Path]:
    """Run an experiment, write what it found, and return the files."""
    place, asked = Place(data, out), EXPERIMENTS[name]
    if asked.SOURCES:
        check_data(data)
    for source in asked.SOURCES:
        public_folder(source, place)  # before hours of work
    with working_directory(out) as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", CounterplayWarning)
        result = asked.run(place)
        pages = result.pop("pages", {})
        for page, text in pages.items():
            (folder / page).write_text(text, encoding="utf-8")
        record = write_record(result, folder, name, COMMAND)
        summary = write_summary(folder, ABOUT, EXPERIMENTS, COMMAND)
    return [record, *(folder / page for page in pages), summary]


def _help(asked: Experiment) -> str:
    """Return the docstring with one line a paragraph, as terminals are of any width."""
    return "\n\n".join(part.replace("\n", " ") for part in (asked.__doc__ or "").split("\n\n"))


for _name, _experiment in EXPERIMENTS.items():
    app.command(_name, help=_help(_experiment))(experiment)
