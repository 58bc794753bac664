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
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.data.directory import load_split
from counterplay.data.files import write_json
from counterplay.data.publishing import Replaceable, check_free, new_directory, working_directory
from counterplay.errors import ConfigError, CounterplayWarning, DivergedError
from counterplay.evaluation.estimators import ESTIMATORS
from counterplay.evaluation.stage import Stage
from counterplay.metrics.estimates import estimates
from counterplay.notes import noted
from counterplay.runs.candidates import staged
from counterplay.runs.record import MODEL, RECORD, check_run
from counterplay.runs.training import train_run
from counterplay.runs.validating import check_cutoff
from counterplay.seeding import Streams
from counterplay.tuning.space import Tuning, first_settings, searched
from counterplay.tuning.trials import TRIALS, check_installed, open_trials

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from counterplay.data.interactions import Interactions
    from counterplay.data.splits import Split
    from counterplay.runs.config import Method
    from counterplay.tuning.trials import Ranges, Trials

Progress = Callable[[int, int, str], None]  # trials done, of how many, the best so far in words
_RUN = {RECORD, MODEL}
_TOLD = ("estimate", "epochs", "best_epoch", "ess", "stopped", "n_parameters", "notes", "failed")


def tune_methods(
    data: str | Path,
    out: str | Path,
    config: Tuning | None = None,
    *,
    progress: Progress = lambda *_: None,
) -> dict[str, Any]:
    """Tune methods on the dataset directory `data`; return what is written to `out/tuning.json`.

    Methods take turns, so that none is ahead by more than a trial if it breaks off. In the same
    folder it goes on, also to more trials than were asked for before.
    """
    config, folder = config or Tuning(), Path(out)
    check_installed()
    split = load_split(data)
    _check_selectable(split, config)
    first = {method: first_settings(config, method, split.train) for method in config.methods}
    if not (folder / TRIALS).exists():
        check_free(folder)
    with working_directory(folder) as place:
        return _tuned(data, place, split, config, first, progress)


def _tuned(
    data: str | Path,
    folder: Path,
    split: Split,
    config: Tuning,
    first: Mapping[Method, dict[str, Any]],
    progress: Progress,
) -> dict[str, Any]:
    """Run the trials that are not over, in turns."""
    about, judge = _about(split, config), _Judge(data, split, config)
    mark = hashlib.sha256(json.dumps(about).encode()).hexdigest()[:8]
    work = folder / f"trial-{mark}"  # of this tuning: nobody goes on with a trial of another
    ranges: dict[str, Ranges] = {method: searched(config, method) for method in config.methods}
    trials = open_trials(folder, ranges, about)
    _check_budget(trials, config, folder)
    searches = [
        _Search(method, trials[method], config, split.train, folder, work, judge)
        for method in config.methods
    ]
    for number in range(config.trials):
        for search in searches:
            _tell(progress, trials, config)
            if number == len(search.trials):
                search.run(number, first[search.method] if number == 0 else search.next())
    _tell(progress, trials, config)
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


