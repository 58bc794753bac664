from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import counterplay as cp
from counterplay.models.ease import Ease
from counterplay.models.registry import build

N_USERS, N_ITEMS = 6, 5


def log_of(clicks: NDArray[np.bool_]) -> cp.Interactions:
    user, item = np.nonzero(clicks)
    every = cp.read({"user": np.arange(N_USERS) % N_USERS, "item": np.arange(N_USERS) % N_ITEMS})
    return cp.Interactions(every.users, every.items, user.astype(np.int32), item.astype(np.int32))


def by_columns(
    clicks: NDArray[np.float64], targets: NDArray[np.float64], ridge: float
) -> NDArray[np.float64]:
    """Return B by one ridge regression an item, on all other items."""
    found = np.zeros((N_ITEMS, N_ITEMS))
    for item in range(N_ITEMS):
        others = np.delete(np.arange(N_ITEMS), item)
        x = clicks[:, others]
        products = x.T @ x + ridge * np.eye(len(others))
        found[others, item] = np.linalg.solve(products, x.T @ targets[:, item])
    return found


@settings(deadline=None)
@given(
    st.lists(st.booleans(), min_size=N_USERS * N_ITEMS, max_size=N_USERS * N_ITEMS).filter(any),
    st.floats(0.05, 500),
    st.booleans(),
    st.integers(0, 99),
)
def test_it_is_a_regression_of_each_item_on_the_others(
    flags: list[bool], ridge: float, weighted: bool, seed: int
) -> None:
    clicks = np.array(flags).reshape(N_USERS, N_ITEMS)
    log = log_of(clicks)
    weights = np.random.default_rng(seed).uniform(0.1, 5, len(log)) if weighted else None
    targets = clicks.astype(float)
    if weights is not None:
        targets[log.user, log.item] = weights
    model = build("ease", log, ridge=ridge)
    assert isinstance(model, Ease)
    model.solve(log, weights)
    expected = by_columns(clicks.astype(float), targets, ridge)
    np.testing.assert_allclose(model.between.numpy(), expected, rtol=1e-4, atol=1e-5)
    assert not model.between.diagonal().any()


@pytest.mark.parametrize("weighted", [False, True])
def test_blocks_of_items_make_no_difference(
    weighted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    log = cp.read({"user": rng.integers(0, 40, 600), "item": rng.integers(0, 31, 600)})
    weights = rng.uniform(0.5, 2, len(log)) if weighted else None
    found = []
    for items, columns in ((64, 256), (4, 7)):
        monkeypatch.setattr("counterplay.models.solved._ITEMS", items)
        monkeypatch.setattr("counterplay.models.ease._COLUMNS", columns)
        model = build("ease", log, ridge=2.0)
        assert isinstance(model, Ease)
        model.solve(log, weights)
        found.append(model.between.numpy())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5, atol=1e-6)


def test_the_default_ridge_grows_with_the_root_of_the_rows() -> None:
    log = cp.read({"user": [0, 1] * 50, "item": [0, 1, 1, 0] * 25})
    model = build("ease", log)
    assert isinstance(model, Ease)
    assert model.ridge == 5.0


def test_what_does_not_fit_into_memory_is_refused_with_what_to_do() -> None:
    log = cp.read({"user": np.arange(2000) % 7, "item": np.arange(2000)})
    with pytest.raises(cp.ConfigError, match=r"2,000 items.* above candidate.memory=0.04") as told:
        build("ease", log, memory=0.04)
    assert "--core" in str(told.value)
    assert "knn" in str(told.value)
    build("ease", log, memory=0.05)
