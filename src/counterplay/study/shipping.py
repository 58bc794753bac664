"""From a verdict to production: the winner of a study, trained on all rows and put to use.

STUDY/refits/NAME   a candidate that was trained once more on all rows: its run directory
"""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, overload

from counterplay.errors import ConfigError, DataError
from counterplay.evaluation.old_system import NAME as OLD_SYSTEM
from counterplay.places import is_study
from counterplay.runs import refitting
from counterplay.runs.record import RECORD
from counterplay.serving import recommend as lists
from counterplay.study.records import study_record

if TYPE_CHECKING:
    from collections.abc import Iterable

    import polars as pl

    from counterplay.learning.fitting import Callback
    from counterplay.runs.record import RunRecord
    from counterplay.serving.recommend import Options
    from counterplay.study.records import StudyRecord

_REFITS = "refits"


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


def refit_place(place: str | Path, run: Path) -> Path:
    """Return where the refit of a run goes, unless somebody says otherwise."""
    folder = Path(place)
    return folder / _REFITS / run.name if is_study(folder) else run.with_name(f"{run.name}-refit")


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
            `ranking`, makes the lists in jobs, unless items are filtered.
    """
    return lists.recommend(run_of(place, candidate), out, **options)


def run_of(place: str | Path, candidate: str | None = None, *, refitted: bool = True) -> Path:
    """Return the run directory of what is to be put to use: `place` itself, or one of a study.

    Of a study it is the run of a candidate, by default of the one that the verdict ships; if it was
    `refitted` in the study, that run.
    """
    folder = Path(place)
    if not is_study(folder):
        if candidate is not None:
            raise ConfigError(
                f"a candidate is chosen from a study; found '{candidate}' and no study at "
                f"'{folder}'; leave the candidate out, or name a study"
            )
        return folder
    name = chosen(study_record(folder), candidate)
    again = folder / _REFITS / name
    return again if refitted and (again / RECORD).exists() else folder / "runs" / name


def chosen(study: StudyRecord, candidate: str | None = None) -> str:
    """Return the candidate of a study that is named, or else the one that its verdict ships.

    Nothing is taken that was not decided: an undecided verdict needs a name.
    """
    found, known = study.verdict, {each.candidate for each in study.estimates}
    alone = found.leader if len(known) == 1 else None
    name = candidate or found.recommended or alone
    if name is None:
        left = " and ".join(found.left or (found.leader,))
        raise ConfigError(
            f"the verdict of a study must be decided, or a candidate be named; found it undecided "
            f"between {left}; name one of {', '.join(study.candidates)} with --candidate"
        )
    if name in study.candidates:
        return name
    if name in known or name == OLD_SYSTEM:
        what = "the old system of its world" if name == OLD_SYSTEM else "known by its scores alone"
        raise DataError(
            f"a candidate must be a model that the study trained; found '{name}', which is {what}; "
            f"use it where it comes from, or name one of {', '.join(study.candidates)} with "
            "--candidate"
        )
    near = get_close_matches(name, study.candidates, n=1)
    raise ConfigError(
        f"a candidate must be one of the study's, {', '.join(study.candidates)}; found '{name}'; "
        + (f"did you mean '{near[0]}'" if near else "name one of them")
    )
