"""Worlds of twelve mechanisms of exposure, small enough for hundreds of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.simulation.factors import Factors
from counterplay.simulation.feedback import model_policy
from counterplay.simulation.policies import Exponential
from counterplay.simulation.synthetic import Synthetic
from counterplay.simulation.two_stage import TwoStage, with_clicks
from reproduction.outside_scores import als_factors

if TYPE_CHECKING:
    from counterplay.data.interactions import Interactions
    from counterplay.simulation.world import World

SIZE: dict[str, Any] = {  # 20 clicks a user, and not so much shown that the head is cut off
    "n_users": 1_200,
    "n_items": 600,
    "n_shown": 65.0,
    "mean_relevance": 0.3,
}
_SYNTHETIC: dict[str, dict[str, Any]] = {
    "uniform": {"exposure": "uniform"},
    "popularity": {"exposure": "popularity", "quality": 0.0},
    "popularity-quality": {"exposure": "popularity", "quality": 1.0},
    "history": {"exposure": "history"},
    "strong-history": {"exposure": "history", "accuracy": 0.8, "sharpness": 2.0},
    "confounded": {"exposure": "history", "confounding": 1.0},
    "mixture": {"exposure": "mixture"},
    "position-bias": {"exposure": "history", "examination": 0.7, "sharpness": 2.0},
}
_PERSONAL_SHARES = {"personal-0.3": 0.3, "personal-0.6": 0.6}  # of a user's taste, in exposure
_POPULARITY_SHARE = 0.5  # in the same worlds: exposure goes with appeal to this power
_CLICKS_A_SHOWN = 0.3  # in the same worlds: mean relevance of what is shown, about
_DENSITY = 0.2  # of two-stage worlds: clicks in a round, as a share of the ratings
MECHANISMS = (*_SYNTHETIC, "model-loop", *_PERSONAL_SHARES, "two-stage")


def trial_world(
    mechanism: str, seed: int, source: Interactions | None = None, **size: float
) -> World:
    """Return a world; `source` has the ratings that a two-stage world is made of.

    `size` is what differs from `SIZE` in a synthetic world.
    """
    if mechanism in _SYNTHETIC:
        return Synthetic(**SIZE | size | _SYNTHETIC[mechanism], seed=seed).world()
    if mechanism == "model-loop":
        return _model_loop(seed)
    if mechanism in _PERSONAL_SHARES:
        return _personal(_PERSONAL_SHARES[mechanism], seed)
    assert source is not None
    return TwoStage(density=_DENSITY, seed=seed).world(source)


def _model_loop(seed: int) -> World:
    """Return a world that is shown what a factor model says, learnt from a popularity policy."""
    first = Synthetic(**SIZE, exposure="popularity", seed=seed).world()
    log = first.log((1.0,))
    users, items = als_factors(log, np.random.default_rng(seed))
    scores = Factors(users, items, np.zeros(len(users)), np.zeros(len(items)))
    policy = model_policy(scores, log, n_shown=SIZE["n_shown"], sharpness=1.5)
    return replace(first, policy=policy, name="model-loop")


def _personal(share: float, seed: int) -> World:
    """Return a world with exposure popularity^γ · e^(λ · taste): what is personal is known."""
    world = Synthetic(**SIZE, seed=seed).world()
    taste = world.taste
    assert isinstance(taste, Factors)
    rng = np.random.default_rng(seed)
    appeal = -np.log(rng.permutation(np.arange(1.0, world.n_items + 1)))
    nothing = Factors(
        np.zeros_like(taste.user), np.zeros_like(taste.item), taste.user_bias * 0, appeal * 0
    )
    extra = Factors(share * taste.user, taste.item, taste.user_bias, _POPULARITY_SHARE * appeal)
    made = replace(world, policy=Exponential(nothing, extra), name=f"personal-{share:g}")
    return with_clicks(made, _CLICKS_A_SHOWN * SIZE["n_shown"] * world.n_users)


def most_rated(log: Interactions, n_items: int = int(SIZE["n_items"])) -> Interactions:
    """Return the rows of the items that most users rated, as a log of these items alone."""
    counts = np.bincount(log.item, minlength=log.n_items)
    kept = np.argsort(-counts, kind="stable")[:n_items]
    return log.take(np.isin(log.item, kept)).compact()
