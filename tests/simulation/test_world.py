"""A world's probabilities against means over many occasions.

Seeds are fixed. Of a few dozen numbers, one beyond |z| = 5 would be a false alarm in one of 20,000
other seeds.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import expit, logit
from scipy.stats import binom

import counterplay as cp
from counterplay.simulation.factors import Factors
from counterplay.simulation.policies import Exponential, Mixture, Policy, Scored
from counterplay.simulation.world import World

from . import makers

Z = 5.0
N_USERS, N_ITEMS, DIM = 4, 6, 2
USERS = np.arange(N_USERS)


factors = partial(makers.factors, n_users=N_USERS, n_items=N_ITEMS, dim=DIM, drift=0.5)


def scored(seed: int = 1) -> Scored:
    rng = np.random.default_rng(seed)
    caps, activity = rng.uniform(0.1, 1, N_ITEMS), rng.uniform(0.3, 1, N_USERS)
    return Scored(caps, activity, factors(seed))


def world(policy: Policy | None = None, **given: Any) -> World:
    given = {"noise": 0.8, "exposure_noise": 1.0, "confounding": 0.5, "examination": 0.8} | given
    return World(factors(0), policy or scored(), **given)


POLICIES: dict[str, Policy] = {
    "scored": scored(),
    "all alike": Scored(np.full(N_ITEMS, 0.5), np.ones(N_USERS)),
    "exponential": Exponential(factors(2)),
    "often certain": Exponential(factors(2), offset=2.0),
    "mixture": Mixture((scored(), Exponential(factors(7))), (0.3, 0.7)),
}


@pytest.mark.parametrize("noise", [0.2, 1.0])
def test_the_mean_over_unobserved_factors_is_exact(noise: float) -> None:
    """Against a sum over a fine grid."""
    grid = np.linspace(-9, 9, 4001)
    share = np.exp(-(grid**2) / 2)
    share /= share.sum()
    place = world(noise=noise, exposure_noise=noise)
    logits = place.taste.of_all(USERS)
    expected = expit(logits[..., None] + noise * grid) @ share
    np.testing.assert_allclose(place.relevance(USERS), expected, rtol=1e-5)
    for policy in POLICIES.values():
        accepted = [policy.accept(USERS, None, noise * node) for node in grid]
        expected = np.tensordot(share, np.array(accepted), axes=1)
        place = world(policy, noise=noise, exposure_noise=noise)
        np.testing.assert_allclose(place.accepted(USERS), expected, rtol=1e-5)


def test_without_noise_every_occasion_is_alike() -> None:
    place = world(noise=0.0, exposure_noise=0.0)
    assert (place.relevance(USERS) == expit(place.taste.of_all(USERS))).all()
    for find in (place.relevance, place.shown, place.accepted, place.propensity):
        assert (find(USERS, occasion=("a",)) == find(USERS)).all()


@pytest.mark.parametrize("name", POLICIES)
def test_some_items_have_what_they_have_among_all(name: str) -> None:
    place = world(POLICIES[name])
    items = np.array([[5, 0], [1, 1], [2, 3], [4, 0]])
    for find in (place.relevance, place.shown, place.accepted, place.propensity):
        for occasion in (None, ("log", 0, 1)):
            whole = np.take_along_axis(find(USERS, occasion=occasion), items, axis=1)
            found = find(USERS, items, occasion=occasion)
            assert ((found > 0) & (found <= 1)).all()
            np.testing.assert_allclose(found, whole, rtol=1e-12)


def test_an_occasion_is_the_same_each_time_and_unlike_any_other() -> None:
    one, other_seed = world(), world(seed=1)
    found = one.relevance(USERS, occasion=("log", 0, 0))
    assert (found == world().relevance(USERS, occasion=("log", 0, 0))).all()
    for others in (("log", 0, 1), ("log", 1, 0), ("online", 0, 0)):
        assert (found != one.relevance(USERS, occasion=others)).all()
    assert (found != other_seed.relevance(USERS, occasion=("log", 0, 0))).all()


def test_time_moves_tastes_and_nothing_else() -> None:
    place = world()
    assert (place.relevance(USERS, time=1.0) != place.relevance(USERS)).all()
    moved = logit(place.relevance(USERS, time=1.0, occasion=("a",)))
    moved -= place.taste.of_all(USERS, 1.0)
    still = logit(place.relevance(USERS, occasion=("a",))) - place.taste.of_all(USERS)
    np.testing.assert_allclose(moved, still, atol=1e-9)


def unobserved(confounding: float, n: int = 20_000) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return ε1 and ε2 as relevance and exposure show them."""
    flat = Factors(np.zeros((n, 1)), np.zeros((2, 1)), np.zeros(n), np.zeros(2))
    policy = Scored(np.ones(2), np.ones(n))
    place = World(flat, policy, noise=0.7, exposure_noise=1.3, confounding=confounding)
    users, occasion = np.arange(n), ("log", 0, 0)
    first = logit(place.relevance(users, occasion=occasion)).ravel()
    return first, logit(place.accepted(users, occasion=occasion)).ravel()


