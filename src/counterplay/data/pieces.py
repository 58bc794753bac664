"""The files of a log in pieces, each of which one job reads, checks and encodes by itself."""

from __future__ import annotations

from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq

from counterplay.data.assembly import builders_of, said_of
from counterplay.data.dialects import Dialect  # noqa: TC001 - pydantic needs it
from counterplay.data.findings import Findings
from counterplay.data.formats import UNTYPED, FileFormat, check_content, format_of
from counterplay.data.identifiers import Missing
from counterplay.data.lists import holds_lists
from counterplay.data.readers import question_of
from counterplay.data.refusals import readable, refuse_mixed_ids
from counterplay.data.roles import IMPRESSION_COLUMNS, columns_of, doubtful
from counterplay.data.scans import Scan, scan
from counterplay.data.sources import files_in
from counterplay.data.workplace import PlacedJob
from counterplay.errors import ConfigError, DataError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from counterplay.data.jobs import Result
    from counterplay.data.workplace import Workplace

PIECE_ROWS = 1 << 21  # rows of a Parquet file that one job reads
N_SAMPLED = 1024  # users of a piece by which ranges of users are cut
Wanted = tuple[tuple[str, str | None], ...]


class ReadPiece(PlacedJob):
    """Read some rows of a file: check them, and give users and items numbers of the piece's own."""

    piece: int
    path: str
    kind: FileFormat
    first_row: int
    n_rows: int | None  # None: all of the file
    state: tuple[int, int]  # size and time of the last change
    wanted: Wanted
    dialect: Dialect
    values: dict[str, Any]  # how times and numbers are written
    ask: bool  # whether ratings of 0 or less are refused

    @property
    def label(self) -> str:
        """Its number."""
        return f"read/{self.piece:05}"

    def run(self, place: Workplace) -> Result:
        """Write the rows, the users, the items, and users at even distances among the rows."""
        path = Path(self.path)
        with readable(path, self.kind):
            if state_of(path) != self.state:
                raise DataError(
                    f"a file must stay as it is until it was read; found '{path}' changed since "
                    "the preparation began; begin again with another --out"
                )
            rows = self._scan(path)
            schema = rows.frame.collect_schema()
            given = dict(self.wanted)
            roles = certain_roles(
                schema,
                {role: name or rows.numbered.get(role) for role, name in given.items()},
                path,
            )
            if self.kind == "ndjson":
                refuse_mixed_ids(path, rows.frame, [roles["user"], roles["item"]])
            if not rows.n_rows:
                return {"rows": 0, "roles": roles}
            try:
                return self._encoded(rows, roles, place)
            except DataError as error:
                raise DataError(f"in '{path}'{self._where()}: {error}") from None

    def _where(self) -> str:
        first = self.first_row
        return f", counted from row {first + 1:,}" if first else ""

    def _scan(self, path: Path) -> Scan:
        if self.n_rows is None:
            return scan(path, self.kind, self.dialect, dict(self.wanted))
        frame = pl.scan_parquet(path, glob=False, hive_partitioning=False)
        return Scan(frame.slice(self.first_row, self.n_rows), path, self.n_rows)

    def _encoded(self, rows: Scan, roles: dict[str, str], place: Workplace) -> Result:
        findings = Findings()
        untyped = self.kind in UNTYPED
        values = {name: each for name, each in self.values.items() if name != "drop_missing"}
        builders = builders_of(roles, findings, untyped=untyped, **values)
        missing = Missing((roles["user"], roles["item"]))
        batches = rows.batches(sorted(roles.values()))
        for batch in missing.without(batches) if self.values["drop_missing"] else batches:
            for role, builder in builders.items():
                builder.add(batch[roles[role]], findings.n_rows + 1)
            findings.n_rows += batch.height
        missing.explain(findings)
        findings.raise_first()
        if not findings.n_rows:
            return {"rows": 0, "roles": roles}
        columns: dict[str, Any] = {role: each.finish() for role, each in builders.items()}
        question = question_of(columns["rating"], roles["rating"]) if "rating" in roles else None
        if question and self.ask:
            raise DataError(question)
        users, columns["user"] = columns["user"]
        items, columns["item"] = columns["item"]
        own = (step for each in builders.values() for step in getattr(each, "steps", ()))
        steps = [*rows.steps, *missing.steps, *own]
        sample = users.decode(_spread(columns["user"], len(users)))
        frames = {
            "rows": columns,
            "users": {"id": users.ids},
            "items": {"id": items.ids},
            "sample": {"id": sample},
        }
        number = f"{self.piece:05}"
        return {
            "rows": findings.n_rows,
            "roles": roles,
            "texts": {"user": users.is_text, "item": items.is_text},
            "untyped": untyped,
            "time": said_of(builders.get("time")),
            "columns": _extremes(columns),
            "steps": [[step.kind, step.text, dict(step.counts)] for step in steps],
            "files": {name: place.put(f"{name}-{number}", each) for name, each in frames.items()},
        }


