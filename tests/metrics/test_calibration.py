from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import expit

from counterplay.metrics.calibration import _RIDGE, as_logits

Sample = tuple[NDArray[np.float64], NDArray[np.bool_]]


def sample(seed: int, n: int, slope: float = 1.0, shift: float = 0.0) -> Sample:
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=n)
    return scores, rng.random(n) < expit(slope * scores + shift)


ROWS = st.lists(st.tuples(st.integers(-5, 5), st.booleans()), min_size=2, max_size=30)


@given(ROWS, st.sampled_from([1e-3, 1.0, 250.0]))
def test_the_fit_is_where_the_penalised_likelihood_is_flat(
    rows: list[tuple[int, bool]], scale: float
) -> None:
    """Σ (y − p) x = ridge · n · a and Σ (y − p) = ridge · n · b, separated or not."""
    scores, outcomes = scale * np.array([s for s, _ in rows], float), np.array([y for _, y in rows])
    if scores.std() == 0:
        return
    x = (scores - scores.mean()) / scores.std()
    up, level = as_logits(scores, outcomes, scores.mean() + scores.std() * np.array([1.0, 0.0]))
    rest = outcomes - expit((up - level) * x + level)
    assert (rest * x).mean() == pytest.approx(_RIDGE * (up - level), abs=1e-9)
    assert rest.mean() == pytest.approx(_RIDGE * level, abs=1e-9)


@given(st.integers(0, 99), st.sampled_from([1e-6, 0.5, -3.0, 1e6]), st.floats(-100, 100))
def test_the_scale_of_scores_does_not_matter(seed: int, by: float, plus: float) -> None:
    scores, outcomes = sample(seed, 80, slope=2.0)
    wanted, far = np.array([-2.0, 0.0, 0.7]), plus * by
    found = as_logits(by * scores + far, outcomes, by * wanted + far)
    assert found == pytest.approx(as_logits(scores, outcomes, wanted), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("outcome", [True, False])
def test_one_outcome_alone_stays_finite(outcome: bool) -> None:
    scores = np.random.default_rng(0).normal(size=50)
    found = as_logits(scores, np.full(50, outcome), scores)
    assert np.isfinite(found).all()
    assert ((found > 3) == outcome).all()


@pytest.mark.parametrize("constant", [0.0, 2.0, 0.3])
def test_constant_scores_say_only_how_many_were_observed(constant: float) -> None:
    outcomes = np.arange(10) < 3
    found = as_logits(np.full(10, constant), outcomes, np.array([constant, 0.1, 5.0]))
    assert found == pytest.approx(np.full(3, np.log(3 / 7)), abs=1e-4)
