"""What was done to the rows of a log, in words and in counts; a log carries its steps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Step:
    """Something that was done to the rows of a log, in words and in counts."""

    kind: str
    text: str
    counts: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


FILE_ORDER = Step("order", "rows of one user at one time stand as in the input, as was asked for")
