"""Put a trained candidate to use: the best items of its users, in original ids."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, overload

import numpy as np
import polars as pl

from counterplay.data.directory import load_split
from counterplay.data.publishing import check_output
from counterplay.data.writing import write_tables, written_as
from counterplay.errors import CounterplayWarning
from counterplay.metrics.recommendations import listed
from counterplay.metrics.scoring import ModelScores
from counterplay.models.fallback import Fallback
from counterplay.runs.candidates import check_trained_on
from counterplay.runs.record import data_of
from counterplay.runs.training import load_run, read_record, taught_by
from counterplay.serving.asked import Asked, Ids, asked_for
from counterplay.serving.shelf import shelf_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from counterplay.data.formats import Progress
    from counterplay.data.interactions import Interactions
    from counterplay.metrics.scoring import Scores
    from counterplay.metrics.shelf import Shelf
    from counterplay.models.scorer import Scorer
    from counterplay.runs.ranking import Ranking
    from counterplay.runs.record import RunRecord

_NOTHING, _EVERYTHING = 0, 3  # parts before which are no rows, and all
_AT_A_TIME = 1 << 16  # rows of users whom the dataset does not know


class More(TypedDict, total=False):
    """What lists are made of besides users and length; see `counterplay.recommend`."""

    data: str | Path | None
    include_seen: bool
    only_items: Ids | None
    without_items: Ids | None
    progress: Progress | None
    ranking: Ranking | None


class Options(More, total=False):
    """All that lists are made of."""

    users: Ids | None
    k: int


@dataclass(frozen=True, slots=True)
class Trained:
    """The candidate of a run, and all rows of the data that it was trained on.

    Attributes:
        record: What `run.json` says.
        model: The candidate.
        log: Train, validation and test together: what its users have done by now.
        train: The rows that it was trained on, with ratings if it predicts them.
        taught: Users whom it knows by impressions without a click, `[n_users]`.
    """

    record: RunRecord
    model: Scorer
    log: Interactions
    train: Interactions
    taught: NDArray[np.bool_] | None = None

    @property
    def scores(self) -> ModelScores:
        """Its scores; users of whom it knows nothing get popularity."""
        return ModelScores(self.model, self.log, train=self.train, taught=self.taught)

    @property
    def fallback(self) -> Fallback:
        """Who those users are, and what their items score."""
        return Fallback(self.model, self.train, self.log, taught=self.taught)


def load_trained(run: str | Path, data: str | Path | None = None) -> Trained:
    """Load the candidate of a run directory, by default with the data where the run found them."""
    record = read_record(run)
    split = load_split(data_of(run, record, data))
    check_trained_on(run, record, split, use="used with")
    if record.refit is not None:
        split = split.undivided()
    rates = record.predicts_ratings
    train = split.train if rates else replace(split.train, rating=None)
    candidate, _, _ = load_run(run, train)
    taught = taught_by(record.configuration.method, split)
    return Trained(record, candidate, split.interactions, train, taught)


@overload
def recommend(run: str | Path, out: None = None, **options: Unpack[Options]) -> pl.DataFrame: ...


@overload
def recommend(run: str | Path, out: str | Path, **options: Unpack[Options]) -> dict[str, Any]: ...


def recommend(
    run: str | Path, out: str | Path | None = None, **options: Unpack[Options]
) -> pl.DataFrame | dict[str, Any]:
    """Return the best items of each user; or write them to a file, and return what was written.

    This is `counterplay.recommend`, of a run directory alone.
    """
    if out is None:
        return pl.concat(_lists(run, **options).tables)
    path = Path(out)
    written_as(path)
    inputs = (options.get(name) for name in ("users", "only_items", "without_items"))
    check_output(path, *(Path(each) for each in inputs if isinstance(each, str | Path)))
    lists = _lists(run, **options)
    check_output(path, Path(lists.trained.log.source))
    return {**lists.told, "rows": write_tables(path, lists.tables), "out": str(path)}


@dataclass(frozen=True, slots=True)
class _Lists:
    """Lists that are made as they are asked for, and what is said of them."""

    trained: Trained
    tables: Iterator[pl.DataFrame]
    told: dict[str, Any]


def _lists(
    run: str | Path,
    *,
    k: int = 10,
    data: str | Path | None = None,
    users: Ids | None = None,
    include_seen: bool = False,
    only_items: Ids | None = None,
    without_items: Ids | None = None,
    progress: Progress | None = None,
    ranking: Ranking | None = None,
) -> _Lists:
    """Look up what was asked for, and return the lists to come."""
    trained = load_trained(run, data)
    log, record, fallback = trained.log, trained.record, trained.fallback
    asked = Asked(np.arange(log.n_users, dtype=np.int32), log.users.ids.clear())
    if users is not None:
        asked = asked_for(users, "user", log.users)
    n = len(asked.known) + len(asked.unknown)
    if len(asked.unknown):
        warnings.warn(
            f"{len(asked.unknown):,} of {n:,} users are not in the dataset, and get the most "
            f"popular items; the first is {asked.unknown[0]!r}",
            CounterplayWarning,
            stacklevel=3,
        )
    shelf = shelf_of(log.items, only_items, without_items)
    hidden = log.take(np.empty(0, dtype=np.int64)) if include_seen else log
    scores = shelf.scores(trained.scores)
    if ranking is not None:
        place, prints = data_of(run, record, data), record.dataset
        seen = {_EVERYTHING: log} | ({_NOTHING: hidden} if include_seen else {})
        both = prints.fingerprint, prints.split_fingerprint
        scores = ranking.of(
            Path(run).name, scores, run, place, both, seen, shelf, everybody=fallback.items
        )
    told = {
        "model": record.configuration.candidate.name,
        "dataset": record.dataset.to_dict(),
        "refitted": record.refit is not None,
        "k": k,
        "include_seen": include_seen,
        "items": shelf.n_items,
        "users": n,
        "cold": int(fallback.unknown[asked.known].sum()),
        "unknown": len(asked.unknown),
    }
    tables = _tables(trained, scores, asked, shelf, hidden, min(k, log.n_items), progress)
    return _Lists(trained, tables, told)


def _tables(
    trained: Trained,
    scores: Scores,
    asked: Asked,
    shelf: Shelf,
    hidden: Interactions,
    k: int,
    progress: Progress | None,
) -> Iterator[pl.DataFrame]:
    """Yield the lists of known users, then those of unknown ones."""
    yield from listed(scores, asked.known, hidden, k, progress=progress)
    if not len(asked.unknown):
        return
    items, popularity = shelf.best(trained.fallback.items[:-1], k)
    columns = {"item": trained.log.items.decode(items), "rank": np.arange(1, len(items) + 1)}
    everybody = pl.DataFrame(columns | {"score": popularity}).with_columns(
        pl.col("rank").cast(pl.Int32)
    )
    size = max(1, _AT_A_TIME // max(1, len(items)))
    for begin in range(0, len(asked.unknown), size):
        ids = asked.unknown.slice(begin, size).alias("user").to_frame()
        yield ids.join(everybody, how="cross", maintain_order="left_right")
