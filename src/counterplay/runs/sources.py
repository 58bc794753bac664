"""Where the scores of a candidate come from, and how a job loads them for its own users.

A job has the rows and the vectors of its users, and what all users share: items' vectors and
layers, which a process keeps. A model of one's own may know its users in any way, and is loaded
whole.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict

from counterplay.data.canonical import ranges
from counterplay.data.directory import load_split
from counterplay.data.files import check_once, digest_of
from counterplay.data.user_rows import Checked
from counterplay.data.workplace import File
from counterplay.errors import DataError
from counterplay.learning.methods import method_of
from counterplay.metrics.scoring import ModelScores, TableScores
from counterplay.models.fallback import Fallback
from counterplay.models.some_users import ForSome, can_be_made_for_some
from counterplay.runs.record import MODEL, RECORD, load_run, read_record
from counterplay.runs.training import taught_by, versions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from counterplay.data.interactions import Interactions
    from counterplay.data.splits import Split
    from counterplay.data.user_rows import UserRows
    from counterplay.data.workplace import Workplace
    from counterplay.metrics.scoring import Scores
    from counterplay.runs.record import RunRecord

_AGAIN = "give the same command again"


class Source(BaseModel):
    """Where a candidate's scores come from, as plain values.

    Attributes:
        run: A run directory, and the digest of its `run.json`; None for given scores.
        everybody: What users get of whom the run knows nothing, `[n_items + 1]`.
        pairs: Of given scores, `user · n_items + item`, ascending; None for a run.
        scores: Those of the pairs.
        data: The dataset directory.
        prints: Fingerprints of its log and of its split.
        before: The part before which rows are what users did; 3 are all rows.
        versions: Of what scores may depend on.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    run: tuple[str, str] | None = None
    everybody: File | None = None
    pairs: File | None = None
    scores: File | None = None
    data: str
    prints: tuple[str, str]
    before: int
    versions: tuple[tuple[str, str], ...]

    @classmethod
    def of(
        cls, data: str | Path, prints: tuple[str, str], before: int, run: Path | None = None
    ) -> Source:
        """Return the source of the scores of a run as it is now, or of given ones."""
        found = None if run is None else (str(run.resolve()), digest_of(run / RECORD))
        return cls(
            run=found, data=str(Path(data).resolve()), prints=prints, before=before,
            versions=tuple(versions().items()),
        )  # fmt: skip


class ForJob(NamedTuple):
    """What a job works on: some users, numbered anew."""

    scores: list[Scores]
    seen: Interactions  # what they have seen
    users: NDArray[np.int32]  # those who were asked for, in their new numbers


def loaded(
    place: Workplace,
    sources: Sequence[Source],
    asked: NDArray[np.integer],
    before: int,
    at_once: int,
) -> ForJob:
    """Load candidates for the users of a job, who are `asked` for in any order and number.

    Models are asked for `at_once` of them; see `counterplay.models.some_users`.
    """
    first, records = sources[0], [_record(each) for each in sources]
    data = Checked(first.data, first.prints)
    divided = all(
        each is None or can_be_made_for_some(each.configuration.candidate) for each in records
    )
    users = np.unique(asked) if divided and at_once < data.n_users else np.arange(data.n_users)
    shown = any(
        each and method_of(each.configuration.method).needs == "impressions" for each in records
    )
    rows = _rows(first.data, first.prints, users.astype(np.int32).tobytes(), shown=shown)
    scores: list[Scores] = []
    for source, record in zip(sources, records, strict=True):
        if record is None:
            scores.append(_given(place, source, users, data.n_items))
        elif not can_be_made_for_some(record.configuration.candidate):
            scores.append(_whole(source))
        else:
            scores.append(_for_some(place, source, record, users, rows))
    return ForJob(scores, rows.before(before), np.searchsorted(users, asked).astype(np.int32))


def run_scores(run: str | Path, record: RunRecord, split: Split, seen: Interactions) -> ModelScores:
    """Return the scores of a run's candidate for users who did what is `seen`."""
    split = split if record.refit is None else split.undivided()
    train = split.train if record.predicts_ratings else replace(split.train, rating=None)
    taught = taught_by(record.configuration.method, split)
    return ModelScores(load_run(run, train)[0], seen, train=train, taught=taught)


def _record(source: Source) -> RunRecord | None:
    """Return the record of a run, which must be as it was."""
    if source.run is None:
        return None
    run, digest = source.run
    if digest_of(Path(run) / RECORD) != digest:
        raise DataError(
            f"a candidate must stay as it is while it is ranked; found '{run}' changed; {_AGAIN}"
        )
    return read_record(run)


@lru_cache(maxsize=1)
def _rows(data: str, prints: tuple[str, str], users: bytes, *, shown: bool) -> UserRows:
    """Return the rows of users, and what they were `shown`; several candidates have the same."""
    return Checked(data, prints).rows(np.frombuffer(users, np.int32), unclicked=shown)


def _for_some(
    place: Workplace,
    source: Source,
    record: RunRecord,
    users: NDArray[np.integer],
    rows: UserRows,
) -> ModelScores:
    """Return the scores of a run for some users."""
    assert source.run is not None
    assert source.everybody is not None
    check_once(Path(source.run[0]) / MODEL, record.files, remedy="train again")
    seen = rows.before(source.before)
    rows = rows if record.refit is None else rows.undivided()
    model = _model(source).give(users, rows.train)
    everybody = np.array(place.map_array(*source.everybody))
    taught = taught_by(record.configuration.method, rows)
    found = ModelScores(model, seen)
    found.fallback = Fallback(model, rows.train, seen, taught=taught, items=everybody)
    return found


@lru_cache(maxsize=16)
def _model(source: Source) -> ForSome:
    """Return the model of a run, with all that its users share; a process loads it once."""
    from safetensors import safe_open

    assert source.run is not None
    run, data = source.run[0], Checked(source.data, source.prints)
    with safe_open(Path(run) / MODEL, "pt") as file:
        stored = {
            name.removeprefix("candidate."): file.get_tensor(name)
            for name in file.keys()  # noqa: SIM118 - it is no mapping
            if name.startswith("candidate.")
        }
    return ForSome(read_record(run).configuration.candidate, data.nobody(), stored, data.n_users)


@lru_cache(maxsize=16)  # as many as may be compared
def _whole(source: Source) -> ModelScores:
    """Return the scores of a run with all its users; a process loads them once."""
    assert source.run is not None
    split = load_split(source.data)
    seen = split.interactions.take(split.part < source.before)
    return run_scores(source.run[0], read_record(source.run[0]), split, seen)


def _given(
    place: Workplace, source: Source, users: NDArray[np.integer], n_items: int
) -> TableScores:
    """Return the given scores of some users."""
    assert source.pairs is not None
    assert source.scores is not None
    pairs, scores = (place.map_array(*file) for file in (source.pairs, source.scores))
    first = users.astype(np.int64) * n_items
    begins, ends = np.searchsorted(pairs, first), np.searchsorted(pairs, first + n_items)
    rows, found = ranges(begins, ends), np.repeat(np.arange(len(users)), ends - begins)
    return TableScores(found, pairs[rows] % n_items, np.array(scores[rows]), n_items)
