"""Learning by a softmax: against the definition, and against the sum over all items."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import counterplay as cp
from counterplay.learning.batches import Batch, Batches
from counterplay.learning.config import AmongAll
from counterplay.learning.methods.softmax import Softmax, softmax
from counterplay.learning.records import Meter
from counterplay.models.registry import ModelName, build
from counterplay.testing import MethodContract

from .by_hand import Table
from .conftest import Checkerboard

N_USERS, N_ITEMS = 6, 9


class TestContract(MethodContract):
    method = Softmax

    def config(self) -> AmongAll:
        return AmongAll(epochs=25, rate=0.03, batch_size=64, n_shared=12)


def log_of(n: int = 40) -> cp.Interactions:
    rng = np.random.default_rng(0)
    whole = {"user": np.arange(54) // 9, "item": np.arange(54) % 9}
    rows = cp.read(whole)
    return rows.take(np.sort(rng.permutation(54)[:n]))


def stepped(
    table: Table, config: AmongAll, monkeypatch: pytest.MonkeyPatch
) -> tuple[float, torch.Tensor, Batch]:
    """Return the loss of one step on all rows, its gradient, and the batch."""
    log = log_of()
    seen: dict[str, Any] = {}
    method = Softmax({"candidate": table}, log, config)
    method.prepare()
    method.begin(0)
    (batch,) = Batches(log, config, table).epoch(cp.Streams(0), 0)

    def step(loss: torch.Tensor) -> None:
        seen["loss"] = float(loss.detach())
        (seen["gradient"],) = torch.autograd.grad(loss, [table.table])

    monkeypatch.setattr(method.optimizers["candidate"], "step", step)
    method.step(batch, Meter())
    return seen["loss"], seen["gradient"], batch


def test_with_all_items_it_is_the_cross_entropy(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(1).normal(size=(N_USERS, N_ITEMS))
    table = Table(values)
    config = AmongAll(batch_size=64, n_shared=N_ITEMS)
    loss, gradient, batch = stepped(table, config, monkeypatch)
    expected = F.cross_entropy(table.table[batch.users.long()], batch.items[:, 0].long())
    assert loss == pytest.approx(float(expected.detach()), rel=1e-6)
    (by_hand,) = torch.autograd.grad(expected, [table.table])
    torch.testing.assert_close(gradient, by_hand, rtol=1e-5, atol=1e-8)


def test_the_loss_of_a_sample_is_the_definition_item_by_item(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values = 3 * np.random.default_rng(2).normal(size=(N_USERS, N_ITEMS))
    config, log = AmongAll(batch_size=64, n_shared=7, negatives_exponent=0.5), log_of()
    loss, gradient, batch = stepped(Table(values), config, monkeypatch)
    chances = (np.bincount(log.item, minlength=N_ITEMS) + 1.0) ** 0.5
    chances /= chances.sum()
    points = cp.Streams(0).numpy("shared items", 0).random(7)
    drawn = [int((np.cumsum(chances)[:-1] <= point).sum()) for point in points]
    assert len(set(drawn)) < 7  # one is drawn twice
    scores = torch.tensor(values, dtype=torch.float64, requires_grad=True)
    losses = []
    for user, (item, *_) in zip(batch.users.tolist(), batch.items.tolist(), strict=True):
        others = [scores[user, j].exp() / (7 * chances[j]) for j in drawn if j != item]
        losses.append(torch.log(scores[user, item].exp() + sum(others)) - scores[user, item])
    expected = torch.stack(losses).mean()
    assert loss == pytest.approx(float(expected.detach()), rel=1e-6)
    (by_hand,) = torch.autograd.grad(expected, [scores])
    torch.testing.assert_close(gradient.double(), by_hand, rtol=1e-5, atol=1e-8)


def test_large_scores_stay_finite(monkeypatch: pytest.MonkeyPatch) -> None:
    for sign in (1, -1):
        values = np.zeros((N_USERS, N_ITEMS))
        values[:, ::2] = sign * 500.0
        loss, gradient, _ = stepped(Table(values), AmongAll(batch_size=64, n_shared=4), monkeypatch)
        assert np.isfinite(loss)
        assert bool(torch.isfinite(gradient).all())


@pytest.mark.parametrize("exponent", [0.0, 1.0])
def test_the_sample_stands_for_the_sum_over_all_other_items(exponent: float) -> None:
    table = Table(np.zeros((N_USERS, N_ITEMS)))
    config = AmongAll(n_shared=4, negatives_exponent=exponent)
    method = Softmax({"candidate": table}, log_of(), config)
    method.begin(0)
    total, n = np.zeros(N_ITEMS), 4000
    for _ in range(n):
        drawn, weights = method._drawn()
        assert len(np.unique(drawn)) == len(drawn)
        np.add.at(total, drawn.numpy(), weights.numpy().astype(float))
    np.testing.assert_allclose(total / n, 1, atol=0.08)  # about five standard errors


def test_the_observed_item_is_not_counted_twice() -> None:
    table, config = Table(np.full((N_USERS, N_ITEMS), -50.0)), AmongAll(batch_size=64, n_shared=8)
    only = log_of().take(np.array([0]))
    method = Softmax({"candidate": table}, only, config)
    method.prepare()
    method.begin(0)
    meter = Meter()
    with torch.no_grad():
        table.table[int(only.user[0]), int(only.item[0])] = 0.0
    for batch in Batches(only, config, table).epoch(cp.Streams(0), 0):
        method.step(batch, meter)
    assert meter.epoch(0, {}, None).candidate_loss == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("name", ["cf", "gmf", "mlp", "attn"])
def test_every_model_learns_by_it(name: ModelName, checkerboard: Checkerboard) -> None:
    model = build(name, checkerboard.log, dim=4, length=9, generator=cp.Streams(0).torch("initial"))
    config = AmongAll(epochs=25, batch_size=64, rate=0.03, n_shared=12)
    fit = softmax(model, checkerboard.log, config)
    assert (checkerboard.ranks(fit.candidate) == 0).mean() > 0.9


def test_ratings_and_negatives_of_queries_are_refused() -> None:
    rated = cp.read({"user": [0, 1], "item": [0, 1], "rating": [1.0, 5.0]})
    table = Table(np.zeros((2, 2)))
    with pytest.raises(cp.DataError, match="predicts no ratings"):
        Softmax({"candidate": table}, rated, AmongAll())
    with pytest.raises(ValueError, match="n_negatives"):
        AmongAll(n_negatives=3)
