"""Put a trained candidate to use: the best items of its users, in original ids."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq

from counterplay.data.directory import load_split
from counterplay.data.formats import format_of, readable
from counterplay.data.publishing import check_output
from counterplay.data.scans import scan
from counterplay.data.vocabulary import integers_of
from counterplay.errors import ConfigError, DataError
from counterplay.metrics.recommendations import write_top_k
from counterplay.metrics.scoring import ModelScores
from counterplay.models.fallback import Fallback
from counterplay.runs.candidates import check_trained_on
from counterplay.runs.record import data_of
from counterplay.runs.training import load_run, read_record, taught_by

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from counterplay.data.formats import Progress
    from counterplay.data.interactions import Interactions
    from counterplay.data.vocabulary import Vocabulary
    from counterplay.metrics.scoring import Scores
    from counterplay.models.scorer import Scorer
    from counterplay.runs.ranking import Ranking
    from counterplay.runs.record import RunRecord

_PARQUET = (".parquet", ".pq")
_NOTHING, _EVERYTHING = 0, 3  # parts before which are no rows, and all


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
    split = load_split(data_of(record, data))
    check_trained_on(run, record, split, use="used with")
    if record.refit is not None:
        split = split.undivided()
    rates = record.predicts_ratings
    train = split.train if rates else replace(split.train, rating=None)
    candidate, _, _ = load_run(run, train)
    taught = taught_by(record.configuration.method, split)
    return Trained(record, candidate, split.interactions, train, taught)


def recommend(
    run: str | Path,
    out: str | Path,
    *,
    k: int = 10,
    data: str | Path | None = None,
    users: str | Path | None = None,
    include_seen: bool = False,
    progress: Progress | None = None,
    ranking: Ranking | None = None,
) -> dict[str, Any]:
    """Write the `k` best items of each user to a Parquet file; return what was written.

    What a user has in any part of the data is seen, and is not recommended again. A model of
    sequences reads all rows too. Users of whom the model knows nothing, `cold` in what is returned,
    get the most popular items.

    Args:
        run: Run directory.
        out: File to write: user, item, rank and score.
        k: Length of a list; lists are shorter where less is unseen.
        data: Dataset directory; by default the run's own.
        users: File with the ids of those who are to get lists; by default everybody does.
        include_seen: Recommend what a user has seen too.
        progress: Called with the users done so far and their number.
        ranking: Makes the lists in jobs; the file is the same.
    """
    path = Path(out)
    if path.suffix.lower() not in _PARQUET:
        raise ConfigError(
            f"lists are written as Parquet; found the name '{path.name}'; let it end in .parquet"
        )
    check_output(path, None if users is None else Path(users))
    trained = load_trained(run, data)
    log = trained.log
    check_output(path, Path(log.source))
    chosen = np.arange(log.n_users) if users is None else read_users(users, log.users)
    hidden = log.take(np.empty(0, dtype=np.int64)) if include_seen else log
    scores: Scores = trained.scores
    if ranking is not None:
        about, place = trained.record.dataset, trained.record.data if data is None else data
        seen = {_EVERYTHING: log} | ({_NOTHING: hidden} if include_seen else {})
        prints = about.fingerprint, about.split_fingerprint
        scores = ranking.of(Path(run).name, scores, run, place, prints, seen)
    write_top_k(path, scores, chosen, hidden, min(k, log.n_items), progress=progress)
    return {
        "model": trained.record.configuration.candidate.name,
        "dataset": trained.record.dataset.to_dict(),
        "k": k,
        "include_seen": include_seen,
        "users": len(chosen),
        "cold": int(trained.fallback.unknown[chosen].sum()),
        "rows": pq.read_metadata(path).num_rows,
        "out": str(path),
    }


def read_users(path: str | Path, vocabulary: Vocabulary) -> NDArray[np.int32]:
    """Return the indices of the users that a file names, each once, in the file's order.

    A .txt file has an id a line; any other a column `user`, or one column alone.
    """
    path = Path(path)
    ids = _lines(path) if path.suffix.lower() == ".txt" else _column(path)
    ids = ids.drop_nulls().unique(maintain_order=True)  # null: an empty line of a CSV file
    if not len(ids):
        raise DataError(
            f"a file of users must name one or more; found none in '{path}'; add their ids, or "
            "leave the file out for all users"
        )
    texts = ids.cast(pl.String)
    index = vocabulary.encode(texts if vocabulary.is_text else integers_of(texts))
    unknown = np.flatnonzero(index < 0)
    if len(unknown):
        raise DataError(
            f"users must be known to the dataset; found {len(unknown):,} of {len(ids):,} in "
            f"'{path}' that are not, the first is {texts[int(unknown[0])]!r}; leave them out"
        )
    return index


def _lines(path: Path) -> pl.Series:
    with readable(path, "text"):
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    return pl.Series([line for line in lines if line.strip()], dtype=pl.String)


def _column(path: Path) -> pl.Series:
    kind = format_of(path)
    with readable(path, kind):
        rows = scan(path, kind)
        schema = rows.frame.collect_schema()
        name = next(iter(schema)) if len(schema) == 1 else "user"
        if name not in schema or schema[name].is_nested():
            found = f"one of {schema[name]}" if name in schema else f"only {', '.join(schema)}"
            raise DataError(
                f"a file of users must have an id a row, in a column 'user'; found {found} in "
                f"'{path}'; name or convert the column"
            )
        return rows.collect([name]).to_series()
