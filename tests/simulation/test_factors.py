from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import counterplay as cp
from counterplay.simulation.factors import Factors

from . import makers

factors = partial(makers.factors, n_users=4, n_items=5, dim=3)


def by_hand(model: Factors, user: int, item: int, time: float) -> float:
    vector = model.user[user]
    if model.toward is not None:
        angle = model.turn * time
        vector = np.cos(angle) * vector + np.sin(angle) * model.toward[user]
    return float(
        model.constant
        + model.user_bias[user]
        + model.item_bias[item]
        + sum(a * b for a, b in zip(vector, model.item[item], strict=True))
    )


@given(st.integers(0, 99), st.integers(1, 5), st.integers(1, 6), st.integers(1, 4), st.booleans())
def test_pairs_and_all_items_equal_the_formula(
    seed: int, n_users: int, n_items: int, dim: int, drifts: bool
) -> None:
    rng = np.random.default_rng(seed)
    model = makers.factors(seed, n_users, n_items, dim, constant=float(rng.normal()))
    if drifts:
        model = replace(model, toward=rng.normal(size=(n_users, dim)), turn=0.3)
    users = rng.integers(n_users, size=7)
    items = rng.integers(n_items, size=(7, 3))
    for time in (0.0, 2.0):
        expected = np.array(
            [[by_hand(model, u, i, time) for i in range(n_items)] for u in users.tolist()]
        )
        found = model.of_all(users, time)
        assert found.shape == (7, n_items)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
        chosen = np.take_along_axis(expected, items, axis=1)
        np.testing.assert_allclose(model.of(users, items, time), chosen, rtol=1e-12, atol=1e-12)
        one = model.of(users, items[:, :1], time)  # pairs take another path than lists
        np.testing.assert_allclose(one, chosen[:, :1], rtol=1e-12, atol=1e-12)


def test_the_answer_may_be_changed_without_changing_the_world() -> None:
    """Ranking writes into the matrix of scores that it asked for."""
    model, users = factors(0), np.arange(4)
    before = model.of_all(users)
    model.of_all(users)[:] = np.nan
    model.of(users, np.zeros((4, 2), dtype=int))[:] = np.nan
    assert (model.of_all(users) == before).all()


@pytest.mark.parametrize(
    "change",
    [
        {"user": np.zeros((3, 3))},
        {"user": np.zeros((4, 2))},
        {"item": np.zeros((6, 3))},
        {"user_bias": np.zeros(5)},
        {"item_bias": np.zeros(4)},
        {"toward": np.zeros((4, 2))},
    ],
)
def test_tables_that_do_not_agree_are_an_error(change: dict[str, Any]) -> None:
    with pytest.raises(cp.DataError, match="one row per user and one row per item"):
        replace(factors(0), **change)


def test_nobody_may_be_asked_for() -> None:
    model, nobody = factors(0), np.empty(0, dtype=np.int64)
    assert model.of_all(nobody).shape == (0, 5)
    for n in (1, 2):
        assert model.of(nobody, np.empty((0, n), dtype=np.int64)).shape == (0, n)
