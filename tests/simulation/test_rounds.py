"""What is proposed in a round, and random rows: drawn as stated, and without touching the others.

Seeds are fixed. With other seeds a test would alarm falsely once in 10,000 times or less often.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import chisquare

import counterplay as cp
from counterplay.simulation import logs
from counterplay.simulation.logs import DAY, START
from counterplay.simulation.rounds import probability, proposed
from counterplay.simulation.synthetic import Synthetic
from counterplay.simulation.world import World
from tests.simulation.makers import agree, counts

SHARE = 0.3
N_USERS, N_ITEMS, LENGTH, RHO = 40, 12, 4, 0.7
USERS = np.arange(N_USERS)

CAPS = np.array([1.0, 0.9, 0.2501, 0.25, 0.2499, 0.1, 0.01, 1e-4])


def test_every_pair_is_proposed_with_its_cap() -> None:
    """By item, by user, and by two users and two items at a time: draws are independent."""
    rng, n, n_users = np.random.default_rng(0), 3000, 12
    drawn = np.zeros((n, n_users, len(CAPS)), dtype=np.int64)
    for number in range(n):
        user, item = proposed(CAPS, n_users, rng)
        drawn[number, user, item] += 1
    assert drawn.max() == 1, "a pair is proposed once"
    assert (drawn[:, :, 0] == 1).all()
    assert agree(drawn.sum((0, 1)), CAPS, n * n_users)
    assert agree(drawn.sum(0), np.broadcast_to(CAPS, (n_users, len(CAPS))), n)
    both = np.einsum("nui,nvi->uvi", drawn, drawn)[~np.eye(n_users, dtype=bool)]
    assert agree(both, np.broadcast_to(CAPS**2, both.shape), n)
    apart = ~np.eye(len(CAPS), dtype=bool)
    both = np.einsum("nui,nuj->ij", drawn, drawn)[apart]
    assert agree(both, np.outer(CAPS, CAPS)[apart], n * n_users)


def world(**options: object) -> World:
    plain = {"n_users": N_USERS, "n_items": N_ITEMS, "n_shown": 2.5, "mean_relevance": 0.4,
             "confounding": 0.8, "noise": 1.0, "examination": RHO, "list_length": LENGTH,
             "drift": 0.5}  # fmt: skip
    return Synthetic.model_validate(plain | options).world()


def drawn(n: int, rates: tuple[float, ...] = (1.0,)) -> list[cp.Interactions]:
    place = world()
    return [
        place.log(rates, sample=sample, impressions=True, random_share=SHARE, with_truth=True)
        for sample in range(n)
    ]


def flags(log: cp.Interactions) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which rows are random, and which are clicked."""
    assert log.random is not None
    assert log.clicked is not None
    return log.random, log.clicked


@pytest.fixture(scope="module")
def many() -> list[cp.Interactions]:
    return drawn(600)


@given(st.floats(0, 0.9), st.integers(0, 1000), st.integers(0, 10**6))
def test_the_expected_share_is_the_stated_one(share: float, n_shown: int, n_pairs: int) -> None:
    p = probability(share, n_shown, n_pairs)
    assert 0 <= p <= 1
    n_random = p * n_pairs
    if p < 1:
        assert n_random == pytest.approx(share * (n_random + n_shown) if n_pairs else 0)


def test_random_rows_have_their_share_of_all_rows(many: list[cp.Interactions]) -> None:
    random = np.concatenate([flags(log)[0] for log in many])
    assert agree(np.array([random.sum()]), np.array([SHARE]), len(random))


def test_random_rows_are_uniform_over_users_items_and_places(many: list[cp.Interactions]) -> None:
    """Chi-square tests at 1e-5; what the policy shows is far from it."""
    pairs = np.sum([counts(log, flags(log)[0]) for log in many], axis=0)
    others = np.sum([counts(log, ~flags(log)[0]) for log in many], axis=0)
    places = sum(
        np.bincount(log.position[flags(log)[0]], minlength=LENGTH + 1)[1:]
        for log in many
        if log.position is not None
    )
    for table in (pairs.ravel(), pairs.sum(0), pairs.sum(1), places):
        assert chisquare(table).pvalue > 1e-5
    for table in (others.sum(0), others.sum(1)):
        assert chisquare(table).pvalue < 1e-5


def test_random_rows_are_examined_by_place_and_clicked_by_relevance(
    many: list[cp.Interactions],
) -> None:
    """In spite of confounding, because chance chose them; the policy's rows are clicked more."""
    relevance = world().relevance(USERS)
    found = np.zeros((2, 3, LENGTH))  # by policy and at random: rows, examined and clicked
    expected = np.zeros((2, LENGTH))
    for log in many:
        random, clicked = flags(log)
        assert log.position is not None
        assert log.exposed is not None
        for kind, rows in enumerate((~random, random)):
            place = log.position[rows] - 1
            np.add.at(found[kind, 0], place, 1)
            np.add.at(found[kind, 1], place, log.exposed[rows])
            np.add.at(found[kind, 2], place, clicked[rows])
            np.add.at(expected[kind], place, relevance[log.user[rows], log.item[rows]])
    rate = np.array([RHO**place for place in range(LENGTH)])
    n, examined, clicked = found[1].astype(np.int64)
    for each in range(LENGTH):
        assert agree(examined[each : each + 1], rate[each : each + 1], int(n[each]))
        p = rate[each] * expected[1, each] / n[each]  # of different chances: varies no more
        assert agree(clicked[each : each + 1], np.array([p]), int(n[each]))
    assert abs(expected[1].sum() / n.sum() - relevance.mean()) < 0.01
    excess = found[0, 2].sum() - (rate * expected[0]).sum()
    assert excess > 5 * found[0, 2].sum() ** 0.5


