"""From a verdict to production: the winner of a study, trained on all rows and put to use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack, overload

from counterplay.runs import refitting
from counterplay.serving import recommend as lists
from counterplay.study.winner import refit_place, run_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import polars as pl

    from counterplay.learning.fitting import Callback
    from counterplay.runs.record import RunRecord
    from counterplay.serving.recommend import Options


def refit(
    place: str | Path,
    candidate: str | None = None,
    out: str | Path | None = None,
    *,
    data: str | Path | None = None,
    callbacks: Iterable[Callback] = (),
) -> RunRecord:
    """Train the winner of a study, or a run, once more on all rows of its log; return its record.

    One that broke off goes on, and a finished one is returned. See `counterplay.runs.refit`.

    Args:
        place: Study directory, or a run directory.
        candidate: Of the study; by default the one that its verdict ships.
        out: Run directory to write; by default `refits/NAME` in the study, or `RUN-refit`.
        data: Dataset directory; by default that of the run.
        callbacks: Called after each epoch.
    """
    run = run_of(place, candidate, refitted=False)
    return refitting.refit(run, out or refit_place(place, run), data=data, callbacks=callbacks)


@overload
def recommend(
    place: str | Path,
    out: None = None,
    *,
    candidate: str | None = None,
    **options: Unpack[Options],
) -> pl.DataFrame: ...


@overload
def recommend(
    place: str | Path,
    out: str | Path,
    *,
    candidate: str | None = None,
    **options: Unpack[Options],
) -> dict[str, Any]: ...


def recommend(
    place: str | Path,
    out: str | Path | None = None,
    *,
    candidate: str | None = None,
    **options: Unpack[Options],
) -> pl.DataFrame | dict[str, Any]:
    """Return the `k` best items of each user; or write them to a file, and return what was written.

    The columns are user, item, rank and score. What a user has in any part of the data is seen, and
    is not recommended again. A model of sequences reads all rows too. Users of whom the model knows
    nothing get the most popular items; those whom the dataset does not have stand at the end.

    Args:
        place: Run directory, or a study directory: the run of its winner, refitted if it was.
        out: File to write: CSV, NDJSON or Parquet, as its ending says.
        candidate: Of the study; by default the one that its verdict ships.
        options: `k`, the length of a list (10); lists are shorter where less is unseen.
            `users`, ids of those who are to get lists, or a file of them; by default all.
            `include_seen`, whether to recommend what a user has seen too (False).
            `only_items`, ids of all that may be recommended, or a file of them; by default all.
            `without_items`, ids of what may not be recommended, or a file of them.
            `data`, the dataset directory; by default the run's own.
            `progress`, called with the users done so far and their number.
            `ranking`, makes the lists in jobs.
    """
    return lists.recommend(run_of(place, candidate), out, **options)
