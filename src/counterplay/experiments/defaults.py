"""Settings that follow from the size of the data, where nobody says otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.data.splits import VALIDATION

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from counterplay.data.interactions import Interactions
    from counterplay.data.splits import Split

_STEPS, _BATCH = 32, (256, 8192)  # steps of an epoch at least, and the size of a batch
_NEGATIVES, _FIRST = 100, 10  # of validation: among so many items, the first so many are hits
_L2 = 2.0  # divided by the rows: the more there are, the less ℓ2 regularization is needed


def training_for(train: Interactions, *, seed: int, **changes: Any) -> dict[str, Any]:
    """Return training options that let a model leave the plateau of popularity on this log.

    A short log needs small batches, or an epoch has too few steps to learn anything from; and
    patience must outlast the plateau (see `docs/guide/training.md`).
    """
    small, large = _BATCH
    return {
        "epochs": 100,
        "patience": 15,
        "batch_size": int(np.clip(len(train) // _STEPS, small, large)),
        "l2": _L2 / len(train),
        "seed": seed,
    } | changes


def validation_for(split: Split) -> dict[str, int]:
    """Return a validation that the catalogue is large enough for: Hit@10 among 100, or its like."""
    n = min(_NEGATIVES, least_unseen(split, VALIDATION))
    return {"n_negatives": max(1, n), "k": max(1, n * _FIRST // _NEGATIVES)}


def least_unseen(split: Split, part: int) -> int:
    """Return the fewest items that any user with rows in a part has in no row up to that part.

    So many negatives can be drawn, whoever they are drawn for.
    """
    return int(n_unseen(split, part).min(initial=split.interactions.n_items))


def n_unseen(split: Split, part: int) -> NDArray[np.int64]:
    """Return how many items the user of each row of a part has in no row up to that part."""
    log = split.interactions
    unseen: NDArray[np.int64] = log.n_items - split.n_distinct[part]
    return unseen[log.user[split.part == part]]
