from __future__ import annotations

import numpy as np
import pytest
import torch

from counterplay.evaluation.old_system import NAME, old_system
from counterplay.metrics.recommendations import top_k
from counterplay.simulation.synthetic import Synthetic
from counterplay.simulation.world import World


@pytest.fixture(scope="module")
def world() -> World:
    return Synthetic(n_users=30, n_items=20, n_shown=5, sharpness=3, seed=0).world()


def test_it_ranks_by_what_it_would_show(world: World) -> None:
    users = np.arange(world.n_users)
    true = np.asarray(world.propensity(users, None))
    found = old_system(world)
    assert found.name == NAME
    np.testing.assert_array_equal(found.scores.of_all(users), true)
    items = np.random.default_rng(0).integers(0, world.n_items, (world.n_users, 4))
    np.testing.assert_allclose(
        found.scores.of(users, items), np.take_along_axis(true, items, axis=1)
    )
    log = world.log((1.0, 0.1, 0.1))
    lists, _ = top_k(found.scores, users, log.take(np.zeros(len(log), dtype=bool)), 1)
    np.testing.assert_array_equal(np.take_along_axis(true, lists, axis=1)[:, 0], true.max(axis=1))


def test_an_opponent_sees_finite_logits_in_the_same_order(world: World) -> None:
    users = np.arange(world.n_users)
    items = np.tile(np.arange(world.n_items), (world.n_users, 1))
    model = old_system(world).model
    assert model is not None
    with torch.no_grad():
        logits = model(torch.from_numpy(users), torch.from_numpy(items))
    assert torch.isfinite(logits).all()
    true = np.clip(world.propensity(users, None), 1e-6, 1 - 1e-6)
    np.testing.assert_allclose(torch.sigmoid(logits).numpy(), true, rtol=1e-3, atol=1e-6)
