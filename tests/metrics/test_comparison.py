from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import counterplay as cp
from counterplay.metrics.comparison import Difference, beyond_chance, comparisons
from counterplay.metrics.intervals import poisson_counts

LEVELS = st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.97])


class Rows:
    """Random rows of two models; the first is better by `gap`."""

    def __init__(self, seed: int, n_users: int = 60, gap: float = 0.0) -> None:
        rng = np.random.default_rng(seed)
        self.users = np.append(np.arange(n_users), rng.integers(0, n_users, 4 * n_users))
        self.weights = 1 / rng.uniform(0.1, 0.9, len(self.users))
        shift = rng.normal(size=n_users)[self.users]
        self.first = gap + shift + rng.normal(size=len(self.users))
        self.second = rng.normal(size=len(self.users))

    def difference(
        self, *, swap: bool = False, seed: int = 0, normalise: bool = True, level: float = 0.95
    ) -> Difference:
        models = {"a": self.first, "b": self.second}
        models = dict(reversed(models.items())) if swap else models
        rng = np.random.default_rng(seed)
        (found,) = comparisons(
            models, self.weights, self.users, rng, normalise=normalise, level=level
        )
        return found[2]


def excludes_0(found: Difference) -> bool:
    return found.low > 0 or found.high < 0


def test_the_difference_is_a_weighted_mean() -> None:
    rows = Rows(0, gap=0.5)
    gap = rows.first - rows.second
    found = rows.difference()
    assert found.value == pytest.approx(np.average(gap, weights=rows.weights))
    assert found.low < found.value < found.high
    assert (found.level, found.n, found.n_clusters) == (0.95, 300, 60)
    plain = rows.difference(normalise=False)
    assert plain.value == pytest.approx((gap * rows.weights).mean())
    assert plain.low < plain.value < plain.high
    assert rows.difference() == found  # the same stream, the same numbers


@given(st.integers(0, 99), st.sampled_from([8, 60]))
@settings(max_examples=20)
def test_swapping_the_models_flips_the_sign(seed: int, n_users: int) -> None:
    rows = Rows(seed, n_users, gap=0.2)
    found, swapped = rows.difference(), rows.difference(swap=True)
    assert swapped.value == -found.value
    assert swapped.low == pytest.approx(-found.high, rel=1e-12)
    assert swapped.high == pytest.approx(-found.low, rel=1e-12)
    assert swapped.p_value == found.p_value


def by_hand(
    gaps: NDArray[np.float64],
    weights: NDArray[np.float64],
    users: NDArray[np.int64],
    seed: int,
    level: float,
    n_resamples: int = 300,
) -> list[tuple[float, float, float, float]]:
    """Return value, ends and p of each column of gaps: resample by resample, user by user."""
    n = int(users.max()) + 1
    sums = [[(gaps[users == u, j] * weights[users == u]).sum() for u in range(n)]
            for j in range(gaps.shape[1])]  # fmt: skip
    below = [weights[users == u].sum() for u in range(n)]

    def ratio(top: list[float], counts: NDArray[np.float64]) -> tuple[float, float]:
        total = sum(c * b for c, b in zip(counts, below, strict=True))
        if not total:
            return np.nan, 0.0
        value = sum(c * t for c, t in zip(counts, top, strict=True)) / total
        rest = [c * (t - value * b) ** 2 for c, t, b in zip(counts, top, below, strict=True)]
        return value, float(np.sqrt(sum(rest))) / total

    found = [ratio(top, np.ones(n)) for top in sums]
    counts = poisson_counts(n_resamples, n, np.random.default_rng(seed))
    largest = []
    for each in counts:
        drawn = [ratio(top, each) for top in sums]
        largest.append(
            max(
                abs(one - value) / error if error > 1e-9 else np.inf
                for (one, error), (value, _) in zip(drawn, found, strict=True)
            )
        )
    reached = sorted(largest, reverse=True)
    answer = []
    for value, error in found:
        p = (1 + sum(t >= abs(value) / error for t in largest)) / (1 + n_resamples)
        allowed = max(r for r in range(n_resamples) if (1 + r) / (1 + n_resamples) <= 1 - level)
        half = reached[allowed] * error
        answer.append((value, value - half, value + half, p))
    return answer


