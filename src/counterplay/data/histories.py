"""Users' histories as padded windows, cut from the canonical order without a loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from counterplay.data.canonical import begins as first_of
from counterplay.errors import ConfigError, DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from counterplay.data.interactions import Interactions


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows over users' histories, one row each, padded on the left."""

    user: NDArray[np.int32]  #: Whose history, `[n_windows]`.
    inputs: NDArray[np.int32]  #: Items before each target, `[n_windows, length]`.
    targets: NDArray[np.int32]  #: The item that followed, `[n_windows, length]`.
    row: NDArray[np.int64]  #: The row of the log that each target is; -1 for padding.


class Histories:
    """What each user did, in order, padded with `n_items`, one past the last item.

    Example:
        >>> from counterplay.data.readers import read
        >>> log = read({"user": [0, 0, 0, 1], "item": [7, 8, 9, 9], "time": [1, 2, 3, 1]})
        >>> Histories(log).last(np.array([0, 1]), 2)
        array([[1, 2],
               [3, 2]], dtype=int32)
    """

    def __init__(self, log: Interactions) -> None:
        self.padding = log.n_items
        self._offsets = log.offsets
        # one place more than there are rows, so that -1 is padding
        self._items = np.append(log.item, np.int32(self.padding))

    def last(self, users: NDArray[np.integer], length: int) -> NDArray[np.int32]:
        """Return the last `length` items of each of `users`, `[len(users), length]`."""
        _check(length)
        return self._items[_places(self._offsets[users], self._offsets[users + 1], length)]

    def windows(self, length: int) -> Windows:
        """Cut all histories, from a user's end backwards, so that every row is a target once."""
        _check(length)
        begins, ends = self._offsets[:-1], self._offsets[1:]
        n_windows = -(-(ends - begins) // length)
        user = np.repeat(np.arange(len(begins), dtype=np.int32), n_windows)
        first_of_user = np.cumsum(n_windows) - n_windows
        back = np.arange(len(user)) - first_of_user[user]  # 0 for a user's last window
        end = ends[user] - back * length
        row = _places(begins[user], end, length)
        inputs = self._items[_places(begins[user], end - 1, length)]
        return Windows(user, inputs, self._items[row], row)


@dataclass(frozen=True, slots=True)
class Before:
    """The clicks before each impression, as windows that many of them share."""

    inputs: NDArray[np.int32]  #: Windows of clicked items, `[n_windows, length]`, padded.
    window: NDArray[np.int64]  #: The window of each impression, `[n]`.
    place: NDArray[np.int64]  #: The last place of it that came before the impression, `[n]`.


def before_impressions(log: Interactions, length: int) -> Before:
    """Cut users' clicks into windows, and say where in them each row of impressions stands.

    Only clicks at an earlier time count: what was shown together was seen together.
    """
    _check(length)
    assert log.clicked is not None
    if log.time is None:
        raise DataError(
            "a model that reads histories needs to know what came before an impression; found "
            "impressions without times; name the time column, or choose another model"
        )
    clicks = log.take(log.clicked)
    begins, ends = clicks.offsets[:-1], clicks.offsets[1:]
    n_clicks = ends - begins
    n_windows = n_clicks // length + 1  # of the clicks, and of what comes after the last
    user = np.repeat(np.arange(len(begins)), n_windows)
    first_of_user = np.cumsum(n_windows) - n_windows
    back = np.arange(len(user)) - first_of_user[user]
    items = np.append(clicks.item, np.int32(log.n_items))
    inputs = items[_places(begins[user], ends[user] - back * length, length)]
    together = np.maximum.accumulate(np.where(first_of(log.user, log.time), np.arange(len(log)), 0))
    earlier = (np.cumsum(log.clicked) - log.clicked)[together] - begins[log.user]
    later = n_clicks[log.user] - earlier  # clicks at the impression, or after it
    return Before(inputs, first_of_user[log.user] + later // length, length - 1 - later % length)


def _places(begin: NDArray[np.int64], end: NDArray[np.int64], length: int) -> NDArray[np.int64]:
    """Return the `length` places before each `end`, -1 for those before `begin`."""
    places = end[:, None] + np.arange(-length, 0)
    places[places < begin[:, None]] = -1
    return places


def _check(length: int) -> None:
    if length < 1:
        raise ConfigError(f"a history must have a length of 1 or more; found {length}; raise it")
