"""The paper's semi-synthetic world: what real ratings say about relevance and exposure.

    stage 1   relevance  σ(scale · (R̂ − centre) / sd + ε1)         R̂: factors of the ratings
              exposure   log p1 = exponent · log p̂ + offset + ε2   p̂: factors of who rated what
              clicks     exposed and relevant                        → factors x, z of the clicks
    stage 2   exposure   log p2 = exponent · log p̂ + strength · e(x, z) + offset' + ε2

Both offsets are such that a round has as many clicks as the source has rows, in expectation.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import Field

from counterplay.errors import ConfigError, DataError
from counterplay.learning.config import Training
from counterplay.seeding import Streams
from counterplay.simulation.chance import bisected, mean_capped
from counterplay.simulation.factors import Factors, scores_of
from counterplay.simulation.policies import Exponential
from counterplay.simulation.world import NotNegative, Positive, World, WorldSettings

if TYPE_CHECKING:
    from counterplay.data.interactions import Interactions
    from counterplay.simulation.factors import Numbers

_RATE, _RATING_RATE = 0.02, 0.01
_STEPS, _BATCHES = 100, (64, 8192)  # steps per epoch, if batches of these sizes allow it
_N_NEGATIVES = 4
_PAIRS = 1 << 21  # that stand for all pairs of a larger world when clicks are counted
_AT_ONCE = 1 << 20
_BIN = 0.01  # of log p: counting in bins is wrong by a share of 4e-6
_BELOW = 200.0  # far enough below 1 that no probability is cut off
_NODES, _SHARES = np.polynomial.hermite_e.hermegauss(9)  # of the mean over a normal number
_SHARES = _SHARES / _SHARES.sum()


class TwoStage(WorldSettings):
    """Settings of a world that is made from a log with ratings; the others are as in `World`.

    Attributes:
        centre: The rating whose relevance is 1/2; None for the mean rating of the log.
        scale: Logits that are added by a predicted rating one standard deviation higher.
        exponent: Of the exposure model's probability: above 1 it is steeper, below 1 flatter.
        strength: Of the self-defined part of exposure, e(x, z), which has mean 0 and variance 1;
            with 0 there is only one stage.
        density: Expected clicks of a round of rate 1, as a multiple of the log's rows.
        dim: Dimension of all factors.
        epochs: Number of epochs of each of the three fits.
        rating_shrinkage: ℓ2 regularization of the relevance model, times the number of rows.
        exposure_shrinkage: The same for the models of what was rated, and of what was clicked.
    """

    centre: float | None = None
    scale: Positive = 2.0
    exponent: Positive = 0.9
    strength: NotNegative = 0.5
    density: Positive = 1.0
    dim: Annotated[int, Field(ge=1)] = 16
    epochs: Annotated[int, Field(ge=1)] = 6
    rating_shrinkage: NotNegative = 30.0
    exposure_shrinkage: NotNegative = 1.0

    def world(self, log: Interactions) -> World:
        """Return the world of a log with ratings, with the same users and items."""
        streams, wanted = Streams(self.seed), self.density * len(log)
        taste = self.taste(log)
        policy = Exponential(self.exposure(log), exponent=self.exponent)
        first = self._world(
            taste,
            policy,
            # Another seed: else the clicks that e(x, z) is learnt from and those that it brings
            # about would share their unobserved factors.
            seed=int(streams.numpy("first stage").integers(2**31)),
            name=f"two-stage-{log.name}",
            users=log.users,
            items=log.items,
        )
        first = with_clicks(first, wanted)
        if not self.strength:
            return replace(first, seed=self.seed)
        extra = _standardised(
            self._implicit(first.log((1.0,)), "second stage"), streams.numpy("pairs")
        )
        second = replace(policy, extra=extra, strength=self.strength)
        return with_clicks(replace(first, policy=second, seed=self.seed), wanted)

    def taste(self, log: Interactions) -> Factors:
        """Return the logits of relevance: the predicted rating, centred and scaled."""
        if log.rating is None or not len(log):
            raise DataError(
                "a two-stage world needs ratings; found a log without them; give one with a "
                "rating column, or make a synthetic world"
            )
        mean, deviation = float(log.rating.mean()), float(log.rating.std())
        if log.rating.min() == log.rating.max():
            raise DataError(
                f"ratings must differ to tell what is relevant; found {mean:g} in all "
                f"{len(log):,} rows; give a log with several ratings"
            )
        standard = replace(log, rating=((log.rating - mean) / deviation).astype(np.float32))
        config = self._training(len(log), self.rating_shrinkage)
        config = config.model_copy(
            update={"loss": "squared", "n_negatives": 0, "rate": _RATING_RATE}
        )
        found = self._factors(standard, config, "relevance")
        centre = mean if self.centre is None else self.centre
        return Factors(
            self.scale * found.user,
            found.item,
            self.scale * found.user_bias,
            self.scale * found.item_bias,
            self.scale * (found.constant + (mean - centre) / deviation),
        )

    def exposure(self, log: Interactions) -> Factors:
        """Return the logits of p̂: that a user has an item in the log."""
        found = self._implicit(log, "exposure")
        # Every user's rows met as many negatives each, so what the model lacks is how much a user
        # has: odds among all items are those among the sampled ones times this.
        n_rows = np.maximum(np.diff(log.offsets), 0.5)
        n_others = np.maximum(log.n_items - n_rows, 0.5)
        more = np.log(_N_NEGATIVES * n_rows / n_others)
        return replace(found, user_bias=found.user_bias + more)

    def _implicit(self, log: Interactions, name: str) -> Factors:
        """Return factors that tell the log's rows from sampled items."""
        rows = replace(log, rating=None, exposed=None, propensity=None)
        per_user = np.bincount(np.unique(log.pair) // log.n_items, minlength=log.n_users)
        rows = rows.take((per_user < log.n_items)[log.user])  # who has all has no negatives
        if not len(rows):
            raise DataError(
                "some user must leave an item out to tell what is exposed; found that all users "
                f"have all {log.n_items:,} items; give a log with more items, or fewer rows"
            )
        return self._factors(rows, self._training(len(rows), self.exposure_shrinkage), name)

    def _training(self, n_rows: int, shrinkage: float) -> Training:
        least, most = _BATCHES
        return Training(
            epochs=self.epochs,
            batch_size=min(max(n_rows // _STEPS, least), most),
            n_negatives=_N_NEGATIVES,
            rate=_RATE,
            l2=shrinkage / n_rows,
            seed=self.seed,
        )

    def _factors(self, log: Interactions, config: Training, name: str) -> Factors:
        """Return the factors of matrix factorization, fitted to a log."""
        from counterplay.learning.methods.erm import erm
        from counterplay.models.factorization import CF
        from counterplay.simulation.feedback import factors_of

        generator = Streams(self.seed).torch("initial", name)
        model = CF(log.n_users, log.n_items, dim=self.dim, generator=generator)
        erm(model, log, config)
        return factors_of(model, log)


def with_clicks(world: World, wanted: float) -> World:
    """Return the world with the offset of its exposure that gives the wanted clicks per round.

    They are `Σ E[σ(taste + ε1) · min(1, p · e^ε2)]` over all pairs, or a sample of them in a large
    world: some items for every user, evenly from the popular to the rare.
    """
    from scipy.special import expit

    assert isinstance(world.policy, Exponential)
    policy = replace(world.policy, offset=0.0)
    log_p, logits, weights = _sampled(world, policy)
    low = float(log_p.min())
    place = ((log_p - low) / _BIN).astype(np.int64)
    levels = np.bincount(place, log_p) / np.maximum(np.bincount(place), 1)  # the mean of each bin
    relevances = [  # of what is shown, in each bin, by ε1
        part * np.bincount(place, weights * expit(logits + world.noise * node), len(levels))
        for node, part in zip(_NODES, _SHARES, strict=True)
    ]
    own = world.exposure_noise * (1 - world.confounding**2) ** 0.5
    shared = world.exposure_noise * world.confounding

    def clicks(offset: float) -> float:
        return sum(
            float(relevance @ mean_capped(levels + offset + shared * node, own))
            for node, relevance in zip(_NODES, relevances, strict=True)
        )

    least = -float(levels[-1]) - _BELOW
    most = -low + 10 * (1 + world.exposure_noise)
    if wanted >= clicks(most):
        raise ConfigError(
            "a world must have fewer clicks in a round than if every pair were shown, "
            f"{clicks(most):,.0f}; found {wanted:,.0f} wanted; lower density, or centre"
        )
    _, offset = bisected(lambda middle: clicks(middle) < wanted, least, most, 60)
    return replace(world, policy=replace(policy, offset=offset))


def _sampled(world: World, policy: Exponential) -> tuple[Numbers, Numbers, Numbers]:
    """Return log p, the logits of relevance, and how many examined pairs each one stands for."""
    n_users, n_items = world.n_users, world.n_items
    n_each = min(n_items, max(1, _PAIRS // n_users))
    assert isinstance(policy.logits, Factors)
    order = np.argsort(policy.logits.item_bias, kind="stable")
    start = Streams(0).numpy("sampled pairs").random(n_users)
    parts = []
    size = max(1, _AT_ONCE // n_each)
    for begin in range(0, n_users, size):
        users, items = np.arange(begin, min(begin + size, n_users)), None
        if n_each < n_items:
            ranks = (start[users, None] + np.arange(n_each)) * (n_items / n_each)
            items = order[np.minimum(ranks.astype(np.int64), n_items - 1)]
        log_p = np.log(policy.accept(users, items, -_BELOW)) + _BELOW
        logits = scores_of(world.taste, users, items)
        weights = n_items / n_each * world.examined(users, items)
        parts.append(np.stack([log_p.ravel(), logits.ravel(), weights.ravel()]))
    found = np.concatenate(parts, axis=1)
    return found[0], found[1], found[2]


def _standardised(factors: Factors, rng: np.random.Generator) -> Factors:
    """Return the inner product with mean 0 and variance 1 over random pairs, without biases."""
    users = rng.integers(factors.n_users, size=_AT_ONCE >> 4)
    items = rng.integers(factors.n_items, size=len(users))
    products = np.einsum("nd,nd->n", factors.user[users], factors.item[items])
    deviation = float(products.std()) or 1.0
    return Factors(
        factors.user / deviation,
        factors.item,
        np.zeros(factors.n_users),
        np.zeros(factors.n_items),
        -float(products.mean()) / deviation,
    )