@pytest.mark.parametrize("seed", range(4))
def test_all_differences_are_judged_together_as_by_hand(seed: int) -> None:
    rows, rng = Rows(seed, 20, gap=0.4), np.random.default_rng(seed)
    models = {"a": rows.first, "b": rows.second, "c": rng.normal(size=len(rows.first))}
    found = comparisons(
        models, rows.weights, rows.users, np.random.default_rng(seed), n_resamples=300, level=0.9
    )
    gaps = np.stack([models[one] - models[two] for one, two in combinations("abc", 2)], axis=1)
    expected = by_hand(gaps, rows.weights, rows.users, seed, 0.9)
    for (_, _, each), numbers in zip(found, expected, strict=True):
        assert (each.value, each.low, each.high, each.p_value) == pytest.approx(numbers, rel=1e-6)


@given(
    st.integers(0, 9999),
    st.integers(2, 40),
    st.sampled_from([0.0, 0.02, 0.2, 1.0]),
    LEVELS,
    st.sampled_from([1, 2, 1000]),
)
@settings(max_examples=150)
def test_p_is_at_most_1_minus_the_level_exactly_where_the_interval_leaves_out_0(
    seed: int, n_users: int, gap: float, level: float, n_values: int
) -> None:
    """Also where a few users decide, where nothing varies, and where two models are the same."""
    rng = np.random.default_rng(seed)
    users = np.append(np.arange(n_users), rng.integers(0, n_users, n_users))
    weights = rng.choice([1.0, 3.0, 10.0], len(users))
    models = {
        name: np.round(rng.random(len(users)) * n_values) / n_values + place * gap
        for place, name in enumerate("abc")
    }
    models["d"] = models["a"]
    found = comparisons(models, weights, users, rng, n_resamples=400, level=level)
    for _, _, each in found:
        assert beyond_chance(each.p_value, level) == (each.p_value <= 1 - level) == excludes_0(each)
        assert 1 / 401 <= each.p_value <= 1
        assert np.isnan(each.low) or each.low <= each.value <= each.high
    (same,) = [each for one, other, each in found if (one, other) == ("a", "d")]
    assert (same.value, same.low, same.high, same.p_value) == (0, 0, 0, 1)


def test_a_constant_difference_is_beyond_chance_with_enough_users() -> None:
    """The same lead in every row: resamples cannot move it, but few users cannot tell it either."""
    for n_users, decided in ((2, False), (6, False), (7, True), (60, True)):
        rows = Rows(2, n_users)
        rows.first = rows.second + 0.3
        found = rows.difference()
        assert beyond_chance(found.p_value, 0.95) == decided
        assert np.isnan(found.low) != decided
        if decided:
            assert (found.low, found.high) == pytest.approx((0.3, 0.3))


def test_two_that_hardly_differ_do_not_keep_others_from_being_told_apart() -> None:
    """Two users out of 400 make the whole difference of a and its twin: nobody can tell these."""
    rng = np.random.default_rng(0)
    models = {
        "a": (rng.random(400) < 0.6).astype(float),
        "b": (rng.random(400) < 0.3).astype(float),
    }
    twin = models["a"].copy()
    twin[:2] = 1 - twin[:2]
    found = comparisons(models | {"twin": twin}, np.ones(400), np.arange(400), rng)
    (_, _, apart), (_, _, same), (_, _, too) = found
    assert excludes_0(apart)
    assert excludes_0(too)
    assert np.isnan([same.low, same.high]).all()
    assert same.p_value == 1


