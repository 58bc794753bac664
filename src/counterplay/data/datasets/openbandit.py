"""Open Bandit logs: impressions with positions, clicks and the propensities that were used."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from counterplay.data.assembly import Features, assemble
from counterplay.data.formats import Progress, readable
from counterplay.data.scans import scan_separated
from counterplay.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path

    from counterplay.data.canonical import Order
    from counterplay.data.interactions import Interactions

_USER = [f"user_feature_{place}" for place in range(4)]
_ITEM = [f"item_feature_{place}" for place in range(4)]


def read_open_bandit(
    folder: Path, progress: Progress | None = None, order: Order = "canonical"
) -> Interactions:
    """Read one log of one policy, such as `random/all`: `all.csv` and `item_context.csv`.

    The log names no users: a user here is a distinct combination of the four user features.
    A click is a rating of 1; every row was exposed, at `position`, with `propensity`.
    """
    folder = folder.resolve()
    logs = [path for path in sorted(folder.glob("*.csv")) if path.name != "item_context.csv"]
    if len(logs) != 1:
        raise DataError(
            "an Open Bandit folder must hold one log beside item_context.csv; found "
            f"{len(logs)} in '{folder}'; name the folder of one policy and one campaign, such as "
            "random/all"
        )
    path = logs[0]
    with readable(path, "Open Bandit"):
        rows = scan_separated(path, ",")
        impressions = rows.frame.select(
            user=pl.concat_str(_USER, separator="."),
            item=pl.col("item_id").cast(pl.Int64),
            click="click",
            time="timestamp",
            exposed=pl.lit(value=True),
            propensity="propensity_score",
            position="position",
        )
        return assemble(
            replace(rows, frame=impressions).batches(progress=progress),
            {
                "user": "user",
                "item": "item",
                "rating": "click",
                "time": "time",
                "exposed": "exposed",
                "propensity": "propensity",
                "position": "position",
            },
            user_features=_users(rows.frame),
            item_features=_items(folder / "item_context.csv"),
            include_unseen=True,
            order=order,
            steps=rows.steps,
            name=f"open-bandit-{folder.parent.name}-{folder.name}",
            source=f"Open Bandit: {folder.parent.name}/{folder.name}",
        )


def _users(rows: pl.LazyFrame) -> Features:
    frame = rows.select(_USER).unique(maintain_order=True)
    return Features(frame.with_columns(id=pl.concat_str(_USER, separator=".")).collect(), "id")


def _items(path: Path) -> Features:
    with readable(path, "item_context.csv"):
        rows = scan_separated(path, ",")
        frame = rows.collect().select(
            pl.col("item_id").cast(pl.Int64), pl.col(_ITEM[0]).cast(pl.Float64), *_ITEM[1:]
        )
    return Features(frame, "item_id", steps=rows.steps)
