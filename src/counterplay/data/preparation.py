"""The way from a log as it is to data that can be learnt from, as one plan."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

from counterplay.data.assembly import Duplicates, without_duplicates
from counterplay.data.datasets import DATASETS, Dataset, dataset_at, read_dataset
from counterplay.data.filters import filter_by_events, k_core
from counterplay.data.readers import FileFormat, Progress, read
from counterplay.data.splits import Split, leave_last_two_out, split_at_random, split_by_time
from counterplay.data.times import TimeUnit
from counterplay.errors import ConfigError
from counterplay.seeding import Streams

if TYPE_CHECKING:
    from counterplay.data.interactions import Interactions

SplitKind = Literal["auto", "leave-last-two", "time", "random", "none"]
_READING = (
    "user",
    "item",
    "rating",
    "time",
    "exposed",
    "propensity",
    "position",
    "time_unit",
    "user_features",
    "item_features",
)


class Preparation(BaseModel):
    """What to do with a log before anything learns from it.

    Attributes:
        format: csv, tsv, parquet, ndjson or a dataset's name; None guesses.
        user: Column of user ids; see `counterplay.read` for this and the next nine.
        item: Column of item ids.
        rating: Column of ratings.
        time: Column of times.
        exposed: Column of exposure flags.
        propensity: Column of logged propensities.
        position: Column of positions in the list shown.
        time_unit: Unit of numeric times.
        user_features: Table of user features.
        item_features: Table of item features.
        duplicates: Which rows of a repeated pair to keep.
        threshold: Ratings of at least this much become implicit feedback.
        items_above: Keep items with more events than this.
        users_above: Then keep users with more events than this ...
        users_below: ... and fewer than this.
        core: Keep the k-core.
        split: auto is the dataset's own, else leave-last-two with times, random without.
        validation: Share of validation rows, for time and random.
        test: Share of test rows, for time and random.
        validation_from: First moment of validation, for time.
        test_from: First moment of the test, for time.
        seed: For random.
        name: What to call the log.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: str | None = None
    user: str | None = None
    item: str | None = None
    rating: str | None = None
    time: str | None = None
    exposed: str | None = None
    propensity: str | None = None
    position: str | None = None
    time_unit: TimeUnit | None = None
    user_features: Path | None = None
    item_features: Path | None = None
    duplicates: Duplicates = "all"
    threshold: float | None = None
    items_above: Annotated[int, Field(ge=0)] = 0
    users_above: Annotated[int, Field(ge=0)] = 0
    users_below: int | None = None
    core: int | None = None
    split: SplitKind = "auto"
    validation: float = 0.1
    test: float = 0.1
    validation_from: dt.datetime | None = None
    test_from: dt.datetime | None = None
    seed: int = 0
    name: str | None = None

    @property
    def filters_events(self) -> bool:
        """Whether items or users are filtered by their number of events."""
        return bool(self.items_above or self.users_above or self.users_below is not None)

    @property
    def changes_rows(self) -> bool:
        """Whether rows may be left out."""
        return self.filters_events or self.core is not None or self.threshold is not None


def prepare(
    source: str | Path, plan: Preparation | None = None, *, progress: Progress | None = None
) -> Interactions | Split:
    """Read, filter and split a log by `plan`; without a split the result is Interactions."""
    plan, path = plan or Preparation(), Path(source)
    known = _dataset(path, plan.format)
    log = _read(path, plan, progress) if known is None else _read_known(known, path, plan, progress)
    if isinstance(log, Split):
        if plan.split == "auto":
            return log
        log = log.interactions
    if known and plan.duplicates != "all":
        log = without_duplicates(log, plan.duplicates)
    if plan.threshold is not None:
        log = log.to_implicit(plan.threshold)
    if plan.filters_events:
        log = filter_by_events(
            log,
            items_above=plan.items_above,
            users_above=plan.users_above,
            users_below=plan.users_below,
        )
    if plan.core is not None:
        log = k_core(log, plan.core)
    return _split(log, plan)


def _dataset(path: Path, name: str | None) -> Dataset | None:
    """Return the known dataset that is meant, None for a plain file."""
    if name is None:
        return dataset_at(path)
    if name not in DATASETS and name not in get_args(FileFormat):
        raise ConfigError(
            f"a format must be {', '.join(get_args(FileFormat))} or a dataset's name; found "
            f"'{name}'; counterplay datasets lists the names"
        )
    return DATASETS.get(name)


def _read(path: Path, plan: Preparation, progress: Progress | None) -> Interactions:
    return read(
        path,
        **plan.model_dump(include={*_READING, "format", "duplicates", "name"}),
        progress=progress,
    )


def _read_known(
    known: Dataset, path: Path, plan: Preparation, progress: Progress | None
) -> Interactions | Split:
    """Read a known dataset; it has columns, and perhaps a split, of its own."""
    given = next((name for name in _READING if getattr(plan, name) is not None), None)
    if given:
        raise ConfigError(
            f"{known.title} has columns of its own; found {given}={getattr(plan, given)}; leave it "
            "out, or read its file as csv, tsv, parquet or ndjson"
        )
    log = read_dataset(known.name, path, progress=progress)
    if isinstance(log, Split):
        if plan.split == "auto" and plan.changes_rows:
            raise ConfigError(
                f"a dataset with a split of its own must be taken whole; found {known.title} with "
                "a filter or a threshold; leave those out, or choose another split"
            )
        return replace(log, interactions=_named(log.interactions, plan.name))
    return _named(log, plan.name)


def _named(log: Interactions, name: str | None) -> Interactions:
    return replace(log, name=name) if name else log


def _split(log: Interactions, plan: Preparation) -> Interactions | Split:
    kind, fractions = plan.split, (plan.validation, plan.test)
    if kind == "auto":
        kind = "random" if log.time is None else "leave-last-two"
    if kind == "leave-last-two":
        return leave_last_two_out(log)
    if kind == "time":
        return split_by_time(
            log,
            validation_from=plan.validation_from,
            test_from=plan.test_from,
            fractions=fractions,
        )
    if kind == "random":
        return split_at_random(log, Streams(plan.seed).numpy("split"), fractions=fractions)
    return log
