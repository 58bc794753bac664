"""A world from nothing: latent tastes, popularity, and a recommender that did the exposing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import Field, model_validator

from counterplay.seeding import Streams
from counterplay.simulation.chance import bisected
from counterplay.simulation.factors import Factors
from counterplay.simulation.policies import Mixture, Scored, caps_for
from counterplay.simulation.world import NotNegative, Positive, Share, World, WorldSettings

if TYPE_CHECKING:
    from counterplay.simulation.factors import Numbers
    from counterplay.simulation.policies import Policy

Preset = Literal["mild", "medium", "strong"]
PRESETS: dict[Preset, dict[str, float]] = {  # dials, by world_dials: γ 0.55 and λ 0.3, 0.45, 0.6
    "mild": {"quality": 1.0, "sharpness": 1.0},
    "medium": {"quality": 1.0, "sharpness": 2.0},
    "strong": {"quality": 1.0, "sharpness": 3.0},
}


class Synthetic(WorldSettings):
    """Settings of a synthetic world; those of noise, lists and the seed are described in `World`.

    Attributes:
        n_users: Number of users.
        n_items: Number of items.
        dim: Dimension of tastes.
        mean_relevance: Share of all pairs that would be clicked if they were seen, about.
        taste: How much tastes differ.
        quality: How much some items please everybody.
        skew: Of popularity: appeal falls with `rank^−skew`. No item is shown more than always, so
            the more is shown, the flatter the head.
        exposure: Logging policy: uniform, popularity, history (a recommender with scores of its
            own over popularity), or mixture (half history, half uniform).
        accuracy: Correlation of the history recommender's idea of a user's taste with the truth.
        sharpness: How closely it follows its scores.
        n_shown: Mean number of items shown to a user in a round of rate 1.
        drift: Radians that tastes turn in a round.
        preset: How much of what is personal in the clicks is exposure: mild (30%), medium
            (45%) or strong (60%). It sets quality and sharpness where they are not given.
    """

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
    exposure_noise: NotNegative = 1.0
    examination: Annotated[float, Field(gt=0, le=1)] = 0.9
    drift: NotNegative = 0.0
    preset: Preset | None = None

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, given: Any) -> Any:
        if isinstance(given, dict) and isinstance(given.get("preset"), str):
            return PRESETS.get(given["preset"], {}) | given
        return given

    def world(self) -> World:
        """Return the world."""
        rng = Streams(self.seed).numpy("population")
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
        even = np.ones(self.n_items)
        policy: Policy = self._shown(
            even if self.exposure == "uniform" else appeal, activity, known
        )
        if self.exposure == "mixture":
            policy = Mixture((policy, self._shown(even, activity, None)), (0.5, 0.5))
        return self._world(taste, policy, name=f"synthetic-{self.exposure}")

    def _shown(self, appeal: Numbers, activity: Numbers, known: Factors | None) -> Scored:
        """Return the policy that shows as much as is wanted."""
        mean_accept = 0.5 * float(activity.mean())  # scores and unobserved factors lie about 0
        return Scored(caps_for(appeal, self.n_shown, mean_accept), activity, known, self.sharpness)


def _constant(mean_relevance: float, *deviations: float) -> float:
    """Return the logit at which `E[σ(logit + normal)]` is the wanted mean."""
    from scipy.special import expit

    spread = float(np.sqrt(np.square(deviations).sum()))
    nodes, shares = np.polynomial.hermite_e.hermegauss(33)

    def is_below(middle: float) -> bool:
        mean = float(expit(middle + spread * nodes) @ shares / shares.sum())
        return mean < mean_relevance

    return bisected(is_below, -50.0, 50.0, 100)[1]