@pytest.mark.parametrize("confounding", [0.0, 0.3, 0.8, 1.0])
def test_confounding_is_the_correlation_of_what_moves_taste_and_exposure(
    confounding: float,
) -> None:
    first, second = unobserved(confounding)
    n = len(first)
    for values, deviation in ((first, 0.7), (second, 1.3)):
        assert abs(values.mean()) / deviation * np.sqrt(n) < Z
        assert abs(values.var() / deviation**2 - 1) * np.sqrt(n / 2) < Z
    correlation = float(np.corrcoef(first, second)[0, 1])
    if confounding == 1:
        assert correlation == pytest.approx(1)
    else:  # Fisher's transformation is normal with variance 1 / (n − 3)
        z = (np.arctanh(correlation) - np.arctanh(confounding)) * np.sqrt(n - 3)
        assert abs(z) < Z


@pytest.mark.parametrize("list_length", [1, 2, 10])
@pytest.mark.parametrize("examination", [0.3, 0.9, 1.0])
def test_examination_is_the_mean_over_places(examination: float, list_length: int) -> None:
    place = world(examination=examination, list_length=list_length)
    down = np.arange(list_length)
    chance = binom.pmf(down, list_length - 1, 1 - place.policy.prominence(USERS, None)[..., None])
    expected = place.shown(USERS) * (chance @ examination**down)
    np.testing.assert_allclose(place.propensity(USERS), expected, rtol=1e-10)


def test_ids_are_numbers_unless_they_are_given() -> None:
    assert world().users.ids.to_list() == [0, 1, 2, 3]
    names = cp.data.Vocabulary.of(list("abcdef"))
    assert world(items=names).items.ids.to_list() == list("abcdef")
    assert (world().n_users, world().n_items) == (N_USERS, N_ITEMS)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        *(("confounding", -0.1), ("confounding", 1.1), ("confounding", np.nan)),
        *(("examination", 0.0), ("examination", 1.5), ("noise", -1.0), ("noise", np.inf)),
        *(("exposure_noise", -1.0), ("exposure_noise", np.nan)),
        *(("list_length", 0), ("list_length", 1001)),
    ],
)
def test_dials_out_of_range_are_an_error(name: str, wrong: float) -> None:
    with pytest.raises(cp.ConfigError, match=f"{name} of a world must be"):
        world(None, **{name: wrong})


@pytest.mark.parametrize("seed", [-1, 0.5, True, "0", None])
def test_a_seed_that_is_none_is_an_error_at_once(seed: object) -> None:
    with pytest.raises(cp.ConfigError, match="seed must be"):
        world(seed=seed)


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"users": cp.data.Vocabulary.of(["a", "b"])}, "found 2 user ids, 6 item ids"),
        ({"items": cp.data.Vocabulary.of(["a", "b"])}, "4 user ids, 2 item ids"),
        ({"policy": Scored(np.ones(5), np.ones(4))}, "a policy for 5 items"),
    ],
)
def test_parts_that_do_not_fit_are_an_error(parts: dict[str, Any], words: str) -> None:
    with pytest.raises(cp.DataError, match=words):
        world(**parts)


def test_a_world_shows_itself() -> None:
    found = world(name="<b>", seed=3)
    assert repr(found) == "<World '<b>': 4 users, 6 items; seed 3>"
    page = found._repr_html_()
    assert "<b>" not in page
    for text in ("Factors", "Scored", "confounding", "0.5", "places of a list"):
        assert f">{text}</td>" in page
