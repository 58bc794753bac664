"""The preset `authors`: two-stage worlds as the public code of the paper makes them.

    relevance   σ(R̂ − ε)               R̂: factors of the raw ratings; ε 3
    exposure    σ(s + network)^p        s: factors of who rated what; p 2
    training    exposed and relevant    → factors s' of these clicks
    held out    a second draw, without the pairs of training, half validation and half test
                forgotten   by the exposure of training, as their code does
                used        by σ(s')^p, as their paper says
    judged by   relevance σ(R̂ − 4) and exposure σ(s'), in both cases

The first users and items are kept, a few epochs are trained with small random factors, and no
offset sets how many clicks there are: R̂ stays nearer to 0 where an item has few ratings.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import Field

from counterplay.data.splits import TEST, TRAIN, VALIDATION, Split
from counterplay.data.vocabulary import Vocabulary
from counterplay.errors import DataError
from counterplay.learning.config import Training
from counterplay.seeding import Streams
from counterplay.simulation.factors import Disturbed, Factors
from counterplay.simulation.logs import DAY, START, joined
from counterplay.simulation.policies import Exponential
from counterplay.simulation.world import NotNegative, Positive, World, WorldSettings

if TYPE_CHECKING:
    import torch

    from counterplay.data.interactions import Interactions
    from counterplay.models.factorization import CF, GMF
    from counterplay.simulation.factors import Numbers

Whole = Annotated[int, Field(ge=1)]
SecondStage = Literal["forgotten", "used"]


@dataclass(frozen=True, slots=True)
class Stages:
    """A world with the exposure of training, its log, and what the code judges by."""

    world: World  #: Truth: relevance, and the exposure that training clicks were drawn by.
    held_out: World  #: The same with the exposure that validation and test were drawn by.
    judge: World  #: What the plain mean is computed with: another ε, the refitted exposure.
    split: Split  #: Training, validation and test.


class Authors(WorldSettings):
    """Settings of the authors' worlds; the defaults are theirs.

    Attributes:
        n_users: Number of users that are kept, the first ones of the log.
        n_items: The same for items.
        epsilon: ε of relevance.
        judged_epsilon: ε in the evaluation.
        power: p of exposure.
        judged_power: p in the evaluation.
        dim: Dimension of all factors.
        epochs: Number of epochs of each fit.
        n_negatives: Sampled items per row of the exposure models.
        batch_size: Rows of a batch, of each fit.
        rate: Learning rate of each fit.
        noise_scale: Factor of the network's output.
        second_stage: Whether held-out rows are drawn by the refitted exposure or not.
    """

    n_users: Whole = 500
    n_items: Whole = 1000
    epsilon: float = 3.0
    judged_epsilon: float = 4.0
    power: Positive = 2.0
    judged_power: Positive = 1.0
    dim: Whole = 16
    epochs: Whole = 10
    n_negatives: Whole = 4
    batch_size: Whole = 2048
    rate: Positive = 0.01
    noise_scale: NotNegative = 1.0
    second_stage: SecondStage = "forgotten"
    noise: NotNegative = 0.0
    exposure_noise: NotNegative = 0.0

    def world(self, log: Interactions) -> World:
        """Return the world of a log with ratings: its truth, and the exposure of training."""
        log, streams = self._first(log), Streams(self.seed)
        ratings = self._factors(log, "relevance", loss="squared", n_negatives=0)
        taste = replace(ratings, constant=ratings.constant - self.epsilon)
        shown = self._factors(replace(log, rating=None), "exposure")
        logits = Disturbed(shown, *_network(self.dim, self.noise_scale, streams))
        policy = Exponential(logits, exponent=self.power)
        name = f"authors-{self.second_stage}-{log.name}"
        return self._world(taste, policy, name=name, users=log.users, items=log.items)

    def stages(self, log: Interactions) -> Stages:
        """Return the world with a log of it, split as the code splits it."""
        world = self.world(log)
        train = world.log((1.0,))
        refitted = self._factors(replace(train, time=None), "second stage")
        later = Exponential(refitted, exponent=self.power)
        held_out = replace(world, policy=later) if self.second_stage == "used" else world
        second = held_out.log((1.0,), first_round=1, before=train)
        taste = world.taste
        assert isinstance(taste, Factors)
        less = replace(taste, constant=taste.constant + self.epsilon - self.judged_epsilon)
        judge = replace(world, taste=less, policy=replace(later, exponent=self.judged_power))
        return Stages(world, held_out, judge, _split(world, train, second))

    def _first(self, log: Interactions) -> Interactions:
        """Return the rows of the first users and items, with ratings."""
        if log.rating is None or not len(log):
            raise DataError(
                "the authors' worlds need ratings; found a log without them; give one with a "
                "rating column"
            )
        n_users, n_items = min(self.n_users, log.n_users), min(self.n_items, log.n_items)
        kept = log.take((log.user < n_users) & (log.item < n_items))
        users, items = log.users.ids[:n_users], log.items.ids[:n_items]
        return replace(
            kept,
            users=Vocabulary(users),
            items=Vocabulary(items),
            user_features=None,
            item_features=None,
        )

    def _factors(self, log: Interactions, name: str, **changes: object) -> Factors:
        """Return the factors of matrix factorization, fitted to a log by lazy Adam."""
        from counterplay.learning.methods.erm import erm
        from counterplay.simulation.feedback import factors_of

        model = self._model(log, Streams(self.seed).torch("initial", name))
        options = {
            "epochs": self.epochs,
            "batch_size": self.batch_size,
            "n_negatives": self.n_negatives,
            "rate": self.rate,
            "optimizer": "lazy",
            "seed": self.seed,
        }
        erm(model, log, Training.model_validate(options | changes))
        return factors_of(model, log)

    def _model(self, log: Interactions, generator: torch.Generator) -> CF | GMF:
        """Return what is fitted, with its vectors at their start."""
        from counterplay.models.factorization import CF

        return CF(log.n_users, log.n_items, dim=self.dim, generator=generator)


def _network(dim: int, scale: float, streams: Streams) -> tuple[Numbers, Numbers, Numbers]:
    """Return random layers, uniform within ± 1 / √inputs, biases too."""
    rng = streams.numpy("network")
    first, second, last = (
        rng.uniform(-1, 1, (inputs + 1, width)) / np.sqrt(inputs)
        for inputs, width in ((2 * dim, dim), (dim, dim), (dim, 1))
    )
    return first, second, scale * last[:, 0]


def _split(world: World, train: Interactions, second: Interactions) -> Split:
    """Return both draws as one log; the second is half validation and half test, by chance."""
    log = joined((train, second))
    assert log.time is not None
    later = (log.time - START) // DAY >= 1
    half = world.streams.numpy("held out").random(len(log)) < 0.5
    part = np.where(later, np.where(half, VALIDATION, TEST), TRAIN).astype(np.int8)
    return Split(log, part, "rounds")
