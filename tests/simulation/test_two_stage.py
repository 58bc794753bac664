from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

import counterplay as cp
from counterplay.data.interactions import Interactions
from counterplay.errors import ConfigError, DataError
from counterplay.simulation import two_stage
from counterplay.simulation.policies import Exponential
from counterplay.simulation.two_stage import TwoStage, with_clicks
from counterplay.simulation.world import World

N_USERS, N_ITEMS = 60, 40
Z = 4.5  # a false alarm in 150,000


def ratings() -> Interactions:
    """Even users like even items, odd users odd ones; low numbers are rated more often."""
    rng = np.random.default_rng(3)
    user, item = np.divmod(np.arange(N_USERS * N_ITEMS), N_ITEMS)
    rated = rng.random(len(user)) < np.where(item < 10, 0.8, 0.2) * np.where(user < 20, 1, 0.5)
    user, item = user[rated], item[rated]
    likes = (user + item) % 2 == 0
    rating = np.clip(np.round(np.where(likes, 4.2, 2.0) + rng.normal(0, 0.7, len(user))), 1, 5)
    return cp.read(
        {
            "user": [f"u{each:02}" for each in user],
            "item": [f"i{each:02}" for each in item],
            "rating": rating,
        }
    )


LOG = ratings()
EVERYBODY = np.arange(N_USERS)
QUICK: dict[str, Any] = {"dim": 4, "epochs": 12, "rating_shrinkage": 1.0}


def made(**options: Any) -> World:
    return TwoStage(**QUICK | options).world(LOG)


def policy_of(world: World) -> Exponential:
    assert isinstance(world.policy, Exponential)
    return world.policy


@pytest.fixture(scope="module")
def world() -> World:
    return made()


def test_keeps_the_users_and_items_of_the_log(world: World) -> None:
    assert (world.n_users, world.n_items) == (LOG.n_users, LOG.n_items)
    assert world.users is LOG.users
    assert world.items is LOG.items
    assert world.name == f"two-stage-{LOG.name}"
    drawn = world.log((1.0,)).to_frame()
    assert set(drawn["user"]) <= set(LOG.to_frame()["user"])


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"strength": 0, "noise": 0, "exposure_noise": 0},
        {"confounding": 0.8, "noise": 1.5, "exposure_noise": 1.0},
        {"confounding": 1.0},
        {"examination": 0.8, "density": 0.5, "exponent": 2.0, "strength": 1.0},
    ],
)
def test_a_round_has_as_many_clicks_as_the_log_has_rows(options: dict[str, Any]) -> None:
    world = made(**options)
    counts = [len(world.log((1.0,), sample=sample)) for sample in range(20)]
    wanted = options.get("density", 1.0) * len(LOG)
    # Clicks are independent, so the variance of their number is at most its mean.
    assert abs(np.mean(counts) - wanted) < Z * np.sqrt(wanted / len(counts))


@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_the_expected_clicks_are_the_sum_over_all_pairs(noise: float) -> None:
    world = made(noise=noise, exposure_noise=noise)
    expected = float((world.shown(EVERYBODY) * world.relevance(EVERYBODY)).sum())
    assert expected == pytest.approx(len(LOG), rel=1e-4)


