"""Settings that follow from the size of the data, where nobody says otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.data.splits import TEST, VALIDATION

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from counterplay.data.interactions import Interactions
    from counterplay.data.splits import Split
    from counterplay.evaluation.settings import Evaluation

_STEPS, _BATCH = 32, (256, 8192)  # steps of an epoch at least, and the size of a batch
_MANY_STEPS, _LONGEST_BATCH = 512, 32768  # where an epoch has more steps, batches grow again
_L2 = 2.0  # divided by the rows: the more there are, the less ℓ2 regularization is needed
_L2_OF_SHOWN = 4.0  # the same for impressions (`reproduction/exposure_settings.json`)


def training_for(
    train: Interactions, *, seed: int, n_shown: int | None = None, **changes: Any
) -> dict[str, Any]:
    """Return training options that let a model leave the plateau of popularity on this log.

    A short log needs small batches, or an epoch has too few steps to learn from; and patience must
    outlast the plateau (see `docs/guide/training.md`). On a long log, larger batches take less time
    a row (`benchmarks/training_scale.py`). What learns from impressions has `n_shown`.
    """
    n = len(train) if n_shown is None else n_shown
    return {
        "epochs": 100,
        "patience": 15,
        "batch_size": batch_size_for(n),
        "l2": (_L2 if n_shown is None else _L2_OF_SHOWN) / n,
        "seed": seed,
    } | changes


def batch_size_for(n: int) -> int:
    """Return the rows of a batch for a log of `n` rows.

    Example:
        >>> [batch_size_for(n) for n in (1_000, 100_000, 1_000_000, 8_388_608, 20_000_000)]
        [256, 3125, 8192, 16384, 32768]
    """
    return max(int(np.clip(n // _STEPS, *_BATCH)), min(n // _MANY_STEPS, _LONGEST_BATCH))


def validation_for(how: Evaluation) -> dict[str, Any]:
    """Return the validation that selects epochs by the first metric and cutoff of an evaluation."""
    return {
        "protocol": how.protocol,
        "metric": how.metrics[0],
        "k": how.k[0],
        "n_negatives": how.n_negatives,
    }


def cutoffs_for(split: Split, k: tuple[int, ...]) -> tuple[int, ...]:
    """Return the cutoffs if a list leaves something out for most held-out rows; else one shorter.

    A list as long as what a row is ranked among holds it, whatever the ranking.
    """
    among = min(ranked_among(split, part) for part in (VALIDATION, TEST))
    return k if max(k) < among else (max(1, among // 2),)


def ranked_among(split: Split, part: int) -> int:
    """Return how many items half of the rows of a part are ranked among, or fewer."""
    found = n_ranked(split, part)
    if not len(found):
        return split.interactions.n_items
    return int(np.quantile(found, 0.5, method="lower"))


def least_unseen(split: Split, part: int) -> int:
    """Return how many negatives can be drawn for every user with rows in a part.

    That is the fewest items that such a user has in no row up to that part.
    """
    return int(_left(split, part, up_to=part).min(initial=split.interactions.n_items))


def n_ranked(split: Split, part: int) -> NDArray[np.int64]:
    """Return how many items each row of a held-out part is ranked among, by full ranks.

    Those that its user has in no row of the parts before; one more where the row repeats a pair.
    """
    return _left(split, part, up_to=part - 1)


def _left(split: Split, part: int, *, up_to: int) -> NDArray[np.int64]:
    """Return how many items the user of each row of a part has in no row of the parts up to one."""
    log = split.interactions
    return np.asarray(log.n_items - split.n_distinct[up_to, log.user[split.part == part]])
