"""`counterplay prepare`: from a log as it is to a dataset directory."""

from __future__ import annotations

import datetime as dt
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from counterplay.cli import console, launching, options
from counterplay.cli.options import option
from counterplay.cli.reading import NAMES, Sources, check_columns, given, local, one, reads_a_log
from counterplay.errors import ConfigError
from counterplay.places import check_files

if TYPE_CHECKING:
    from counterplay.data.interactions import Interactions
    from counterplay.data.preparation import Preparation
    from counterplay.data.profiling import Profile
    from counterplay.data.splits import Split


def _filter(text: str, least: int = 0) -> Any:
    return option(text, rich_help_panel="Filters", min=least)


def _scale(text: str, *names: str, default: bool | str = True, **more: Any) -> Any:
    return option(text, *names, rich_help_panel="More than one process", default=default, **more)


def _split(text: str, default: bool | str = True) -> Any:
    return option(text, rich_help_panel="Split", default=default)


_Out = Annotated[Path, option("New dataset directory to write.")]
_UserFeatures = Annotated[Path | None, option("File with user features.")]
_ItemFeatures = Annotated[Path | None, option("File with item features.")]
_ItemsAbove = Annotated[int, _filter("Keep items with more rows than this.")]
_UsersAbove = Annotated[
    int, _filter("Keep users with more rows than this, counted after --items-above.")
]
_UsersBelow = Annotated[
    int | None, _filter("Keep users with fewer rows than this, counted after --items-above.")
]
_Core = Annotated[
    int | None, _filter("Keep the k-core: each user and each item has at least this many rows.", 1)
]
_Validation = Annotated[
    float | None,
    _split("Validation share: of rows (split time) or of pairs (split random).", "0.1"),
]
_Test = Annotated[
    float | None, _split("Test share: of rows (split time) or of pairs (split random).", "0.1")
]
_ValidationFrom = Annotated[
    dt.datetime | None, _split("Start of the validation period in UTC, for the split time.")
]
_TestFrom = Annotated[
    dt.datetime | None, _split("Start of the test period in UTC, for the split time.")
]
_Seed = Annotated[int | None, _split("Random seed, for the split random.", "0")]
_Shards = Annotated[
    int | None,
    _scale("Prepare in this many ranges of users, for logs that do not fit into memory.", min=1),
]
_Workers = Annotated[int | None, _scale("Number of processes, with --shards.", default="1", min=1)]
_Ray = Annotated[bool, _scale("Run on a Ray cluster, with --shards.", "--ray", default=False)]
_Name = Annotated[str | None, option("Name of the dataset.", default="the name of the file")]


@reads_a_log
def prepare(
    context: typer.Context,
    source: Sources,
    out: _Out,
    user_features: _UserFeatures = None,
    item_features: _ItemFeatures = None,
    items_above: _ItemsAbove = 0,
    users_above: _UsersAbove = 0,
    users_below: _UsersBelow = None,
    core: _Core = None,
    validation: _Validation = None,
    test: _Test = None,
    validation_from: _ValidationFrom = None,
    test_from: _TestFrom = None,
    seed: _Seed = None,
    shards: _Shards = None,
    workers: _Workers = None,
    ray: _Ray = False,
    name: _Name = None,
    overwrite: options.Overwrite = False,
    as_json: options.Json = False,
) -> None:
    """Check, encode, filter and split a log, and write it as a dataset directory.

    Example: counterplay prepare clicks.parquet --user uid --item sku --out data/clicks
    """
    check_files(*local(source), context.params["impressions"], user_features, item_features)
    if shards is None and (workers is not None or ray):
        raise ConfigError(
            f"{'--ray' if ray else '--workers'} needs ranges of users to share out; found no "
            "--shards; add --shards 256, or leave it out"
        )
    check_columns(context, source)
    from counterplay.data.directory import FILES, save
    from counterplay.data.looking import understood
    from counterplay.data.preparation import Preparation
    from counterplay.data.preparation import prepare as prepare_log
    from counterplay.data.profiling import profile
    from counterplay.data.publishing import check_free
    from counterplay.data.splits import Split

    own = {key: context.params[key] for key in Preparation.model_fields if key not in NAMES}
    own = {key: value for key, value in own.items() if value is not None}
    plan = Preparation(**given(context), **own)
    if shards is not None:
        _prepare_shards(_folder(source), plan, out, shards, workers, ray, overwrite, as_json)
        return
    check_free(out, replacing=FILES if overwrite else None)
    with console.notes() as notes:
        with console.progress(f"reading {source[0]}") as bar:
            made = prepare_log(one(source), plan, progress=bar)
        console.say_understood(understood(made))
        save(made, out, overwrite=overwrite)
    log, parts = (made.interactions, made) if isinstance(made, Split) else (made, None)
    if as_json:
        console.print_json(_result(profile(made), log, parts, out) | {"notes": notes})
    else:
        _show(profile(made), log, parts, out)


