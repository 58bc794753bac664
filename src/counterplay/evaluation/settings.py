"""What to evaluate and how, as values that are checked before anything is loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from counterplay.evaluation.estimators import known
from counterplay.learning.config import Game, LinkSettings
from counterplay.metrics.choices import Protocol, RowMetric
from counterplay.metrics.dials import GAMMAS, LAMBDAS, POINT, Box
from counterplay.metrics.intervals import BEYOND, resamples_needed
from counterplay.metrics.random_rows import GAMMA_GRID, LAMBDA_GRID, FittedDials, fit_dials
from counterplay.metrics.ranks import MEMORY
from counterplay.models.registry import ModelSettings
from counterplay.seeding import Streams

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from counterplay.data.interactions import Interactions
    from counterplay.metrics.click_model import Exposures
    from counterplay.models.scorer import Scorer

EstimatorName = Annotated[str, AfterValidator(known)]
Share = Annotated[float, Field(gt=0, lt=1)]
_Part = Annotated[float, Field(ge=0, le=1)]
MAP = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)  # λ that a map of a lead shows, beyond the box too
_CLICKS_FLOOR, _RATINGS_FLOOR = 0.01, 0.2
_STEPS = 32  # in an epoch of the opponent, at least


class OpponentSettings(BaseModel):
    """The exposure model of an evaluation, where a candidate does not bring its own.

    Attributes:
        kind: item has one logit per item; low-rank is a GMF of `dim`; own is of the candidate's own
            class and size (given scores and pop have none: a GMF), and may learn taste along
            with exposure. A shared opponent is of the first candidate's class.
        dim: Hidden dimension, for low-rank.
        alpha: Weight α of its regularizer.
        floor: Smallest propensity; if omitted 0.01 for clicks and 0.2 for ratings, which came
            nearest to the truth on worlds and on Coat.
        rate: Learning rate.
        epochs: Maximum number of epochs; it stops when the objective no longer changes.
        n_negatives: Sampled items per row.
        batch_size: Maximum number of rows per batch; a short log has smaller batches.
        as_trained: Take the exposure model that each run was trained with, and fit none.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["item", "low-rank", "own"] = "item"
    dim: Annotated[int, Field(ge=1)] = 2
    alpha: Annotated[float, Field(ge=0)] = 1.0
    floor: Annotated[float, Field(gt=0, lt=1)] | None = None
    rate: Annotated[float, Field(gt=0)] = 0.02
    epochs: Annotated[int, Field(ge=1)] = 50
    n_negatives: Annotated[int, Field(ge=1)] = 4
    batch_size: Annotated[int, Field(ge=1)] = 8192
    as_trained: bool = False

    @model_validator(mode="before")
    @classmethod
    def _own(cls, given: object) -> object:
        """Read "own" as the exposure model of each run."""
        return {"as_trained": True} if given == "own" else given

    def game(self, log: Interactions, seed: int) -> Game:
        """Return how to fit it."""
        floor = self.floor or (_RATINGS_FLOOR if log.is_explicit else _CLICKS_FLOOR)
        return Game(
            loss="squared" if log.is_explicit else "logistic",
            link=LinkSettings(with_outcome=False, floor=floor, learn=False),
            seed=seed,
            exposure_rate=self.rate,
            batch_size=min(self.batch_size, max(1, len(log) // _STEPS)),
            **self.model_dump(exclude={"kind", "dim", "floor", "batch_size", "as_trained"}),
        )

    def build(self, log: Interactions, seed: int, own: ModelSettings | None = None) -> Scorer:
        """Return a fresh one; `own` says what the candidate is."""
        if self.kind == "item":
            from counterplay.models.popularity import ItemLevel

            return ItemLevel(log.n_users, log.n_items)
        generator = Streams(seed).torch("opponent")
        if self.kind == "low-rank":
            return ModelSettings(dim=self.dim, use_features=False).build(log, generator)
        if own is None or own.name == "pop":
            own = ModelSettings(use_features=False)
        return own.build(log, generator)


class DialSettings(BaseModel):
    """Which exposures are possible; by default every share of popularity, λ to 0.4.

    Attributes:
        popularity_share: γ, if you know it: the share of popularity that is exposure.
        personal_share: λ, if you know it: the share of the personal signal that is exposure.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    popularity_share: _Part | None = None
    personal_share: _Part | None = None

    def box(self) -> Box:
        """Return the dials that the worst case is taken over, and the likeliest of them."""
        gamma, lam = self.popularity_share, self.personal_share
        point = POINT[0] if gamma is None else gamma, POINT[1] if lam is None else lam
        return Box.grid(
            GAMMAS if gamma is None else (gamma,), LAMBDAS if lam is None else (lam,), point
        )

    def map(self) -> Box:
        """Return the dials of the box, and those around it that a map shows."""
        box = self.box()
        gammas = sorted({*GAMMAS, *(gamma for gamma, _ in box.dials)})
        lambdas = sorted({*MAP, *(lam for _, lam in box.dials)})
        return Box.grid(gammas, lambdas, box.point)

    def lambdas(self, *, random: bool) -> tuple[float, ...]:
        """Return every λ that a click model must be fitted for."""
        more = LAMBDA_GRID if random and self.personal_share is None else ()
        return tuple(sorted({*self.map().lambdas, *more}))

    def fitted(self, rows: Exposures, clicked: NDArray[np.bool_]) -> FittedDials:
        """Return the dials that random rows leave possible; a share that is known stays."""
        gamma, lam = self.popularity_share, self.personal_share
        return fit_dials(
            rows,
            clicked,
            gammas=GAMMA_GRID if gamma is None else (gamma,),
            lambdas=LAMBDA_GRID if lam is None else (lam,),
        )


class Evaluation(BaseModel):
    """What to evaluate, and how.

    Attributes:
        protocol: Rank among all unseen items (full), or among `n_negatives` of them (sampled).
        n_negatives: Number of sampled items, for sampled.
        metrics: Ranking metrics; ratings have their own.
        k: Cutoffs of the metrics.
        estimators: Names of the estimators; see the guide.
        normalise: Whether to divide by the sum of the weights instead of the number of rows.
        clip: Propensities below this are raised to it.
        exponent: Exponent of popularity, for the estimator popularity.
        floor: Smallest propensity of the estimator popularity.
        gamma: Factors by which the odds of exposure may be off, for the bands.
        level: Confidence level of the intervals.
        n_resamples: Number of bootstrap resamples; a higher level needs more.
        part: Held-out rows to evaluate on; test is for the end.
        users: Number of users to evaluate, drawn at random; if omitted all. Random rows all count.
        opponent: The exposure model of the estimators propensity and opponent; "own" is that of
            each run, whose candidates are then not compared.
        dials: Which exposures are possible, for the estimators dials and robust.
        memory: Bytes of scores at a time.
        seed: Random seed of the evaluation.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    protocol: Protocol = "full"
    n_negatives: Annotated[int, Field(ge=1)] = 100
    metrics: Annotated[tuple[RowMetric, ...], Field(min_length=1)] = ("hit", "ndcg", "mrr")
    k: Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1)] = (10,)
    estimators: Annotated[tuple[EstimatorName, ...], Field(min_length=1)] = (
        "standard",
        "popularity",
        "dials",
        "robust",
    )
    normalise: bool = True
    clip: Share | None = None
    exponent: float = 1.0
    floor: Share = 0.01
    gamma: tuple[Annotated[float, Field(ge=1)], ...] = ()
    level: Share = 0.95
    n_resamples: Annotated[int, Field(validate_default=True)] = 1000
    part: Literal["test", "validation"] = "test"
    users: Annotated[int, Field(ge=1)] | None = None
    opponent: OpponentSettings = OpponentSettings()
    dials: DialSettings = DialSettings()
    memory: Annotated[int, Field(ge=1)] = MEMORY
    seed: Annotated[int, Field(ge=0)] = 0

    @field_validator("n_resamples")
    @classmethod
    def _enough(cls, n_resamples: int, info: ValidationInfo) -> int:
        level = info.data.get("level")  # absent if it is wrong itself
        if level is not None and n_resamples < resamples_needed(level):
            raise ValueError(
                f"intervals at the level {level:.12g} need n_resamples of "
                f"{resamples_needed(level):,} or more, so that {BEYOND} lie beyond each end"
            )
        return n_resamples
