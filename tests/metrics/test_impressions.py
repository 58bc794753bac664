"""How well scores tell clicks among impressions: brute-force twins."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from counterplay.metrics.impressions import click_log_losses, shares_below

rows = st.lists(
    st.tuples(st.integers(0, 3), st.integers(-2, 2), st.booleans()), min_size=1, max_size=30
)


@given(rows)
def test_a_click_is_compared_with_what_its_user_left(rows: list[tuple[int, int, bool]]) -> None:
    user, score, clicked = (np.array(column) for column in zip(*rows, strict=True))
    found = shares_below(user, score.astype(np.float64), clicked)
    expected = []
    for one, value, click in rows:
        others = [each[1] for each in rows if each[0] == one and not each[2]]
        if click:
            wins = [1.0 if value > other else 0.5 if value == other else 0.0 for other in others]
            expected.append(np.mean(wins) if wins else np.nan)
    np.testing.assert_allclose(found, np.array(expected, dtype=np.float64))


def test_losses_are_those_of_the_probabilities() -> None:
    logits, clicked = np.array([0.0, 2.0, -1.0]), np.array([True, False, True])
    p = 1 / (1 + np.exp(-logits))
    expected = -np.log([p[0], 1 - p[1], p[2]])
    np.testing.assert_allclose(click_log_losses(logits, clicked), expected)


def test_positions_do_not_count_against_a_model_of_relevance() -> None:
    rng = np.random.default_rng(0)
    relevance, position = rng.uniform(0.2, 0.8, 20_000), rng.integers(1, 4, 20_000)
    rho = np.array([0, 1.0, 0.5, 0.2])[position]
    clicked = rng.random(20_000) < rho * relevance
    logits = np.log(relevance / (1 - relevance))
    found = click_log_losses(logits, clicked, position)
    p = rho * relevance
    true = -np.log(np.where(clicked, p, 1 - p))
    assert abs(found.mean() - true.mean()) < 0.002
    assert click_log_losses(logits, clicked).mean() > true.mean() + 0.1
