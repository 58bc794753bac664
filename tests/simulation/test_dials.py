"""The dials of worlds whose exposure is known to be one thing or another."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from scipy.special import logsumexp

from counterplay.cli.run import demo_world
from counterplay.metrics.random_rows import GAMMA_GRID
from counterplay.simulation import dials as module
from counterplay.simulation.dials import LAMBDAS, WorldDials, world_dials
from counterplay.simulation.factors import Factors
from counterplay.simulation.policies import Exponential
from counterplay.simulation.store import load_world
from counterplay.simulation.synthetic import PRESETS, Synthetic
from counterplay.simulation.world import World


def world(**given: Any) -> World:
    given = {"n_users": 600, "n_items": 300, "n_shown": 36.0} | given
    return Synthetic(**given).world()


def exposed_by(place: World, popularity: float, personal: float) -> World:
    """Return the world with exposure `appeal^popularity · e^(personal · taste)`."""
    taste = place.taste
    assert isinstance(taste, Factors)
    appeal = -np.log(np.random.default_rng(1).permutation(np.arange(1.0, place.n_items + 1)))
    nothing = replace(taste, user=0 * taste.user, item_bias=0 * taste.item_bias, constant=0.0)
    extra = replace(
        taste, user=personal * taste.user, item_bias=popularity * appeal, constant=-12.0
    )
    return replace(place, policy=Exponential(nothing, extra))


def test_uniform_exposure_is_no_part_of_the_clicks() -> None:
    """Strong tastes differ in how much users like at all, which may cost a step of the grid."""
    for quality in (0.5, 1.0):
        found = world_dials(world(exposure="uniform", quality=quality))
        assert abs(found.gamma) <= 0.1
        assert abs(found.lam) <= 0.1
    assert world_dials(world(exposure="uniform", quality=1.0, taste=0.5)) == (0, 0)


def test_exposure_by_popularity_alone_is_not_personal() -> None:
    found = world_dials(world(exposure="popularity"))
    assert found.gamma > 0.3
    assert abs(found.lam) <= 0.1
    assert world_dials(world(exposure="popularity", quality=0.0, taste=0.5)) == (1, 0)


def test_the_activity_of_users_is_not_personal() -> None:
    """Who is shown ten times as much clicks ten times as much, on the same items."""
    place = world(exposure="popularity", taste=0.3)
    uneven = np.where(np.arange(place.n_users) % 2, 1.0, 0.1)
    policy: Any = place.policy
    other = replace(place, policy=replace(policy, activity=uneven))
    even = replace(place, policy=replace(policy, activity=np.ones(place.n_users)))
    assert world_dials(other) == world_dials(even)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_exposure_that_follows_taste_has_the_share_that_it_should(share: float) -> None:
    """Where little is relevant, clicks go with e^((1 + share) · taste); e^taste is relevance."""
    place = world(mean_relevance=0.01, taste=0.7, noise=0.0)
    found = world_dials(exposed_by(place, 0.5, share))
    assert found.lam == pytest.approx(share / (1 + share), abs=0.051)


def test_what_is_shown_at_random_to_each_user_is_all_exposure() -> None:
    """Personal clicks that have nothing to do with taste."""
    found = world_dials(world(taste=0.0, sharpness=3.0))
    assert found.lam >= 0.95
    assert "cannot order candidates" in found.text


def test_a_twin_that_holds_all_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums and likelihoods pair by pair, in a world of which every pair is drawn once."""
    place = world(n_users=12, n_items=9, n_shown=1.5, taste=1.0, mean_relevance=0.4)
    every = np.tile(np.arange(9), (12, 1))
    monkeypatch.setattr(module, "_drawn_items", lambda *_: every)
    monkeypatch.setattr(module, "_AT_ONCE", 40)
    q, r = place.propensity(np.arange(12)), place.relevance(np.arange(12))
    clicks = q * r
    share = clicks.sum(1) / clicks.sum()
    best = (-np.inf, 0.0, 0.0)
    for lam in LAMBDAS:
        rest = np.empty((12, 9))
        for item in range(9):
            whole = logsumexp([np.log(clicks[u, item] / share[u]) for u in range(12)], b=share)
            taste = np.log(clicks[:, item] / share) - whole
            assert share @ np.exp(taste) == pytest.approx(1)
            rest[:, item] = (1 - lam) * taste - np.log(share @ np.exp((1 - lam) * taste))
        for gamma in GAMMA_GRID:
            log_mean = (1 - gamma) * np.log(clicks.sum(0)) + rest
            log_mean += np.log(r.sum() / np.exp(log_mean).sum())
            best = max(best, (float((r * log_mean - np.exp(log_mean)).sum()), gamma, lam))
    assert world_dials(place) == (best[1], best[2])


