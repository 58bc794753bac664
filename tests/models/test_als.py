from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import counterplay as cp
from counterplay.models.als import Als
from counterplay.models.registry import build
from counterplay.models.solved import clicks_of

ALPHA, RIDGE = 2.5, 0.7


@pytest.fixture(scope="module")
def log() -> cp.Interactions:
    rng = np.random.default_rng(1)
    return cp.read({"user": rng.integers(0, 30, 220), "item": rng.integers(0, 22, 220)})


def solved(log: cp.Interactions, sweeps: int, weights: NDArray[np.float64] | None = None) -> Als:
    settings = {"dim": 4, "ridge": RIDGE, "confidence": ALPHA, "sweeps": sweeps}
    model = build("ials", log, generator=torch.Generator().manual_seed(0), **settings)
    assert isinstance(model, Als)
    model.solve(log, weights)
    return model


def tables(model: Als) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return tuple(each.own.detach().double().numpy() for each in (model.user, model.item))  # type: ignore[return-value]


def objective(log: cp.Interactions, model: Als, weights: NDArray[np.float64] | None) -> float:
    users, items = tables(model)
    clicked = clicks_of(log).toarray()
    confidence = 1 + ALPHA * clicks_of(log, weights).toarray()
    errors = confidence * (clicked - users @ items.T) ** 2
    return float(errors.sum() + RIDGE * ((users**2).sum() + (items**2).sum()))


@pytest.mark.parametrize("weighted", [False, True])
def test_sweeps_lower_the_objective_to_where_each_side_solves_its_equations(
    log: cp.Interactions, weighted: bool
) -> None:
    weights = np.random.default_rng(2).uniform(0.2, 3, len(log)) if weighted else None
    values = [objective(log, solved(log, n, weights), weights) for n in (1, 2, 5, 20)]
    assert all(later < earlier for earlier, later in pairwise(values))
    users, items = tables(solved(log, 300, weights))
    clicked, extra = clicks_of(log).toarray(), ALPHA * clicks_of(log, weights).toarray()
    for u in range(len(users)):  # the closed form, user by user
        confidence = 1 + extra[u]
        matrix = (items.T * confidence) @ items + RIDGE * np.eye(4)
        best = np.linalg.solve(matrix, items.T @ (confidence * clicked[u]))
        np.testing.assert_allclose(users[u], best, atol=2e-3)


def test_blocks_and_threads_make_no_difference(
    log: cp.Interactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = torch.get_num_threads()
    found = []
    try:
        for block, threads in ((1 << 16, 1), (40, 1), (40, 2)):
            monkeypatch.setattr("counterplay.models.als._BLOCK", block)
            torch.set_num_threads(threads)
            found.append(solved(log, 3).user.own.detach())
    finally:
        torch.set_num_threads(before)
    torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-5)
    assert torch.equal(found[2], found[1])  # to the bit, whatever the number of threads


def test_confidence_raises_what_was_observed(log: cp.Interactions) -> None:
    means = []
    for confidence in (0.5, 20.0):
        model = build("ials", log, dim=4, confidence=confidence, ridge=1.0)
        assert isinstance(model, Als)
        model.solve(log)
        with torch.no_grad():
            scores = model.score_all(torch.arange(log.n_users)).numpy()
        means.append(float(scores[log.user, log.item].mean()))
    assert means[0] < means[1]
