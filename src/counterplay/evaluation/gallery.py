"""A sample of users to look at: what they did, what each candidate would show them, what came."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from counterplay.evaluation.audience_records import SampledUser, UserGallery
from counterplay.metrics.recommendations import top_k

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from counterplay.data.features import FeatureTable
    from counterplay.data.interactions import Interactions
    from counterplay.evaluation.propensities import Contestant
    from counterplay.evaluation.stage import Stage

_HISTORY, _CHOSEN = 20, 20  # rows of a user that are kept
_LONGEST = 120  # characters of an id or a name
_BEST_NAMES = ("title", "name")


def user_gallery(
    stage: Stage, contestants: Sequence[Contestant], *, k: int, n_users: int
) -> UserGallery:
    """Draw users with held-out rows, and look at them."""
    targets, seen = stage.targets, stage.seen
    everybody = np.unique(targets.user)
    users = everybody
    if len(users) > n_users:
        rng = stage.streams.numpy("diagnostics", "sample")
        users = np.sort(rng.choice(users, n_users, replace=False))
    lists = {
        each.name: top_k(each.scores, users, seen, k, memory=stage.config.memory)[0]
        for each in contestants
    }
    history, n_history = _rows(seen, users, last=_HISTORY)
    chosen, n_chosen = _rows(targets, users, last=-_CHOSEN)
    whole = [each[each >= 0] for each in lists.values()]
    whole += [seen.item[rows] for rows in history] + [targets.item[rows] for rows in chosen]
    items = np.unique(np.concatenate(whole)) if whole else np.empty(0, np.int32)

    def places(found: NDArray[np.integer]) -> tuple[int, ...]:
        return tuple(np.searchsorted(items, found[found >= 0]).tolist())

    rating = targets.rating if stage.explicit else None
    ids = seen.users.decode(users).cast(str)
    return UserGallery(
        k=k,
        n_users=len(everybody),
        feedback="ratings" if stage.explicit else "clicks",
        in_order=seen.time is not None or seen.in_file_order,
        items=tuple(map(_cut, seen.items.decode(items).cast(str))),
        names=item_names(seen.item_features, items),
        users=tuple(
            SampledUser(
                user=_cut(name),
                n_history=int(n_history[place]),
                history=places(seen.item[history[place]]),
                n_chosen=int(n_chosen[place]),
                chosen=places(targets.item[chosen[place]]),
                ratings=None if rating is None else tuple(rating[chosen[place]].tolist()),
                lists={each: places(found[place]) for each, found in lists.items()},
            )
            for place, name in enumerate(ids)
        ),
    )


def _rows(
    log: Interactions, users: NDArray[np.integer], last: int
) -> tuple[list[NDArray[np.int64]], NDArray[np.int64]]:
    """Return the last rows of each user, or with a number below 0 the first, and how many."""
    begins = np.searchsorted(log.user, users, side="left")
    ends = np.searchsorted(log.user, users, side="right")
    kept = slice(-last, None) if last > 0 else slice(None, -last)
    found = [np.arange(*both)[kept] for both in zip(begins, ends, strict=True)]
    return found, ends - begins


def name_column(table: FeatureTable | None) -> str | None:
    """Return which feature is a name: a text called title or name, or whose name ends so."""
    found = [] if table is None else [(each.lower(), each) for each in table.categorical]
    for best in _BEST_NAMES:
        for lower, each in found:
            if lower == best:
                return each
    return next((each for lower, each in found if lower.endswith(_BEST_NAMES)), None)


def item_names(
    table: FeatureTable | None, items: NDArray[np.integer]
) -> tuple[str | None, ...] | None:
    """Return the names of items, None where an item has none; None where no feature is a name."""
    column = name_column(table)
    if table is None or column is None:
        return None
    found = table.frame[column].gather(items)
    return tuple(None if each is None else _cut(each) for each in found)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
