"""The options of all commands that read a log, declared once, and `counterplay look`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from counterplay.cli import console
from counterplay.cli.options import Json, option
from counterplay.places import check_files

Sources = Annotated[
    list[str],
    typer.Argument(
        metavar="SOURCE",
        help="Log: one or more files, a folder, a quoted pattern, an address (s3://, gs://, "
        "https://), '-' for standard input, or the folder of a public dataset.",
    ),
]


def _column(text: str, *names: str, none: str = "; '-' for none") -> Any:
    return option(f"{text} (detected if omitted{none}).", *names, rich_help_panel="Columns")


def _file(text: str, *names: str, **more: Any) -> Any:
    return option(text, *names, rich_help_panel="File", **more)


def _rows(text: str, *names: str, **more: Any) -> Any:
    return option(text, *names, rich_help_panel="Rows", **more)


def _shared(
    format: Annotated[  # noqa: A002 - the word that everybody looks for
        str | None,
        _file("csv, tsv, parquet, ndjson or the name of a public dataset (detected if omitted)."),
    ] = None,
    header: Annotated[
        bool | None,
        _file(
            "Whether the first line names the columns (detected if omitted). Without names, "
            "columns are numbered from 1.",
            "--header/--no-header",
        ),
    ] = None,
    separator: Annotated[
        str | None,
        _file("Column separator: a sign, or tab, comma, semicolon … (detected if omitted)."),
    ] = None,
    quote: Annotated[str | None, _file("Quote character, or none (detected if omitted).")] = None,
    encoding: Annotated[
        str | None,
        _file("Encoding, such as utf-8, cp1252 or utf-16 (detected where that is certain)."),
    ] = None,
    decimal: Annotated[
        Literal[".", ","] | None,
        _file("Decimal mark of numbers with commas (detected where that is certain)."),
    ] = None,
    time_unit: Annotated[
        Literal["s", "ms", "us", "ns"] | None,
        _file("Unit of numeric timestamps (detected if omitted)."),
    ] = None,
    date_format: Annotated[
        str | None,
        _file("Format of dates, as in '%d.%m.%Y %H:%M' (detected where that is certain)."),
    ] = None,
    user: Annotated[str | None, _column("User-ID column", none="")] = None,
    item: Annotated[str | None, _column("Item-ID column", none="")] = None,
    rating: Annotated[str | None, _column("Rating column")] = None,
    time: Annotated[str | None, _column("Timestamp column")] = None,
    exposed: Annotated[
        str | None, _column("Exposure-flag column; false marks organic clicks")
    ] = None,
    propensity: Annotated[str | None, _column("Logged-propensity column")] = None,
    position: Annotated[str | None, _column("List-position column")] = None,
    random: Annotated[str | None, _column("Column that marks random rows")] = None,
    clicked: Annotated[
        str | None,
        _column("Click column, flags or counts: rows are impressions", "--clicked", "--outcome"),
    ] = None,
    impressions: Annotated[
        Path | None,
        option(
            "File with impressions beside a log of clicks: columns user, item and, if known, time, "
            "position and propensity.",
            rich_help_panel="Columns",
        ),
    ] = None,
    window: Annotated[
        str | None,
        option(
            "How long after an impression a click may come, such as 30m, 2h or 1d; for "
            "--impressions.",
            rich_help_panel="Columns",
            default="1h",
        ),
    ] = None,
    drop_missing: Annotated[
        bool, _rows("Leave out rows without a user or an item, and count them.", "--drop-missing")
    ] = False,
    duplicates: Annotated[
        Literal["all", "first", "last", "error"] | None,
        _rows(
            "Which rows to keep if a user-item pair is repeated (error: refuse the log).",
            default="all",
        ),
    ] = None,
    order: Annotated[
        Literal["canonical", "file"] | None,
        _rows(
            "Order of rows with equal or no timestamps: by content (canonical) or as in the file "
            "(file).",
            default="canonical",
        ),
    ] = None,
    threshold: Annotated[
        float | None, _rows("Keep rows rated at least this value, as clicks.")
    ] = None,
    feedback: Annotated[
        Literal["clicks", "ratings"] | None,
        _rows(
            "Treat each row as a click (clicks) or predict the ratings (ratings).", default="clicks"
        ),
    ] = None,
    split: Annotated[
        Literal["auto", "leave-last-two", "time", "random", "none"] | None,
        option(
            "How to split. auto: the split of the dataset, if it has one; otherwise leave-last-two "
            "with timestamps, or random without.",
            rich_help_panel="Split",
            default="auto",
        ),
    ] = None,
) -> None:
    pass


NAMES = tuple(inspect.signature(_shared).parameters)


def reads_a_log(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of `_shared`, after what it cannot do without."""
    own = inspect.signature(command, eval_str=True)
    needed = [each for each in own.parameters.values() if each.default is each.empty]
    others = [each for each in own.parameters.values() if each.default is not each.empty]
    shared = inspect.signature(_shared, eval_str=True).parameters.values()
    parameters = [*needed, *shared, *others]

    @wraps(command)
    def wrapped(**given: Any) -> None:
        command(**{name: given[name] for name in own.parameters})

    wrapped.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {each.name: each.annotation for each in parameters}
    return wrapped


def given(context: typer.Context) -> dict[str, Any]:
    """Return what was said of a log, by the names of `Preparation`."""
    said = {name: context.params[name] for name in NAMES}
    return {name: value for name, value in said.items() if value not in (None, False)} | (
        {"header": False} if said["header"] is False else {}
    )


def check_columns(context: typer.Context, sources: list[str], settings: Sequence[str] = ()) -> None:
    """Refuse a file that lacks a column before what reads it is loaded.

    What a configuration or `settings` say beside the options, only its reader knows.
    """
    from counterplay.data import headers
    from counterplay.data.dialects import Dialect
    from counterplay.data.roles import ABSENT, COLUMNS, IMPRESSION_COLUMNS

    said = given(context)
    if context.params.get("config") or any("preparation" in each for each in settings):
        return
    kind, beside = said.get("format"), said.get("impressions")
    dialect = Dialect(*(said.get(name) for name in ("header", "separator", "quote", "encoding")))
    wanted = {role: said.get(role) for role in (*COLUMNS, *IMPRESSION_COLUMNS)}
    if len(sources) == 1:
        first = wanted | ({"random": ABSENT} if beside else {})
        headers.check_columns(Path(sources[0]), first, dialect, kind)
    if beside:
        second = wanted | {"rating": ABSENT}
        headers.check_columns(beside, second, dialect, second=True)


def local(sources: list[str]) -> list[Path]:
    """Return the sources that must be on this machine."""
    return [Path(each) for each in sources if each != "-" and "://" not in each]


def one(sources: list[str]) -> Any:
    """Return a single source as it is, and several as a list."""
    return sources[0] if len(sources) == 1 else sources


@reads_a_log
def look(context: typer.Context, source: Sources, as_json: Json = False) -> None:
    """Show how a log would be read: its file, its columns, its rows, and how to say otherwise.

    Nothing is written. The last line is a command that says all that was found.

    Example: counterplay look clicks.csv
    """
    check_files(*local(source), context.params["impressions"])
    check_columns(context, source)
    from counterplay.data.looking import look as look_at
    from counterplay.data.preparation import Preparation

    plan = Preparation(**given(context))
    with console.notes(), console.progress("reading") as bar:
        found = look_at(one(source), plan, progress=bar)
    if as_json:
        console.print_json(found.to_dict())
    else:
        console.print_pairs(found.summary())
