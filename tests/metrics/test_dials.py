"""Values over a box of dials: the corners are known estimators, the rest equals plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import counterplay as cp
from counterplay.metrics.click_model import Exposures
from counterplay.metrics.comparison import comparisons
from counterplay.metrics.dials import GAMMAS, LAMBDAS, POINT, Box, Surface, propensities, surface
from counterplay.metrics.estimation import estimates, popularity_propensities, weights_of
from counterplay.metrics.intervals import bootstrap, cluster_sums, effective_sample_size

N_ITEMS = 25
KNOWN = (0.0, 0.2, 0.3, 0.4)


class Drawn:
    """Rows with everything that a surface is made of."""

    def __init__(self, seed: int, n: int = 400, n_users: int = 60) -> None:
        rng = np.random.default_rng(seed)
        self.events = rng.integers(0, 200, N_ITEMS)
        self.items = rng.integers(0, N_ITEMS, n)
        self.users = rng.integers(0, n_users, n)
        taste = rng.normal(size=n)
        shifts = np.stack([0.3 * lam * rng.normal(size=n) for lam in KNOWN])
        popularity = np.log(self.events[self.items] + 1.0)
        self.exposures = Exposures(popularity, taste, KNOWN, shifts)
        chance = 1 / (1 + np.exp(2 - 0.4 * popularity - 0.5 * taste))
        self.values = {
            "pop": (rng.random(n) < 0.2 + 0.1 * popularity / 5).astype(float),
            "mf": (rng.random(n) < chance).astype(float),
            "knn": rng.random(n) * chance,
        }

    def surface(self, box: Box | None = None) -> Surface:
        return surface(self.values, self.exposures, self.users, box)


def value_by_loop(drawn: Drawn, name: str, gamma: float, lam: float) -> float:
    top = bottom = 0.0
    for row, value in enumerate(drawn.values[name]):
        rows = drawn.exposures
        log_q = gamma * rows.popularity[row] + lam * rows.taste[row]
        log_q += rows.shifts[KNOWN.index(lam), row]
        top += value / np.exp(log_q)
        bottom += 1 / np.exp(log_q)
    return top / bottom


def test_values_are_weighted_means_at_every_pair_of_dials() -> None:
    drawn = Drawn(0)
    found = drawn.surface()
    assert found.box.dials == tuple((gamma, lam) for gamma in GAMMAS for lam in LAMBDAS)
    assert found.box.point == POINT == (0.55, 0.3)
    for gamma, lam in (*found.box.dials, POINT):
        for name in drawn.values:
            assert found.at(gamma, lam)[name] == pytest.approx(
                value_by_loop(drawn, name, gamma, lam), rel=1e-12
            )
    assert found.point == found.at(*POINT)


def test_errors_are_the_sandwich_over_users() -> None:
    drawn = Drawn(1)
    found = drawn.surface()
    names = list(drawn.values)
    for place, (gamma, lam) in enumerate((*found.box.dials, POINT)):
        weights = np.exp(-drawn.exposures.log_propensities(gamma, lam))
        total = weights.sum()
        values = found.at(gamma, lam)
        rest = np.stack([drawn.values[name] - values[name] for name in names], axis=1)
        influence = cluster_sums(weights[:, None] * rest, drawn.users).T
        wanted = influence @ influence.T / total**2
        np.testing.assert_allclose(found.covariances[place], wanted, rtol=1e-9, atol=1e-15)
        assert found.ess[place] == pytest.approx(effective_sample_size(weights))
    assert found.n == 400
    assert found.n_users == len(np.unique(drawn.users))


def test_errors_are_near_those_of_the_bootstrap() -> None:
    drawn = Drawn(2, n=4000, n_users=500)
    found = drawn.surface()
    weights = np.exp(-drawn.exposures.log_propensities(*POINT))
    gap = drawn.values["mf"] - drawn.values["pop"]
    again = bootstrap(gap * weights, weights, drawn.users, np.random.default_rng(0))
    one, other = (found.names.index(name) for name in ("mf", "pop"))
    covariance = found.covariances[-1]
    error = np.sqrt(covariance[one, one] + covariance[other, other] - 2 * covariance[one, other])
    assert error == pytest.approx(float(again.std()), rel=0.1)


def test_a_lead_is_the_least_lower_end_over_the_box() -> None:
    drawn = Drawn(3)
    found = drawn.surface()
    ends = []
    for place, (gamma, lam) in enumerate(found.box.dials):
        covariance = found.covariances[place]
        error = np.sqrt(covariance[1, 1] + covariance[0, 0] - 2 * covariance[1, 0])
        values = found.at(gamma, lam)
        ends.append(values["mf"] - values["pop"] - 1.6448536269514722 * error)
    assert found.lead("mf", "pop") == pytest.approx(min(ends))
    np.testing.assert_allclose(found.lower("mf", "pop")[:-1], ends)
    assert found.leads("mf")["pop"] == pytest.approx(found.lead("mf", "pop", level=0.975))
    assert list(found.leads("mf")) == ["pop", "knn"]
    assert found.leads("mf")["pop"] < found.lead("mf", "pop")
    narrow = drawn.surface(Box(((0.0, 0.0),), (1.0, 0.4)))  # its point lies outside
    for pair in (("mf", "pop"), ("pop", "mf")):
        inside, outside = narrow.lower(*pair)
        assert narrow.lead(*pair) == inside != outside


def test_the_error_of_a_difference_is_that_of_paired_rows() -> None:
    drawn = Drawn(4)
    weights = np.exp(-drawn.exposures.log_propensities(*POINT))
    found = drawn.surface()
    two = {name: drawn.values[name] for name in ("mf", "knn")}
    ((_, _, paired),) = comparisons(two, weights, drawn.users, np.random.default_rng(0))
    lower, upper = found.lower("mf", "knn")[-1], -found.lower("knn", "mf")[-1]
    assert (lower + upper) / 2 == pytest.approx(paired.value)
    assert (upper - lower) / 1.645 == pytest.approx((paired.high - paired.low) / 1.96, rel=0.15)


def test_ends_and_means_are_over_the_box_and_the_interval_is_at_the_point() -> None:
    found = Drawn(5).surface()
    errors = np.sqrt(found.covariances[:, 1, 1])
    values = found.values[:, 1]
    low, high = found.ends("mf")
    assert low == pytest.approx((values - 1.959963984540054 * errors)[:-1].min())
    assert high == pytest.approx((values + 1.959963984540054 * errors)[:-1].max())
    assert found.interval("mf") == pytest.approx(
        (values[-1] - 1.959963984540054 * errors[-1], values[-1] + 1.959963984540054 * errors[-1])
    )
    assert found.mean()["mf"] == pytest.approx(values[:-1].mean())


@pytest.mark.parametrize(("dials", "name"), [((0.0, 0.0), "standard"), ((1.0, 0.0), "popularity")])
def test_corners_are_the_estimators_that_the_library_has(
    dials: tuple[float, float], name: str
) -> None:
    drawn = Drawn(6)
    drawn.exposures.shifts[0] = 0  # A_0 is 0, because T is centred
    q = np.ones(len(drawn.items))
    if name == "popularity":
        q = popularity_propensities(drawn.items, drawn.events + 1, floor=1e-9)
    known = estimates(
        {("hit", 10): drawn.values["mf"]}, weights_of(q), drawn.users, np.random.default_rng(0),
        estimator=name, protocol="full",
    )[0]  # fmt: skip
    found = drawn.surface(Box((dials,)))
    assert found.at(*dials)["mf"] == pytest.approx(known.value, rel=1e-12)
    assert found.ess[0] == pytest.approx(known.ess)
    low, high = found.ends("mf")
    assert high - low == pytest.approx(known.high - known.low, rel=0.15)


def test_propensities_weigh_as_the_surface_does() -> None:
    drawn = Drawn(7)
    q = propensities(drawn.exposures, *POINT)
    assert q.max() == 1
    weights = weights_of(q)
    value = weights @ drawn.values["mf"] / weights.sum()
    assert drawn.surface().point["mf"] == pytest.approx(value)


@given(st.integers(0, 1000), st.floats(-20, 20), st.floats(0.1, 10))
def test_neither_scale_nor_order_matter(seed: int, constant: float, factor: float) -> None:
    drawn, rng = Drawn(seed, n=80, n_users=20), np.random.default_rng(seed)
    base = drawn.surface()
    rows, names = rng.permutation(80), rng.permutation(20)
    moved = Exposures(
        drawn.exposures.popularity[rows],
        drawn.exposures.taste[rows],
        KNOWN,
        drawn.exposures.shifts[:, rows] + constant,  # all are shown more, or less
    )
    values = {name: factor * each[rows] for name, each in drawn.values.items()}
    again = surface(values, moved, names[drawn.users[rows]], None)
    np.testing.assert_allclose(again.values, factor * base.values, rtol=1e-8)
    np.testing.assert_allclose(
        again.covariances, factor**2 * base.covariances, rtol=1e-6, atol=1e-14
    )
    np.testing.assert_allclose(again.ess, base.ess, rtol=1e-8)


def test_huge_weights_do_not_overflow() -> None:
    drawn = Drawn(8)
    far = Exposures(
        drawn.exposures.popularity * 300, drawn.exposures.taste, KNOWN, drawn.exposures.shifts
    )
    found = surface(drawn.values, far, drawn.users)
    assert np.isfinite(found.values).all()
    assert (propensities(far, 1.0, 0.0) > 0).all()


def test_few_users_tell_nothing() -> None:
    users = np.arange(20)
    one, other = np.zeros(20), np.zeros(20)
    rows = Exposures(np.linspace(0, 1, 20), np.zeros(20), KNOWN, np.zeros((4, 20)))
    one[:6] = 1
    few = surface({"one": one, "other": other}, rows, users)
    assert few.lead("one", "other") == -np.inf
    one[6] = 1
    assert surface({"one": one, "other": other}, rows, users).lead("one", "other") > -1
    same = surface({"one": one, "other": one.copy()}, rows, users)
    assert same.lead("one", "other") == pytest.approx(0, abs=1e-6)
    lonely = surface({"one": one}, rows, users // 4)
    assert lonely.ends("one") == (-np.inf, np.inf)
    assert lonely.leads("one") == {}


def bad(drawn: Drawn, what: str) -> None:
    values, users = dict(drawn.values), drawn.users
    if what == "short":
        users = users[1:]
    elif what == "none":
        values["mf"] = np.full(len(users), np.nan)
    surface(values, drawn.exposures, users)


def test_bad_input_is_refused() -> None:
    drawn = Drawn(9)
    for what, words in (("short", "same rows"), ("none", "finite")):
        with pytest.raises(cp.DataError, match=words):
            bad(drawn, what)
    found = drawn.surface()
    for ask in (
        lambda: found.lead("mf", "als"),
        lambda: found.at(0.1, 0.1),
        lambda: found.ends("mf", level=1.5),
        lambda: Box(()),
        lambda: Box(((float("nan"), 0.0),)),
        lambda: drawn.surface(Box(((0.0, 0.9),))),
    ):
        with pytest.raises(cp.ConfigError):
            ask()


def test_a_box_names_every_share_that_a_click_model_must_know() -> None:
    assert Box().lambdas == (0.0, 0.2, 0.3, 0.4)
    assert Box.grid((0.0,), (0.1,), point=(0.5, 0.1)).dials == ((0.0, 0.1),)


def test_one_hit_counts_by_its_weight() -> None:
    """Six rows by hand: q = (c + 1)^1 at (1, 0), so weights are ½, ½, ¼, …."""
    events: NDArray[np.float64] = np.log(np.array([2.0, 2.0, 4.0, 4.0, 4.0, 4.0]))
    rows = Exposures(events, np.zeros(6), (0.0,), np.zeros((1, 6)))
    hits = {"f": np.array([1.0, 0, 0, 0, 0, 1.0])}
    found = surface(hits, rows, np.arange(6), Box(((1.0, 0.0),), (0.0, 0.0)))
    assert found.at(1.0, 0.0)["f"] == pytest.approx((0.5 + 0.25) / 2)
    assert found.point["f"] == pytest.approx(2 / 6)
