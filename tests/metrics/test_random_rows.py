"""Random rows set the dials: the likelihood equals plain loops, and finds what was drawn."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import counterplay as cp
from counterplay.metrics.click_model import Exposures
from counterplay.metrics.random_rows import (
    GAMMA_GRID,
    LAMBDA_GRID,
    PRIORS,
    fit_dials,
    true_dials,
)


def drawn(
    gamma: float, lam: float, n: int, seed: int = 0
) -> tuple[Exposures, NDArray[np.float64], NDArray[np.bool_]]:
    """Return random rows of a world with these dials: probabilities of a click, and clicks."""
    rng = np.random.default_rng(seed)
    n_users, n_items = 300, 60
    raw = 0.6 * rng.normal(size=(n_users, n_items))
    centred = raw - np.log(np.exp(raw).mean(axis=0))
    shifts = np.stack([np.log(np.exp((1 - each) * centred).mean(axis=0)) for each in LAMBDA_GRID])
    events = np.round(np.exp(rng.normal(3, 0.7, n_items)))
    users, items = rng.integers(0, n_users, n), rng.integers(0, n_items, n)
    rows = Exposures(
        np.log(events + 1)[items], centred[users, items], LAMBDA_GRID, shifts[:, items]
    )
    logs = (1 - gamma) * rows.popularity + (1 - lam) * rows.taste - rows.shift(lam)
    chance = 0.95 * np.exp(logs - logs.max())
    return rows, chance, rng.random(n) < chance


@pytest.mark.parametrize("truth", [(0.5, 0.3), (0.0, 0.0), (0.9, 0.6)])
def test_the_dials_of_a_world_are_found(truth: tuple[float, float]) -> None:
    rows, chance, clicked = drawn(*truth, n=4000)
    exact = true_dials(rows, chance)
    assert (exact.gamma, exact.lam) == pytest.approx(truth)
    rate = (1 - exact.gamma) * rows.popularity + (1 - exact.lam) * rows.taste
    np.testing.assert_allclose(
        np.exp(exact.intercept + rate - rows.shift(exact.lam)), chance, rtol=1e-9
    )
    found = fit_dials(*drawn(*truth, n=60_000)[::2])
    assert found.gamma == pytest.approx(truth[0], abs=0.11)
    assert found.lam == pytest.approx(truth[1], abs=0.11)
    assert truth in found.box.dials
    assert found.box.point == (found.gamma, found.lam)
    assert fit_dials(rows, clicked).n == 4000


def log_likelihood(
    rows: Exposures, clicked: NDArray[np.bool_], gamma: float, lam: float, b: float
) -> float:
    total, shift = 0.0, rows.shift(lam)
    for row in range(len(rows)):
        log_rate = b + (1 - gamma) * rows.popularity[row] + (1 - lam) * rows.taste[row]
        log_rate -= shift[row]
        rate = float(np.exp(log_rate))
        total += float(log_rate) * float(clicked[row]) - rate
    return total


def test_the_likelihood_is_profiled_and_has_its_priors() -> None:
    rows, _, clicked = drawn(0.4, 0.2, n=150)
    gammas, lambdas = (0.0, 0.5, 1.0), (0.0, 0.4)
    found = fit_dials(rows, clicked, gammas=gammas, lambdas=lambdas)
    plain = fit_dials(rows, clicked, gammas=gammas, lambdas=lambdas, priors=None)
    for one, gamma in enumerate(gammas):
        for other, lam in enumerate(lambdas):
            grid = np.linspace(-9, 0, 120)
            best = max(log_likelihood(rows, clicked, gamma, lam, b) for b in grid)
            assert plain.log_likelihoods[one, other] == pytest.approx(best, abs=0.05)
            assert plain.log_likelihoods[one, other] >= best
            prior = -(((gamma - 0.5) / 0.35) ** 2) / 2 - ((lam - 0.2) / 0.35) ** 2 / 2
            assert found.log_likelihoods[one, other] == pytest.approx(
                plain.log_likelihoods[one, other] + prior
            )
    b, pair = found.intercept, (found.gamma, found.lam)
    at_b = log_likelihood(rows, clicked, *pair, b)
    for beside in (b - 0.01, b + 0.01):
        assert at_b > log_likelihood(rows, clicked, *pair, beside)
    inside = found.log_likelihoods >= found.log_likelihoods.max() - 3
    assert set(found.box.dials) == {
        (gammas[one], lambdas[other]) for one, other in np.argwhere(inside)
    }


def test_more_rows_leave_fewer_dials_possible() -> None:
    few, many = (fit_dials(*drawn(0.5, 0.2, n=n)[::2]) for n in (300, 20_000))
    assert len(few.box.dials) > 2 * len(many.box.dials)
    assert PRIORS == ((0.5, 0.35), (0.2, 0.35))
    assert many.n_clicks == drawn(0.5, 0.2, n=20_000)[2].sum()


def test_a_world_whose_clicks_show_exposure_alone_is_flagged() -> None:
    for lam, flag in ((1.0, True), (0.4, False)):
        rows, chance, _ = drawn(0.8, lam, n=4000)
        assert true_dials(rows, chance).exposure_only is flag
    assert max(GAMMA_GRID) > 1 < max(LAMBDA_GRID)


@pytest.mark.parametrize("clicks", [0, 20])
def test_rows_that_are_all_alike_are_refused(clicks: int) -> None:
    rows, _, _ = drawn(0.5, 0.2, n=20)
    with pytest.raises(cp.DataError, match=f"{clicks} clicks in 20 rows"):
        fit_dials(rows, np.arange(20) < clicks)
    with pytest.raises(cp.DataError, match="exposures of 20"):
        fit_dials(rows, np.arange(4) < 2)
