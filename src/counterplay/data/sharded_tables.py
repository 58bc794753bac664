"""Write a dataset directory range by range: what one machine would write, to the byte."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from counterplay.data.directory import ROW_GROUP, TYPES, write_description
from counterplay.data.interactions import digest_series
from counterplay.data.roles import COLUMNS
from counterplay.data.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from counterplay.data.features import FeatureTable
    from counterplay.data.findings import Step
    from counterplay.data.jobs import Result
    from counterplay.data.workplace import Workplace


@dataclass(frozen=True, slots=True)
class Tables:
    """The rows and users of all ranges, in order, and what goes for the whole log."""

    place: Workplace
    shards: Sequence[Result]  # of the jobs that gave each range its parts
    items: pl.Series
    features: Mapping[str, FeatureTable | None] = field(default_factory=dict)

    @property
    def users(self) -> list[int]:
        """Where the users of each range begin and end."""
        return [0, *accumulate(each["users"] for each in self.shards)]

    @property
    def rows(self) -> list[int]:
        """Where the rows of each range begin and end."""
        return [0, *accumulate(each["rows"] for each in self.shards)]

    def write(
        self,
        folder: Path,
        name: str,
        source: str,
        steps: Sequence[Step],
        split: dict[str, Any] | None,
    ) -> str:
        """Write all files of a dataset directory, and return the fingerprint of the log."""
        for number, shard in enumerate(self.shards):
            self.place.check(f"part-{number:05}", shard["files"]["rows"])
            self.place.check(f"part-users-{number:05}", shard["files"]["users"])
        frames = [
            pl.scan_ipc(self.place.path(f"part-{number:05}")).with_columns(
                (pl.col("user") + pl.lit(begin, pl.Int32)).alias("user")
            )
            for number, begin in enumerate(self.users[:-1])
        ]
        rows = pl.concat(frames)
        present = rows.collect_schema().names()
        names = [name for name in COLUMNS if name in present]
        columns = [pl.col(name).cast(TYPES[name]) for name in names]
        with ThreadPoolExecutor(1) as beside:  # digests need no interpreter, and take as long
            found = beside.submit(self._digests, names, split is not None)
            sink(rows.select(columns), folder / "interactions.parquet")
            if split is not None:
                sink(rows.select(pl.col("part").cast(TYPES["part"])), folder / "split.parquet")
            self._write_ids(folder)
            fingerprint, parts, digests = found.result()
        if split is not None:
            split = split | {"fingerprint": parts}
        counts = {"users": self.users[-1], "items": len(self.items), "interactions": self.rows[-1]}
        shards = {"users": self.users, "rows": self.rows, "digests": digests}
        described = (name, source, steps, counts, split, fingerprint)
        write_description(folder, *described, shards=shards)
        return fingerprint

    def _write_ids(self, folder: Path) -> None:
        paths = [self.place.path(f"part-users-{number:05}") for number in range(len(self.shards))]
        users = pl.concat([pl.scan_ipc(path) for path in paths])
        for plural, ids in (("users", users), ("items", pl.LazyFrame({"id": self.items}))):
            table = self.features.get(plural)
            if table is not None:
                ids = pl.concat([ids, table.frame.lazy()], how="horizontal")
            sink(ids, folder / f"{plural}.parquet")

    def _column(self, number: int, name: str) -> NDArray[Any]:
        frame = pl.read_ipc(self.place.path(f"part-{number:05}"), columns=[name])
        column = frame[name].to_numpy()
        return column + np.int32(self.users[number]) if name == "user" else column

    def _ids(self) -> Iterator[pl.Series]:
        for number in range(len(self.shards)):
            yield pl.read_ipc(self.place.path(f"part-users-{number:05}"))["id"]

    def _digests(self, names: Sequence[str], is_split: bool) -> tuple[str, str, list[str]]:
        """Return the fingerprints of the log and of its split, and a digest of each range.

        As `Interactions.fingerprint` does it, one column of one range at a time.
        """
        whole, parts = hashlib.sha256(), hashlib.sha256()
        ranges = [hashlib.sha256() for _ in self.shards]
        for name in [*names, *(["part"] if is_split else [])]:
            for number, digest in enumerate(ranges):
                column = np.ascontiguousarray(self._column(number, name))
                about = f"{name}:{column.dtype.str}"
                if name == "part":
                    parts.update(column.data)
                else:
                    if number == 0:
                        whole.update(f"{about}:{self.rows[-1]};".encode())
                    whole.update(column.data)
                digest.update(f"{about}:{len(column)};".encode())
                digest.update(column.data)
        whole.update(b"users")
        self._digest_users(whole)
        whole.update(b"items")
        digest_series(whole, self.items)
        for role, table in (
            ("user", self.features.get("users")),
            ("item", self.features.get("items")),
        ):
            for feature in table.frame if table else ():
                whole.update(f"{role}_features.{feature.name}".encode())
                digest_series(whole, feature)
        found = [f"sha256:{each.hexdigest()}" for each in (whole, parts, *ranges)]
        return found[0], found[1], found[2:]

    def _digest_users(self, digest: Any) -> None:
        """Add the ids of all users to a digest, as `digest_series` does it."""
        n_users, text = self.users[-1], Vocabulary(next(self._ids())).is_text
        digest.update(f"{'String' if text else 'Int64'}:{n_users};".encode())
        digest.update(bytes(-(-n_users // 8)))  # none is null
        if text:
            for ids in self._ids():
                digest.update(ids.str.len_bytes().to_numpy().astype(np.int64).data)
        for ids in self._ids():
            content = (ids.str.join("").item() or "").encode() if text else ids.to_numpy().data
            digest.update(content)


def sink(frame: pl.LazyFrame, path: Path) -> None:
    """Write a frame as `directory.save` would, without holding all of it."""
    frame.sink_parquet(path, row_group_size=ROW_GROUP)
