"""The search of one method: trials asked of an Optuna study, trained, judged and told to it."""

from __future__ import annotations

import shutil
import warnings
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import BaseModel

from counterplay.data.directory import load_split
from counterplay.data.jobs import Job
from counterplay.data.publishing import Replaceable, new_directory
from counterplay.errors import CounterplayWarning, DivergedError
from counterplay.learning.tracking import tracked
from counterplay.metrics.estimation import estimates
from counterplay.notes import noted
from counterplay.runs import training
from counterplay.runs.candidates import staged
from counterplay.runs.record import MODEL, RECORD, check_run
from counterplay.seeding import Streams
from counterplay.tuning.space import Choices, Tuning, searched

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from optuna.distributions import BaseDistribution
    from optuna.trial import Trial as Asked

    from counterplay.data.splits import Split
    from counterplay.runs.config import Method
    from counterplay.runs.record import RunRecord

_RUN = {RECORD, MODEL}


class Trial(BaseModel):
    """A trial that is over: its value is None if it failed, and `told` is what is written of it."""

    number: int
    settings: dict[str, Any]
    value: float | None
    told: dict[str, Any]


class Search:
    """The trials of one method, asked of and told to an Optuna study, and the best run of them."""

    def __init__(
        self,
        method: Method,
        judge: Judge,
        trials: list[Trial],
        first: dict[str, Any],
        folder: Path,
        work: Path,
    ) -> None:
        import optuna

        self.method, self.judge, self.trials = method, judge, trials
        self._name = method.replace(":", "-")  # some systems have no colons in names
        self.kept, self.work = folder / f"best-{self._name}", work
        self.ranges = searched(judge.tuning, method)
        self.distributions = {key: _distribution(ends) for key, ends in self.ranges.items()}
        verbosity = optuna.logging.get_verbosity()
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.study = optuna.create_study(direction="maximize")
        optuna.logging.set_verbosity(verbosity)
        for each in trials:
            self.study.enqueue_trial(each.settings)
            self._tell(self.study.ask(self.distributions), each.value)
        if not trials:
            self.study.enqueue_trial(first)
        self._asked: Asked | None = None

    @property
    def best(self) -> Trial | None:
        """The best trial, of equal ones the first; None while none has a value."""
        judged = [each for each in self.trials if each.value is not None]
        return max(judged, key=lambda each: each.value or 0.0, default=None)

    def place(self, number: int) -> Path:
        """Return where a trial is trained."""
        return self.work / f"{self._name}-{number}"

    def ask(self) -> TrialJob:
        """Return the next trial, which depends on those before it alone."""
        number = len(self.trials)
        self._asked = self._ask(number)
        return TrialJob(
            data=str(Path(self.judge.data).resolve()),  # whoever runs it may work elsewhere
            tuning=self.judge.tuning,
            method=self.method,
            number=number,
            settings=self._asked.params,
            folder=str(self.place(number).resolve()),
            track=self.judge.track,
        )

    def take(self, job: TrialJob, told: dict[str, Any]) -> None:
        """Note what came of the trial that was asked for last, and keep its run if it is best."""
        assert self._asked is not None
        value, best = told.get("estimate", {}).get("value"), self.best
        if value is not None and (best is None or best.value is None or value > best.value):
            self._keep(self.place(job.number))
        self._tell(self._asked, value)
        self.trials.append(Trial(number=job.number, settings=job.settings, value=value, told=told))

    def finish(self) -> None:
        """Make the best run again if somebody removed it, and pass on its notes."""
        best = self.best
        if best is None:
            return
        if self.kept.exists():
            check_run(self.kept, remedy="remove its folder, and the same command makes it again")
        else:
            with noted():
                self.judge.train(self.method, self.place(best.number), best.settings)
            self._keep(self.place(best.number))
        for note in best.told["notes"]:
            warnings.warn(note, CounterplayWarning, stacklevel=3)

    def to_dict(self) -> dict[str, Any]:
        """Return the trials as plain values; without times, so that a seed gives the same bytes."""
        best = self.best
        return {
            "method": self.method,
            "space": {key: list(ends) for key, ends in self.ranges.items()},
            "best": None if best is None else best.number,
            "run": None if best is None else self.kept.name,
            "failed": [each.number for each in self.trials if each.value is None],
            "trials": [
                {"number": each.number, "settings": each.settings, **each.told}
                for each in self.trials
            ],
        }

    def _ask(self, number: int) -> Asked:
        """Ask for settings, of a sampler with a stream of the trial's own."""
        from optuna.samplers import TPESampler

        rng = Streams(self.judge.tuning.seed).numpy("tuning", self.method, number)
        self.study.sampler = TPESampler(seed=int(rng.integers(2**32)))
        return self.study.ask(self.distributions)

    def _tell(self, asked: Asked, value: float | None) -> None:
        from optuna.trial import TrialState

        self.study.tell(asked, value, state=TrialState.FAIL if value is None else None)

    def _keep(self, run: Path) -> None:
        with new_directory(self.kept, replacing=Replaceable(_RUN, _RUN)) as folder:
            shutil.copytree(run, folder, dirs_exist_ok=True)


