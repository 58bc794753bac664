"""The way from a log as it is to data that can be learnt from, as one plan."""

from __future__ import annotations

import datetime as dt
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

from counterplay.data.assembly import Table
from counterplay.data.canonical import Order
from counterplay.data.columns import Decimal
from counterplay.data.datasets import DATASETS, Dataset, dataset_at, read_dataset
from counterplay.data.dialects import Dialect
from counterplay.data.filters import Duplicates, filter_by_events, k_core, without_duplicates
from counterplay.data.findings import Step
from counterplay.data.formats import FileFormat, Progress
from counterplay.data.impressions import in_ids_of, of_clicks, parts_of, taken_apart
from counterplay.data.joins import join, microseconds_of
from counterplay.data.readers import question_of, read_table
from counterplay.data.roles import ABSENT, COLUMNS, IMPRESSION_COLUMNS, is_quantity
from counterplay.data.sources import local_path
from counterplay.data.splits import (
    Split,
    cold_notes,
    leave_last_two_out,
    split_at_random,
    split_by_time,
)
from counterplay.data.time_units import TimeUnit
from counterplay.errors import ConfigError, CounterplayWarning, DataError
from counterplay.seeding import Streams

if TYPE_CHECKING:
    from counterplay.data.interactions import Interactions

SplitKind = Literal["auto", "leave-last-two", "time", "random", "none"]
DIALECT = ("header", "separator", "quote", "encoding")
VALUES = ("decimal", "time_unit", "date_format", "drop_missing")
_READING = (
    *(*COLUMNS, *IMPRESSION_COLUMNS, "impressions", "window", *DIALECT, *VALUES),
    *("user_features", "item_features"),
)
_HEEDED: dict[str, tuple[str, ...]] = {
    "time": ("validation", "test", "validation_from", "test_from"),
    "random": ("validation", "test", "seed"),
}  # the options of a split, where it has any