def test_random_rows_know_nothing_of_what_the_policy_showed(many: list[cp.Interactions]) -> None:
    """Also on pairs that the policy showed on the same day, which were liked more on its occasion.

    So leaving out pairs that were clicked does not bias the random rows that are left.
    """
    relevance, n, n_shown, clicks = world().relevance(USERS), 0, 0, 0
    chances: list[float] = []
    shares: list[float] = []
    for log in many:
        random, clicked = flags(log)
        assert log.position is not None
        shown = np.isin(log.pair, log.pair[~random])
        both = random & shown
        n, n_shown = n + int(random.sum()), n_shown + int(both.sum())
        shares.append(random.sum() * (~random).sum() / (N_USERS * N_ITEMS))
        clicks += int(clicked[both].sum())
        chances.extend(
            relevance[log.user[both], log.item[both]] * RHO ** (log.position[both] - 1.0)
        )
    assert agree(np.array([n_shown]), np.array([sum(shares) / n]), n)
    assert agree(np.array([clicks]), np.array([np.mean(chances)]), n_shown)


def test_weighted_random_clicks_add_up_to_the_demand(many: list[cp.Interactions]) -> None:
    """The mean error is within 4 standard errors of 0."""
    demand = world().relevance(USERS).sum()
    errors = []
    for log in many:
        random, clicked = flags(log)
        assert log.propensity is not None
        errors.append((1 / log.propensity[random & clicked]).sum() - demand)
    error = np.std(errors, ddof=1) / len(errors) ** 0.5
    assert abs(np.mean(errors)) < 4 * error < 0.06 * demand


def test_later_random_rows_follow_the_tastes_of_their_time() -> None:
    place, found, expected, n = world(), 0, 0.0, 0
    for log in drawn(300, (0.2, 1.0)):
        assert log.time is not None
        assert log.position is not None
        random, clicked = flags(log)
        rows = random & (log.time >= START + DAY)
        user, item = log.user[rows], log.item[rows]
        chances = place.relevance(user, item[:, None], time=1.0)[:, 0]
        expected += float((chances * RHO ** (log.position[rows] - 1.0)).sum())
        found, n = found + int(clicked[rows].sum()), n + int(rows.sum())
    assert agree(np.array([found]), np.array([expected / n]), n)


@pytest.mark.parametrize("at_once", [8, 40, 1 << 20])
def test_random_rows_change_no_others(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    monkeypatch.setattr(logs, "_AT_ONCE", at_once)
    place, rates = world(), (1.0, 0.5, 0.5)
    shown = place.log(rates, impressions=True, with_truth=True)
    assert shown.random is None
    both = place.log(rates, impressions=True, random_share=SHARE, with_truth=True)
    random, clicked = flags(both)
    assert 0 < random.mean() < 1
    for name, column in shown.columns():
        assert getattr(both, name)[~random].tobytes() == column.tobytes()
    clicks = place.log(rates, with_truth=True)
    for name, column in clicks.columns():
        assert getattr(both, name)[~random & clicked].tobytes() == column.tobytes()


def test_nobody_is_shown_at_random_what_they_clicked() -> None:
    place = world(mean_relevance=0.8)
    log = place.log((1.0,) * 4, impressions=True, random_share=0.6)
    random, clicked = flags(log)
    assert log.time is not None
    rounds = (log.time - START) // DAY
    again = 0
    for number in range(1, 4):
        before = log.pair[clicked & (rounds < number)]
        at_random = log.pair[clicked & random & (rounds < number)]
        assert len(before) > 20
        assert not np.isin(log.pair[random & (rounds == number)], before).any()
        again += np.isin(log.pair[~random & (rounds == number)], at_random).sum()
    assert again > 0, "the policy does not know of random rows"
    assert len(np.unique(log.pair[random & clicked])) == (random & clicked).sum()


@pytest.mark.parametrize("at_once", [8, 1 << 20])
def test_a_round_at_a_time_has_the_same_random_rows(
    monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(logs, "_AT_ONCE", at_once)
    place = world()
    whole = place.log((1.0, 0.8), impressions=True, random_share=SHARE)
    first = place.log((1.0,), impressions=True, random_share=SHARE)
    second = place.log((0.8,), first_round=1, before=first, impressions=True, random_share=SHARE)
    assert whole.time is not None
    later = whole.time >= START + DAY
    assert first == whole.take(~later)
    assert second == whole.take(later)


@pytest.mark.parametrize(
    ("examination", "options", "others"),
    [
        (0.7, {}, []),
        (0.7, {"impressions": True}, ["position", "clicked"]),
        (1.0, {"impressions": True}, ["clicked"]),
        (1.0, {"impressions": True, "random_share": 0.1}, ["random", "clicked"]),
        (1.0, {"with_truth": True}, ["exposed", "propensity", "position"]),
        (1.0, {"impressions": True, "with_truth": True},
         ["exposed", "propensity", "position", "clicked"]),
    ],
)  # fmt: skip
def test_a_log_says_what_it_is_asked_for(
    examination: float, options: dict[str, float], others: list[str]
) -> None:
    log = world(examination=examination).log((1.0,), **options)  # type: ignore[arg-type]
    assert [name for name, _ in log.columns()] == ["user", "item", "time", *others]


@pytest.mark.parametrize("share", [-0.1, 0.95, 1.0, float("nan")])
def test_a_share_that_is_none_is_an_error(share: float) -> None:
    with pytest.raises(cp.ConfigError, match=f"from 0 to 0.9; found {share:g}"):
        world().log(impressions=True, random_share=share)


def test_random_rows_of_clicks_alone_are_an_error() -> None:
    with pytest.raises(cp.ConfigError, match=r"found a random share of 0\.1"):
        world().log(random_share=0.1)
