"""Scores for users of whom a model knows nothing: what everybody gets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from counterplay.models.popularity import Popularity

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from counterplay.data.interactions import Interactions
    from counterplay.models.scorer import Scorer


class Fallback:
    """Scores for users whom a model would score by how it was initialised.

    They get the logits of `Popularity`, counted in the rows that the model was trained on. Where
    ratings are predicted they get each item's mean rating, with the mean of all as one rating more.
    A model that reads histories knows whoever has one in `seen`; any other knows who has training
    rows, and who is `taught`, `[n_users]`: whoever it has learnt of by impressions.

    Attributes:
        unknown: Whether a user falls back, `[n_users + 1]`; the last is for unknown ids, -1.
        items: What such a user's items score, `[n_items + 1]`; the last is for unknown ids, -1.
    """

    def __init__(
        self,
        model: Scorer,
        train: Interactions,
        seen: Interactions,
        *,
        taught: NDArray[np.bool_] | None = None,
        items: NDArray[np.float32] | None = None,
    ) -> None:
        told = seen if model.history_length else train
        without = np.append(np.diff(told.offsets) == 0, True)
        if taught is not None and not model.history_length:
            without[:-1] &= ~taught
        self.unknown: NDArray[np.bool_] = without & model.learns_each_user
        if items is not None:
            self.items: NDArray[np.float32] = items
            return
        events = np.append(train.item_events, 0)
        if train.rating is None:
            self.items = Popularity(train.n_users, train.n_items, events[:-1]).logits.numpy()
        else:
            sums = train.group.total(np.bincount(train.item, train.rating, train.n_items + 1))
            mean = train.rating.mean(dtype=np.float64)
            if train.share is not None:
                mean = sums.sum() / events.sum()
            self.items = ((sums + mean) / (events + 1)).astype(np.float32)
