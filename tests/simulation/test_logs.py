"""Logs against the probabilities that they are drawn with.

Seeds are fixed. With other seeds a test would alarm falsely once in 10,000 times or less often:
|z| = 5 alone has two in a million, and many frequencies at a time share the 10,000th.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import chisquare, kstest

import counterplay as cp
from counterplay.data.canonical import canonical_order
from counterplay.simulation import logs
from counterplay.simulation.factors import Factors
from counterplay.simulation.logs import DAY, START, oracle_propensities
from counterplay.simulation.policies import Policy, Scored
from counterplay.simulation.world import World
from tests.simulation.makers import agree, counts

Z = 5.0
N_USERS, N_ITEMS = 20, 8
USERS = np.arange(N_USERS)


def factors(seed: int, n_users: int = N_USERS, n_items: int = N_ITEMS) -> Factors:
    rng = np.random.default_rng(seed)
    return Factors(
        rng.normal(size=(n_users, 2)), rng.normal(size=(n_items, 2)), np.zeros(n_users),
        np.zeros(n_items), toward=rng.normal(size=(n_users, 2)), turn=0.3,
    )  # fmt: skip


def scored(n_users: int = N_USERS, n_items: int = N_ITEMS) -> Scored:
    rng = np.random.default_rng(3)
    caps = np.linspace(0.1, 1, n_items)  # rare ones and likely ones
    return Scored(caps, rng.uniform(0.5, 1, n_users), factors(2, n_users, n_items))


def world(n_users: int = N_USERS, n_items: int = N_ITEMS, **given: Any) -> World:
    given = {"noise": 1.0, "exposure_noise": 1.0, "examination": 0.8, "list_length": 5} | given
    policy: Policy = given.pop("policy", scored(n_users, n_items))
    return World(factors(1, n_users, n_items), policy, **given)


def joint(place: World, rate: float, time: float) -> NDArray[np.float64]:
    """Return the probability of a click in a round: a sum over both unobserved factors."""
    nodes, shares = np.polynomial.hermite_e.hermegauss(25)
    shares = shares / shares.sum()
    kappa, total = place.confounding, np.zeros((N_USERS, N_ITEMS))
    logits = place.taste.of_all(USERS, time)
    for first, a in zip(nodes, shares, strict=True):
        for own, b in zip(nodes, shares, strict=True):
            second = kappa * first + (1 - kappa**2) ** 0.5 * own
            accepted = place.policy.accept(USERS, None, place.exposure_noise * second)
            total += a * b * accepted * expit(logits + place.noise * first)
    examined = place.propensity(USERS) / place.shown(USERS)
    return rate * place.policy.caps * total * examined


@pytest.mark.parametrize("confounding", [0.0, 0.7])
def test_pairs_are_shown_examined_and_clicked_as_often_as_they_should_be(
    confounding: float,
) -> None:
    place, n, rate = world(confounding=confounding), 800, 0.7
    shown, exposed, clicked = (np.zeros((N_USERS, N_ITEMS), dtype=np.int64) for _ in range(3))
    for sample in range(n):
        log = place.log((rate,), sample=sample, impressions=True, with_truth=True)
        assert log.clicked is not None
        assert log.exposed is not None
        shown += counts(log)
        exposed += counts(log, log.exposed)
        clicked += counts(log, log.clicked)
    assert agree(shown, rate * place.shown(USERS), n)
    assert agree(exposed, rate * place.propensity(USERS), n)
    assert agree(clicked, joint(place, rate, 0.0), n)


def test_later_rounds_click_what_is_left() -> None:
    place, n = world(confounding=0.4), 800
    found = np.zeros((2, N_USERS, N_ITEMS), dtype=np.int64)
    for sample in range(n):
        log = place.log((1.0, 0.6), sample=sample)
        assert log.time is not None
        later = log.time >= START + DAY
        found += np.array([counts(log, ~later), counts(log, later)])
    first, second = joint(place, 1.0, 0.0), joint(place, 0.6, 1.0)
    assert agree(found[0], first, n)
    assert agree(found[1], (1 - first) * second, n)


def test_places_follow_prominence() -> None:
    """A chi-square test for each pair, at 1e-6."""
    place, n = world(noise=0.0, exposure_noise=0.0), 800
    found = np.zeros((N_USERS * N_ITEMS, place.list_length))
    for sample in range(n):
        log = place.log((1.0,), sample=sample, impressions=True)
        assert log.position is not None
        np.add.at(found, (log.pair, log.position.astype(np.int64) - 1), 1)
    further = 1 - place.policy.prominence(USERS, None).ravel()
    down = np.arange(place.list_length)
    ways = np.array([1, 4, 6, 4, 1])
    for row, p in zip(found, further, strict=True):
        expected = row.sum() * ways * p**down * (1 - p) ** (4 - down)
        kept = expected > 1
        if kept.sum() > 1:
            scale = row[kept].sum() / expected[kept].sum()
            assert chisquare(row[kept], expected[kept] * scale).pvalue > 1e-6


@pytest.mark.parametrize("at_once", [8, 1 << 20])
@pytest.mark.parametrize("sample", [0, 1])
def test_the_propensity_of_a_row_is_that_of_its_occasion_and_place(
    monkeypatch: pytest.MonkeyPatch, at_once: int, sample: int
) -> None:
    monkeypatch.setattr(logs, "_AT_ONCE", at_once)
    place, rates = world(confounding=0.5), (1.0, 0.5)
    log = place.log(rates, sample=sample, first_round=3, impressions=True, with_truth=True)
    assert log.time is not None
    assert log.position is not None
    assert log.propensity is not None
    rounds = (log.time - START) // DAY
    assert set(rounds.tolist()) == {3, 4}
    for number, rate in enumerate(rates, 3):
        rows = rounds == number
        user, item = log.user[rows], log.item[rows]
        accepted = place.accepted(user, item[:, None], occasion=("log", sample, number))[:, 0]
        expected = place.policy.caps[item] * rate * accepted * 0.8 ** (log.position[rows] - 1.0)
        np.testing.assert_allclose(log.propensity[rows], expected, rtol=1e-13)
    assert ((log.propensity > 0) & (log.propensity <= 1)).all()


def test_a_round_at_a_time_is_the_same_as_all_at_once() -> None:
    place = world()
    whole = place.log((1.0, 0.8))
    first = place.log((1.0,))
    second = place.log((0.8,), first_round=1, before=first)
    assert whole.time is not None
    later = whole.time >= START + DAY
    assert first == whole.take(~later)
    assert second == whole.take(later)


@pytest.mark.parametrize("at_once", [8, 300, 1 << 20])
@pytest.mark.parametrize("impressions", [False, True])
def test_rows_stand_by_user_then_time_within_their_rounds(
    monkeypatch: pytest.MonkeyPatch, at_once: int, impressions: bool
) -> None:
    monkeypatch.setattr(logs, "_AT_ONCE", at_once)
    log = world(40, 12).log((1.0, 0.5, 0.5), first_round=2, impressions=impressions)
    clicked = log.pair if log.clicked is None else log.pair[log.clicked]
    assert len(np.unique(clicked)) == len(clicked), "no pair is clicked twice"
    assert log.time is not None
    assert [column.dtype.name for _, column in log.columns()][:2] == ["int32", "int32"]
    assert log.time.dtype.name == "int64"
    assert (np.lexsort((log.time, log.user)) == np.arange(len(log))).all()
    assert set(((log.time - START) // DAY).tolist()) == {2, 3, 4}
    assert len(set(log.user.tolist())) > 20


def test_times_spread_over_the_day() -> None:
    """A Kolmogorov-Smirnov test at 1e-5."""
    log = world(500, 40).log((1.0,))
    assert log.time is not None
    assert kstest((log.time - START) / DAY, "uniform").pvalue > 1e-5


def test_the_clicks_among_impressions_are_those_of_the_click_log() -> None:
    place = world(40, 12, confounding=0.3)
    shown = place.log(impressions=True, with_truth=True)
    clicks = place.log(with_truth=True)
    assert shown.clicked is not None
    assert shown.exposed is not None
    assert 0 < shown.clicked.mean() < 1
    assert not shown.clicked[~shown.exposed].any(), "what nobody saw nobody clicked"
    assert not shown.exposed.all()
    assert clicks.clicked is None
    assert clicks.exposed is not None
    assert clicks.exposed.all()
    for name, column in clicks.columns():
        assert (getattr(shown, name)[shown.clicked] == column).all()
    bare = place.log()
    assert [name for name, _ in bare.columns()] == ["user", "item", "time"]
    assert (bare.pair == clicks.pair).all()


def test_a_million_users_and_a_hundred_thousand_items_keep_their_pairs_apart() -> None:
    """Few of the 10^11 pairs are shown: their numbers do not fit into 32 bits."""
    n_users, n_items = 1_000_000, 100_000
    flat = Factors(np.zeros((n_users, 1)), np.zeros((n_items, 1)), np.zeros(n_users),
                   np.full(n_items, 9.0))  # fmt: skip
    place = World(flat, Scored(np.full(n_items, 2e-8), np.ones(n_users), offset=9.0))
    log = place.log((1.0,))
    assert abs(len(log) - 2000) < Z * np.sqrt(2000)
    assert kstest(log.user / n_users, "uniform").pvalue > 1e-5
    assert kstest(log.item / n_items, "uniform").pvalue > 1e-5


@pytest.mark.parametrize("rates", [(), (0.0,), (1.0, -0.1), (1.1,), (np.nan,)])
def test_rates_that_are_none_are_an_error(rates: tuple[float, ...]) -> None:
    with pytest.raises(cp.ConfigError, match="each above 0 and at most 1"):
        world().log(rates)


def test_a_log_without_rows_is_an_error() -> None:
    never = Scored(np.full(N_ITEMS, 1e-9), np.ones(N_USERS))
    with pytest.raises(cp.DataError, match="must have rows; found none"):
        world(policy=never).log()


@pytest.mark.parametrize("at_once", [8, 40, 300, 1 << 20])
def test_a_round_does_not_depend_on_the_rates_of_others(
    monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    """Users are worked on in the same parts, whatever the rates."""
    monkeypatch.setattr(logs, "_AT_ONCE", at_once)
    place = world(40, 12)
    alone = place.log((0.3,), with_truth=True)
    for rates in ((0.3, 1.0), (0.3, 0.01, 0.7)):
        both = place.log(rates, with_truth=True)
        assert both.time is not None
        assert both.take(both.time < START + DAY) == alone


def test_of_impressions_before_only_clicks_are_not_shown_again() -> None:
    place = world(40, 12)
    clicks, shown = place.log((1.0,)), place.log((1.0,), impressions=True)
    assert len(shown) > 1.5 * len(clicks)
    either: list[dict[str, Any]] = [{}, {"impressions": True}]
    for options in either:
        after = place.log((1.0,), first_round=1, before=clicks, **options)
        assert place.log((1.0,), first_round=1, before=shown, **options) == after
    assert not np.isin(after.pair, clicks.pair).any()
    assert np.isin(after.pair, shown.pair).any()


def test_what_came_before_may_be_a_log_without_rows_of_some_users() -> None:
    place = world(400, 12)
    first = place.log((1.0,))
    some = first.take(first.user % 2 == 1)
    after = place.log((1.0,), first_round=1, before=some)
    assert not np.isin(after.pair, some.pair).any()
    assert np.isin(after.pair, first.pair).any()


@pytest.mark.parametrize("shape", [(19, 8), (20, 7), (40, 12)])
def test_what_came_before_must_be_of_the_same_world(shape: tuple[int, int]) -> None:
    other = world(*shape).log()
    with pytest.raises(cp.DataError, match="must have the world's 20 users and 8 items; found"):
        world().log(before=other)


@pytest.mark.parametrize("at_once", [8, 1 << 20])
def test_the_oracle_finds_the_propensities_of_a_log(
    monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(logs, "_AT_ONCE", at_once)
    place = world(40, 12, examination=1.0, confounding=0.5)
    log = place.log((1.0, 1.0), sample=2, with_truth=True)
    assert log.propensity is not None
    found = oracle_propensities(place, log, sample=2)
    np.testing.assert_allclose(found, log.propensity, rtol=1e-12)
    assert not np.allclose(oracle_propensities(place, log, sample=1), log.propensity)


def test_the_oracle_refuses_a_log_of_another_world() -> None:
    place = world()
    for log in (world(19).log(), replace(place.log(), time=None)):
        with pytest.raises(cp.DataError, match="the oracle's log must have"):
            oracle_propensities(place, log)


def test_rows_stand_in_the_order_that_reading_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    """In days of 5 microseconds, many of a user's rows are at one time."""
    monkeypatch.setattr(logs, "DAY", 5)
    log = world(200, 30).log((1.0, 0.5), impressions=True)
    assert log.time is not None
    columns = dict(log.columns())
    assert canonical_order(columns, log.users, log.items) is None
    ties = (np.diff(log.user) == 0) & (np.diff(log.time) == 0)
    assert ties.sum() > 100