class _Search:
    """The trials of one method, and the best run of them."""

    def __init__(
        self,
        method: Method,
        trials: Trials,
        config: Tuning,
        train: Interactions,
        folder: Path,
        work: Path,
        judge: _Judge,
    ) -> None:
        self.method, self.trials, self.config, self.judge = method, trials, config, judge
        self.train, self.kept, self.work = train, folder / f"best-{method}", work

    def next(self) -> dict[str, Any]:
        """Return what to try next."""
        streams = Streams(self.config.seed)
        return self.trials.suggested(streams.numpy("tuning", self.method, len(self.trials)))

    def run(self, number: int, settings: dict[str, Any]) -> None:
        """Train, judge and record a trial, in this order: what breaks off is done again."""
        folder = self._folder(number)
        if (folder / RECORD).exists():  # trained, not recorded: its notes are lost
            shutil.rmtree(folder)
        try:
            with noted() as notes:
                record = self._train(folder, settings)
            with noted() as reservations:  # the same for all methods, which have the same rows
                estimate = self.judge.estimate(folder)
        except DivergedError as error:
            self.trials.add(settings, None, {"failed": str(error)})
        else:
            best = self.trials.best
            if best is None or best.value is None or estimate["value"] > best.value:
                self._keep(folder)
            told = {
                "estimate": estimate,
                "epochs": len(record["epochs"]),
                "best_epoch": record["best_epoch"],
                "ess": record["ess"],
                "stopped": record["stopped"],
                "n_parameters": record["parameters"],
                "notes": [f"{self.method}: {note}" for note in notes] + reservations,
            }
            self.trials.add(settings, estimate["value"], told)
        shutil.rmtree(folder, ignore_errors=True)

    def finish(self) -> None:
        """Make the best run again if somebody removed it, and pass on its notes."""
        best = self.trials.best
        if best is None:
            return
        if self.kept.exists():
            check_run(self.kept, remedy="remove its folder, and the same command makes it again")
        else:
            with noted():
                self._train(self._folder(best.number), best.settings)
            self._keep(self._folder(best.number))
        for note in best.told["notes"]:
            warnings.warn(note, CounterplayWarning, stacklevel=3)

    def to_dict(self) -> dict[str, Any]:
        """Return the trials as plain values; without times, so that a seed gives the same bytes."""
        best = self.trials.best
        return {
            "method": self.method,
            "space": {key: list(ends) for key, ends in self.trials.ranges.items()},
            "best": None if best is None else best.number,
            "run": None if best is None else self.kept.name,
            "failed": [trial.number for trial in self.trials if trial.value is None],
            "trials": [
                {"number": trial.number, "settings": trial.settings}
                | {key: trial.told[key] for key in _TOLD if key in trial.told}
                for trial in self.trials
            ],
        }

    def _folder(self, number: int) -> Path:
        return self.work / f"{self.method}-{number}"

    def _train(self, folder: Path, settings: dict[str, Any]) -> dict[str, Any]:
        config = self.config.run_config(self.method, self.train, settings)
        return train_run(self.judge.data, folder, config, resume=True, split=self.judge.split)

    def _keep(self, run: Path) -> None:
        with new_directory(self.kept, replacing=Replaceable(_RUN, _RUN)) as folder:
            shutil.copytree(run, folder, dirs_exist_ok=True)


class _Judge:
    """Estimates what runs are worth on the validation rows, all with the same weights."""

    def __init__(self, data: str | Path, split: Split, config: Tuning) -> None:
        self.data, self.split = data, split
        self.config = config.selection.evaluation(config.seed)
        self._weights: NDArray[np.float64] | None = None

    def estimate(self, run: Path) -> dict[str, Any]:
        """Return the estimate of a run as plain values."""
        stage, (trained,) = staged([run], self.split, self.config)
        contestant = replace(trained, exposure=None, link=None)  # else ps has weights of its own
        (estimator,) = self.config.estimators
        if self._weights is None:
            self._weights = stage.weights(estimator, contestant, [contestant])
        _, clusters = np.unique(stage.targets.user, return_inverse=True)
        (found,) = estimates(
            stage.values(contestant),
            self._weights,
            clusters,
            stage.streams.numpy("bootstrap"),
            estimator=estimator,
            protocol=stage.protocol,
        )
        return found.to_dict()


def _check_selectable(split: Split, config: Tuning) -> None:
    """Refuse before any training what no trial could be selected on."""
    Stage(split, config.selection.evaluation(config.seed), explicit=False)
    check_cutoff(config.judged, split)
    ESTIMATORS[config.selection.estimator].check(split.validation, world=False)


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


def _check_budget(studies: Mapping[str, Trials], config: Tuning, folder: Path) -> None:
    """Refuse to give methods less than what one of them has had."""
    most = max(map(len, studies.values()))
    if most > config.trials:
        raise ConfigError(
            f"the number of trials may only grow; found {most} in '{folder}' and {config.trials} "
            "asked for; ask for more, or name another folder"
        )


def _tell(progress: Progress, studies: Mapping[str, Trials], config: Tuning) -> None:
    best = {method: trials.best for method, trials in studies.items()}
    words = ", ".join(f"{method} {each.value:.4f}" for method, each in best.items() if each)
    progress(sum(map(len, studies.values())), config.trials * len(studies), words)
