from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import norm

import counterplay as cp
from counterplay.simulation.factors import Factors
from counterplay.simulation.policies import Exponential, Mixture, Policy, Scored, caps_for

from . import makers

N_USERS, N_ITEMS = 5, 7
USERS = np.array([4, 0, 0, 2])


factors = partial(makers.factors, n_users=N_USERS, n_items=N_ITEMS)


def scored(seed: int, *, scale: float = 1.0, plain: bool = False) -> Scored:
    rng = np.random.default_rng(seed)
    caps, activity = rng.uniform(0.01, 1, N_ITEMS), rng.uniform(0.01, 1, N_USERS)
    return Scored(caps, activity, None if plain else factors(seed, scale=scale), 1.5, -0.2)


def policies(seed: int, scale: float = 1.0) -> list[Policy]:
    first, second = scored(seed, scale=scale), scored(seed + 1, plain=True)
    third = Exponential(factors(seed), factors(seed + 1, scale=scale), 1.3, 0.4, -1.0)
    return [first, second, third, Mixture((first, second, third), (0.2, 0.5, 0.3))]


def shown(policy: Policy, shift: NDArray[np.float64] | float = 0.0) -> NDArray[np.float64]:
    return policy.caps * policy.accept(USERS, None, shift)


@given(st.integers(0, 99), st.sampled_from([0.1, 1.0, 50.0, 1e4]))
def test_acceptance_is_a_probability(seed: int, scale: float) -> None:
    shift = scale * np.random.default_rng(seed).normal(size=(len(USERS), N_ITEMS))
    for policy in policies(seed, scale):
        assert ((policy.caps > 0) & (policy.caps <= 1)).all()
        for moved in (0.0, -scale, shift):
            found = policy.accept(USERS, None, moved)
            assert found.shape == (len(USERS), N_ITEMS)
            assert ((found >= 0) & (found <= 1)).all()


def test_a_scored_policy_follows_its_formula() -> None:
    policy = scored(3)
    assert isinstance(policy.scores, Factors)
    for row, user in enumerate(USERS.tolist()):
        score = policy.scores.of_all(np.array([user]))[0]
        expected = policy.activity[user] * expit(1.5 * score - 0.2 + 0.7)
        np.testing.assert_allclose(policy.accept(USERS, None, 0.7)[row], expected, rtol=1e-12)


def test_the_exponential_policy_follows_its_formula() -> None:
    logits, extra = factors(1), factors(2)
    policy = Exponential(logits, extra, 1.3, 0.4, -0.5)
    p = expit(logits.of_all(USERS))
    raw = p**1.3 * np.exp(0.4 * extra.of_all(USERS) - 0.5 + 0.9)
    assert (raw > 1).any()
    assert (raw < 1).any()
    np.testing.assert_allclose(policy.accept(USERS, None, 0.9), np.minimum(raw, 1), rtol=1e-12)
    assert (policy.caps == 1).all()


def test_impossible_logits_are_shown_never_and_certain_ones_always() -> None:
    none = np.zeros((1, 1))
    logits = Factors(none, np.zeros((2, 1)), np.zeros(1), np.array([-1e4, 1e4]))
    assert Exponential(logits).accept(np.array([0]), None).tolist() == [[0.0, 1.0]]


@given(st.integers(0, 99), st.floats(0, 1), st.floats(-3, 3), st.floats(1e-3, 3))
def test_a_mixture_shows_the_average(
    seed: int, share: float, shift: float, deviation: float
) -> None:
    first, second = scored(seed), Exponential(factors(seed))
    mixture = Mixture((first, second), (share, 1 - share))
    parts: list[tuple[float, Policy]] = [(share, first), (1 - share, second)]
    expected = sum(each * policy.caps * policy.accept(USERS, None, shift) for each, policy in parts)
    np.testing.assert_allclose(shown(mixture, shift), expected, rtol=1e-9)
    means = [
        each * policy.caps * policy.mean_accept(USERS, None, deviation) for each, policy in parts
    ]
    found = mixture.caps * mixture.mean_accept(USERS, None, deviation)
    np.testing.assert_allclose(found, sum(means), rtol=1e-9)


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ((), "a share of 0 or more for each policy"),
        ((1.0,), "a share of 0 or more for each policy"),
        ((1.5, -0.5), "a share of 0 or more for each policy"),
        ((0.5, 0.6), "must add up to 1; found 1.1"),
    ],
)
def test_shares_that_are_none_are_an_error(shares: tuple[float, ...], message: str) -> None:
    with pytest.raises(cp.ConfigError, match=message):
        Mixture((scored(0), scored(1)), shares)


