"""What users get of whom a model knows nothing: what everybody gets."""

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

    They get popularity: the logits of `Popularity`, counted in the training rows. Where ratings are
    predicted they get each item's mean rating, with the mean of all as one rating more.

    Attributes:
        unknown: Whether a user falls back, `[n_users + 1]`; the last is for unknown ids, -1.
        items: What such a user's items score, `[n_items + 1]`; the last is for unknown ids, -1.

    Args:
        model: A model of which `learns_each_user` says whether it can know nothing of a user.
        train: The rows that it was trained on; with ratings if it predicts them.
        seen: What users did before they are asked for. A model that reads histories knows whoever
            has one; any other knows who has training rows.
    """

    def __init__(self, model: Scorer, train: Interactions, seen: Interactions) -> None:
        told = seen if model.history_length else train
        without = np.append(np.diff(told.offsets) == 0, True)
        self.unknown: NDArray[np.bool_] = without & model.learns_each_user
        self.items = _means(train) if train.is_explicit else _popularity(train)


def _popularity(train: Interactions) -> NDArray[np.float32]:
    events = np.bincount(train.item, minlength=train.n_items)
    logits: NDArray[np.float32] = Popularity(train.n_users, train.n_items, events).logits.numpy()
    return logits


def _means(train: Interactions) -> NDArray[np.float32]:
    assert train.rating is not None
    mean = train.rating.mean(dtype=np.float64)
    sums = np.bincount(train.item, train.rating, train.n_items + 1)
    events = np.bincount(train.item, minlength=train.n_items + 1)
    means: NDArray[np.float32] = ((sums + mean) / (events + 1)).astype(np.float32)
    return means