def _spread(user: NDArray[np.int32], n_users: int) -> NDArray[np.int64]:
    """Return the users of rows at even distances, the rows being in order of users."""
    ends = np.cumsum(np.bincount(user, minlength=n_users))
    rows = np.arange(N_SAMPLED) * len(user) // N_SAMPLED
    return np.searchsorted(ends, rows, side="right")


def _extremes(columns: Mapping[str, NDArray[Any]]) -> dict[str, int]:
    """Return what decides how positions count, and how many clicks are organic."""
    position, exposed = columns.get("position"), columns.get("exposed")
    found = {}
    if position is not None:
        shown = position if exposed is None else position[exposed]
        found = {"lowest": int(shown.min(initial=1)), "highest": int(position.max())}
    if exposed is not None:
        found["organic"] = len(exposed) - int(exposed.sum())
    return found


def certain_roles(
    schema: Mapping[str, pl.DataType], wanted: Mapping[str, str | None], path: Path
) -> dict[str, str]:
    """Return which column plays which role; refuse what only the whole log could tell."""
    roles = columns_of(wanted, list(schema), quantities=True)
    unsure = doubtful(roles, wanted)
    if unsure:
        role = min(unsure)
        raise ConfigError(
            f"with --shards every column must be certain; found '{roles[role]}' in '{path}', which "
            f"may be the {role} or something else; name it with --{role} '{roles[role]}', or leave "
            f"it out with --{role} -"
        )
    shown = [role for role in IMPRESSION_COLUMNS if role in roles]
    if shown:
        raise ConfigError(
            f"--shards takes logs of clicks; found '{roles[shown[0]]}' in '{path}', which marks "
            f"impressions; leave it out with --{shown[0]} -, or prepare without --shards"
        )
    if holds_lists(schema[roles["item"]]):
        raise ConfigError(
            f"--shards takes one item a row; found lists in column '{roles['item']}' of '{path}'; "
            "write one row an item, or prepare without --shards"
        )
    return roles


def pieces_of(source: Path, kind: FileFormat | None, wanted: Wanted, **how: Any) -> list[ReadPiece]:
    """Return the jobs that read all rows of a file, or of all files in a folder."""
    pieces: list[ReadPiece] = []
    for path in files_in(source) if source.is_dir() else [source]:
        what = kind or format_of(path)
        ranges: Sequence[tuple[int, int | None]] = [(0, None)]
        with readable(path, what):
            state = state_of(path)
            if what == "parquet":
                check_content(path, what)
                certain_roles(pl.read_parquet_schema(path), dict(wanted), path)
                about = pq.read_metadata(path)
                sizes = [about.row_group(place).num_rows for place in range(about.num_row_groups)]
                ranges = row_ranges(sizes)
        for first, n_rows in ranges:
            values: dict[str, Any] = {
                "piece": len(pieces),
                "path": str(path),
                "kind": what,
                "state": state,
            }
            values |= {"first_row": first, "n_rows": n_rows}
            pieces.append(ReadPiece(**values, wanted=wanted, **how))
    if not pieces:
        raise DataError(
            f"a log must have rows; found none in '{source}'; check that it is the right one and "
            "that its export ended"
        )
    return pieces


def row_ranges(sizes: Sequence[int], at_once: int = PIECE_ROWS) -> list[tuple[int, int]]:
    """Cut row groups of these sizes into ranges of at most so many rows, at their ends if possible.

    Example:
        >>> row_ranges([30, 30, 50, 250], at_once=100)
        [(0, 60), (60, 50), (110, 100), (210, 100), (310, 50)]
    """
    cuts = [0]
    for begin, end in pairwise([0, *accumulate(sizes)]):
        if end - cuts[-1] > at_once and begin > cuts[-1]:
            cuts.append(begin)
        while end - cuts[-1] > at_once:
            cuts.append(cuts[-1] + at_once)
    return [(begin, end - begin) for begin, end in pairwise([*cuts, sum(sizes)]) if end > begin]


def state_of(path: Path) -> tuple[int, int]:
    """Return by what a file is known to be unchanged."""
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def alike(found: Sequence[tuple[ReadPiece, Result]]) -> dict[str, bool]:
    """Refuse files that are not of one kind; tell whether ids of users and items are text."""
    first, about = found[0]
    for piece, each in found:
        for what, what_it_is in (("roles", "columns"), ("time", "times")):
            if each[what] != about[what]:
                raise DataError(
                    f"all files must have the same {what_it_is}; found {_said(about[what])} in "
                    f"'{first.path}' and {_said(each[what])} in '{piece.path}'; write them alike"
                    + (", or name the unit with --time-unit" if what == "time" else "")
                )
        for role, text in each["texts"].items():
            if text != about["texts"][role] and not (each["untyped"] and about["untyped"]):
                kinds = {True: "text", False: "integers"}
                raise DataError(
                    f"ids of {role}s must be all integers or all text; found "
                    f"{kinds[about['texts'][role]]} in '{first.path}' and {kinds[text]} in "
                    f"'{piece.path}'; convert one of them"
                )
    roles = about["texts"]
    return {role: any(each["texts"][role] for _, each in found) for role in roles}


def _said(found: object) -> str:
    if isinstance(found, dict):
        return ", ".join(f"{role} in '{column}'" for role, column in found.items())
    return str(found)
