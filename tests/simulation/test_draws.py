"""The statistics that logs are checked by; what they find in worlds is in test_checks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import expit, logit
from scipy.stats import binom, chi2, kstest

import counterplay as cp
from counterplay.simulation import draws as drawing
from counterplay.simulation.draws import Draws, WorldError
from counterplay.simulation.synthetic import Synthetic
from counterplay.simulation.world import World

ALPHA = 1e-6
Numbers = NDArray[np.float64]


def world(n_users: int = 60) -> World:
    return Synthetic(n_users=n_users, n_items=20, n_shown=4, examination=0.7).world()


@given(st.integers(1, 400), st.floats(1e-9, 1 - 1e-9), st.floats(0.5, 30))
def test_limits_keep_their_rate(n: int, p: float, limit: float) -> None:
    """The exact binomial probability of passing a limit is below the stated bound."""
    counts = np.arange(n + 1.0)
    z = drawing.deviations(counts, np.full(n + 1, n * p), np.full(n + 1, float(n)))
    chance = binom.pmf(counts, n, p)[np.abs(z) > limit].sum()
    assert chance <= 2 * np.exp(-(limit**2) / 2) + 1e-9


@given(st.floats(1e-12, 0.5), st.integers(1, 1000))
def test_all_tests_together_pass_their_limit_at_the_stated_rate(alpha: float, n: int) -> None:
    bound = 2 * np.exp(-(drawing.limit(alpha, n) ** 2) / 2)
    assert n * bound == pytest.approx(alpha, rel=1e-9)


def test_deviations_have_the_sign_of_the_excess() -> None:
    z = drawing.deviations(np.array([30.0, 50.0, 70.0]), np.full(3, 50.0), np.full(3, 100.0))
    assert z == pytest.approx([-4, 0, 4], abs=0.1)  # about (70 − 50) / √(100 · 0.5 · 0.5)


def test_what_cannot_happen_but_did_is_infinitely_far() -> None:
    counts, expected, sizes = np.array([0.0, 1.0]), np.zeros(2), np.full(2, 9.0)
    np.testing.assert_array_equal(drawing.deviations(counts, expected, sizes), [0, np.inf])


def test_groups_expect_about_the_same() -> None:
    p = np.random.default_rng(0).random(5000) ** 3
    group = drawing.groups(p, p)
    np.testing.assert_allclose(np.bincount(group, p), p.sum() / 10, rtol=0.01)
    assert all(p[group < each].max() <= p[group >= each].min() for each in range(1, 10))


def test_equal_values_are_in_one_group() -> None:
    values = np.repeat([0.1, 0.2, 0.7], [500, 3, 40])
    group = drawing.groups(values, values)
    assert len(set(zip(values.tolist(), group.tolist(), strict=True))) == 3
    assert drawing.groups(np.zeros(4), np.zeros(4)).tolist() == [0] * 4


def drawn(seed: int, intercept: float, slope: float, n: int = 4000) -> tuple[Numbers, Numbers]:
    """Return stated propensities, and exposures of which they are off by a line of logits."""
    rng = np.random.default_rng(seed)
    p = expit(rng.normal(-1.5, 1.0, n))
    return p, (rng.random(n) < expit(intercept + slope * logit(p))).astype(np.float64)


@pytest.mark.parametrize(("intercept", "slope"), [(0.0, 1.0), (0.7, 1.0), (-0.3, 1.6), (0.0, 0.4)])
def test_a_refit_finds_the_line_of_highest_likelihood(intercept: float, slope: float) -> None:
    p, y = drawn(1, intercept, slope)
    fit, x = drawing.refitted(p, y), logit(p)

    def likelihood(a: float, b: float) -> float:
        chance = expit(a + b * x)
        return float(np.log(np.where(y == 1, chance, 1 - chance)).sum())

    best = likelihood(fit.intercept, fit.slope)
    assert fit.ratio == pytest.approx(2 * (best - likelihood(0.0, 1.0)), abs=1e-6)
    for a, b in ((1e-3, 0.0), (-1e-3, 0.0), (0.0, 1e-3), (0.0, -1e-3)):
        assert likelihood(fit.intercept + a, fit.slope + b) < best
    # The slope's standard error is about 0.05 here: five of them.
    assert abs(fit.slope - slope) < 0.25
    assert abs(fit.intercept - intercept) < 0.4
    assert (fit.ratio > 2 * np.log(5 / ALPHA)) == ((intercept, slope) != (0.0, 1.0))


def test_the_likelihood_ratio_of_true_propensities_has_two_degrees_of_freedom() -> None:
    """A Kolmogorov-Smirnov test at 0.001."""
    ratios = [drawing.refitted(*drawn(seed, 0.0, 1.0, 1500)).ratio for seed in range(300)]
    assert kstest(ratios, chi2(2).cdf).pvalue > 0.001


def test_equal_propensities_are_fitted_by_an_intercept() -> None:
    fit = drawing.refitted(np.full(1000, 0.2), np.tile([0.0, 1.0], 500))
    assert fit.slope == 1
    assert fit.intercept == pytest.approx(-logit(0.2))
    assert drawing.refitted(np.empty(0), np.empty(0)).ratio == 0


def test_draws_count_what_became_of_each_pair() -> None:
    place, users = world(), np.array([3, 4, 40, 59])
    draws = Draws(place, users)
    assert len(draws.logs) == drawing.N_LOGS
    for number, log in enumerate(draws.logs):
        assert log.clicked is not None
        assert log.exposed is not None
        rows = list(zip(log.user, log.item, log.exposed, log.clicked, strict=True))
        for row, user in enumerate(users):
            for item in range(place.n_items):
                mine = [(e, r) for u, i, e, r in rows if (u, i) == (user, item)]
                assert draws.found["shown"][number, row, item] == len(mine)
                assert draws.found["exposed"][number, row, item] == sum(e for e, _ in mine)
                assert draws.found["clicked"][number, row, item] == sum(r for _, r in mine)
        occasion = "log", number, number
        exposed = draws.rate * place.propensity(users, occasion=occasion)
        relevance = place.relevance(users, time=float(number), occasion=occasion)
        np.testing.assert_allclose(draws.expected["exposed"][number], exposed, rtol=1e-12)
        np.testing.assert_allclose(draws.expected["clicked"][number], exposed * relevance)


def test_a_few_exposures_too_many_are_within_chance_and_many_are_not() -> None:
    draws = Draws(world(), np.arange(60))
    assert "exposed for" in drawing.counted(draws, "exposed", "of nothing", ALPHA)
    deviation = draws.expected["exposed"].sum() ** 0.5
    few, many = (replace_found(draws, int(n_more * deviation)) for n_more in (1.0, 9.0))
    drawing.counted(few, "exposed", "of nothing", ALPHA)
    drawing.fitted_propensities(few, ALPHA)
    with pytest.raises(WorldError, match="probably of nothing"):
        drawing.counted(many, "exposed", "of nothing", ALPHA)
    with pytest.raises(WorldError, match="slope 1 and intercept 0"):
        drawing.fitted_propensities(many, ALPHA)


def replace_found(draws: Draws, n_more: int) -> Draws:
    """Return draws with more exposures, spread over the pairs that were not exposed."""
    other = Draws.__new__(Draws)
    found = draws.found["exposed"].copy()
    places = np.flatnonzero(found.ravel() == 0)
    chosen = np.random.default_rng(0).permutation(places)[:n_more]
    found.ravel()[chosen] = 1
    other.__dict__ |= draws.__dict__ | {"found": draws.found | {"exposed": found}}
    return other


def test_a_log_without_exposures_is_refused() -> None:
    class Bare(World):
        def log(self, *args: object, **options: object) -> cp.Interactions:
            return replace(super().log(*args, **options), exposed=None)  # type: ignore[arg-type]

    good = world()
    bare = Bare(**{name: getattr(good, name) for name in World.__dataclass_fields__})
    with pytest.raises(cp.DataError, match="must have exposed and clicked; found user, item"):
        Draws(bare, np.arange(3))
