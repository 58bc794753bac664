"""Candidates for ratings: models and methods to compare, each at its best on validation rows."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field

from counterplay.evaluation.propensities import Contestant
from counterplay.evaluation.settings import Evaluation, OpponentSettings, Share
from counterplay.learning.config import Game, LinkSettings, Training, Weighted
from counterplay.learning.methods.acl import acl
from counterplay.learning.methods.erm import erm
from counterplay.learning.methods.ps import ps
from counterplay.metrics.measures import rating_errors
from counterplay.metrics.scoring import ModelScores
from counterplay.models.given import GivenExposure
from counterplay.models.registry import ModelSettings
from counterplay.models.scorer import History, Scorer
from counterplay.models.table import ScoreTable
from counterplay.runs.config import Method

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from counterplay.data.interactions import Interactions
    from counterplay.data.splits import Split
    from counterplay.metrics.scoring import Scores
    from counterplay.seeding import Streams

Kind = Literal["cf", "gmf", "mlp"]


class RatingCandidate(BaseModel):
    """A model and a method; its size and its ℓ2 are chosen on the validation rows."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    method: Method
    model: Kind
    use_features: bool = True


_METHODS: dict[Method, tuple[Kind, ...]] = {
    "erm": ("cf", "gmf", "mlp"),
    "ps": ("cf", "gmf"),
    "acl": ("cf", "gmf"),
}
CANDIDATES = (
    *(
        RatingCandidate(name=f"{model} {method}", method=method, model=model)
        for method, models in _METHODS.items()
        for model in models
    ),
    RatingCandidate(name="cf erm, ids only", method="erm", model="cf", use_features=False),
)
OPPONENTS = (
    *(OpponentSettings(floor=floor, epochs=15) for floor in (0.01, 0.05, 0.2)),
    OpponentSettings(kind="low-rank", floor=0.05, epochs=15),
    OpponentSettings(kind="own", floor=0.05, epochs=15),
)


class RatingComparison(BaseModel):
    """How candidates are learned and evaluated; the mean of the ratings is one more candidate.

    Attributes:
        fractions: Shares of the self-selected rows for validation and for the estimates.
        candidates: All are tuned over the same grid, `dims` × `l2`.
        dims: Sizes to choose from.
        l2: Strengths of ℓ2 regularization to choose from.
        training: Of all candidates; validation chooses the epoch.
        exposure: What PS weights by, and what ACL plays against.
        opponents: Of the estimators propensity, robust and robust-shared, one after the other. The
            class own is the candidate's; where an opponent is shared, the first candidate's.
        evaluation: The rest: exponent and floor of popularity, level and number of resamples.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    fractions: tuple[Share, Share] = (0.1, 0.2)
    candidates: tuple[RatingCandidate, ...] = CANDIDATES
    dims: Annotated[tuple[int, ...], Field(min_length=1)] = (4, 16)
    l2: Annotated[tuple[float, ...], Field(min_length=1)] = (0.001, 0.01)
    training: Training = Training(loss="squared", batch_size=256, epochs=40, patience=5)
    exposure: OpponentSettings = OpponentSettings(floor=0.05)
    opponents: tuple[OpponentSettings, ...] = OPPONENTS
    evaluation: Evaluation = Evaluation()


class MeanRating(Scorer):
    """The simplest candidate: 0 for every pair, which is the mean where ratings are centred."""

    def forward(
        self,
        users: torch.Tensor,  # noqa: ARG002 - every model takes them
        items: torch.Tensor,
        history: History | None = None,  # noqa: ARG002 - likewise
    ) -> torch.Tensor:
        """Return zeros, `[B, K]`."""
        return torch.zeros(items.shape)


def learned(
    split: Split, config: RatingComparison, streams: Streams, progress: Callable[[str], None]
) -> Iterator[tuple[Contestant, dict[str, Any]]]:
    """Yield each candidate at its best on the validation rows, and what it is."""
    train, rows, seed = split.train, split.validation, streams.seed
    exposure = config.exposure.build(train, seed)
    if any(each.method == "ps" for each in config.candidates):
        erm(exposure, replace(train, rating=None), config.exposure.game(train, seed).plain())
    fixed = GivenExposure(
        train.n_users, train.n_items, lambda users, items: torch.sigmoid(exposure(users, items))
    )

    def validate(model: Scorer) -> float:
        return -float(errors_of(ModelScores(model, train, train=train), rows)["mse"].mean())

    def learn(candidate: RatingCandidate, model: Scorer, l2: float) -> None:
        shared = config.training.model_dump() | {"l2": l2, "seed": seed}
        link = LinkSettings(floor=config.exposure.game(train, seed).link.floor)
        if candidate.method == "erm":
            erm(model, train, Training(**shared | {"n_negatives": 0}), validate=validate)
        elif candidate.method == "ps":
            link = link.model_copy(update={"with_outcome": False, "learn": False})
            ps(model, fixed, train, Weighted(**shared, link=link), validate=validate)
        else:
            rate = config.exposure.rate
            how = Game(**shared, link=link, alpha=config.exposure.alpha, exposure_rate=rate)
            acl(model, config.exposure.build(train, seed), train, how, validate=validate)

    for candidate in config.candidates:
        progress(f"seed {seed}: {candidate.name}")
        found = []
        for dim, l2 in product(config.dims, config.l2):
            settings = ModelSettings(
                name=candidate.model, dim=dim, use_features=candidate.use_features
            )
            model = settings.build(train, streams.torch("initial", candidate.name))
            learn(candidate, model, l2)
            found.append((validate(model), model, settings, l2))
        value, model, settings, l2 = max(found, key=lambda each: each[0])
        about = {"name": candidate.name, "dim": settings.dim, "l2": l2, "validation": -value}
        yield _contestant(candidate.name, model, train, settings), about
    simplest = MeanRating(train.n_users, train.n_items)
    about = {"name": "mean", "dim": 0, "l2": 0.0, "validation": -validate(simplest)}
    yield _contestant("mean", simplest, train, None), about


def _contestant(
    name: str, model: Scorer, train: Interactions, settings: ModelSettings | None
) -> Contestant:
    """Return a candidate whose predictions for training pairs are looked up, not computed again.

    An opponent asks for nothing else where there are ratings, and asks at every step.
    """
    scores = ModelScores(model, train, train=train)
    pairs, first = np.unique(train.pair, return_index=True)
    predicted = scores.of(train.user[first], train.item[first, None])[:, 0]
    table = ScoreTable(train.n_users, train.n_items, pairs, predicted.astype(np.float32))
    return Contestant(name, scores, table, settings=settings)


def errors_of(scores: Scores, rows: Interactions) -> dict[str, NDArray[np.float64]]:
    """Return the squared and the absolute error of each row."""
    assert rows.rating is not None
    found = rating_errors(scores.of(rows.user, rows.item[:, None])[:, 0], rows.rating)
    return {"mse": found["mse"], "mae": found["mae"]}
