"""`counterplay prepare`: from a log as it is to a dataset directory."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from counterplay.cli import console

if TYPE_CHECKING:
    from counterplay.data.interactions import Interactions
    from counterplay.data.profile import Profile
    from counterplay.data.splits import Split


def _column(what: str) -> Any:
    return typer.Option(help=f"Column of {what}.", rich_help_panel="Columns")


def _filter(text: str, least: int = 0) -> Any:
    return typer.Option(help=text, rich_help_panel="Filters", min=least)


def _split(text: str) -> Any:
    return typer.Option(help=text, rich_help_panel="Split")


def prepare(
    context: typer.Context,
    source: Annotated[Path, typer.Argument(help="A log file, or the folder of a known dataset.")],
    out: Annotated[Path, typer.Option(help="Dataset directory to write; must be new.")],
    format: Annotated[  # noqa: A002 - the word that everybody looks for
        str | None,
        typer.Option(help="csv, tsv, parquet, ndjson or a dataset's name; guessed if left out."),
    ] = None,
    user: Annotated[str | None, _column("user ids; by default a usual name, as below")] = None,
    item: Annotated[str | None, _column("item ids")] = None,
    rating: Annotated[str | None, _column("ratings; '-' leaves it out, as below")] = None,
    time: Annotated[str | None, _column("times")] = None,
    exposed: Annotated[str | None, _column("exposure flags")] = None,
    propensity: Annotated[str | None, _column("logged propensities")] = None,
    position: Annotated[str | None, _column("positions in the list that was shown")] = None,
    time_unit: Annotated[
        Literal["s", "ms", "us", "ns"] | None,
        typer.Option(help="Unit of numeric times; by default told by their size."),
    ] = None,
    user_features: Annotated[Path | None, typer.Option(help="Table of user features.")] = None,
    item_features: Annotated[Path | None, typer.Option(help="Table of item features.")] = None,
    duplicates: Annotated[
        Literal["all", "first", "last", "error"],
        typer.Option(help="Which rows of a repeated pair to keep."),
    ] = "all",
    order: Annotated[
        Literal["canonical", "file"],
        typer.Option(
            help="Order of rows at equal times, or without times: canonical (by their content) or "
            "file (the file's order is the time)."
        ),
    ] = "canonical",
    threshold: Annotated[
        float | None, typer.Option(help="Make ratings of at least this much implicit feedback.")
    ] = None,
    items_above: Annotated[int, _filter("Keep items with more events than this.")] = 0,
    users_above: Annotated[int, _filter("Then keep users with more events than this …")] = 0,
    users_below: Annotated[int | None, _filter("… and fewer than this.")] = None,
    core: Annotated[
        int | None, _filter("Keep the k-core: at least k events a user and an item.", 1)
    ] = None,
    split: Annotated[
        Literal["auto", "leave-last-two", "time", "random", "none"],
        _split("auto: the dataset's own, else leave-last-two with times, random without."),
    ] = "auto",
    validation: Annotated[
        float | None, _split("Share of rows (time) or pairs (random); by default 0.1.")
    ] = None,
    test: Annotated[float | None, _split("The same for the test.")] = None,
    validation_from: Annotated[dt.datetime | None, _split("First moment, UTC, for time.")] = None,
    test_from: Annotated[dt.datetime | None, _split("First moment, UTC, for time.")] = None,
    seed: Annotated[int | None, _split("Seed, for random; by default 0.")] = None,
    name: Annotated[str | None, typer.Option(help="What to call the log.")] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace a dataset directory at --out.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the profile as JSON.")] = False,
) -> None:
    """Check, encode, filter and split a log, and write it as a dataset directory.

    Example: counterplay prepare clicks.parquet --user uid --item sku --out data/clicks
    """
    from counterplay.data.preparation import Preparation
    from counterplay.data.preparation import prepare as prepare_log
    from counterplay.data.profile import profile
    from counterplay.data.publishing import check_free
    from counterplay.data.splits import Split
    from counterplay.data.store import FILES, save

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
