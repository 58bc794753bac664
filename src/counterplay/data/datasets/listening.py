"""hetrec2011 LastFM: which user tagged which artist, and when."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from counterplay.data.assembly import assemble
from counterplay.data.formats import Progress, readable
from counterplay.data.scans import scan_separated

if TYPE_CHECKING:
    from pathlib import Path

    from counterplay.data.canonical import Order
    from counterplay.data.interactions import Interactions

_FILE = "user_taggedartists-timestamps.dat"
_ROLES = {"user": "userID", "item": "artistID", "time": "timestamp"}


def read_lastfm(
    folder: Path, progress: Progress | None = None, order: Order = "canonical"
) -> Interactions:
    """Read the tag events of hetrec2011 LastFM.

    A user tags one artist many times: 186,479 events are 71,064 distinct pairs. Five events have
    impossible years.
    """
    path = folder / _FILE
    with readable(path, _FILE):
        events = scan_separated(
            path,
            "\t",
            {"userID": pl.Int32, "artistID": pl.Int32, "tagID": pl.Int32, "timestamp": pl.Int64},
        )
        return assemble(
            events.batches(list(_ROLES.values()), progress),
            _ROLES,
            time_unit="ms",
            order=order,
            name="lastfm",
            source="hetrec2011-lastfm-2k: tag events",
        )
