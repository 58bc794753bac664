"""What every record is: complete, unchanging, and read back as it was written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, WrapValidator

from counterplay.data.files import read_json
from counterplay.display import Convertible, flat
from counterplay.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path

Text = Annotated[  # names come from paths, which may hold half a character; pydantic refuses those
    str, WrapValidator(lambda value, check: value if isinstance(value, str) else check(value))
]
Number = float | None  # None where there is none, such as an interval of one user
Settings = dict[str, Any]  # shown, not computed with: own estimators have settings of their own
Key = tuple[str, int]  # a metric and its cutoff


class Record(Convertible, BaseModel):
    """What is written down: complete, unchanging, and nothing besides."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return self.model_dump()

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one row of flat values."""
        return [flat(self.to_dict())]


Kind = TypeVar("Kind", bound=Record)


def validated(kind: type[Kind], values: dict[str, Any], path: Path, what: str, remedy: str) -> Kind:
    """Return the record of plain values; refuse others, and name the first that is wrong."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise DataError(
            f"'{path}' must be {what}; found that {place} is none of it "
            f"({first['msg'].lower()}); {remedy}"
        ) from None


def read_as(
    kind: type[Kind], path: Path, what: str, *, remedy: str, may_lack_seal: bool = False
) -> Kind:
    """Read a record of a kind from its file."""
    values = read_json(path, what, remedy=remedy, may_lack_seal=may_lack_seal)
    return validated(kind, values, path, what, remedy)


class OfMetric(Record):
    """What is of a metric and its cutoff."""

    metric: str
    k: int

    @property
    def key(self) -> Key:
        """The metric and its cutoff."""
        return self.metric, self.k


class OfCandidate(Record):
    """What is of a candidate."""

    candidate: Text
