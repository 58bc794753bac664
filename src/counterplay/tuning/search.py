"""The search of one method: trials asked of an Optuna study, trained, judged and told to it."""

from __future__ import annotations

import shutil
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import BaseModel

from counterplay.data.publishing import Replaceable, new_directory
from counterplay.errors import CounterplayWarning, DivergedError
from counterplay.metrics.estimation import estimates
from counterplay.notes import noted
from counterplay.runs import training
from counterplay.runs.candidates import staged
from counterplay.runs.record import MODEL, RECORD, check_run
from counterplay.seeding import Streams
from counterplay.tuning.space import Choices, Tuning, searched

if TYPE_CHECKING:
    from pathlib import Path

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

    @property
    def best(self) -> Trial | None:
        """The best trial, of equal ones the first; None while none has a value."""
        judged = [each for each in self.trials if each.value is not None]
        return max(judged, key=lambda each: each.value or 0.0, default=None)

    def place(self, number: int) -> Path:
        """Return where a trial is trained."""
        return self.work / f"{self._name}-{number}"

    def run(self, number: int) -> None:
        """Train and judge a trial; what breaks off is done again."""
        folder, asked = self.place(number), self._ask(number)
        if (folder / RECORD).exists():  # trained, not recorded: its notes are lost
            shutil.rmtree(folder)
        value = None
        try:
            with noted() as notes:
                record = self._train(folder, asked.params)
            with noted() as reservations:  # the same for all methods, which have the same rows
                estimate = self.judge.estimate(folder)
        except DivergedError as error:
            told: dict[str, Any] = {"failed": str(error)}
        else:
            value, best = estimate["value"], self.best
            if best is None or best.value is None or value > best.value:
                self._keep(folder)
            told = {
                "estimate": estimate,
                "epochs": len(record.epochs),
                "best_epoch": record.best_epoch,
                "ess": record.ess,
                "stopped": record.stopped,
                "n_parameters": record.parameters,
                "notes": [f"{self.method}: {note}" for note in notes] + reservations,
            }
        self._tell(asked, value)
        self.trials.append(Trial(number=number, settings=asked.params, value=value, told=told))

    def finish(self) -> None:
        """Make the best run again if somebody removed it, and pass on its notes."""
        best = self.best
        if best is None:
            return
        if self.kept.exists():
            check_run(self.kept, remedy="remove its folder, and the same command makes it again")
        else:
            with noted():
                self._train(self.place(best.number), best.settings)
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

    def _train(self, folder: Path, settings: dict[str, Any]) -> RunRecord:
        split = self.judge.split
        config = self.judge.tuning.run_config(self.method, split.train, settings)
        return training.train(self.judge.data, folder, config, resume=True, split=split)

    def _keep(self, run: Path) -> None:
        with new_directory(self.kept, replacing=Replaceable(_RUN, _RUN)) as folder:
            shutil.copytree(run, folder, dirs_exist_ok=True)


class Judge:
    """Estimates what runs are worth on the validation rows, all with the same weights."""

    def __init__(self, data: str | Path, split: Split, tuning: Tuning) -> None:
        self.data, self.split, self.tuning = data, split, tuning
        self.config = tuning.selection.evaluation(tuning.seed)
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


def _distribution(ends: tuple[Any, ...]) -> BaseDistribution:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if isinstance(ends, Choices):
        return CategoricalDistribution(ends)
    low, high = ends
    kind = IntDistribution if isinstance(low, int) else FloatDistribution
    return kind(low, high, log=True)
