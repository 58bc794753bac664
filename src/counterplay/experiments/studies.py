"""Finished trials in Optuna studies, one a method, in one SQLite file: all that touches Optuna."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from counterplay.errors import ConfigError, DataError
from counterplay.experiments.extras import needed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    import numpy as np
    from optuna import Study
    from optuna.distributions import BaseDistribution
    from optuna.storages import RDBStorage

Ranges = dict[str, tuple[Any, ...]]  # the two ends of numbers, the choices of names
STUDY, LOCK = "study.sqlite", ".lock"
_ABOUT = "about"


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
    """The finished trials of one method; one that was only begun is not among them."""

    def __init__(self, study: Study, ranges: Ranges) -> None:
        self._study, self.ranges = study, ranges
        self._distributions = {key: _distribution(ends) for key, ends in ranges.items()}

    def __len__(self) -> int:
        return len(self._study.get_trials(deepcopy=False))

    def __iter__(self) -> Iterator[Finished]:
        for trial in self._study.get_trials(deepcopy=False):
            settings = {key: trial.params[key] for key in self.ranges}
            value = trial.values[0] if trial.values else None
            yield Finished(trial.number, settings, value, dict(trial.user_attrs))

    @property
    def best(self) -> Finished | None:
        """The best trial, of equal ones the first; None while none has a value."""
        judged = [trial for trial in self if trial.value is not None]
        return max(judged, key=lambda trial: float(trial.value or 0), default=None)

    def suggested(self, rng: np.random.Generator) -> dict[str, Any]:
        """Return settings to try next, by tree-structured Parzen estimators on the trials so far.

        It is asked of a copy, with a fresh sampler: the same trials and stream, the same answer.
        """
        import optuna

        sampler = optuna.samplers.TPESampler(seed=int(rng.integers(2**32)))
        copy = optuna.create_study(direction="maximize", sampler=sampler)
        copy.add_trials(self._study.get_trials(deepcopy=False))
        return copy.ask(self._distributions).params

    def add(self, settings: dict[str, Any], value: float | None, told: dict[str, Any]) -> None:
        """Add a trial, all of it or nothing."""
        from optuna.trial import TrialState, create_trial

        self._study.add_trial(
            create_trial(
                state=TrialState.FAIL if value is None else TrialState.COMPLETE,
                value=value,
                params=settings,
                distributions=self._distributions,
                user_attrs=told,
            )
        )


def _distribution(ends: tuple[Any, ...]) -> BaseDistribution:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if isinstance(ends[0], str):
        return CategoricalDistribution(ends)
    low, high = ends
    kind = IntDistribution if isinstance(low, int) else FloatDistribution
    return kind(low, high, log=True)


def check_installed() -> None:
    """Refuse to begin without Optuna."""
    with needed("tuning", "tune"):
        import optuna  # noqa: F401


@contextmanager
def open_studies(
    folder: Path, ranges: Mapping[str, Ranges], about: dict[str, Any]
) -> Iterator[dict[str, Trials]]:
    """Open the trials of each method in a folder, or begin them.

    Args:
        folder: Where the studies are, or will be; for nobody else meanwhile.
        ranges: What each method searches.
        about: What they must have in common with those that are there already.
    """
    import optuna
    from sqlalchemy.exc import SQLAlchemyError

    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        with _locked(folder), _storage(folder / STUDY) as storage:
            for summary in optuna.get_all_study_summaries(storage):
                if summary.n_trials:
                    _check_same(summary.user_attrs.get(_ABOUT, {}), about, folder)
            opened = {}
            for method, searched in ranges.items():
                study = optuna.create_study(
                    study_name=method, storage=storage, direction="maximize", load_if_exists=True
                )
                study.set_user_attr(_ABOUT, about)
                opened[method] = Trials(study, searched)
            yield opened
    except (optuna.exceptions.OptunaError, SQLAlchemyError) as error:
        what = str(error).strip().splitlines()[0]
        raise DataError(
            f"the trials of a tuning must be readable and writable; found in '{folder / STUDY}' "
            f"{what}; check the disk, or name another folder"
        ) from None
    finally:
        optuna.logging.set_verbosity(verbosity)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep others out of the folder; the lock ends with the process, however that ends."""
    connection = sqlite3.connect(folder / LOCK, timeout=0, isolation_level=None)
    try:
        try:
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError:
            raise ConfigError(
                f"a folder is for one tuning at a time; found another at work in '{folder}'; wait "
                "for it, or name another folder"
            ) from None
        yield
    finally:
        connection.close()


@contextmanager
def _storage(file: Path) -> Iterator[RDBStorage]:
    import optuna

    # Connected to by hand: in an address, some signs of a path would have a meaning.
    options = {"creator": lambda: sqlite3.connect(file)}
    storage = optuna.storages.RDBStorage("sqlite://", engine_kwargs=options)
    try:
        yield storage
    finally:
        storage.remove_session()
        storage.engine.dispose()


def _check_same(found: dict[str, Any], about: dict[str, Any], folder: Path) -> None:
    changed = [name for name in about if found.get(name) != about[name]]
    if changed:
        raise ConfigError(
            f"a tuning goes on from what it has left itself; found one with another "
            f"{' and '.join(changed)} in '{folder}'; give the same, or name another folder"
        )
