"""Every kind of world keeps the contract; what confounding does to the click model is measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from counterplay.simulation.factors import Factors
from counterplay.simulation.policies import Exponential
from counterplay.simulation.synthetic import Synthetic
from counterplay.simulation.world import World
from counterplay.testing import WorldContract
from counterplay.testing.judges import Z, errors_of_the_oracle, standard_errors_from_0

N_USERS, N_ITEMS = 60, 30


def synthetic(**options: Any) -> World:
    small = {"n_users": N_USERS, "n_items": N_ITEMS, "n_shown": 6, "skew": 0.5, "dim": 3}
    return Synthetic(**{**small, **options}).world()


def exponential(**options: Any) -> World:
    """The paper's exposure, over the tastes of a synthetic world."""
    world, rng = synthetic(**options), np.random.default_rng(1)
    logits, extra = (
        Factors(
            rng.normal(size=(N_USERS, 3)),
            scale * rng.normal(size=(N_ITEMS, 3)),
            np.zeros(N_USERS),
            scale * rng.normal(size=N_ITEMS),
        )
        for scale in (0.7, 0.3)
    )
    return replace(world, policy=Exponential(logits, extra, 1.2, 0.5, -0.7))


WORLDS: dict[str, Callable[[], World]] = {
    "uniform": lambda: synthetic(exposure="uniform"),
    "popularity": lambda: synthetic(exposure="popularity"),
    "history": lambda: synthetic(),
    "mixture": lambda: synthetic(exposure="mixture"),
    "confounded": lambda: synthetic(confounding=0.8, noise=1.0),
    "position bias": lambda: synthetic(examination=0.7),
    "drift": lambda: synthetic(drift=1.0),
    "exponential": lambda: exponential(),
    "exponential, confounded": lambda: exponential(confounding=0.8, exposure_noise=0.5),
}


class TestWorlds(WorldContract):
    """Every kind of world."""

    @pytest.fixture(params=WORLDS, autouse=True)
    def _each(self, request: pytest.FixtureRequest) -> None:
        self.name = request.param

    def make(self) -> World:
        return WORLDS[self.name]()


@pytest.mark.parametrize(("confounding", "least"), [(0.0, -4), (0.3, 4), (0.8, 8)])
def test_confounding_alone_breaks_the_click_model(confounding: float, least: float) -> None:
    """What was shown was liked more, so clicks weighted by the marginal propensity are too many."""
    world = synthetic(noise=1.0, confounding=confounding)
    errors, _ = errors_of_the_oracle(world, 400, marginal=True)
    assert standard_errors_from_0(errors) > least
    assert confounding or standard_errors_from_0(errors) < Z
