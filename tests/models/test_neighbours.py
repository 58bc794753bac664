from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import counterplay as cp
from counterplay.models.neighbours import Neighbours
from counterplay.models.registry import build


@settings(deadline=None)
@given(st.integers(0, 99), st.integers(1, 8), st.sampled_from([0.0, 0.5, 20.0]), st.booleans())
def test_scores_are_sums_over_the_nearest(
    seed: int, kept: int, shrink: float, weighted: bool
) -> None:
    rng = np.random.default_rng(seed)
    log = cp.read({"user": rng.integers(0, 9, 40), "item": rng.integers(0, 8, 40)})
    n_users, n = log.n_users, log.n_items
    weights = rng.uniform(0.2, 4, len(log)) if weighted else None
    w = np.zeros((n_users, n))
    rows = np.zeros((n_users, n))
    np.add.at(w, (log.user, log.item), 1 if weights is None else weights)
    np.add.at(rows, (log.user, log.item), 1)
    w = w / np.maximum(rows, 1)
    expected = np.zeros((n_users, n))
    for i in range(n):
        near = []
        for j in range(n):
            if i != j:
                dot = sum(np.sqrt(w[u, i] * w[u, j]) for u in range(n_users))
                scale = np.sqrt(w[:, i].sum()) * np.sqrt(w[:, j].sum()) + shrink
                near.append((dot / scale, j))
        near.sort(key=lambda each: -each[0])
        if len(near) > kept and near[kept - 1][0] - near[kept][0] < 1e-6:
            return  # which of two equals is kept is not said
        for similarity, j in near[:kept]:
            expected[:, i] += similarity * (rows[:, j] > 0)
    model = build("knn", log, neighbours=kept, shrink=shrink)
    assert isinstance(model, Neighbours)
    model.solve(log, weights)
    found = model.score_all(torch.arange(n_users)).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    everything = torch.arange(n).expand(n_users, -1)
    np.testing.assert_allclose(model(torch.arange(n_users), everything).numpy(), found, rtol=1e-5)


def test_no_item_is_its_own_neighbour_and_few_items_have_few() -> None:
    log = cp.read({"user": [0, 0, 1, 1, 2], "item": [0, 1, 0, 1, 2]})
    model = build("knn", log, neighbours=50, shrink=0)
    assert isinstance(model, Neighbours)
    model.solve(log)
    assert model.places.shape == (3, 2)
    assert all(row not in places for row, places in enumerate(model.places.tolist()))
    assert model.score_all(torch.tensor([0]))[0].tolist() == pytest.approx([1, 1, 0])


def test_shrinking_lowers_what_few_users_say() -> None:
    rows = [(u, i) for u in range(10) for i in (0, 1)] + [(10, 2), (10, 3)]
    log = cp.read({"user": [u for u, _ in rows], "item": [i for _, i in rows]})
    model = build("knn", log, shrink=10)
    assert isinstance(model, Neighbours)
    model.solve(log)
    often, once = (
        float(model.effects(torch.tensor([j]), torch.tensor([[i]]))) for j, i in ((0, 1), (2, 3))
    )
    assert (often, once) == pytest.approx((10 / 20, 1 / 11))


def test_an_item_without_rows_has_no_neighbours_and_no_score() -> None:
    whole = cp.read({"user": [0, 0, 1, 1, 2], "item": [0, 1, 0, 1, 2]})
    log = whole.take(np.arange(4))
    model = build("knn", log, neighbours=2, shrink=0.0)
    assert isinstance(model, Neighbours)
    model.solve(log)
    scores = model.score_all(torch.arange(3))
    assert bool(torch.isfinite(scores).all())
    assert scores[:, 2].tolist() == [0, 0, 0]
    assert scores[0, 0] > 0
