"""Features of users and items: numeric, categorical and multi-valued columns."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from counterplay.data.vocabulary import Vocabulary, integers_of
from counterplay.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray


class OfAll(NamedTuple):
    """What all users or items have, where a table has some of them."""

    values: dict[str, Vocabulary]  # of each column that is categorical or multi-valued
    mean: NDArray[np.float64]  # of numeric columns, [n_numeric]
    deviation: NDArray[np.float64]  # likewise


@dataclass(frozen=True, slots=True, eq=False)
class FeatureTable:
    """One row of features per id, in the order of its vocabulary.

    Numbers and flags are numeric, text is categorical (also codes that mean a category), lists of
    text or integers are multi-valued; a missing value is null.

    Example:
        >>> colours = pl.DataFrame({"id": ["b", "a"], "colour": ["red", "blue"]})
        >>> table, n_unknown = FeatureTable.align(colours, "id", Vocabulary.of(["a", "b", "c"]))
        >>> table.codes("colour")[0]
        array([ 0,  1, -1], dtype=int32)
    """

    frame: pl.DataFrame
    of_all: OfAll | None = None  # where the table has one worker's part of the ids

    @classmethod
    def align(
        cls, frame: pl.DataFrame, id_column: str, vocabulary: Vocabulary, *, untyped: bool = False
    ) -> tuple[FeatureTable, int]:
        """Arrange `frame` by `vocabulary`; also return how many of its ids are unknown there.

        The ids of an `untyped` table are text; they are read as integers where the log's are.
        """
        ids = frame[id_column]
        repeated = ids.is_duplicated() | ids.is_null()
        if repeated.any():
            place = int(repeated.arg_true()[0])
            raise DataError(
                "a feature table must have one row an id; found "
                f"{int(repeated.sum()):,} of {frame.height:,} rows with a missing or repeated id "
                f"in column '{id_column}', the first at row {place + 1:,} with {ids[place]!r}; "
                "remove the repetitions"
            )
        if "id" in frame.columns and id_column != "id":
            raise DataError(
                "a feature must not be called 'id', the name of the ids; found such a column "
                f"beside '{id_column}'; rename it"
            )
        if ids.dtype.is_float():
            ids = ids.cast(pl.Int64, strict=False)
        if untyped and not vocabulary.is_text:
            ids = integers_of(ids)
        place_of_row = vocabulary.encode(ids)
        known = place_of_row >= 0
        row_of_id = np.full(len(vocabulary), -1, dtype=np.int64)
        row_of_id[place_of_row[known]] = np.flatnonzero(known)
        index = pl.Series(row_of_id).replace(-1, None)
        features = pl.DataFrame([_checked(column) for column in frame.drop(id_column)])
        return cls(features.select(pl.all().gather(index))), int((~known).sum())

    def __len__(self) -> int:
        return self.frame.height

    @property
    def numeric(self) -> list[str]:
        """Names of the numeric columns."""
        return [name for name, dtype in self.frame.schema.items() if dtype.is_numeric()]

    @property
    def categorical(self) -> list[str]:
        """Names of the categorical columns."""
        return [name for name, dtype in self.frame.schema.items() if dtype == pl.String]

    @property
    def multivalued(self) -> list[str]:
        """Names of the multi-valued columns."""
        return [name for name, dtype in self.frame.schema.items() if isinstance(dtype, pl.List)]

    def numbers(self) -> NDArray[np.float32]:
        """Return the numeric columns, `[n_ids, n_numeric]`, NaN where a value is missing."""
        columns = [self.frame[name].cast(pl.Float32).fill_null(np.nan) for name in self.numeric]
        if not columns:
            return np.empty((len(self), 0), dtype=np.float32)
        return np.stack([column.to_numpy() for column in columns], axis=1)

    def codes(self, name: str) -> tuple[NDArray[np.int32], Vocabulary]:
        """Return a categorical column as indices `[n_ids]`, -1 where missing, and its values."""
        column = self.frame[name]
        categories = self._values_of(name, column.drop_nulls())
        return categories.encode(column), categories

    def bags(self, name: str) -> tuple[NDArray[np.int64], NDArray[np.int32], Vocabulary]:
        """Return a multi-valued column as offsets `[n_ids + 1]`, indices `[n_values]`, values."""
        column = self.frame[name].list.drop_nulls()
        offsets = np.zeros(len(self) + 1, dtype=np.int64)
        np.cumsum(column.list.len().fill_null(0).to_numpy(), out=offsets[1:])
        values = column.explode(empty_as_null=False, keep_nulls=False)
        categories = self._values_of(name, values)
        return offsets, categories.encode(values), categories

    def _values_of(self, name: str, found: pl.Series) -> Vocabulary:
        return Vocabulary.of(found) if self.of_all is None else self.of_all.values[name]

    def scale(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return mean and standard deviation of numeric columns, `[n_numeric]`; 1 for none."""
        if self.of_all is not None:
            return self.of_all.mean, self.of_all.deviation
        numbers = self.numbers()
        known = np.isfinite(numbers)
        n_known = np.maximum(known.sum(0), 1)
        mean = np.where(known, numbers, 0).sum(0) / n_known
        centred = np.where(known, numbers - mean, 0)
        deviation = np.sqrt((centred**2).sum(0) / n_known)
        return mean, np.where(deviation > 0, deviation, 1)

    def take(self, index: NDArray[np.integer]) -> FeatureTable:
        """Return the rows at `index`."""
        return FeatureTable(self.frame[index])


def _checked(column: pl.Series) -> pl.Series:
    """Return a feature column in one of the three kinds, or say why it is none."""
    dtype = column.dtype
    if dtype == pl.Boolean or dtype.is_integer() or isinstance(dtype, pl.Decimal):
        return column.cast(pl.Float64)
    if dtype.is_float():
        column = column.fill_nan(None)
        infinite = column.is_infinite().arg_true()
        if len(infinite):
            raise DataError(
                f"numeric features must be finite; found {len(infinite):,} infinite values in "
                f"column '{column.name}', the first at row {infinite[0] + 1:,}; correct those rows"
            )
        return column
    if dtype == pl.String or isinstance(dtype, pl.Categorical | pl.Enum):
        return column.cast(pl.String)
    if isinstance(dtype, pl.List) and not isinstance(dtype.inner, pl.List | pl.Array | pl.Struct):
        inner = pl.Int64 if getattr(dtype.inner, "is_integer", bool)() else pl.String
        with suppress(pl.exceptions.PolarsError):  # values that fit neither are refused below
            return column.cast(pl.List(inner))
    raise DataError(
        f"features must be numbers, text or lists of them; found column '{column.name}' of type "
        f"{dtype}; convert it, or leave it out"
    )
