"""Tune methods with equal effort: as many trials for each, selected on the validation rows.

    trials.json      the trials of all methods; one is in it once it is over
    best-METHOD/     the run directory of the method's best trial so far
    trial-…/         the trial under way
    tuning.json      all trials, written when the last is over

What a trial tries depends on the seed, the method and the trials before it alone, so an
interrupted tuning goes on to the same end.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pydantic import BaseModel, ValidationError

from counterplay.data.directory import load_split
from counterplay.data.files import difference, read_json, write_json
from counterplay.data.jobs import succeeded
from counterplay.data.publishing import check_free, working_directory
from counterplay.errors import ConfigError, DataError
from counterplay.evaluation.estimators import ESTIMATORS
from counterplay.evaluation.stage import Stage
from counterplay.extras import needed
from counterplay.learning.tracking import check_tracker
from counterplay.runs.validating import check_cutoff
from counterplay.tuning.search import Judge, Search, Trial, TrialJob, run_trial
from counterplay.tuning.space import Tuning, first_settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from counterplay.data.jobs import Executor
    from counterplay.data.splits import Split
    from counterplay.runs.config import Method

Progress = Callable[[int, int, str], None]  # trials done, of how many, the best so far in words
_TRIALS, _FORMAT = "trials.json", 1
_REMEDY = "remove the folder and tune again"


class _Trials(BaseModel):
    """All trials that are over, and what they are about."""

    format: int = _FORMAT
    about: dict[str, Any]
    methods: dict[str, list[Trial]]


def tune(
    data: str | Path,
    out: str | Path,
    config: Tuning | None = None,
    *,
    progress: Progress = lambda *_: None,
    executor: Executor | None = None,
    track: str | None = None,
) -> dict[str, Any]:
    """Tune methods on the dataset directory `data`; return what is written to `out/tuning.json`.

    Methods take turns, so that none is ahead by more than a trial if it breaks off. In the same
    folder it goes on, also to more trials than were asked for before. An `executor` runs a trial of
    each method side by side: methods do not know of each other, so the result is the same. `track`
    logs every trial to a tracker (see `counterplay.learning.tracking`).
    """
    config, folder = config or Tuning(), Path(out)
    check_tracker(track)
    with needed("tuning", "tune"):
        import optuna  # noqa: F401
    split = load_split(data)
    selection = config.selection.evaluation(config.seed)
    Stage(split, selection, explicit=False)  # refuses what no trial could be selected on
    check_cutoff(config.judged, split)
    ESTIMATORS[config.selection.estimator].check(
        split.validation, world=False, shown=split.unclicked is not None
    )
    first = {method: first_settings(config, method, split.train) for method in config.methods}
    if not (folder / _TRIALS).exists():
        check_free(folder)
    with working_directory(folder) as place:
        judge = Judge(data, split, config, track)
        return _tuned(judge, place, first, progress, executor)


def _tuned(
    judge: Judge,
    folder: Path,
    first: dict[Method, dict[str, Any]],
    progress: Progress,
    executor: Executor | None,
) -> dict[str, Any]:
    """Run the trials that are not over, in turns."""
    config, about = judge.tuning, _about(judge.split, judge.tuning)
    trials = _opened(folder, about, config)
    mark = hashlib.sha256(json.dumps(about).encode()).hexdigest()[:8]
    work = folder / f"trial-{mark}"  # of this tuning: nobody goes on with a trial of another
    searches = [
        Search(method, judge, trials.methods[method], first[method], folder, work)
        for method in config.methods
    ]

    def tell() -> None:
        best = [(search.method, search.best) for search in searches]
        words = ", ".join(f"{method} {each.value:.4f}" for method, each in best if each)
        done = sum(len(search.trials) for search in searches)
        progress(done, config.trials * len(searches), words)

    tell()
    for number in range(config.trials):
        waiting = {each.method: each for each in searches if len(each.trials) == number}
        jobs = [search.ask() for search in waiting.values()]
        for job, told in _tried(judge, jobs, executor):
            waiting[job.method].take(job, told)
            write_json(trials.model_dump(), folder / _TRIALS)
            shutil.rmtree(job.folder, ignore_errors=True)
            tell()
    for search in searches:
        search.finish()
    for left in folder.glob("trial-*"):
        shutil.rmtree(left, ignore_errors=True)
    result = {
        "dataset": about["data"],
        "configuration": config.to_dict(),
        "methods": [search.to_dict() for search in searches],
    }
    write_json(result, folder / "tuning.json")
    return result


def _tried(
    judge: Judge, jobs: Sequence[TrialJob], executor: Executor | None
) -> Iterator[tuple[TrialJob, dict[str, Any]]]:
    """Yield trials with what came of them, here in turn or where the executor runs them."""
    if executor is None:
        yield from ((job, judge.tried(job)) for job in jobs)
        return
    with closing(executor(run_trial, jobs)) as done:
        for job, result in done:
            yield cast("TrialJob", job), succeeded(result)["told"]


def _about(split: Split, config: Tuning) -> dict[str, Any]:
    """Return what a tuning must have in common with the one that it goes on from."""
    data = {
        "name": split.interactions.name,
        "fingerprint": split.interactions.fingerprint,
        "split": split.kind,
        "split_fingerprint": split.fingerprint,
    }
    settings = {key: value for key, value in config.to_dict().items() if key != "trials"}
    plain: dict[str, Any] = json.loads(json.dumps({"data": data, **settings}))  # as it is read back
    return plain


def _opened(folder: Path, about: dict[str, Any], config: Tuning) -> _Trials:
    """Return the trials in a folder, or begin them; refuse those of another tuning."""
    path = folder / _TRIALS
    trials = _Trials(about=about, methods={method: [] for method in config.methods})
    if path.exists():
        kept = read_json(path, "the trials of a tuning", remedy=_REMEDY, format=_FORMAT)
        try:
            found = _Trials.model_validate(kept)
        except ValidationError as error:
            wrong = ".".join(map(str, error.errors()[0]["loc"]))
            raise DataError(
                f"'{path}' must hold the trials of a tuning; found no {wrong} that is one; "
                f"{_REMEDY}"
            ) from None
        if any(found.methods.values()):
            differs = difference(found.about, about)
            if differs:
                raise ConfigError(
                    f"a tuning goes on from what it has left itself; found in '{folder}' another "
                    f"{differs}; give the same, or name another folder"
                )
            trials = found
    most = max(map(len, trials.methods.values()))
    if most > config.trials:
        raise ConfigError(
            f"the number of trials may only grow; found {most} in '{folder}' and {config.trials} "
            "asked for; ask for more, or name another folder"
        )
    write_json(trials.model_dump(), path)
    return trials
