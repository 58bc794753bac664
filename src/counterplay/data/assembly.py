"""From batches of a raw table to Interactions: check, encode, order."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from counterplay.data.canonical import Order, canonical_order, time_order
from counterplay.data.columns import ClickColumn, Decimal, FlagColumn, NumberColumn
from counterplay.data.features import FeatureTable
from counterplay.data.filters import Duplicates, without_duplicates
from counterplay.data.findings import FILE_ORDER, Findings, Reading, Step
from counterplay.data.identifiers import IdColumn, Missing
from counterplay.data.interactions import Interactions
from counterplay.data.times import TimeColumn
from counterplay.data.vocabulary import integers_of
from counterplay.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from numpy.typing import NDArray

    from counterplay.data.time_units import TimeUnit
    from counterplay.data.vocabulary import Vocabulary

_FLOAT32 = float(np.finfo(np.float32).max)


@dataclass(frozen=True, slots=True)
class Features:
    """A feature table as it was read, before its ids are known to the log.

    With no column but the ids, it only says which ids there are.
    """

    frame: pl.DataFrame
    id_column: str
    untyped: bool = False
    steps: tuple[Step, ...] = ()


@dataclass(slots=True)
class Table:
    """What was read of a log: its columns, checked and encoded, in the order of the input."""

    users: Vocabulary
    items: Vocabulary
    columns: dict[str, NDArray[Any]]
    order: Order = "canonical"
    name: str = "log"
    source: str = ""
    steps: list[Step] = field(default_factory=list)
    user_features: FeatureTable | None = None
    item_features: FeatureTable | None = None
    reading: Reading | None = None

    @classmethod
    def of(cls, log: Interactions) -> Table:
        """Return the table of a log that is in order already."""
        order: Order = "file" if log.in_file_order else "canonical"
        rest = (log.name, log.source, list(log.steps), log.user_features, log.item_features)
        return cls(log.users, log.items, dict(log.columns()), order, *rest, log.reading)

    def holding(self, columns: dict[str, Any]) -> Interactions:
        """Return columns that are in order as a log, with all else that the table says."""
        more: dict[str, Any] = {
            name: getattr(self, name)
            for name in ("user_features", "item_features", "name", "source", "reading")
        }
        return Interactions(self.users, self.items, **columns, **more, steps=tuple(self.steps))

    def ordered(self, duplicates: Duplicates = "all") -> Interactions:
        """Return the rows in order; impressions of one pair are no repetitions."""
        columns = self.columns
        if self.order == "file":
            rows = time_order(columns)
        else:
            rows = canonical_order(columns, self.users, self.items)
        if rows is not None:
            columns = {role: column[rows] for role, column in columns.items()}
        log = self.holding(columns)
        return log if "clicked" in columns else without_duplicates(log, duplicates, rows)


def assemble(
    batches: Iterable[pl.DataFrame],
    roles: dict[str, str],
    *,
    duplicates: Duplicates = "all",
    **settings: Any,
) -> Interactions:
    """Return the interactions in `batches`; the settings are those of `tabulate`."""
    return tabulate(batches, roles, **settings).ordered(duplicates)


def tabulate(
    batches: Iterable[pl.DataFrame],
    roles: dict[str, str],
    *,
    doubtful: Collection[str] = (),
    untyped: bool = False,
    time_unit: TimeUnit | None = None,
    date_format: str | None = None,
    decimal: Decimal | None = None,
    user_features: Features | None = None,
    item_features: Features | None = None,
    include_unseen: bool = False,
    order: Order = "canonical",
    name: str = "log",
    source: str = "",
    steps: Sequence[Step] = (),
    reading: Reading | None = None,
    drop_missing: bool = False,
) -> Table:
    """Return what `batches` hold in the columns that are named by `roles`.

    A column in a `doubtful` role is taken only if its values fit. `steps` say what was done to the
    rows before. With `drop_missing`, rows without a user or an item are left out.
    """
    findings = Findings()
    missing = Missing((roles["user"], roles["item"]))
    if drop_missing:
        batches = missing.without(batches)
    builders = builders_of(
        roles, findings, untyped=untyped, time_unit=time_unit, date_format=date_format,
        decimal=decimal,
    )  # fmt: skip
    for role in doubtful:
        builders[role] = _Doubtful(role, builders[role])
    for batch in batches:
        for role, builder in builders.items():
            builder.add(batch[roles[role]], findings.n_rows + 1)
        findings.n_rows += batch.height
    if findings.n_rows == 0:
        if missing.count:
            raise DataError(
                f"a log must have rows; found {missing.count:,} in {source or 'the table'}, all of "
                "them without a user or an item; name other columns"
            )
        raise DataError(
            f"a log must have rows; found none in {source or 'the table'}; check that it is the "
            "right one and that its export ended"
        )
    missing.explain(findings)
    findings.raise_first()
    done = [*steps, *missing.steps, *_without_misfits(builders, roles, doubtful, findings.n_rows)]
    for role, features in (("user", user_features), ("item", item_features)):
        if include_unseen and features is not None:
            builders[role].add(_ids_like(features, builders[role]), findings.n_rows + 1)
    findings.raise_first()
    columns: dict[str, Any] = {}
    vocabularies = {}
    for role, builder in builders.items():
        columns[role] = builder.finish()
        if role not in ("user", "item"):
            continue
        vocabularies[role], index = columns[role]
        columns[role] = index[: findings.n_rows]  # without those of the features
        check_two(role, roles[role], len(vocabularies[role]), vocabularies[role].ids[0])
    users, items = vocabularies["user"], vocabularies["item"]
    for builder in builders.values():
        done += getattr(builder, "steps", ())
    if order == "file":
        done.append(FILE_ORDER)
    tables = (
        aligned(user_features, users, "user", done),
        aligned(item_features, items, "item", done),
    )
    if reading is not None:
        taken = {role: roles[role] for role in builders}
        left = (roles[role] for role in roles if role not in builders)
        times = said_of(builders.get("time"))
        n_rows = findings.n_rows + missing.count
        others = (*reading.others, *left)
        reading = replace(reading, roles=taken, others=others, times=times, n_rows=n_rows)
    return Table(users, items, columns, order, name, source, done, *tables, reading)


def said_of(time: Any) -> str:
    """Say how times were understood; files that are understood alike can be put together."""
    column = getattr(time, "builder", time)
    if column is None:
        return ""
    if column.numeric:
        return f"numbers in {column.unit}"
    return f"dates in the form {column.form}" if column.form else "dates"


def check_two(role: str, column: str, n: int, first: object) -> None:
    """Refuse a log of one user or one item."""
    if n < 2:
        raise DataError(
            f"a log must have at least two {role}s; found one, {first!r}, in column '{column}'; "
            f"check that this is the column of {role}s"
        )


@dataclass(slots=True)
class _Doubtful:
    """A column that was found by a name which may mean something else."""

    role: str
    builder: Any
    misfit: str | None = None  # why it is not what its name says

    def __post_init__(self) -> None:
        self.builder.findings = Findings()

    @property
    def steps(self) -> list[Step]:
        return list(self.builder.steps)

    def add(self, values: pl.Series, first_row: int) -> None:
        """Take one batch, as long as the values fit."""
        if self.misfit is None:
            findings = self.builder.findings
            findings.n_rows += len(values)
            try:
                self.builder.add(values, first_row)
            except DataError as error:
                self.misfit = str(error).rpartition("; ")[0]
            else:
                self.misfit = findings.first()

    def finish(self) -> Any:
        """Return the whole column."""
        return self.builder.finish()


def _without_misfits(
    builders: dict[str, Any], roles: dict[str, str], doubtful: Collection[str], n_rows: int
) -> list[Step]:
    """Drop the columns whose values do not fit, and say so; and say what was taken."""
    misfits = {role: builders[role].misfit for role in doubtful if builders[role].misfit}
    steps = []
    for role, why in misfits.items():
        text = f"column '{roles[role]}' is not taken for {role}: {why}; if it is, correct it and "
        text += f"name it with --{role} '{roles[role]}'"
        steps.append(Step("columns", text, {"rows": n_rows}))
        del builders[role]
    if "clicked" in misfits and builders.pop("random", None):
        text = f"column '{roles['random']}' is not taken for random: no column says what was "
        steps.append(Step("columns", f"{text}clicked; name it with --clicked"))
    if "clicked" in builders or any(role in builders for role in doubtful):
        taken = ", ".join(f"{role} from '{roles[role]}'" for role in builders)
        steps.append(Step("columns", f"took {taken}"))
    return steps


def builders_of(
    roles: dict[str, str],
    findings: Findings,
    *,
    untyped: bool,
    time_unit: TimeUnit | None,
    date_format: str | None = None,
    decimal: Decimal | None = None,
) -> dict[str, Any]:
    """Return a column builder for each role of the table."""
    ratings = (np.float32, "ratings must be finite numbers", (-_FLOAT32, _FLOAT32))
    propensities = (np.float64, "propensities must be probabilities in (0, 1]", (0.0, 1.0))
    positions = (np.int16, "positions must be whole numbers from 0 to 32,767", (0, 2**15 - 1))
    made: dict[str, Any] = {
        "user": lambda name: IdColumn(name, findings, untyped=untyped),
        "item": lambda name: IdColumn(name, findings, untyped=untyped),
        "rating": lambda name: NumberColumn(name, findings, *ratings, decimal=decimal),
        "time": lambda name: TimeColumn(name, findings, time_unit, date_format),
        "exposed": lambda name: FlagColumn(name, findings),
        "propensity": lambda name: NumberColumn(
            name, findings, *propensities, open_below=True, decimal=decimal
        ),
        "position": lambda name: NumberColumn(name, findings, *positions, whole=True),
        "random": lambda name: FlagColumn(name, findings, "marks of random rows"),
        "clicked": lambda name: ClickColumn(name, findings),
    }
    return {role: made[role](column) for role, column in roles.items()}


def aligned(
    features: Features | None, vocabulary: Vocabulary, role: str, steps: list[Step]
) -> FeatureTable | None:
    """Return features in the order of a vocabulary; `steps` are added to."""
    if features is None:
        return None
    frame = features.frame
    steps.extend(replace(step, text=f"{role} features: {step.text}") for step in features.steps)
    if frame.width == 1:
        return None
    table, n_unknown = FeatureTable.align(
        frame, features.id_column, vocabulary, untyped=features.untyped
    )
    if n_unknown:
        left_out = f"left out {n_unknown:,} of {frame.height:,} rows of {role} features"
        text = f"{left_out} whose {role} is not in the log"
        steps.append(Step("features", text, {f"{role}_feature_rows": n_unknown}))
    return table


def _ids_like(features: Features, column: IdColumn) -> pl.Series:
    """Return the ids of a feature table in the type of the log's, where one has no types."""
    ids = features.frame[features.id_column]
    if column.is_text and column.untyped and ids.dtype.is_integer():
        return ids.cast(pl.String)
    if not column.is_text and features.untyped:
        return integers_of(ids)
    return ids