class TrialJob(Job):
    """A trial to be run: a method and its settings, on which data, and where."""

    data: str
    tuning: Tuning
    method: str
    number: int
    settings: dict[str, Any]
    folder: str
    track: str | None = None

    @property
    def label(self) -> str:
        """The method, and which of its trials."""
        return f"{self.method.replace(':', '-')}/{self.number}"


def run_trial(job: Job) -> dict[str, Any]:
    """Run a trial in a process that has nothing yet but its own earlier trials' data."""
    assert isinstance(job, TrialJob)
    return {"told": _judge(job.data, job.tuning, job.track).tried(job)}


@lru_cache(maxsize=1)
def _judge(data: str, tuning: Tuning, track: str | None) -> Judge:
    return Judge(data, load_split(data), tuning, track)


class Judge:
    """Trains trials, and estimates what they are worth on the validation rows.

    All have the same weights.
    """

    def __init__(
        self, data: str | Path, split: Split, tuning: Tuning, track: str | None = None
    ) -> None:
        self.data, self.split, self.tuning, self.track = data, split, tuning, track
        self.config = tuning.selection.evaluation(tuning.seed)
        self._weights: NDArray[np.float64] | None = None

    def tried(self, job: TrialJob) -> dict[str, Any]:
        """Train and judge a trial, and return what is written of it; it goes on if it broke off."""
        folder = Path(job.folder)
        if (folder / RECORD).exists():  # trained, not recorded: its notes are lost
            shutil.rmtree(folder)
        try:
            with noted() as notes:
                record = self.train(job.method, folder, job.settings)
            with noted() as reservations:  # the same for all methods, which have the same rows
                estimate = self.estimate(folder)
        except DivergedError as error:
            return {"failed": str(error)}
        return {
            "estimate": estimate,
            "epochs": len(record.epochs),
            "best_epoch": record.best_epoch,
            "ess": record.ess,
            "stopped": record.stopped,
            "n_parameters": record.parameters,
            "notes": [f"{job.method}: {note}" for note in notes] + reservations,
        }

    def train(self, method: Method, folder: Path, settings: dict[str, Any]) -> RunRecord:
        """Train a run with the settings of a trial."""
        config = self.tuning.run_config(method, self.split.train, settings)
        out = folder.parent.parent
        events = out.with_name(f"{out.name}.events") / folder.name
        shown = config.model_dump(mode="json")
        with tracked(self.track, events, folder.name, shown) as callbacks:
            return training.train(
                self.data, folder, config, resume=True, split=self.split, callbacks=callbacks
            )

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


def _distribution(ends: tuple[Any, ...]) -> BaseDistribution:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if isinstance(ends, Choices):
        return CategoricalDistribution(ends)
    low, high = ends
    kind = IntDistribution if isinstance(low, int) else FloatDistribution
    return kind(low, high, log=True)
