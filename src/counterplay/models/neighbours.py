"""Item-based nearest neighbours: items that the same users choose, by their cosine.

    s_ij = Σ_u √(w_ui w_uj) / (|i| |j| + shrink),    |i|² = Σ_u w_ui

over the users of both, with weights w (1 without). Each item i keeps the largest of its s_ij, and a
user's score of i is their sum over the user's items j. `shrink` lowers what few users say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from counterplay.models.solved import FromOwnItems, clicks_of, item_products

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from counterplay.data.interactions import Interactions
    from counterplay.models.registry import ModelSettings
    from counterplay.models.scorer import History


class Neighbours(FromOwnItems):
    """The nearest `neighbours` of every item, ascending, and how near they are, `[n_items, K]`."""

    made_for_some = True
    name = "knn"
    searched = (("candidate.neighbours", (5, 500)), ("candidate.shrink", (0.1, 1000.0)))
    places: Tensor

    def __init__(self, log: Interactions, *, neighbours: int, shrink: float) -> None:
        super().__init__(log)
        self.shrink = shrink
        kept = min(neighbours, max(log.n_items - 1, 1))
        self.register_buffer("places", torch.zeros(log.n_items, kept, dtype=torch.int32))
        self.similarities = nn.Parameter(torch.zeros(log.n_items, kept), requires_grad=False)

    @classmethod
    def of(
        cls, log: Interactions, size: ModelSettings, generator: torch.Generator | None = None
    ) -> Self:
        """Return an empty model with the items of the users of a log."""
        return cls(log, neighbours=size.neighbours, shrink=size.shrink)

    def solve(self, log: Interactions, weights: NDArray[np.float64] | None = None) -> None:
        """Compare all items, some at a time, and keep the nearest of each."""
        clicks, kept = clicks_of(log, weights), self.places.shape[1]
        clicks.data = np.sqrt(clicks.data)
        norms = np.sqrt(clicks.power(2).sum(0)).astype(np.float32)
        places = np.zeros(self.places.shape, dtype=np.int32)
        similarities = np.zeros(places.shape, dtype=np.float32)

        def keep(rows: slice, found: Any) -> None:
            scale = norms[rows, None] * norms + np.float32(self.shrink)
            scale[scale == 0] = 1
            found /= scale
            own = np.arange(rows.start, rows.stop)
            found[own - rows.start, own] = -1  # no item is its own neighbour
            nearest = np.argpartition(found, -kept, axis=1)[:, -kept:]
            nearest.sort(axis=1)
            places[rows] = nearest
            similarities[rows] = np.take_along_axis(found, nearest, axis=1)

        item_products(clicks, keep)
        self.places.copy_(torch.from_numpy(places))
        self.similarities.data.copy_(torch.from_numpy(similarities).clamp_(min=0))

    def effects(self, sources: Tensor, items: Tensor) -> Tensor:
        """Return the similarities of `items` to sources that are among their nearest, else 0."""
        first = torch.arange(self.n_items, device=items.device)[:, None] * self.n_items
        pairs = (first + self.places).view(-1)  # ascending
        wanted = items.long() * self.n_items + sources[:, None]
        place = torch.searchsorted(pairs, wanted).clamp_(max=len(pairs) - 1)
        return torch.where(pairs[place] == wanted, self.similarities.view(-1)[place], 0)

    def score_all(self, users: Tensor, history: History | None = None) -> Tensor:
        """Return the sums of each item's similarities to the user's items."""
        sources, query, _ = self.sources(users)
        clicked = self.similarities.new_zeros(self.n_items, len(users))
        clicked[sources, query] = 1
        found = F.embedding_bag(
            self.places, clicked, mode="sum", per_sample_weights=self.similarities
        )  # [n_items, B]
        return found.T.contiguous()
