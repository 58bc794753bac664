"""Coat Shopping and Open Bandit: logs with rows whose items were drawn at random."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Unpack

import numpy as np
import polars as pl

from counterplay.data.assembly import Features, assemble
from counterplay.data.datasets.layouts import Reading, only_file
from counterplay.data.refusals import readable
from counterplay.data.scans import scan_separated
from counterplay.data.splits import TEST, TRAIN, Split
from counterplay.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from counterplay.data.interactions import Interactions

_USER = [f"user_feature_{place}" for place in range(4)]
_ITEM = [f"item_feature_{place}" for place in range(4)]


def read_coat(folder: Path, **how: Unpack[Reading]) -> Split:
    """Read Coat with its own split: train is self-selected, test is uniformly random.

    Its matrices have no order of events, whatever `order` says.
    """
    train, test = _matrix(folder / "train.ascii"), _matrix(folder / "test.ascii")
    if train.shape != test.shape:
        raise DataError(
            "Coat's two rating matrices must be of one shape; found "
            f"{train.shape} and {test.shape} in '{folder}'; fetch the files again"
        )
    rows = pl.concat([_ratings(train, TRAIN), _ratings(test, TEST)])
    features = folder / "user_item_features"
    log = assemble(
        [rows],
        {role: role for role in ("user", "item", "rating")},
        user_features=_one_hot(features, "user", train.shape[0]),
        item_features=_one_hot(features, "item", train.shape[1]),
        include_unseen=True,
        name="coat",
        source="Coat Shopping: train.ascii, test.ascii",
    )
    progress = how.get("progress")
    if progress:
        progress(len(log), len(log))
    # The log has an order of its own; a pair that is in both parts is told by its rating.
    parts = rows.sort("user", "item", "rating", "part")["part"].to_numpy()
    part = np.empty(len(log), dtype=np.int8)
    part[np.lexsort([column for _, column in log.columns()][::-1])] = parts
    return Split(log, part, "self-selected against random")


def _matrix(path: Path) -> NDArray[np.int64]:
    with readable(path, path.name):
        rows = path.read_text(encoding="utf-8").splitlines()
    try:
        matrix = np.array([row.split() for row in rows if row.strip()], dtype=np.int64)
    except (ValueError, OverflowError) as error:
        raise DataError(
            f"'{path}' must be a matrix of whole numbers; found {error}; fetch it again"
        ) from None
    if matrix.ndim != 2:
        raise DataError(f"'{path}' must be a matrix; found an empty file; fetch it again")
    return matrix


def _ratings(matrix: NDArray[np.int64], part: int) -> pl.DataFrame:
    user, item = np.nonzero(matrix)
    ratings = pl.DataFrame({"user": user, "item": item, "rating": matrix[user, item]})
    return ratings.with_columns(part=pl.lit(part))


def _one_hot(folder: Path, role: str, n_ids: int) -> Features:
    """Read one-hot features; columns named alike before the colon become one category."""
    path, names_path = folder / f"{role}_features.ascii", folder / f"{role}_features_map.txt"
    ids = {"id": np.arange(n_ids)}
    if not path.exists():
        return Features(pl.DataFrame(ids), "id")
    flags = _matrix(path)
    with readable(names_path, names_path.name):
        lines = names_path.read_text(encoding="utf-8").splitlines()
    names = [line.strip() for line in lines if line.strip()]
    if flags.shape != (n_ids, len(names)):
        raise DataError(
            f"Coat's {role} features must have {n_ids} rows and a name a column; found "
            f"{flags.shape} and {len(names)} names in '{names_path}'; fetch the files again"
        )
    odd = next((name for name in names if ":" not in name), None)
    if odd is not None:
        raise DataError(
            f"'{names_path}' must name columns as in colour:red; found '{odd}'; fetch it again"
        )
    columns: dict[str, NDArray[np.object_]] = {}
    for flag, name in zip(flags.T, names, strict=True):
        group, value = name.split(":", 1)
        columns.setdefault(group, np.full(n_ids, None, dtype=object))[flag == 1] = value
    categories = {name: values.tolist() for name, values in columns.items()}
    return Features(pl.DataFrame({**ids, **categories}), "id")


def read_open_bandit(folder: Path, **how: Unpack[Reading]) -> Interactions:
    """Read one log of one policy, such as `random/all`: `all.csv` and `item_context.csv`.

    The log names no users: a user here is a distinct combination of the four user features.
    Rows are impressions at a `position`, clicked or not; `propensity` is the probability with which
    the policy chose the item for that impression.
    """
    folder = folder.resolve()
    what = "beside item_context.csv, an Open Bandit folder"
    advice = "name the folder of one policy and one campaign, such as random/all"
    path = only_file(folder, "*.csv", what, advice, "item_context.csv")
    with readable(path, "Open Bandit"):
        rows = scan_separated(path, ",")
        impressions = rows.frame.select(
            user=pl.concat_str(_USER, separator="."),
            item=pl.col("item_id").cast(pl.Int64),
            clicked="click",
            time="timestamp",
            propensity="propensity_score",
            position="position",
        )
        roles = ("user", "item", "time", "propensity", "position", "clicked")
        return assemble(
            replace(rows, frame=impressions).batches(progress=how.get("progress")),
            {role: role for role in roles},
            user_features=_users(rows.frame),
            item_features=_items(folder / "item_context.csv"),
            include_unseen=True,
            order=how.get("order", "canonical"),
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
