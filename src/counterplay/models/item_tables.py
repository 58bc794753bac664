"""Tables with a row an item, which several workers may own together: each holds a part of them.

In a step of training a worker needs few of the rows that others own. Whoever trains fetches them
first, and models look them up where they are near.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from counterplay.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor, nn

    from counterplay.groups import Group


class Near(NamedTuple):
    """Rows of a table that are here, wherever they are owned."""

    table: Tensor  # some rows, [n, width]
    place: Tensor  # where those that were asked for are among them, as the index
    items: Tensor | None  # whose rows they are, [n]; None for all


class Source(Protocol):
    """Who has rows that others own; see `counterplay.learning.owned`."""

    def near(self, table: ItemTable, index: Tensor) -> Near:
        """Return the rows at `index`."""


class ItemTable:
    """A parameter of a module with a row an item, of which a worker may hold a part.

    Attributes:
        n_of_all: Rows on all workers, where those that are held are one worker's.
        source: Who has the others in a step.
        gathered: All of them, while `whole_items` lasts.
        sparse: Whether only rows that a batch touches have a gradient.
    """

    def __init__(self, module: nn.Module, name: str) -> None:
        self._module, self.name = module, name
        self.n_of_all: int | None = None
        self.source: Source | None = None
        self.gathered: Tensor | None = None
        self.sparse = False

    @property
    def held(self) -> nn.Parameter:
        """The rows that this worker has."""
        return cast("nn.Parameter", getattr(self._module, self.name))

    def hold(self, rows: nn.Parameter, n_of_all: int | None) -> None:
        """Make them other rows; `n_of_all` as above."""
        setattr(self._module, self.name, rows)
        self.n_of_all = n_of_all

    @property
    def is_apart(self) -> bool:
        """Whether rows are missing here."""
        return self.n_of_all is not None and self.gathered is None

    def whole(self) -> Tensor:
        """Return all rows."""
        if self.is_apart:
            raise ConfigError(
                f"{type(self._module).__name__} needs the vectors of all items at once; found "
                "several workers that own a part of them each; train with --copy-items"
            )
        return self.held if self.gathered is None else self.gathered

    def near(self, index: Tensor) -> Near:
        """Return the rows at `index`, with others."""
        if self.is_apart and self.source is not None:
            return self.source.near(self, index)
        return Near(self.whole(), index, None)


def tables_of_items(player: nn.Module) -> list[tuple[str, ItemTable]]:
    """Return the tables with a row an item, with their names in the player's state."""
    return [
        (f"{path}.{each.name}" if path else each.name, each)
        for path, module in player.named_modules()
        for each in vars(module).values()
        if isinstance(each, ItemTable)
    ]


def apart(player: nn.Module) -> list[tuple[str, ItemTable]]:
    """Return those of which other workers hold other rows."""
    found = tables_of_items(player)
    return [(name, each) for name, each in found if each.n_of_all is not None]


@contextmanager
def whole_items(player: nn.Module, group: Group) -> Iterator[None]:
    """Let every worker have the vectors of all items for a while."""
    tables = [each for _, each in apart(player)]
    for each in tables:
        each.gathered = group.together(each.held)[0]
    try:
        yield
    finally:
        for each in tables:
            each.gathered = None
