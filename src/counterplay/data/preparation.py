"""The way from a log as it is to data that can be learnt from, as one plan."""

from __future__ import annotations

import datetime as dt
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

from counterplay.data.canonical import Order
from counterplay.data.cold import cold_notes
from counterplay.data.datasets import DATASETS, Dataset, dataset_at, read_dataset
from counterplay.data.duplicates import Duplicates, without_duplicates
from counterplay.data.filters import filter_by_events, k_core
from counterplay.data.formats import FileFormat, Progress
from counterplay.data.readers import read
from counterplay.data.splits import Split, leave_last_two_out, split_at_random, split_by_time
from counterplay.data.times import TimeUnit
from counterplay.errors import ConfigError, CounterplayWarning
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
        order: Between rows of one user at one time, or without times: canonical goes by what the
            rows say, file by their order in the input.
        threshold: Ratings of at least this much become implicit feedback.
        items_above: Keep items with more events than this.
        users_above: Then keep users with more events than this ...
        users_below: ... and fewer than this.
        core: Keep the k-core.
        split: auto is the dataset's own, else leave-last-two with times (or the file's order for
            them), random without.
        validation: Share of validation, of rows for time, of pairs for random; by default 0.1.
        test: The same for the test.
        validation_from: First moment of validation, for time.
        test_from: First moment of the test, for time.
        seed: For random; by default 0.
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
    order: Order = "canonical"
    threshold: float | None = None
    items_above: Annotated[int, Field(ge=0)] = 0
    users_above: Annotated[int, Field(ge=0)] = 0
    users_below: int | None = None
    core: int | None = None
    split: SplitKind = "auto"
    validation: float | None = None
    test: float | None = None
    validation_from: dt.datetime | None = None
    test_from: dt.datetime | None = None
    seed: int | None = None
    name: str | None = None

    @property
    def filters_events(self) -> bool:
        """Whether items or users are filtered by their number of events."""
        return bool(self.items_above or self.users_above or self.users_below is not None)

    @property
    def changes_rows(self) -> bool:
        """Whether rows may be left out."""
        others = (self.core is not None, self.threshold is not None, self.duplicates != "all")
        return self.filters_events or any(others)


def prepare(
    source: object, plan: Preparation | None = None, *, progress: Progress | None = None
) -> Interactions | Split:
    """Read, filter and split a log by `plan`; without a split the result is Interactions.

    The source is a file, the folder of a known dataset, or a frame. Held-out rows whose user or
    item has no training row are counted in a warning.
    """
    made = _made(source, plan or Preparation(), progress)
    for note in cold_notes(made) if isinstance(made, Split) else ():
        warnings.warn(note, CounterplayWarning, stacklevel=2)
    return made


def _made(source: object, plan: Preparation, progress: Progress | None) -> Interactions | Split:
    known = None
    if isinstance(source, str | Path):
        known = _dataset(Path(source), plan.format)
    if known is None:
        log: Interactions | Split = _read(source, plan, progress)
    else:
        log = _read_known(known, Path(str(source)), plan, progress)
    if isinstance(log, Split):
        if plan.split == "auto":
            _refuse_unused(plan, ("validation", "test", "validation_from", "test_from", "seed"))
            return log
        log = log.interactions
    if known and plan.duplicates != "all":
        others = tuple(step for step in log.steps if step.kind != "duplicates")
        log = without_duplicates(replace(log, steps=others), plan.duplicates)
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


def _read(source: object, plan: Preparation, progress: Progress | None) -> Interactions:
    return read(
        source,
        **plan.model_dump(include={*_READING, "format", "duplicates", "order", "name"}),
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
    log = read_dataset(known.name, path, order=plan.order, progress=progress)
    if isinstance(log, Split):
        if plan.split == "auto" and plan.changes_rows:
            raise ConfigError(
                f"a dataset with a split of its own must be taken whole; found {known.title} with "
                "a filter, a threshold or a policy for duplicates; leave those out, or choose "
                "another split"
            )
        return replace(log, interactions=_named(log.interactions, plan.name))
    return _named(log, plan.name)


def _named(log: Interactions, name: str | None) -> Interactions:
    return replace(log, name=name) if name else log


def _split(log: Interactions, plan: Preparation) -> Interactions | Split:
    kind = plan.split
    if kind == "auto":
        timed = log.time is not None or log.in_file_order
        kind = "leave-last-two" if timed else "random"
    moments = () if kind == "time" else ("validation_from", "test_from")
    shares = () if kind in ("time", "random") else ("validation", "test")
    _refuse_unused(plan, (*moments, *shares, *(() if kind == "random" else ("seed",))), kind)
    fractions = (
        0.1 if plan.validation is None else plan.validation,
        0.1 if plan.test is None else plan.test,
    )
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
        return split_at_random(log, Streams(plan.seed or 0).numpy("split"), fractions=fractions)
    return log


def _refuse_unused(plan: Preparation, names: tuple[str, ...], kind: str = "dataset's own") -> None:
    """Refuse an option that the split would not heed."""
    given = next((name for name in names if getattr(plan, name) is not None), None)
    if given:
        raise ConfigError(
            f"an option must belong to the split that is made; found {given}="
            f"{getattr(plan, given)} with the {kind} split; leave it out, or choose another split"
        )
