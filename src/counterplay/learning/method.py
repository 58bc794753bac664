"""What a method of learning is: its settings, the roles of its players, and its step.

Everything else belongs to the one loop, `counterplay.learning.fitting`: batches, random streams,
precision, checkpoints, validation, patience, progress and the record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar, cast

from counterplay.errors import ConfigError, DataError
from counterplay.learning.config import Training, Weighted
from counterplay.learning.losses import LOSSES
from counterplay.learning.methods import MADE, METHODS, method_of
from counterplay.learning.optimizers import Optimizer
from counterplay.models.link import Link
from counterplay.models.scorer import Scorer, Searched
from counterplay.models.solved import Solved

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor, nn

    from counterplay.data.interactions import Interactions
    from counterplay.learning.batches import Batch
    from counterplay.learning.owned import OwnedItems
    from counterplay.learning.records import Meter

Settings = TypeVar("Settings", bound=Training)


class Method(Generic[Settings]):
    """One way to learn. A subclass says which settings and players it has, and its step.

    Args:
        players: The models, by their roles; they are changed in place.
        log: Training rows; with ratings they are predicted, else rows are told from samples.
        config: How to learn.
    """

    settings: ClassVar[type[Training]] = Training  # the kind of `config`
    roles: ClassVar[tuple[str, ...]] = ("candidate",)  # those of MADE are made here, others given
    # What a log of clicks does not have: then `log` has what was shown, propensities, or ratings.
    needs: ClassVar[Literal["impressions", "propensities", "ratings"] | None] = None
    # What tuning searches besides what the candidate has, in the same form (`Scorer.searched`).
    searched: ClassVar[Searched] = ()
    unsearched: ClassVar[tuple[str, ...]] = ()  # what the candidate has and the method does not use
    remedy: ClassVar[str] = "choose another exposure model"  # where its weights have no effect
    # Whether `step` is right with a part of a batch: means are those of `batch.mean`.
    for_workers: ClassVar[bool] = False
    judges: ClassVar[bool] = False  # whether it judges fixed candidates instead of training one
    items: OwnedItems | None = None  # of several workers: rows of items that others own
    impressions: Interactions | None = None  # what was shown, for exposure_from=impressions
    first_epoch_that_counts: int = 0  # epochs before it are not kept
    stops_by_objective: bool = False  # whether learning ends when the objective stops changing

    def __init__(self, players: Mapping[str, Scorer], log: Interactions, config: Settings) -> None:
        for role, given in players.items():
            self.check_player(role, type(given))
        if log.share is not None and not self.for_workers:
            raise ConfigError(
                "a method must say that it learns from parts of batches to be trained by several "
                f"workers; found {type(self).__name__}; take means with batch.mean and set "
                "for_workers = True, or train without --workers"
            )
        candidate = players.get("candidate")
        if log.is_explicit and isinstance(candidate, Solved):
            raise ConfigError(
                f"{candidate.name} ranks items and predicts no ratings; found "
                "a log with ratings; leave the ratings out, or choose another model"
            )
        self.log, self.config = log, config
        self.delta = LOSSES[config.loss]
        self.players: dict[str, nn.Module] = {}
        for role in self.roles:
            player = self._made(role) if role in MADE else players[role]
            self.players[role] = player.to(config.device)
        self.optimizers: dict[str, Optimizer] = {}

    @classmethod
    def check_player(cls, role: str, kind: type[Scorer]) -> None:
        """Refuse a model that is computed at once where only gradients lead."""
        if not issubclass(kind, Solved) or (role == "candidate" and cls.weighs_rows()):
            return
        able = ", ".join(name for name in METHODS if method_of(name).weighs_rows())
        advice = f", or --method with one of {able}" if role == "candidate" else ""
        raise ConfigError(
            f"the {role} model of {cls.__name__.lower()} must learn by gradients; found "
            f"{kind.name}, which is computed at once; choose another model{advice}"
        )

    @classmethod
    def weighs_rows(cls) -> bool:
        """Tell whether `row_weights` stands for the method's step, and not for another's."""
        own = next(each for each in cls.__mro__ if {"step", "row_weights"} & vars(each).keys())
        return own is not Method and "row_weights" in vars(own)

    def _made(self, role: str) -> nn.Module:  # noqa: ARG002 - a method with another one overrides
        return Link(**cast("Weighted", self.config).link_options())

    def first(self) -> Method[Any] | None:
        """Return what is learnt beforehand, in a checkpoint of its own."""
        return None

    def prepare(self) -> None:
        """Say who learns, and how fast."""
        self.learns("candidate", self.config.rate)

    def begin(self, epoch: int) -> None:
        """Get ready for an epoch."""

    def step(self, batch: Batch, meter: Meter) -> None:
        """Learn from one batch, and tell the meter what happened."""
        raise NotImplementedError

    def also(self, items: Tensor) -> None:
        """Say what a step looks up besides the items of its batch, before anything is looked up."""
        if self.items is not None:
            self.items.also(items)

    def row_weights(self) -> NDArray[np.float64] | None:
        """Return the inverse propensity of each row of the log, `[n]`; None if all count alike.

        They are what a candidate that is computed at once has of the method; a method whose `step`
        has no such form leaves it out, and such candidates are refused.
        """
        raise NotImplementedError

    def exposures(self) -> Interactions | None:
        """Return the impressions that the exposure model is fitted to; None if it has clicks."""
        given = self.impressions
        if cast("Weighted", self.config).exposure_from == "clicks":
            if given is not None:
                raise ConfigError(
                    "impressions are for exposure_from=impressions; found impressions with "
                    "exposure_from=clicks; set it, or leave them out"
                )
            return None
        if given is None or given.clicked is None:
            raise DataError(
                "exposure_from=impressions needs what was shown, clicked or not; found "
                f"{'no impressions' if given is None else 'rows without clicked'}; give "
                "impressions, or set exposure_from=clicks"
            )
        theirs, ours = ((each.n_users, each.n_items) for each in (given, self.log))
        if theirs != ours:
            raise DataError(
                f"impressions must have the users and items of the log; found {theirs[0]:,} and "
                f"{theirs[1]:,}, where the log has {ours[0]:,} and {ours[1]:,}; encode them alike, "
                "for instance with counterplay.data.impressions.in_ids_of"
            )
        return given

    def learns(self, role: str, rate: float, *, free: tuple[nn.Module, ...] = ()) -> None:
        """Let a player learn; what is `free` learns with it, without regularization."""
        self.optimizers[role] = Optimizer(
            self.players[role],
            free=free,
            rate=rate,
            l2=self.config.l2,
            kind=self.config.optimizer,
            group=self.log.group,
            items=self.items,
        )

    @property
    def free(self) -> tuple[nn.Module, ...]:
        """The link where β is learnt; it learns with the candidate, without regularization."""
        return (self.link,) if cast("Weighted", self.config).link.learn else ()

    @property
    def scorers(self) -> tuple[Scorer, ...]:
        """The models that read batches."""
        return tuple(each for each in self.players.values() if isinstance(each, Scorer))

    @property
    def candidate(self) -> Scorer:
        """The model f."""
        return cast("Scorer", self.players["candidate"])

    @property
    def exposure(self) -> Scorer:
        """The model g."""
        return cast("Scorer", self.players["exposure"])

    @property
    def link(self) -> Link:
        """The link G_β between them."""
        return cast("Link", self.players["link"])