class Preparation(BaseModel):
    """What to do with a log before anything learns from it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: Format: csv, tsv, parquet, ndjson, or a dataset's name (detected if omitted).
    format: str | None = None
    user: str | None = None  #: User-ID column (detected if omitted, as the next columns).
    item: str | None = None  #: Item-ID column.
    rating: str | None = None  #: Rating column; "-" for none.
    time: str | None = None  #: Timestamp column; "-" for none.
    exposed: str | None = None  #: Exposure-flag column; false marks organic clicks.
    propensity: str | None = None  #: Logged-propensity column.
    position: str | None = None  #: List-position column.
    random: str | None = None  #: Column that marks random rows.
    clicked: str | None = None  #: Click column, flags or counts: rows are then impressions.
    impressions: Path | None = None  #: File with impressions beside a log of clicks.
    #: How long after an impression a click may come, as "30m" or "2h"; an hour if omitted.
    window: str | None = None
    header: bool | None = None  #: Whether a first line names the columns (detected if omitted).
    separator: str | None = None  #: Sign between columns of a text file (detected if omitted).
    quote: str | None = None  #: Sign around fields, or "none" (detected if omitted).
    encoding: str | None = None  #: Encoding of a text file (detected where that is certain).
    #: Decimal mark of numbers with commas: "." or "," (detected where that is certain).
    decimal: Decimal | None = None
    time_unit: TimeUnit | None = None  #: Unit of numeric times (detected if omitted).
    #: How dates are written, as "%d.%m.%Y %H:%M" (detected where that is certain).
    date_format: str | None = None
    drop_missing: bool = False  #: Leave out rows without a user or an item.
    user_features: Path | None = None  #: File with features of users.
    item_features: Path | None = None  #: File with features of items.
    duplicates: Duplicates = "all"  #: Which rows of a repeated pair to keep.
    #: Order of a user's rows at one time: by content (canonical), or as in the file.
    order: Order = "canonical"
    #: What rows rated 0 or less are: clicks, or ratings; it is asked for if there are any.
    feedback: Literal["clicks", "ratings"] | None = None
    threshold: float | None = None  #: Keep rows with at least this rating, as clicks.
    items_above: Annotated[int, Field(ge=0)] = 0  #: Keep items with more events than this.
    users_above: Annotated[int, Field(ge=0)] = 0  #: Keep users with more events than this.
    users_below: int | None = None  #: Keep users with fewer events than this.
    core: int | None = None  #: Keep the k-core: users and items with at least k events each.
    #: How to split; auto is the dataset's own split, leave-last-two if rows are ordered, or random.
    split: SplitKind = "auto"
    #: Share of validation rows, for time and random; 0.1 if omitted.
    validation: float | None = None
    test: float | None = None  #: Share of test rows, for time and random; 0.1 if omitted.
    validation_from: dt.datetime | None = None  #: First moment of validation, for time.
    test_from: dt.datetime | None = None  #: First moment of the test, for time.
    seed: int | None = None  #: Random seed of the split, for random; 0 if omitted.
    name: str | None = None  #: Name of the log; the file's name if omitted.

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
    source: object,
    plan: Preparation | None = None,
    *,
    impressions: object = None,
    progress: Progress | None = None,
) -> Interactions | Split:
    """Read, filter and split a log by `plan`; without a split the result is Interactions.

    The source is a file, the folder of a known dataset, or a frame. `impressions`, a file or a
    frame, says what was shown, where the log is one of clicks. Held-out rows whose user or item has
    no training row are counted in a warning.
    """
    made = _made(source, plan or Preparation(), impressions, progress)
    for note in cold_notes(made) if isinstance(made, Split) else ():
        warnings.warn(note, CounterplayWarning, stacklevel=2)
    return made


def _made(
    source: object, plan: Preparation, impressions: object, progress: Progress | None
) -> Interactions | Split:
    path = local_path(source)
    known = known_dataset(path, plan.format) if path else None
    log: Interactions | Split | Table
    if known and path:
        if impressions is not None:
            raise ConfigError(
                f"impressions go with a log of clicks; found {known.title}, which has all that is "
                "known; leave them out"
            )
        log = read_known(known, path, plan, progress)
    else:
        log = read_plan(
            source, plan, plan.impressions if impressions is None else impressions, progress
        )
    if isinstance(log, Split):
        if plan.split == "auto":
            refuse_unused(plan, "dataset's own")
            return log
        log = log.interactions
    unclicked = random = None
    if isinstance(log, Table):
        decide_ratings(log, plan)
    if isinstance(log, Table) and "clicked" not in log.columns:
        log = of_clicks(log, plan.duplicates)
    elif isinstance(log, Table) or log.clicked is not None:
        log, unclicked, random = taken_apart(log)
        log = without_duplicates(log, plan.duplicates)
    elif plan.duplicates != "all":
        others = tuple(step for step in log.steps if step.kind != "duplicates")
        log = without_duplicates(replace(log, steps=others), plan.duplicates)
    if plan.threshold is not None:
        log = log.to_implicit(plan.threshold)
    if plan.filters_events:
        bounds = plan.model_dump(include={"items_above", "users_above", "users_below"})
        log = filter_by_events(log, **bounds)
    if plan.core is not None:
        log = k_core(log, plan.core)
    made = _split(log, plan)
    if random is None and unclicked is None:
        return made
    if not isinstance(made, Split):
        raise ConfigError(
            "rows that were shown are kept beside a split; found the split none; choose another, "
            "or leave them out of the log"
        )
    if random is not None:
        made = replace(made, random=in_ids_of(random, made.interactions))
    if unclicked is not None:
        rows = in_ids_of(unclicked, made.interactions, what="impressions without a click")
        rng = Streams(plan.seed or 0).numpy("split", "unclicked")
        made = replace(made, unclicked=rows, unclicked_part=parts_of(rows, made, rng))
    return made


def decide_ratings(table: Table, plan: Preparation) -> None:
    """Refuse ratings of 0 or less where rows would be clicks; leave out quantities above 0.

    What was brought back, or seen and not rated, is hardly a click. Whoever knows must say it.
    """
    rating, reading = table.columns.get("rating"), table.reading
    if rating is None or "clicked" in table.columns or plan.threshold is not None:
        return
    name = reading.roles["rating"] if reading else "rating"
    if plan.feedback is None:
        question = question_of(rating, name)
        if question:
            raise DataError(question)
    if plan.rating is None and is_quantity(name) and plan.feedback != "ratings":
        del table.columns["rating"]
        table.steps.append(
            Step("columns", f"each row is a click, whatever its quantity in column '{name}'")
        )


def read_plan(
    source: object, plan: Preparation, impressions: object, progress: Progress | None
) -> Table:
    """Read what is no known dataset, and join the impressions beside it."""
    if plan.window is not None and impressions is None:
        raise ConfigError(
            f"a window is for a file of impressions; found window={plan.window} without one; name "
            "the file with impressions=…, on the command line with --impressions, or leave it out"
        )
    window = microseconds_of(plan.window or "1h")
    wanted = {role: getattr(plan, role) for role in (*COLUMNS, *IMPRESSION_COLUMNS)}
    how = plan.model_dump(include={"order", *VALUES})
    dialect = Dialect(*(getattr(plan, name) for name in DIALECT))
    table = read_table(
        source,
        wanted | ({} if impressions is None else {"random": ABSENT}),
        format=plan.format,  # type: ignore[arg-type] # known_dataset refused other names
        features={"user": plan.user_features, "item": plan.item_features},
        progress=progress,
        name=plan.name,
        dialect=dialect,
        quantities=True,
        **how,
    )
    if impressions is None:
        return table
    clicked = table.columns.pop("clicked", None)
    if clicked is not None and not clicked.all():
        raise DataError(
            "a log beside a file of impressions must be one of clicks; found "
            f"{int((~clicked).sum()):,} of {len(clicked):,} rows that were not clicked; leave "
            "--impressions out, or give the clicks alone"
        )
    wanted["rating"] = ABSENT
    shown = read_table(impressions, wanted, second=True, dialect=dialect, progress=progress, **how)
    return join(table, shown, window)


def known_dataset(path: Path, name: str | None) -> Dataset | None:
    """Return the known dataset that is meant, None for a plain file."""
    if name is None:
        return dataset_at(path)
    if name not in DATASETS and name not in get_args(FileFormat):
        raise ConfigError(
            f"a format must be {', '.join(get_args(FileFormat))} or a dataset's name; found "
            f"'{name}'; counterplay datasets lists the names"
        )
    return DATASETS.get(name)


def read_known(
    known: Dataset, path: Path, plan: Preparation, progress: Progress | None
) -> Interactions | Split:
    """Read a known dataset; it has columns, and perhaps a split, of its own."""
    given = next((name for name in _READING if getattr(plan, name) not in (None, False)), None)
    if given:
        raise ConfigError(
            f"{known.title} has columns of its own; found {given}={getattr(plan, given)}; leave it "
            "out, or read its file as csv, tsv, parquet or ndjson"
        )
    made = read_dataset(known.name, path, order=plan.order, progress=progress)
    if isinstance(made, Split) and plan.split == "auto" and plan.changes_rows:
        raise ConfigError(
            f"a dataset with a split of its own must be taken whole; found {known.title} with "
            "a filter, a threshold or a policy for duplicates; leave those out, or choose "
            "another split"
        )
    if not plan.name:
        return made
    if isinstance(made, Split):
        return replace(made, interactions=replace(made.interactions, name=plan.name))
    return replace(made, name=plan.name)


def _split(log: Interactions, plan: Preparation) -> Interactions | Split:
    kind = plan.split
    if kind == "auto":
        timed = log.time is not None or log.in_file_order
        kind = "leave-last-two" if timed else "random"
    refuse_unused(plan, kind)
    validation, test = (0.1 if it is None else it for it in (plan.validation, plan.test))
    match kind:
        case "leave-last-two":
            return leave_last_two_out(log)
        case "time":
            moments = plan.model_dump(include={"validation_from", "test_from"})
            return split_by_time(log, **moments, fractions=(validation, test))
        case "random":
            rng = Streams(plan.seed or 0).numpy("split")
            return split_at_random(log, rng, fractions=(validation, test))
    return log


def refuse_unused(plan: Preparation, kind: str) -> None:
    """Refuse an option that the split would not heed."""
    for name in ("validation_from", "test_from", "validation", "test", "seed"):
        value = getattr(plan, name)
        if value is not None and name not in _HEEDED.get(kind, ()):
            raise ConfigError(
                f"an option must belong to the split that is made; found {name}={value} with the "
                f"{kind} split; leave it out, or choose another split"
            )
