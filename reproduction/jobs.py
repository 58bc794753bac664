"""What a reproduction is made of: a plan, and jobs as plain values."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from counterplay.data.jobs import Job
from reproduction.methods import Settings, TableMethod  # noqa: TC001

_Whole = Annotated[int, Field(ge=1)]


class Plan(BaseModel):
    """How much is done for every cell, the same for all methods.

    Attributes:
        seeds: Repetitions with the best settings.
        trials: Settings that are tried, with the first seed; the first are the defaults.
        epochs: Of a training, at most.
        patience: Epochs without a better validation value before stopping.
        dim: Of methods with an exposure model; baselines have twice as much.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    seeds: _Whole = 3
    trials: _Whole = 4
    epochs: _Whole = 100
    patience: _Whole = 15
    dim: _Whole = 32


class TrainJob(Job):
    """Train a method on prepared data, and evaluate it on the test rows.

    Attributes:
        data: Name of the prepared data.
        method: What is trained.
        settings: What differs from the defaults.
        seed: Of the training.
        epochs: Maximum number of epochs.
        patience: Of the training.
        history: Whether the record of every epoch is kept.
    """

    data: str
    method: TableMethod
    settings: Settings = ()
    seed: Annotated[int, Field(ge=0)] = 0
    epochs: _Whole = 100
    patience: _Whole = 15
    history: bool = False

    @property
    def label(self) -> str:
        """Data, method, settings and seed."""
        chosen = ",".join(f"{name}={value:g}" for name, value in self.settings) or "defaults"
        return f"{self.data}/{self.method.name}/{chosen}/seed-{self.seed}"


class WorldJob(Job):
    """Put the estimators on trial in one world of a family.

    Attributes:
        family: Of worlds.
        seed: Of the world.
        epochs: Of a training, at most, where that is less than the family's.
    """

    family: str
    seed: Annotated[int, Field(ge=0)] = 0
    epochs: _Whole = 100

    @property
    def label(self) -> str:
        """Family and world."""
        return f"{self.family}/estimators/seed-{self.seed}"


class RandomisedJob(Job):
    """Judge the estimators by randomised data; Open Bandit has one job for all of it."""

    data: Literal["coat", "open-bandit"]
    seed: Annotated[int, Field(ge=0)] = 0

    @property
    def label(self) -> str:
        """Data and seed."""
        return f"{self.data}/estimators/seed-{self.seed}"
