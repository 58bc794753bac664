"""What a page is made of; the template knows how each kind of block is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence, Set

_BESIDE = 8  # lists beside each other, as many as paper has room for
_BRIEF, _SENTENCE = 16, 40  # characters of a cell: up to one it is never folded, from one on wide


class _Block:
    __slots__ = ()

    @property
    def kind(self) -> str:
        """What the template calls it."""
        return type(self).__name__.lower()


@dataclass(frozen=True, slots=True)
class Prose(_Block):
    """Paragraphs."""

    paragraphs: Sequence[str]


@dataclass(frozen=True, slots=True)
class Pairs(_Block):
    """Names with a value each."""

    rows: dict[str, str]


@dataclass(frozen=True, slots=True)
class Items(_Block):
    """A list of texts."""

    texts: Sequence[str]


@dataclass(frozen=True, slots=True)
class Tree(_Block):
    """Nested plain values, such as a configuration."""

    values: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Code(_Block):
    """Lines to copy."""

    lines: Sequence[str]


@dataclass(frozen=True, slots=True)
class Table(_Block):
    """A column a name, all cells as text; `words` are the columns that are not numbers."""

    title: str
    columns: dict[str, list[str]]
    words: Set[str]

    @classmethod
    def of(
        cls, title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], words: Set[str]
    ) -> Table:
        """Return the table of some rows."""
        columns = {head: [row[place] for row in rows] for place, head in enumerate(heads)}
        return cls(title, columns, words)

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """Return the cells row by row."""
        return list(zip(*self.columns.values(), strict=True))

    @property
    def heads(self) -> list[str]:
        """Return how each column's name is set: one without a place to break may break anywhere."""
        return [
            " ".join(
                (["word"] if name in self.words else [])
                + (["folds"] if max(map(len, name.split()), default=0) > _BRIEF else [])
            )
            for name in self.columns
        ]

    @property
    def classes(self) -> list[str]:
        """Return how each column is set: numbers and brief words never fold, sentences get room."""
        lengths = [max(map(len, cells), default=0) for cells in self.columns.values()]
        return [
            "" if name not in self.words else "brief" if n <= _BRIEF else "word" if n <= _SENTENCE
            else "sentence"
            for name, n in zip(self.columns, lengths, strict=True)
        ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cell:
    """A value of a matrix, with what is said of it below."""

    value: str
    notes: Sequence[str] = ()
    best: bool = False


@dataclass(frozen=True, slots=True)
class Matrix(_Block):
    """Candidates in rows, estimators in columns; each column may have a note below its name."""

    title: str
    corner: str
    columns: dict[str, str]
    rows: dict[str, list[Cell]]


@dataclass(frozen=True, slots=True)
class Series:
    """A line of a legend; its place decides its colour, dash and symbol."""

    name: str
    place: int


@dataclass(frozen=True, slots=True)
class Panel:
    """One drawing of a chart; `figure` is plotly's, with colours by name."""

    title: str
    figure: dict[str, Any]
    height: int


@dataclass(frozen=True, slots=True)
class Chart(_Block):
    """Drawings that share a legend (or need none), how to read them, and their numbers as text."""

    name: str
    title: str
    reading: str
    panels: Sequence[Panel]
    tables: Sequence[Table]
    series: Sequence[Series] = ()


@dataclass(frozen=True, slots=True)
class Card:
    """What an estimator, or the truth, puts first; `right` is None where nobody knows the truth."""

    name: str
    verb: str
    candidate: str
    value: str
    interval: str = ""
    notes: tuple[str, ...] = ()
    right: bool | None = None


@dataclass(frozen=True, slots=True)
class Cards(_Block):
    """Choices beside each other; `truth` is the name of the one that is no estimator."""

    cards: Sequence[Card]
    truth: str


@dataclass(frozen=True, slots=True)
class Shown:
    """An item of a user's list: how it is called, and whether the user chose it."""

    name: str
    chosen: bool = False


@dataclass(frozen=True, slots=True)
class Person:
    """A user: what they did, what came, and what each candidate would show, place by place."""

    name: str
    history: Sequence[str]
    more: int
    chosen: Sequence[str]
    lists: dict[str, Sequence[Shown]]

    @property
    def tables(self) -> list[tuple[list[str], list[list[Shown | None]]]]:
        """Return names and lists row by row, None where one has ended, for some lists at a time."""
        n = max((len(each) for each in self.lists.values()), default=0)
        found = list(self.lists.items())
        parts = [dict(found[begin : begin + _BESIDE]) for begin in range(0, len(found), _BESIDE)]
        return [
            (
                list(part),
                [
                    [each[place] if place < len(each) else None for each in part.values()]
                    for place in range(n)
                ],
            )
            for part in parts
        ]


@dataclass(frozen=True, slots=True)
class People(_Block):
    """Some users as they are, and the data of all of a sample, to choose from by their ids."""

    people: Sequence[Person]
    data: dict[str, Any]
    came: str


@dataclass(frozen=True, slots=True)
class Fold(_Block):
    """Blocks that are shown when asked for."""

    summary: str
    blocks: Sequence[Block]


@dataclass(frozen=True, slots=True)
class Part(_Block):
    """Blocks under a heading of their own."""

    title: str
    blocks: Sequence[Block]


Block = Prose | Pairs | Items | Tree | Code | Table | Matrix | Chart | Cards | People | Fold | Part


@dataclass(frozen=True, slots=True)
class Section:
    """A chapter of the page."""

    name: str
    title: str
    reading: str
    blocks: Sequence[Block]


def blocks_in(blocks: Sequence[Block]) -> Iterator[Block]:
    """Yield all blocks, also those in folds and parts."""
    for block in blocks:
        yield block
        if isinstance(block, Fold | Part):
            yield from blocks_in(block.blocks)


def charts_of(blocks: Sequence[Block]) -> list[Chart]:
    """Return all charts, also those in folds and parts."""
    return [block for block in blocks_in(blocks) if isinstance(block, Chart)]
