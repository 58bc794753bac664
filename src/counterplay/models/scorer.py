"""The one interface of all models: users, candidate items and histories in, logits out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from counterplay.data.interactions import Interactions
    from counterplay.models.registry import ModelSettings

Searched = tuple[tuple[str, str | tuple[float, float]], ...]
Noise = tuple[tuple[int, torch.Generator], ...]
_BLOCK = 1 << 20  # pairs at a time, when all items are scored


@dataclass(frozen=True, slots=True)
class History:
    """What came before each query.

    Several queries may share a window, each after another place of it: so a model that reads
    windows from left to right encodes each window once.
    """

    items: Tensor  #: Windows of item indices, `[N, L]`, padded with `n_items`.
    window: Tensor  #: The window of each query, `[B]`.
    place: Tensor  #: The last place that the query may see, `[B]`.
    whole: bool = False  #: Whether every query sees all of a window of its own.
    #: Number of windows of each shard, with the stream that its dropout draws from.
    noise: Noise | None = None

    @classmethod
    def of(cls, items: Tensor) -> History:
        """Return the history in which query b sees all of window b."""
        n, length = items.shape
        window = torch.arange(n, device=items.device)
        return cls(items, window, torch.full_like(window, length - 1), whole=True)

    def padded(self, padding: int) -> Tensor:
        """Return one window a query, `[B, L]`, with what it may not see replaced by padding."""
        length = self.items.shape[1]
        later = torch.arange(length, device=self.items.device) > self.place[:, None]
        return self.items[self.window].masked_fill(later, padding)


class Scorer(nn.Module):
    """A model that gives logits to items.

    A model of your own needs `n_items`, `history_length` (0 if it reads none) and `forward`;
    `score_all` may be left as it is.

    Attributes:
        n_items: Number of items it can score.
        history_length: How many earlier items it wants to see; 0 means none.
        learns_each_user: Whether it knows nothing of a user without rows of his own, who then is
            scored by popularity (see `Fallback`); False unless a model says otherwise.
    """

    learns_each_user: bool = False
    # Whether `counterplay.models.some_users` can make it for some users: of users it has tables of
    # `Embedding` or their own items, and else only what is in its state. It goes for the class that
    # says so, and not for those that are derived from it.
    made_for_some: ClassVar[bool] = False
    # What tuning searches for such a candidate: a name in a run's configuration, with its name in
    # `counterplay.tuning.space.Space`, or with both ends.
    searched: ClassVar[Searched] = tuple(
        (f"training.{name}", name) for name in ("rate", "l2", "batch_size", "n_negatives")
    )

    def __init__(self, n_users: int, n_items: int, *, history_length: int = 0) -> None:
        super().__init__()
        self.n_users = n_users
        self.n_items = n_items
        self.history_length = history_length

    @classmethod
    def of(
        cls, log: Interactions, size: ModelSettings, generator: torch.Generator | None = None
    ) -> Self:
        """Return a fresh model for the users and items of a training log."""
        return cls(log.n_users, log.n_items)

    @classmethod
    def check_size(cls, n_items: int, size: ModelSettings) -> None:
        """Refuse more items than the model has room for."""

    @classmethod
    def usual(cls, log: Interactions) -> dict[str, Any]:
        """Return the settings that follow from a log where they are None."""
        return {}

    def forward(self, users: Tensor, items: Tensor, history: History | None = None) -> Tensor:
        """Return the logits of `items` `[B, K]` for `users` `[B]`, `[B, K]`."""
        raise NotImplementedError

    def beside(
        self, users: Tensor, items: Tensor, shared: Tensor, history: History | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the logits of `items` `[B, K]`, and of `shared` `[N]` for every user, `[B, N]`."""
        parts = shared.split(max(1, _BLOCK // max(len(users), 1)))
        of_shared = [self(users, part.expand(len(users), -1), history) for part in parts]
        return self(users, items, history), torch.cat(of_shared, dim=1)

    def score_all(self, users: Tensor, history: History | None = None) -> Tensor:
        """Return the logits of all items for `users` `[B]`, `[B, n_items]`, free to be changed."""
        everything = torch.arange(self.n_items, device=users.device)
        parts = _parts(len(users), max(1, _BLOCK // self.n_items), history)
        return torch.cat(
            [
                self(users[part], everything.expand(part.stop - part.start, -1), some)
                for part, some in parts
            ]
        )


def _parts(n: int, size: int, history: History | None) -> Iterator[tuple[slice, History | None]]:
    """Yield parts of `n` queries, each with its own of their histories."""
    for begin in range(0, max(n, 1), size):
        part = slice(begin, min(begin + size, n))
        if history is None:
            yield part, None
        else:
            windows = history.items[history.window[part]]
            window = torch.arange(len(windows), device=windows.device)
            yield part, History(windows, window, history.place[part], history.whole)