def test_a_sample_of_pairs_gives_nearly_the_same_offset(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(two_stage, "_PAIRS", N_USERS * 10)
    monkeypatch.setattr(two_stage, "_AT_ONCE", 70)
    sampled = policy_of(with_clicks(world, len(LOG)))
    assert sampled.offset == pytest.approx(policy_of(world).offset, abs=0.15)
    assert sampled.offset != policy_of(world).offset


def test_the_offset_does_not_depend_on_the_size_of_chunks(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(two_stage, "_AT_ONCE", 3 * N_ITEMS)
    assert policy_of(with_clicks(world, len(LOG))).offset == pytest.approx(
        policy_of(world).offset, abs=1e-9
    )


def test_the_same_seed_is_the_same_world_and_log(world: World) -> None:
    again, other = made(), made(seed=1)
    np.testing.assert_array_equal(world.taste.of_all(EVERYBODY), again.taste.of_all(EVERYBODY))
    np.testing.assert_array_equal(world.shown(EVERYBODY), again.shown(EVERYBODY))
    assert world.log().fingerprint == again.log().fingerprint
    assert world.log().fingerprint != other.log().fingerprint


def test_no_strength_means_no_extra(world: World) -> None:
    without = made(strength=0)
    assert policy_of(without).extra is None
    np.testing.assert_array_equal(without.taste.of_all(EVERYBODY), world.taste.of_all(EVERYBODY))
    nothing = replace(policy_of(world), strength=0.0)
    offset = policy_of(with_clicks(replace(world, policy=nothing), len(LOG))).offset
    assert offset == pytest.approx(policy_of(without).offset, abs=1e-9)


def test_the_extra_part_has_mean_0_and_variance_1(world: World) -> None:
    policy = policy_of(world)
    assert policy.extra is not None
    values = policy.extra.of_all(EVERYBODY)
    assert values.mean() == pytest.approx(0, abs=0.03)  # over 65,536 random pairs
    assert values.std() == pytest.approx(1, abs=0.03)
    assert policy.strength == 0.5


def test_the_stages_do_not_share_their_unobserved_factors(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = []
    original = World.log

    def log(self: World, *arguments: Any, **options: Any) -> Interactions:
        seeds.append(self.seed)
        return original(self, *arguments, **options)

    monkeypatch.setattr(World, "log", log)
    world = made(epochs=1)
    assert len(seeds) == 1
    assert seeds[0] != world.seed


def test_relevance_follows_the_ratings(world: World) -> None:
    assert LOG.rating is not None
    rated = world.relevance(LOG.user, LOG.item[:, None])[:, 0]
    means = [rated[LOG.rating == rating].mean() for rating in range(1, 6)]
    assert means == sorted(means)
    assert means[-1] > means[0] + 0.4


def test_unrated_pairs_follow_the_pattern(world: World) -> None:
    likes = (EVERYBODY[:, None] + np.arange(N_ITEMS)) % 2 == 0
    unrated = np.ones(likes.shape, dtype=np.bool_)
    unrated[LOG.user, LOG.item] = False
    # Item ids sort as numbers do, so places are numbers.
    relevance = world.relevance(EVERYBODY)
    assert relevance[likes & unrated].mean() > relevance[~likes & unrated].mean() + 0.2


def test_scale_and_centre_move_the_logits() -> None:
    assert LOG.rating is not None
    plain = TwoStage(**QUICK, scale=1.0).taste(LOG).of_all(EVERYBODY)
    scaled = TwoStage(**QUICK, scale=3.0).taste(LOG).of_all(EVERYBODY)
    np.testing.assert_allclose(scaled, 3 * plain, atol=1e-9)
    mean, deviation = float(LOG.rating.mean()), float(LOG.rating.std())
    moved = TwoStage(**QUICK, scale=1.0, centre=mean - deviation).taste(LOG).of_all(EVERYBODY)
    np.testing.assert_allclose(moved, plain + 1, atol=1e-9)


def test_exposure_follows_who_rated_what() -> None:
    probabilities = 1 / (1 + np.exp(-TwoStage(**QUICK).exposure(LOG).of_all(EVERYBODY)))
    assert probabilities.sum() == pytest.approx(len(LOG), rel=0.2)
    by_user, by_item = np.bincount(LOG.user), np.bincount(LOG.item)
    assert np.corrcoef(probabilities.sum(1), by_user)[0, 1] > 0.9
    assert np.corrcoef(probabilities.sum(0), by_item)[0, 1] > 0.9


def test_users_who_rated_everything_are_shown_nearly_everything() -> None:
    rng = np.random.default_rng(0)
    user = np.concatenate([np.zeros(20, dtype=int), rng.integers(1, 10, size=60)])
    item = np.concatenate([np.arange(20), rng.integers(0, 20, size=60)])
    log = cp.read({"user": user, "item": item, "rating": rng.integers(1, 6, size=80)})
    logits = TwoStage(**QUICK).exposure(log).of_all(np.arange(10))
    assert logits[0].min() > logits[1:].mean() + 1


FULL = cp.read({"user": [0, 0, 1, 1], "item": [0, 1, 0, 1], "rating": [1, 5, 2, 4]})
SAME = np.full(len(LOG), 3, dtype=np.float32)


@pytest.mark.parametrize(
    ("log", "options", "text"),
    [
        (replace(LOG, rating=None), {}, "needs ratings; found a log without them"),
        (replace(LOG, rating=SAME), {}, "ratings must differ .* found 3 in all"),
        (FULL, {}, "all users have all 2 items"),
        (LOG, {"density": 20, "epochs": 1}, "found .* wanted; lower density"),
    ],
)
def test_a_log_that_makes_no_world_is_refused(
    log: Interactions, options: dict[str, Any], text: str
) -> None:
    with pytest.raises((DataError, ConfigError), match=text):
        TwoStage(**QUICK | options).world(log)


@pytest.mark.parametrize(
    "options", [{"scale": 0}, {"noise": -1}, {"confounding": 2}, {"dims": 3}, {"density": 0}]
)
def test_options_are_checked(options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        TwoStage(**options)
