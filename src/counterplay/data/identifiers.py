"""Ids of a log: integers or text, never missing, one type throughout.

What is wrong with text ids is looked for among the distinct ones, of which there are fewer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from counterplay.data.findings import Step, shortened
from counterplay.data.vocabulary import Texts, Vocabulary, encode_integers, integers_of
from counterplay.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from counterplay.data.findings import Findings

LONGEST = 1024  # bytes of an id
_MISSING = (
    *("nan", "nat", "na", "<na>", "n/a", "#n/a", "null", "(null)", "none", "nil", "undefined"),
    "\\n",  # what MySQL writes, in lower case
)
_LINE_BREAK = r"[\x00\n\r\x0b\x0c\x{85}\x{2028}\x{2029}]"
_EXPONENT = r"^[+-]?\d(\.\d+)?[eE]\+\d{2,}$"
_ROUNDED = "ids must be written in full, not rounded by a spreadsheet"
_ONE_LINE = "ids must not hold line breaks or null characters"
_ABSENT = "every row must have an id"
_REMOVE = (
    "remove those rows, fill the ids in, or leave the rows out with drop_missing=True, on the "
    "command line with --drop-missing"
)


@dataclass(slots=True)
class IdColumn:
    """User or item ids of all batches; `steps` says what was done to them."""

    name: str
    findings: Findings
    untyped: bool
    steps: list[Step] = field(default_factory=list)
    _text: list[pl.Series] = field(default_factory=list)
    _integers: list[NDArray[np.int64]] = field(default_factory=list)

    @property
    def is_text(self) -> bool:
        """Whether the ids so far are text."""
        return bool(self._text)

    def add(self, values: pl.Series, first_row: int) -> None:
        """Take one batch."""
        dtype = values.dtype
        if dtype == pl.Object:
            raise_mixed(self.name, values.to_list(), first_row)
        missing = values.is_null()
        if dtype.is_float():
            missing |= values.is_nan().fill_null(value=False)
        self.findings.note(self.name, _ABSENT, _REMOVE, missing, values, first_row)
        if missing.any():
            return
        if dtype == pl.String or isinstance(dtype, pl.Categorical | pl.Enum):
            self._text.append(values.cast(pl.Categorical))
        elif dtype.is_numeric():
            self._add_numbers(values, first_row)
        else:
            raise DataError(
                f"ids must be integers or text; found column '{self.name}' of type {dtype}; "
                "convert it, or name another column"
            )

    def _add_numbers(self, values: pl.Series, first_row: int) -> None:
        integers = values.cast(pl.Int64, strict=False)
        if values.dtype not in (pl.Int8, pl.Int16, pl.Int32, pl.Int64):
            whole = (integers.cast(values.dtype, strict=False) == values).fill_null(value=False)
            if values.dtype.is_float():
                whole &= values.abs() < 2**53
            must = "ids must be whole numbers of at most 64 bits, or text"
            advice = "convert the column to integers or text"
            self.findings.note(self.name, must, advice, ~whole, values, first_row)
            if not whole.all():
                return
        numbers = integers.to_numpy()
        if len(numbers) and -(2**31) <= int(numbers.min()) <= int(numbers.max()) < 2**31:
            numbers = numbers.astype(np.int32)  # a log holds many of them at once
        self._integers.append(numbers)

    def finish(self) -> tuple[Vocabulary, NDArray[np.int32]]:
        """Return the vocabulary and the index of every row."""
        if self._text and self._integers:
            raise DataError(
                f"ids must be all integers or all text; found both in column '{self.name}' and its "
                "feature table; convert one of them"
            )
        text = [batch for batch in self._text if len(batch)]
        if not text:
            integers = [batch for batch in self._integers if len(batch)]
            self._integers.clear()
            return encode_integers(integers)
        texts = Texts.of(text)
        self._check(texts)
        ids = self._read(texts) if self.untyped else texts.ids
        if ids.dtype == pl.String:
            self._note_forms(ids)
        return texts.encode(ids)

    def _check(self, texts: Texts) -> None:
        """Refuse ids that are none: missing under some name, or what a broken table gives."""
        ids, bare = texts.ids, texts.ids.str.strip_chars()
        word = f"{_ABSENT}, and no word for a missing one such as 'nan', 'NULL' or 'None'"
        rename = f"{_REMOVE}; an id that is really written so needs another name, such as 'id-None'"
        look = "check the quotes of the table, or name another column"
        for must, advice, bad in (
            (_ABSENT, _REMOVE, bare == ""),
            (word, rename, stands_for_none(bare)),
            (_ONE_LINE, look, ids.str.contains(_LINE_BREAK)),
            (_ROUNDED, "export the column as text", bare.str.contains(_EXPONENT) & self.untyped),
            (f"ids must be at most {LONGEST:,} bytes long", look, ids.str.len_bytes() > LONGEST),
        ):
            if bad.any():
                count, row, value = texts.rows(bad)
                self.findings.add(self.name, must, advice, count, row, value)
        self.findings.raise_first()

    def _read(self, texts: Texts) -> pl.Series:
        """Return the ids of a file without types: without blanks around, as integers if all are."""
        ids = texts.ids.str.strip_chars()
        padded = ids != texts.ids
        if padded.any():
            count, row, value = texts.rows(padded)
            text = (
                f"took off the blanks around {count:,} ids in column '{self.name}', the first at "
                f"row {row:,}: {shortened(value)}"
            )
            self.steps.append(Step("blanks", text, {"ids": count}))
        numbers = integers_of(ids)
        if not numbers.has_nulls():
            return numbers
        self._note_zeros(ids, numbers.is_null())
        return ids

    def _note_zeros(self, ids: pl.Series, odd: pl.Series) -> None:
        """Say that leading zeros alone keep a column of integers as text."""
        if not ids.filter(odd).str.contains(r"^((\+\d|[+-]?0)\d*|[+-]?\d+\.0*)$").all():
            return
        ids = ids.unique().sort()
        odd = integers_of(ids).is_null()
        values = ids.str.replace(r"\.0*$", "").cast(pl.Int64, strict=False)
        twins = ids.filter(values.is_duplicated() & values.is_not_null())
        text = (
            f"{int(odd.sum()):,} of {len(ids):,} ids in column '{self.name}' have leading zeros, "
            f"a sign or a point, the first is {shortened(ids.filter(odd)[0])}, so all stay text"
        )
        if len(twins):
            pair = ids.filter(values == int(twins[0]))
            text += (
                f"; {len(twins):,} are the same number as another, such as {shortened(pair[0])} "
                f"and {shortened(pair[1])}"
            )
        self.steps.append(Step("zeros", text, {"ids": int(odd.sum())}))

    def _note_forms(self, ids: pl.Series) -> None:
        """Say that some ids differ in their Unicode form alone: they look the same, and are not."""
        beyond_ascii = ids.filter(ids.str.len_bytes() != ids.str.len_chars()).unique().sort()
        same = beyond_ascii.str.normalize("NFC")
        twins = beyond_ascii.filter(same.is_duplicated())
        if not len(twins):
            return
        one, other = beyond_ascii.filter(same == same.filter(same.is_duplicated())[0]).head(2)
        text = (
            f"{len(twins):,} ids in column '{self.name}' differ from another in their Unicode form "
            f"alone, such as {one!a} and {other!a}: they are taken for different ids; "
            "write all in one form, such as NFC, if they are the same"
        )
        self.steps.append(Step("forms", text, {"ids": len(twins)}))


@dataclass(slots=True)
class Missing:
    """Rows without a user or an item, left out and counted."""

    columns: tuple[str, str]  # of users and items
    count: int = 0
    n_rows: int = 0

    def without(self, batches: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        """Yield the rows that have both."""
        for batch in batches:
            absent = is_missing(batch[self.columns[0]]) | is_missing(batch[self.columns[1]])
            self.n_rows += batch.height
            self.count += int(absent.sum())
            yield batch.filter(~absent) if absent.any() else batch

    @property
    def steps(self) -> list[Step]:
        """Say how many there were."""
        if not self.count:
            return []
        text = f"left out {self.count:,} of {self.n_rows:,} rows without a user or an item"
        return [Step("missing", text, {"rows": self.count})]

    def explain(self, findings: Findings) -> None:
        """Let what is wrong with other rows say how they are counted."""
        if self.count:
            findings.counted = f", counted without the {self.count:,} rows that were left out"


def is_missing(ids: pl.Series) -> pl.Series:
    """Tell which ids are absent: null, empty, not a number, or a word for it."""
    missing = ids.is_null()
    if ids.dtype.is_float():
        return missing | ids.is_nan().fill_null(value=False)
    if ids.dtype == pl.String:
        bare = ids.str.strip_chars()
        missing |= ((bare == "") | stands_for_none(bare)).fill_null(value=False)
    return missing


def stands_for_none(ids: pl.Series) -> pl.Series:
    """Tell which texts are words for a missing id, in any case."""
    return ids.str.to_lowercase().is_in(list(_MISSING))


def raise_mixed(name: str, values: list[object], first_row: int) -> None:
    """Raise a DataError for ids of several types."""
    kinds = [type(value).__name__ for value in values]
    strays = [place for place, kind in enumerate(kinds) if kind != kinds[0]]
    where = (
        f"{len(strays):,} of {len(values):,} rows that are not {kinds[0]}, the first at row "
        f"{first_row + strays[0]:,} with {values[strays[0]]!r}"
        if strays
        else f"{len(values):,} objects of type {kinds[0]}"
    )
    raise DataError(
        f"ids must be all integers or all text; found {where} in column '{name}'; convert the "
        "column to one type"
    )
