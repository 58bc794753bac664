"""`counterplay prepare`: from a log as it is to a dataset directory."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from counterplay.cli import console
from counterplay.cli.options import Json

if TYPE_CHECKING:
    from counterplay.data.interactions import Interactions
    from counterplay.data.profile import Profile
    from counterplay.data.splits import Split


def _column(text: str) -> Any:
    return typer.Option(help=text, rich_help_panel="Columns")


def _filter(text: str, least: int = 0) -> Any:
    return typer.Option(help=text, rich_help_panel="Filters", min=least)


def _split(text: str, default: bool | str = True) -> Any:
    return typer.Option(help=text, rich_help_panel="Split", show_default=default)


def prepare(
    context: typer.Context,
    source: Annotated[Path, typer.Argument(help="Log file, or folder of a public dataset.")],
    out: Annotated[Path, typer.Option(help="New dataset directory to write.")],
    format: Annotated[  # noqa: A002 - the word that everybody looks for
        str | None,
        typer.Option(
            help="csv, tsv, parquet, ndjson or the name of a public dataset (detected if omitted)."
        ),
    ] = None,
    user: Annotated[str | None, _column("User-ID column (detected if omitted).")] = None,
    item: Annotated[str | None, _column("Item-ID column (detected if omitted).")] = None,
    rating: Annotated[
        str | None, _column("Rating column (detected if omitted; '-' for none).")
    ] = None,
    time: Annotated[
        str | None, _column("Timestamp column (detected if omitted; '-' for none).")
    ] = None,
    exposed: Annotated[
        str | None, _column("Exposure-flag column (detected if omitted; '-' for none).")
    ] = None,
    propensity: Annotated[
        str | None, _column("Logged-propensity column (detected if omitted; '-' for none).")
    ] = None,
    position: Annotated[
        str | None, _column("List-position column (detected if omitted; '-' for none).")
    ] = None,
    time_unit: Annotated[
        Literal["s", "ms", "us", "ns"] | None,
        typer.Option(help="Unit of numeric timestamps (detected if omitted)."),
    ] = None,
    user_features: Annotated[Path | None, typer.Option(help="File with user features.")] = None,
    item_features: Annotated[Path | None, typer.Option(help="File with item features.")] = None,
    duplicates: Annotated[
        Literal["all", "first", "last", "error"],
        typer.Option(
            help="Which rows to keep if a user-item pair is repeated (error: refuse the log)."
        ),
    ] = "all",
    order: Annotated[
        Literal["canonical", "file"],
        typer.Option(
            help="Order of rows with equal or no timestamps: by content (canonical) or as in the "
            "file (file)."
        ),
    ] = "canonical",
    threshold: Annotated[
        float | None,
        typer.Option(help="Convert ratings of at least this value to implicit feedback."),
    ] = None,
    items_above: Annotated[int, _filter("Keep items with more rows than this.")] = 0,
    users_above: Annotated[
        int, _filter("Keep users with more rows than this, counted after --items-above.")
    ] = 0,
    users_below: Annotated[
        int | None, _filter("Keep users with fewer rows than this, counted after --items-above.")
    ] = None,
    core: Annotated[
        int | None,
        _filter("Keep the k-core: each user and each item has at least this many rows.", 1),
    ] = None,
    split: Annotated[
        Literal["auto", "leave-last-two", "time", "random", "none"],
        _split(
            "How to split. auto: the split of the dataset, if it has one; otherwise leave-last-two "
            "with timestamps, or random without."
        ),
    ] = "auto",
    validation: Annotated[
        float | None,
        _split("Validation share: of rows (split time) or of pairs (split random).", "0.1"),
    ] = None,
    test: Annotated[
        float | None, _split("Test share: of rows (split time) or of pairs (split random).", "0.1")
    ] = None,
    validation_from: Annotated[
        dt.datetime | None,
        _split("Start of the validation period in UTC, for the split time."),
    ] = None,
    test_from: Annotated[
        dt.datetime | None, _split("Start of the test period in UTC, for the split time.")
    ] = None,
    seed: Annotated[int | None, _split("Random seed, for the split random.", "0")] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the dataset.", show_default="the name of the file")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option(help="Replace the dataset directory at --out.", show_default=False)
    ] = False,
    as_json: Json = False,
) -> None:
    """Check, encode, filter and split a log, and write it as a dataset directory.

    Example: counterplay prepare clicks.parquet --user uid --item sku --out data/clicks
    """
    from counterplay.data.directory import FILES, save
    from counterplay.data.preparation import Preparation
    from counterplay.data.preparation import prepare as prepare_log
    from counterplay.data.profile import profile
    from counterplay.data.publishing import check_free
    from counterplay.data.splits import Split

    plan = Preparation(**{key: context.params[key] for key in Preparation.model_fields})
    check_free(out, replacing=FILES if overwrite else None)
    with console.notes() as notes:
        with console.progress(f"reading {source.name}") as bar:
            made = prepare_log(source, plan, progress=bar)
        save(made, out, overwrite=overwrite)
    made_split = made if isinstance(made, Split) else None
    log = made.interactions if isinstance(made, Split) else made
    found = profile(log)
    if not as_json:
        _show(found, log, made_split, out)
        return
    console.print_json(
        {
            "out": str(out),
            "fingerprint": log.fingerprint,
            "profile": found.to_dict(),
            "steps": [str(step) for step in log.steps],
            "split": made_split
            and {
                "kind": made_split.kind,
                "counts": made_split.counts,
                "cold": made_split.cold_counts,
            },
            "notes": notes,
        }
    )


def _show(found: Profile, log: Interactions, split: Split | None, out: Path) -> None:
    rows = found.summary()
    for number, step in enumerate(log.steps, start=1):
        rows[f"step {number}"] = str(step)
    if split:
        parts = ", ".join(f"{count:,} {part}" for part, count in split.counts.items())
        rows["split"] = f"{split.kind}: {parts}"
        if split.counts["test"]:
            rows["split"] += f"; {split.seen_share:.1%} of test pairs in training"
        for part, cold in split.cold_counts.items():
            if any(cold.values()):
                rows[f"cold {part} rows"] = (
                    f"{cold['user']:,} of users and {cold['item']:,} of items without a training "
                    "row"
                )
    rows["written to"] = str(out)
    console.print_pairs(rows)
