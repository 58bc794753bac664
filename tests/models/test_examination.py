"""Examination by position: its table, and how it is estimated from items at several places."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import counterplay as cp
from counterplay.data.interactions import Interactions
from counterplay.models.examination import LAST, Examination, examination_of

RHO = np.array([1.0, 0.8, 0.5, 0.3])


def log_of(rho: np.ndarray, *, n: int = 40_000, together: bool = False) -> Interactions:
    """Return impressions of 30 items; with `together`, better items stand higher."""
    rng = np.random.default_rng(0)
    ids = cp.read({"user": [0, 1], "item": [0, 1]}).users
    items = cp.read({"user": np.arange(30) % 2, "item": np.arange(30)}).items
    appeal = np.linspace(0.1, 0.9, 30)
    item = rng.integers(0, 30, n)
    chance = np.where(together, 1 - appeal[item], 0.5)
    place = rng.binomial(len(rho) - 1, chance)
    clicked = rng.random(n) < appeal[item] * rho[place]
    user = np.zeros(n, np.int32)
    position = (place + 1).astype(np.int16)
    return Interactions(ids, items, user, item.astype(np.int32), position=position, clicked=clicked)


@pytest.mark.parametrize("together", [False, True])
def test_the_table_comes_back_though_better_items_stand_higher(together: bool) -> None:
    log = log_of(RHO, together=together)
    found = examination_of(log)
    assert np.abs(found - RHO).max() < 0.05  # about four standard errors
    assert log.position is not None
    assert log.clicked is not None
    plain = [log.clicked[log.position == place].mean() for place in range(1, 5)]
    biased = np.array(plain) / plain[0]
    assert (np.abs(biased - RHO).max() > 0.08) == together


def test_an_item_at_one_place_says_nothing() -> None:
    log = log_of(RHO)
    assert log.position is not None
    fixed = np.where(log.item == 3, 2, log.position).astype(np.int16)
    with_it = Interactions(
        log.users, log.items, log.user, log.item, position=fixed, clicked=log.clicked
    )
    without = with_it.take(with_it.item != 3)
    np.testing.assert_allclose(examination_of(with_it), examination_of(without), atol=1e-4)


def test_the_module_begins_where_it_is_told_and_never_passes_the_first_place() -> None:
    module = Examination(RHO)
    np.testing.assert_allclose(module.rho, RHO, atol=1e-3)
    with torch.no_grad():
        module.raw.sub_(50)
    assert max(module.rho) <= 1
    assert module.rho[0] == 1
    far = module(torch.tensor([1, 4, 9, 30_000], dtype=torch.int16))
    assert torch.equal(far[1:], far[1].expand(3))  # beyond the last place as there
    assert Examination(np.ones(1)).rho == [1]


def test_places_far_down_are_taken_together() -> None:
    log = log_of(np.full(150, 0.5))
    assert len(examination_of(log)) == LAST