@pytest.mark.parametrize(("n_users", "clicks"), [(15, False), (60, True)])
def test_without_a_difference_any_is_found_as_seldom_as_the_level_says(
    n_users: int, clicks: bool
) -> None:
    """Six pairs of four models that are alike, 400 times at 90%.

    At a true rate of 10% more than 59 false alarms have a probability of 0.1% (binomial). And the
    test is not idle: it alarms in 2% of the cases or more.
    """
    wrong = 0
    for seed in range(400):
        rng = np.random.default_rng(seed)
        users = np.append(np.arange(n_users), rng.integers(0, n_users, 2 * n_users))
        weights = 1 / rng.uniform(0.1, 0.9, len(users))
        if clicks:
            models = {name: (rng.random(len(users)) < 0.2).astype(float) for name in "abcd"}
        else:
            shift = rng.normal(size=(n_users, 4))[users]
            models = {
                name: shift[:, place] + rng.normal(size=len(users))
                for place, name in enumerate("abcd")
            }
        found = comparisons(models, weights, users, rng, n_resamples=200, level=0.9)
        wrong += any(beyond_chance(each.p_value, 0.9) for _, _, each in found)
    assert 8 <= wrong <= 59


def test_a_difference_that_is_there_is_found() -> None:
    found = [Rows(seed, 60, gap=1.0).difference(seed=seed) for seed in range(20)]
    assert sum(excludes_0(each) for each in found) >= 18


def test_models_are_compared_in_pairs_or_with_a_reference() -> None:
    rows = Rows(4)
    models = {"a": rows.first, "b": rows.second, "c": rows.first + rows.second}

    def made(reference: str | None) -> list[tuple[str, str, Difference]]:
        rng = np.random.default_rng(0)
        return comparisons(models, rows.weights, rows.users, rng, reference=reference)

    assert [names[:2] for names in made(None)] == [("a", "b"), ("a", "c"), ("b", "c")]
    against = made("b")
    assert [names[:2] for names in against] == [("a", "b"), ("c", "b")]
    for one, other, found in against:
        two = {name: models[name] for name in (one, other)}
        ((_, _, alone),) = comparisons(two, rows.weights, rows.users, np.random.default_rng(0))
        assert found.value == pytest.approx(alone.value)
        assert found.low <= alone.low  # two at once are harder than one
        assert found.high >= alone.high
        assert found.p_value >= alone.p_value


def test_what_cannot_be_compared() -> None:
    rng, ones, users = np.random.default_rng(0), np.ones(3), np.arange(3)
    with pytest.raises(cp.ConfigError, match="two models or more"):
        comparisons({"a": ones}, ones, users, rng)
    with pytest.raises(cp.ConfigError, match="found a, b with reference c"):
        comparisons({"a": ones, "b": ones}, ones, users, rng, reference="c")
    for second, weights in ((np.ones(4), ones), (ones, np.ones(2)), (ones[:, None], ones)):
        with pytest.raises(cp.DataError, match="same rows"):
            comparisons({"a": ones, "b": second}, weights, users, rng)
    with pytest.raises(cp.DataError, match="weights must be finite"):
        comparisons({"a": ones, "b": ones}, -ones, users, rng)
    with pytest.raises(cp.ConfigError, match=r"level 0.95 needs n_resamples of 200 .* 199"):
        comparisons({"a": ones, "b": ones}, ones, users, rng, n_resamples=199)


def test_a_difference_shows_itself() -> None:
    found = Difference(0.5, -0.25, 0.75, 0.95, 1000, 50, 0.0123)
    assert repr(found) == (
        "<Difference +0.5000 [-0.2500, +0.7500] at 95%, p 0.0123; 1,000 rows of 50 users>"
    )
    assert ">1,000</td>" in found._repr_html_()
    assert found.to_polars().row(0, named=True) == found.to_dict()
    assert Difference(0, np.nan, np.nan, 0.95, 1, 1, 1).to_dict()["low"] is None
