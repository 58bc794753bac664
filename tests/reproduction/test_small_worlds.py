from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterplay.learning.config import LossName
from counterplay.metrics.certificate import Cost, certificates
from reproduction.small_worlds import (
    BEST_SCORES,
    FLOOR,
    MARGINS,
    Confounded,
    Pair,
    best_score,
    cost_regulated,
    coverage,
    divergence,
    example,
    least_loss,
    link_of,
    moved_mass,
    moved_mass_dual,
    primal,
    weighted_relevance,
)

MASS = st.floats(0.01, 1)
SHARE = st.floats(0.05, 0.95)


@pytest.mark.parametrize("name", MARGINS)
@given(st.tuples(MASS, MASS), st.tuples(MASS, MASS))
@settings(max_examples=30)
def test_the_least_loss_is_the_negative_divergence(
    name: LossName, seen: tuple[float, float], unseen: tuple[float, float]
) -> None:
    positive, negative = np.array([seen[0], unseen[0]]), np.array([seen[1], unseen[1]])
    least = sum(least_loss(name, *each)[0] for each in (seen, unseen))
    assert least == pytest.approx(-divergence(name, positive, negative), abs=1e-6)


@pytest.mark.parametrize("name", ["logistic", "exponential"])
@given(MASS, MASS)
@settings(max_examples=30)
def test_the_best_score_is_a_function_of_the_ratio_alone(
    name: LossName, positive: float, negative: float
) -> None:
    wanted = BEST_SCORES[name](np.array(positive / negative))
    assert least_loss(name, positive, negative)[1] == pytest.approx(float(wanted), abs=1e-3)


@given(SHARE, SHARE, SHARE)
@settings(max_examples=30)
def test_exposure_that_is_seen_moves_no_score(one: float, other: float, relevance: float) -> None:
    scores = [best_score("logistic", Pair(each, relevance), seen=True) for each in (one, other)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-3)


@given(SHARE, SHARE)
@settings(max_examples=30)
def test_exposure_that_is_not_seen_lowers_every_score(exposure: float, relevance: float) -> None:
    pair = Pair(exposure, relevance)
    assert best_score("logistic", pair, seen=False) < best_score("logistic", pair, seen=True)


def test_exposure_that_is_not_seen_turns_the_order() -> None:
    often, rarely = Pair(0.9, 0.3), Pair(0.2, 0.8)
    seen, unseen = (
        [best_score("logistic", each, seen=known) for each in (often, rarely)]
        for known in (True, False)
    )
    assert seen[0] < seen[1]
    assert unseen[0] > unseen[1]


@given(SHARE, SHARE, st.floats(0.1, 10))
@settings(max_examples=30)
def test_only_weights_by_outcome_move_the_best_score(
    exposure: float, relevance: float, ratio: float
) -> None:
    pair = Pair(exposure, relevance)
    plain = best_score("logistic", pair, seen=False)
    alike = best_score("logistic", pair, seen=False, weights=(ratio, ratio))
    by_outcome = best_score("logistic", pair, seen=False, weights=(ratio, 1.0))
    assert alike == pytest.approx(plain, abs=1e-3)
    assert by_outcome == pytest.approx(plain + np.log(ratio), abs=1e-3)


@pytest.mark.parametrize(("cost", "rho"), [("absolute", 0.03), ("absolute", 0.3), ("weight", 1.0)])
def test_the_linear_program_is_the_certificate(cost: Cost, rho: float) -> None:
    losses, q = example()
    value, price = primal(losses, q, rho, cost)
    (found,) = certificates(losses, q, [rho], floor=FLOOR, cost=cost)
    assert value == pytest.approx(found.value, rel=1e-9)
    assert price == pytest.approx(found.gamma, rel=1e-6)


def test_under_the_squared_cost_the_program_comes_near_from_below() -> None:
    losses, q = example()
    value, _ = primal(losses, q, 0.05, "squared")
    (found,) = certificates(losses, q, [0.05], floor=FLOOR, cost="squared")
    assert found.value * (1 - 1e-3) < value <= found.value * (1 + 1e-9)


@given(st.floats(0.001, 0.5), st.integers(0, 1000))
@settings(max_examples=15)
def test_mass_that_moves_between_rows_has_the_dual_of_the_paper(rho: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    losses, places = rng.random(6), rng.random(6)
    distances = np.abs(np.subtract.outer(places, places))
    shares = rng.dirichlet(np.ones(6))
    value = moved_mass(losses, shares, distances, rho)
    assert moved_mass_dual(losses, shares, distances, rho) == pytest.approx(value, abs=1e-5)


@pytest.mark.parametrize("cost", ["absolute", "weight", "squared"])
@pytest.mark.parametrize("gamma", [0.1, 1.0, 10.0])
def test_every_gamma_bounds_and_its_own_radius_is_exact(cost: Cost, gamma: float) -> None:
    losses, q = example()
    delta, own = cost_regulated(losses, q, gamma, cost)
    for rho in (0.0, 0.02, 0.2, own):
        (found,) = certificates(losses, q, [rho], floor=FLOOR, cost=cost)
        assert found.value <= gamma * rho + delta + 1e-6
    assert found.value == pytest.approx(gamma * own + delta, rel=1e-4)


def test_from_gamma_n_on_the_bound_is_the_plain_mean() -> None:
    losses, q = example()
    (plain,) = certificates(losses, q, [0.0], floor=FLOOR)
    at = cost_regulated(losses, q, plain.gamma * 1.001, "absolute")[0]
    below = cost_regulated(losses, q, plain.gamma * 0.9, "absolute")[0]
    assert at == pytest.approx(plain.plain, rel=1e-9)
    assert below > plain.plain


def test_a_sample_s_certificate_needs_what_theorem_1_adds() -> None:
    bare, _ = coverage(200, 0.05, 150, slack=0.0)
    safe, ratio = coverage(200, 0.05, 150, slack=1.645)
    assert 0.3 < bare < 0.7
    assert safe > 0.88  # 95% of 150: below it in one of 5,000 draws
    assert ratio < 1.3


CONFOUNDED = st.builds(Confounded, st.tuples(SHARE, SHARE), st.tuples(SHARE, SHARE))


@given(CONFOUNDED)
def test_the_link_with_the_outcome_gives_back_the_truth(pair: Confounded) -> None:
    link = link_of(pair, with_outcome=True)
    assert weighted_relevance(pair, link) == pytest.approx(
        pair.relevant(), abs=1e-6
    )  # β is float32


def test_without_the_outcome_what_was_seen_stays_too_good() -> None:
    pair = Confounded((0.2, 0.7), (0.1, 0.6))
    likes, others = pair.seen()
    found = weighted_relevance(pair, link_of(pair, with_outcome=False))
    assert found == pytest.approx(likes / (likes + others))
    assert found > pair.relevant() + 0.1


def test_impressions_alone_do_not_tell_which_link_is_right() -> None:
    one = Confounded((0.2, 0.7), (0.1, 0.6))
    likes, others = one.seen()
    seen = likes + others
    other = Confounded((likes / seen,) * 2, (seen,) * 2)  # nothing unobserved
    assert other.seen() == pytest.approx(one.seen())
    assert other.relevant() != pytest.approx(one.relevant(), abs=0.05)
