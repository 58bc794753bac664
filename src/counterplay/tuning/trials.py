"""Finished trials, those of all methods in one sealed file, and what to try next: all of Optuna."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from counterplay.data.files import difference, read_json, write_json
from counterplay.errors import ConfigError, DataError
from counterplay.extras import needed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    import numpy as np
    from optuna.distributions import BaseDistribution

Ranges = dict[str, tuple[Any, ...]]  # the two ends of numbers, the choices of names
FORMAT = 1
TRIALS = "trials.json"
_REMEDY = "remove the folder and tune again"


@dataclass(frozen=True, slots=True)
class Finished:
    """A trial that is over.

    Attributes:
        number: From 0.
        settings: What it tried.
        value: What it is worth; None if it failed.
        told: What there is to tell of it, ready for JSON.
    """

    number: int
    settings: dict[str, Any]
    value: float | None
    told: dict[str, Any]


class Trials:
    """The finished trials of one method; one that was only begun is not among them.

    Args:
        ranges: What the method searches.
        finished: The trials so far, to which others are added.
        keep: Called when one is added.
    """

    def __init__(
        self, ranges: Ranges, finished: list[Finished], keep: Callable[[], None] = lambda: None
    ) -> None:
        self.ranges, self._finished, self._keep = ranges, finished, keep

    def __len__(self) -> int:
        return len(self._finished)

    def __iter__(self) -> Iterator[Finished]:
        return iter(self._finished)

    @property
    def best(self) -> Finished | None:
        """The best trial, of equal ones the first; None while none has a value."""
        judged = [trial for trial in self if trial.value is not None]
        return max(judged, key=lambda trial: float(trial.value or 0), default=None)

    def suggested(self, rng: np.random.Generator) -> dict[str, Any]:
        """Return settings to try next, by tree-structured Parzen estimators on the trials so far.

        It is asked of a fresh sampler: the same trials and stream, the same answer.
        """
        import optuna
        from optuna.trial import TrialState, create_trial

        distributions = {key: _distribution(ends) for key, ends in self.ranges.items()}
        with _silent():
            sampler = optuna.samplers.TPESampler(seed=int(rng.integers(2**32)))
            study = optuna.create_study(direction="maximize", sampler=sampler)
            for trial in self:
                state = TrialState.FAIL if trial.value is None else TrialState.COMPLETE
                study.add_trial(
                    create_trial(
                        state=state,
                        value=trial.value,
                        params=trial.settings,
                        distributions=distributions,
                    )
                )
            return study.ask(distributions).params

    def add(self, settings: dict[str, Any], value: float | None, told: dict[str, Any]) -> None:
        """Add a trial, all of it or nothing."""
        self._finished.append(Finished(len(self), settings, value, told))
        self._keep()


def _distribution(ends: tuple[Any, ...]) -> BaseDistribution:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if isinstance(ends[0], str):
        return CategoricalDistribution(ends)
    low, high = ends
    kind = IntDistribution if isinstance(low, int) else FloatDistribution
    return kind(low, high, log=True)


@contextmanager
def _silent() -> Iterator[None]:
    import optuna

    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(verbosity)


def check_installed() -> None:
    """Refuse to begin without Optuna."""
    with needed("tuning", "tune"):
        import optuna  # noqa: F401


def open_trials(
    folder: Path, ranges: Mapping[str, Ranges], about: dict[str, Any]
) -> dict[str, Trials]:
    """Return the trials of each method in a folder, or begin them.

    Args:
        folder: Where the trials are, or will be; for nobody else meanwhile.
        ranges: What each method searches.
        about: What they must have in common with those that are there already.
    """
    path = folder / TRIALS
    finished: dict[str, list[Finished]] = {method: [] for method in ranges}
    if path.exists():
        kept = read_json(path, "the trials of a tuning", remedy=_REMEDY, format=FORMAT)
        try:
            found = {
                method: [Finished(**each) for each in trials]
                for method, trials in kept["methods"].items()
            }
            if any(found.values()):
                check_same(kept["about"], about, folder)
                finished |= found
        except (KeyError, TypeError, AttributeError) as error:
            raise DataError(
                f"'{path}' must hold the trials of a tuning; found {error} instead; {_REMEDY}"
            ) from None

    def keep() -> None:
        methods = {method: [asdict(each) for each in trials] for method, trials in finished.items()}
        write_json({"format": FORMAT, "about": about, "methods": methods}, path)

    keep()
    return {method: Trials(ranges[method], finished[method], keep) for method in ranges}


def check_same(begun: dict[str, Any], about: dict[str, Any], folder: Path) -> None:
    """Refuse to go on with another tuning; name the first difference."""
    differs = difference(begun, about)
    if differs:
        raise ConfigError(
            f"a tuning goes on from what it has left itself; found in '{folder}' another "
            f"{differs}; give the same, or name another folder"
        )