def test_a_sample_of_users_finds_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    place = world(n_users=4000, preset="medium")
    whole = world_dials(place)
    monkeypatch.setattr(module, "_SUMMED", 1)
    asked: list[int] = []
    relevance = World.relevance

    def counting(self: World, users: Any, *args: Any, **given: Any) -> Any:
        asked.append(len(users))
        return relevance(self, users, *args, **given)

    monkeypatch.setattr(World, "relevance", counting)
    some = world_dials(place)
    assert sum(asked) == 256
    assert some == world_dials(place)
    assert np.abs(np.subtract(some, whole)).max() <= 0.1


def test_pairs_that_are_never_shown_are_no_error() -> None:
    """Exposure that vanishes in floating point, of some items or of all to one user."""
    assert world_dials(world(sharpness=1e4, exposure_noise=0.0)).lam > 0.8
    place = exposed_by(world(), 0.5, 0.5)
    policy: Any = place.policy
    activity = np.where(np.arange(place.n_users) == 3, -800.0, 0.0)
    hidden = replace(policy.extra, user_bias=activity)
    found = world_dials(replace(place, policy=replace(policy, extra=hidden)))
    assert found == world_dials(place)


def test_where_all_is_liked_all_is_exposure() -> None:
    assert world_dials(world(taste=0.0, quality=0.0, mean_relevance=1 - 1e-16, noise=0.0)) == (1, 1)


@pytest.mark.parametrize(("preset", "share"), [("mild", 0.3), ("medium", 0.45), ("strong", 0.6)])
def test_presets_have_the_dials_that_they_promise(preset: Any, share: float) -> None:
    found = world_dials(world(n_users=1000, n_items=1000, n_shown=120.0, preset=preset))
    assert found == (0.55, share)


def test_a_preset_gives_way_to_what_is_set() -> None:
    assert Synthetic(preset="strong").sharpness == PRESETS["strong"]["sharpness"] == 3.0
    own = Synthetic(preset="strong", sharpness=1.5)
    assert (own.sharpness, own.quality) == (1.5, 1.0)
    assert Synthetic.model_validate(own.model_dump()) == own
    for wrong in ("wild", ["mild"]):
        with pytest.raises(ValidationError, match="preset"):
            Synthetic.model_validate({"preset": wrong})


@pytest.mark.parametrize(
    ("dials", "words"),
    [
        ((0.55, 0.45), ["γ 0.55, λ 0.45", "55% of the popularity", "45% of what is personal"]),
        ((-0.05, 1.05), ["γ -0.05, λ 1.05", "0% of the pop", "100% of what", "cannot order"]),
    ],
)
def test_dials_in_words(dials: tuple[float, float], words: list[str]) -> None:
    text = WorldDials(*dials).text
    assert all(word in text for word in words)
    assert ("cannot order" in text) == (dials[1] > 0.8)


def test_the_world_of_the_demo_lies_where_public_data_do(tmp_path: Path) -> None:
    found = world_dials(load_world(demo_world(tmp_path, 0)))
    assert 0.5 <= found.gamma <= 0.6
    assert 0.4 <= found.lam <= 0.6
