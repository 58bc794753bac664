"""A world from nothing: latent tastes, popularity, and a recommender that did the exposing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field
from scipy.special import expit

from counterplay.seeding import Streams
from counterplay.simulation.factors import Factors
from counterplay.simulation.policies import Mixture, Scored, caps_for
from counterplay.simulation.world import World

if TYPE_CHECKING:
    from numpy.typing import NDArray

Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]


class Synthetic(BaseModel):
    """What a synthetic world is like.

    Attributes:
        n_users: Number of users.
        n_items: Number of items.
        dim: Of tastes.
        mean_relevance: Share of all pairs that would be clicked if they were seen, about.
        taste: How much tastes differ.
        quality: How much some items please everybody.
        skew: Of popularity: appeal falls with `rank^−skew`, and no item is shown more than always,
            so the more is shown, the flatter the head.
        exposure: Who did the exposing: uniform, popularity, history (a recommender with scores of
            its own over popularity), or mixture (half history, half uniform).
        accuracy: Correlation of the history recommender's idea of a user's taste with the truth.
        sharpness: How much it follows its scores.
        n_shown: Items shown to a user in a round of rate 1, on average.
        noise: Standard deviation of the unobserved factor that moves relevance.
        exposure_noise: Of the one that moves exposure.
        confounding: Correlation of the two: 0 none, 1 severe.
        examination: Each place down a list is examined so much less often.
        list_length: Places of a list.
        drift: Radians that tastes turn in a round.
        seed: Of all streams.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    n_users: Annotated[int, Field(ge=1)] = 2000
    n_items: Annotated[int, Field(ge=2)] = 1000
    dim: Annotated[int, Field(ge=1)] = 4
    mean_relevance: Annotated[float, Field(gt=0, lt=1)] = 0.2
    taste: NotNegative = 2.0
    quality: NotNegative = 0.5
    skew: NotNegative = 1.0
    exposure: Literal["uniform", "popularity", "history", "mixture"] = "history"
    accuracy: Share = 0.5
    sharpness: NotNegative = 1.0
    n_shown: Positive = 120.0
    noise: NotNegative = 0.5
    exposure_noise: NotNegative = 1.0
    confounding: Share = 0.0
    examination: Annotated[float, Field(gt=0, le=1)] = 0.9
    list_length: Annotated[int, Field(ge=1)] = 10
    drift: NotNegative = 0.0
    seed: Annotated[int, Field(ge=0)] = 0

    def world(self) -> World:
        """Return the world."""
        streams = Streams(self.seed)
        rng = streams.numpy("population")
        shape = self.n_users, self.dim
        user, toward = rng.normal(size=shape), rng.normal(size=shape)
        item = rng.normal(size=(self.n_items, self.dim)) / np.sqrt(self.dim)
        appeal = 1 / rng.permutation(np.arange(1.0, self.n_items + 1)) ** self.skew
        quality = self.quality * rng.normal(size=self.n_items)
        taste = Factors(
            self.taste * user,
            item,
            np.zeros(self.n_users),
            quality,
            _constant(self.mean_relevance, self.taste, self.quality, self.noise),
            self.taste * toward if self.drift else None,
            self.drift,
        )
        idea = self.accuracy * user + (1 - self.accuracy**2) ** 0.5 * rng.normal(size=shape)
        activity = rng.lognormal(0, 0.5, size=self.n_users)
        activity = np.clip(activity / np.quantile(activity, 0.95), 0.01, 1)
        history = Factors(idea, item, np.zeros(self.n_users), np.zeros(self.n_items))
        known = None if self.exposure in ("uniform", "popularity") else history
        even = self.exposure == "uniform"
        policy = self._shown(np.ones(self.n_items) if even else appeal, activity, known)
        if self.exposure == "mixture":
            uniform = self._shown(np.ones(self.n_items), activity, None)
            policy = Mixture((policy, uniform), (0.5, 0.5))
        return World(
            taste,
            policy,
            noise=self.noise,
            exposure_noise=self.exposure_noise,
            confounding=self.confounding,
            examination=self.examination,
            list_length=self.list_length,
            seed=self.seed,
            name=f"synthetic-{self.exposure}",
        )

    def _shown(
        self,
        appeal: NDArray[np.float64],
        activity: NDArray[np.float64],
        known: Factors | None,
    ) -> Scored | Mixture:
        """Return the policy that shows as much as is wanted."""
        mean_accept = 0.5 * float(activity.mean())  # scores and unobserved factors lie about 0
        caps = caps_for(appeal, self.n_shown, mean_accept)
        return Scored(caps, activity, known, self.sharpness)


def _constant(mean_relevance: float, *deviations: float) -> float:
    """Return the logit at which `E[σ(logit + normal)]` is the wanted mean."""
    spread = float(np.sqrt(np.square(deviations).sum()))
    nodes, shares = np.polynomial.hermite_e.hermegauss(33)
    low, high = -50.0, 50.0
    for _ in range(100):
        middle = (low + high) / 2
        mean = float(expit(middle + spread * nodes) @ shares / shares.sum())
        low, high = (middle, high) if mean < mean_relevance else (low, middle)
    return high