@pytest.mark.parametrize("wrong", [0.0, -0.1, 1.1, np.nan])
@pytest.mark.parametrize("name", ["caps", "activity"])
def test_caps_and_activity_out_of_range_are_an_error(name: str, wrong: float) -> None:
    given = {"caps": np.ones(3), "activity": np.ones(2)}
    given[name][1] = wrong
    with pytest.raises(cp.ConfigError, match=f"the {name} of a policy must be above 0"):
        Scored(given["caps"], given["activity"])


@given(
    st.lists(st.floats(0.001, 10), min_size=1, max_size=20),
    st.floats(0.001, 0.999),
    st.floats(0.05, 1),
)
def test_caps_show_what_is_wanted_in_proportion_to_appeal(
    appeal: list[float], share: float, mean_accept: float
) -> None:
    values = np.array(appeal)
    n_shown = share * len(values) * mean_accept
    caps = caps_for(values, n_shown, mean_accept)
    assert ((caps > 0) & (caps <= 1)).all()
    assert caps.sum() * mean_accept == pytest.approx(n_shown, rel=1e-9)
    ratio = caps / values
    free = caps < 1 - 1e-9
    np.testing.assert_allclose(ratio[free], ratio.max(), rtol=1e-9)
    assert (values[~free] >= values[free].max(initial=0) * (1 - 1e-6)).all()


@pytest.mark.parametrize("n_shown", [0.0, -1.0, 1.5, 9.0, np.nan])
def test_showing_nothing_or_everything_is_an_error(n_shown: float) -> None:
    with pytest.raises(cp.ConfigError, match="more than 0 and fewer than 2 of 3 items"):
        caps_for(np.array([1.0, 2.0, 3.0]), n_shown, 0.5)


@pytest.mark.parametrize("deviation", [0.01, 0.3, 1.0, 3.0])
def test_the_exponential_mean_is_exact_where_the_cap_binds_and_where_not(
    deviation: float,
) -> None:
    logs = np.array([-300.0, -30.0, -5.0, -1.0, -0.01, 0.0, 0.01, 1.0, 5.0, 30.0])
    # A logit of 50 has the log probability 0, to all digits.
    logits = Factors(np.zeros((1, 1)), np.zeros((10, 1)), np.array([50.0]), np.zeros(10))
    extra = Factors(np.zeros((1, 1)), np.zeros((10, 1)), np.zeros(1), logs)
    found = Exponential(logits, extra).mean_accept(np.array([0]), None, deviation)[0]
    for value, log in zip(found.tolist(), logs.tolist(), strict=True):
        # e^(log + s z) φ(z) = e^(log + s²/2) φ(z − s), up to where the cap of 1 begins.
        cap = -log / deviation
        whole = [
            quad(density, *ends, epsabs=0, epsrel=1e-11, limit=200)[0] if ends[0] < ends[1] else 0
            for density, ends in (
                (lambda z: norm.pdf(z - deviation), (deviation - 12, min(cap, deviation + 12))),
                (norm.pdf, (max(cap, -12), 12)),
            )
        ]
        expected = np.exp(log + deviation**2 / 2) * whole[0] + whole[1]
        assert value == pytest.approx(expected, rel=1e-9)
    assert (found <= 1).all()
    assert (np.diff(found) >= 0).all()


@given(st.integers(0, 99))
def test_prominence_is_the_score_alone(seed: int) -> None:
    """Who is shown little sees it no further down the list."""
    policy = scored(seed)
    busy = Scored(policy.caps, np.ones(N_USERS), policy.scores, policy.sharpness, policy.offset)
    assert (policy.prominence(USERS, None) == busy.prominence(USERS, None)).all()
    np.testing.assert_allclose(busy.prominence(USERS, None), busy.accept(USERS, None), rtol=1e-15)
    logits = factors(seed)
    for exponent, offset in ((1.0, 0.0), (2.0, -1.0)):
        model = Exponential(logits, factors(seed + 1), exponent, offset=offset)
        np.testing.assert_allclose(model.prominence(USERS, None), expit(logits.of_all(USERS)))


def test_the_prominence_in_a_mixture_is_that_of_who_shows_it() -> None:
    caps = np.array([1.0, 0.2])
    high = Scored(caps, np.full(1, 0.01), offset=50.0)
    low = Scored(caps[::-1].copy(), np.ones(1), offset=-50.0)
    found = Mixture((high, low), (0.5, 0.5)).prominence(np.array([0]), None)
    np.testing.assert_allclose(found, [[1 / 1.2, 0.2 / 1.2]])


@pytest.mark.parametrize("wrong", [0.0, -1.0, np.nan])
def test_appeal_that_is_none_is_an_error(wrong: float) -> None:
    with pytest.raises(cp.ConfigError, match="appeal must be above 0"):
        caps_for(np.array([1.0, wrong, 3.0]), 1.0, 1.0)
