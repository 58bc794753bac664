"""Prepare a log by ranges of users, in jobs that workers share; the result is one machine's.

    read, merge, cut    pieces of the input, cut into ranges of users
    order               a range: its users, and its rows in canonical order
    count, tally        how often items occur, once for a filter and once a round of a k-core
    measure, then one   times or pairs, for splits that depend on all rows
    part                a range: its rows, and the part of each

The jobs and what they made lie in `.NAME.work` beside the dataset until it is there. Given again,
the same command goes on where it was interrupted.
"""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import polars as pl

from counterplay.data.assembly import aligned
from counterplay.data.dialects import Dialect
from counterplay.data.directory import DESCRIPTION, FILES, describe
from counterplay.data.files import difference, read_json, write_json
from counterplay.data.filters import core_rule, events_rule
from counterplay.data.jobs import in_turn
from counterplay.data.pieces import pieces_of
from counterplay.data.preparation import DIALECT, VALUES, known_dataset
from counterplay.data.publishing import check_free, new_directory, working_directory
from counterplay.data.readers import read_features
from counterplay.data.roles import COLUMNS, IMPRESSION_COLUMNS
from counterplay.data.sharded_stages import Stages
from counterplay.data.sharded_tables import Tables
from counterplay.data.vocabulary import Vocabulary
from counterplay.data.workplace import Lists, Workplace, work_of
from counterplay.errors import ConfigError, CounterplayWarning, DataError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from counterplay.data.assembly import Features
    from counterplay.data.features import FeatureTable
    from counterplay.data.findings import Step
    from counterplay.data.formats import FileFormat
    from counterplay.data.jobs import Executor, Result
    from counterplay.data.preparation import Preparation
    from counterplay.progress import Steps

_BEGUN, _DONE = "begun.json", "done.json"


def prepare_shards(
    source: str | Path,
    out: str | Path,
    plan: Preparation,
    *,
    shards: int = 256,
    executor: Executor = in_turn,
    overwrite: bool = False,
    progress: Steps | None = None,
) -> dict[str, Any]:
    """Prepare a file, or all files of a folder, and write a dataset directory.

    The directory is the one that `prepare` and `save` make of the same rows; `dataset.json` also
    says where each range of users begins. Returns what it says.

    Args:
        source: A Parquet, CSV, TSV or NDJSON file, or a folder of such files.
        out: New dataset directory.
        plan: What to do with the rows.
        shards: Maximum number of ranges of users; each must fit into a worker's memory.
        executor: Where jobs are run: `in_turn`, `in_processes(n)` or `on_ray()`.
        overwrite: Whether a dataset directory at `out` is replaced.
        progress: Told what is done, and how many jobs of how many.
    """
    source, out = Path(source), Path(out).resolve()
    _check(source, out, plan, shards)
    _clean_up(out)
    replacing = FILES if overwrite else None
    check_free(out, replacing=replacing)
    wanted = tuple((role, getattr(plan, role)) for role in (*COLUMNS, *IMPRESSION_COLUMNS))
    pieces = pieces_of(
        source,
        cast("FileFormat | None", plan.format),
        wanted,
        dialect=Dialect(*(getattr(plan, name) for name in DIALECT)).checked(),
        values=plan.model_dump(include=set(VALUES)),
        ask=plan.threshold is None and plan.feedback is None,
    )
    with working_directory(work_of(out)) as folder:
        files = [[piece.path, piece.first_row, *piece.state] for piece in pieces]
        _begin(folder, {"plan": plan.model_dump(mode="json"), "shards": shards, "files": files})
        place = Workplace(folder)
        stages = Stages(Lists(place, executor, progress).run, plan, shards)
        try:
            stages.read(pieces)
        except (ConfigError, DataError):  # the next command will be about other rows or columns
            shutil.rmtree(folder)
            raise
        features = {
            role: read_features(getattr(plan, f"{role}_features"), stages.roles[role])
            for role in ("user", "item")
        }
        stages.filter()
        parts, split = stages.split()
        if progress:
            progress("writing", 0, None)
        tables, steps = _tables(place, stages, parts, features)
        name = plan.name or source.name.split(".")[0]
        with new_directory(out, replacing=replacing) as beside:
            said = [*stages.read_steps, *steps, *stages.steps]
            fingerprint = tables.write(beside, name, str(source), said, split)
            write_json({"fingerprint": fingerprint}, folder / _DONE)
        shutil.rmtree(folder)
    for note in stages.notes:
        warnings.warn(note, CounterplayWarning, stacklevel=2)
    return describe(out)