def _folder(sources: list[str]) -> Path:
    """Return the one file or folder that is prepared by ranges of users."""
    from counterplay.data.sources import local_path

    place = local_path(sources)
    if place is None:
        raise ConfigError(
            f"--shards takes a file or a folder on this machine; found {', '.join(sources)}; put "
            "the files into one folder"
        )
    return place


def _prepare_shards(
    source: Path,
    plan: Preparation,
    out: Path,
    shards: int,
    workers: int | None,
    ray: bool,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Prepare a log by ranges of users, and say what was written."""
    from counterplay.data.sharded import prepare_shards

    with (
        launching.jobs_run(workers, ray=ray) as executor,
        console.notes() as notes,
        console.resumable("give the same command again to go on"),
        console.progress("reading", unit="jobs") as bar,
    ):
        made = prepare_shards(
            source, out, plan, shards=shards, executor=executor, overwrite=overwrite,
            progress=lambda text, done, total: bar(done, total, text),
        )  # fmt: skip
    if as_json:
        kept = ("fingerprint", "counts", "split", "shards")
        steps = [f"{step['kind']}: {step['text']}" for step in made["filter"]]
        found = {"out": str(out), **{key: made[key] for key in kept}, "steps": steps}
        console.print_json(found | {"notes": notes})
    else:
        _show_shards(made, out)


def _show_shards(made: dict[str, Any], out: Path) -> None:
    counts, sizes = made["counts"], [b - a for a, b in pairwise(made["shards"]["rows"])]
    rows = {
        "log": f"{made['name']}: {counts['interactions']:,} rows",
        "users": f"{counts['users']:,}",
        "items": f"{counts['items']:,}",
        "ranges of users": f"{len(sizes):,}, of {min(sizes):,} to {max(sizes):,} rows",
    }
    for number, step in enumerate(made["filter"], start=1):
        rows[f"step {number}"] = f"{step['kind']}: {step['text']}"
    if made["split"]:
        parts = ", ".join(f"{count:,} {part}" for part, count in made["split"]["counts"].items())
        rows["split"] = f"{made['split']['kind']}: {parts}"
        rows |= _cold(made["split"]["cold"])
    rows["written to"] = str(out)
    console.print_pairs(rows)


def _cold(counts: dict[str, dict[str, int]]) -> dict[str, str]:
    return {
        f"cold {part} rows": f"{cold['user']:,} of users and {cold['item']:,} of items without a "
        "training row"
        for part, cold in counts.items()
        if any(cold.values())
    }


def _result(found: Profile, log: Interactions, split: Split | None, out: Path) -> dict[str, Any]:
    return {
        "out": str(out),
        "fingerprint": log.fingerprint,
        "profile": found.to_dict(),
        "steps": [str(step) for step in log.steps],
        "split": split and {"kind": split.kind, "counts": split.counts, "cold": split.cold_counts},
    }


def _show(found: Profile, log: Interactions, split: Split | None, out: Path) -> None:
    rows = found.summary()
    for number, step in enumerate(log.steps, start=1):
        rows[f"step {number}"] = str(step)
    if split:
        parts = ", ".join(f"{count:,} {part}" for part, count in split.counts.items())
        rows["split"] = f"{split.kind}: {parts}"
        if split.counts["test"]:
            rows["split"] += f"; {split.seen_share:.1%} of test pairs in training"
        rows |= _cold(split.cold_counts)
    rows["written to"] = str(out)
    console.print_pairs(rows)
