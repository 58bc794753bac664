"""Which run of a study is put to use, and where its refit is; no model is loaded for it.

STUDY/refits/NAME   a candidate that was trained once more on all rows: its run directory
"""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from counterplay.errors import ConfigError, DataError
from counterplay.evaluation.old_system import NAME as OLD_SYSTEM
from counterplay.places import is_study
from counterplay.runs.record import RECORD
from counterplay.study.records import study_record

if TYPE_CHECKING:
    from counterplay.study.records import StudyRecord

_REFITS = "refits"


def refit_place(place: str | Path, run: Path) -> Path:
    """Return where the refit of a run goes, unless somebody says otherwise."""
    folder = Path(place)
    return folder / _REFITS / run.name if is_study(folder) else run.with_name(f"{run.name}-refit")


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