def _check(source: Path, out: Path, plan: Preparation, shards: int) -> None:
    """Refuse what cannot be prepared by ranges of users, before any work is done."""
    if shards < 1:
        raise ConfigError(f"--shards must be 1 or more; found {shards}; raise it")
    if source.resolve() in out.parents:
        raise ConfigError(
            f"the output must not lie in the folder that is read; found '{out}' in '{source}'; "
            "name another place"
        )
    known = known_dataset(source, plan.format)
    refusals = {
        "takes files of rows": known and f"the public dataset {known.title}",
        "orders rows by what they say": plan.order == "file" and "--order file",
        "takes logs of clicks": plan.impressions and "--impressions",
    }
    for holds, found in refusals.items():
        if found:
            raise ConfigError(
                f"--shards {holds}; found {found}; leave it out, or prepare without --shards"
            )
    if plan.window is not None:
        raise ConfigError(
            f"a window is for a file of impressions; found window={plan.window} without one; leave "
            "it out"
        )
    events_rule(plan.items_above, plan.users_above, plan.users_below)
    if plan.core is not None:
        core_rule(plan.core)


def _clean_up(out: Path) -> None:
    """Remove the jobs of a dataset that was written by a process which was killed just then."""
    work = work_of(out)
    if (work / _DONE).exists() and (out / DESCRIPTION).exists():
        done = read_json(work / _DONE, "a record of work that is done")
        if describe(out)["fingerprint"] == done["fingerprint"]:
            with working_directory(work):
                shutil.rmtree(work)


def _begin(folder: Path, asked: Mapping[str, Any]) -> None:
    """Note what work is begun, or make sure that it is the work that was begun before."""
    path = folder / _BEGUN
    if not path.exists():
        write_json(asked, path)
        return
    remedy = f"remove '{folder}' to begin again"
    found = difference(read_json(path, "what work was begun", remedy=remedy), asked)
    if found:
        raise ConfigError(
            f"interrupted work goes on with the same command and the same files; found {found}; "
            f"give that command, or {remedy}"
        )


def _tables(
    place: Workplace,
    stages: Stages,
    parts: Sequence[Result],
    features: Mapping[str, Features | None],
) -> tuple[Tables, list[Step]]:
    """Return all tables of the dataset, and what was done to the features."""
    items = place.vocabulary("items", stages.merged["files"]["items"])
    left = items.ids
    if stages.mask is not None:
        left = left.filter(place.take(*stages.mask)["kept"])
    steps: list[Step] = []
    found: dict[str, FeatureTable | None] = {}
    if features["user"] is not None:
        found["users"] = _joined(place, stages, parts, features["user"], steps)
    item_features = aligned(features["item"], items, "item", steps)
    found["items"] = item_features and item_features.take(items.encode(left))
    return Tables(place, parts, left, found), steps


def _joined(
    place: Workplace,
    stages: Stages,
    parts: Sequence[Result],
    features: Features,
    steps: list[Step],
) -> FeatureTable | None:
    """Return the features of the users that are left; all users must fit into memory for that."""
    both = []
    for name, results in (("shard-users", stages.ordered), ("part-users", parts)):
        digests = (each["files"]["users"] for each in results)
        ids = [place.take(f"{name}-{n:05}", digest)["id"] for n, digest in enumerate(digests)]
        both.append(pl.concat(ids))
    users = Vocabulary(both[0])
    table = aligned(features, users, "user", steps)
    return table and table.take(users.encode(both[1]))
