"""Learning from impressions, and by logged propensities: against the definitions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import expit

import counterplay as cp
from counterplay.data.canonical import stable_order
from counterplay.data.interactions import Interactions
from counterplay.learning.batches import Batches
from counterplay.learning.config import FromShown, Inverse, Training
from counterplay.learning.methods.erm import erm
from counterplay.learning.methods.ips import Ips, ips
from counterplay.learning.methods.shown import Shown, click_loss, shown
from counterplay.learning.records import Meter
from counterplay.models.examination import Examination
from counterplay.models.registry import ModelName, build

from .by_hand import Table
from .conftest import Checkerboard

N_USERS, N_ITEMS = 6, 8


def impressions(seed: int = 0, *, n: int = 60, positions: bool = True) -> Interactions:
    rng = np.random.default_rng(seed)
    log = cp.read({"user": np.arange(48) // 8, "item": np.arange(48) % 8})
    user = np.sort(rng.integers(0, N_USERS, n)).astype(np.int32)
    return Interactions(
        log.users,
        log.items,
        user,
        rng.integers(0, N_ITEMS - 2, n).astype(np.int32),  # the last two are never shown
        position=rng.integers(1, 5, n).astype(np.int16) if positions else None,
        clicked=rng.random(n) < 0.4,
    )


@pytest.mark.parametrize("rho", [1.0, 0.6, 0.01])
def test_the_loss_is_that_of_a_click_that_needs_examination_and_taste(rho: float) -> None:
    f = torch.linspace(-6, 6, 25, dtype=torch.float64)
    clicked = (torch.arange(25) % 2).double()
    found = click_loss(clicked, f, torch.full_like(f, np.log(rho))).numpy()
    p = rho * expit(f.numpy())
    np.testing.assert_allclose(found, -np.log(np.where(clicked == 1, p, 1 - p)), rtol=1e-5)


@pytest.mark.parametrize("weight", [0.0, 0.3])
def test_a_step_is_the_gradient_of_the_loss_of_its_rows(
    weight: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, rng = impressions(), np.random.default_rng(1)
    table = Table(rng.normal(size=(N_USERS, N_ITEMS)).astype(np.float32).astype(np.float64))
    config = FromShown(unseen_weight=weight, batch_size=60, n_negatives=3, examination="joint")
    method = Shown({"candidate": table.float()}, log, config)
    method.prepare()
    ((batch),) = Batches(log, method.config, table).epoch(cp.Streams(0), 0)
    examination = method.players["examination"]
    assert isinstance(examination, Examination)
    values, raw = table.table.detach().double().numpy(), examination.raw.detach().double().numpy()

    def loss(values: np.ndarray, raw: np.ndarray) -> float:
        rho = np.append(1.0, np.exp(-np.logaddexp(0, raw)))
        total = 0.0
        for row in range(60):
            user, *_ = int(batch.users[row]), None
            items = batch.items[row].tolist()
            assert batch.position is not None
            p = rho[int(batch.position[row]) - 1] * expit(values[user, items[0]])
            total -= np.log(p if batch.observed[row, 0] else 1 - p) / 60
            for item in items[1:]:
                total -= weight * np.log(1 - expit(values[user, item])) / 3 / 60
        return total

    meter = Meter()
    found: dict[str, torch.Tensor] = {}
    optimizer = method.optimizers["candidate"]

    def step(value: torch.Tensor) -> None:
        value.backward()
        found["loss"] = value.detach()

    monkeypatch.setattr(optimizer, "step", step)
    method.step(batch, meter)
    assert float(found["loss"]) == pytest.approx(loss(values, raw), abs=1e-5)
    for array, gradient in ((values, table.table.grad), (raw, examination.raw.grad)):
        assert gradient is not None
        for place in list(np.ndindex(array.shape))[::5]:
            up, down = array.copy(), array.copy()
            up[place] += 1e-4
            down[place] -= 1e-4
            pair = [(up, raw), (down, raw)] if array is values else [(values, up), (values, down)]
            slope = (loss(*pair[0]) - loss(*pair[1])) / 2e-4
            assert float(gradient[place]) == pytest.approx(slope, abs=2e-4)


def test_sampled_items_were_never_shown_to_the_user() -> None:
    log = impressions()
    pairs = set(log.pair.tolist())
    for batch in Batches(log, FromShown(batch_size=16)).epoch(cp.Streams(0), 0):
        assert batch.unseen is not None
        assert bool((batch.unseen == 1).all())
        for user, items in zip(batch.users.tolist(), batch.items.tolist(), strict=True):
            assert user * N_ITEMS + items[0] in pairs
            assert not pairs & {user * N_ITEMS + item for item in items[1:]}


def test_who_was_shown_everything_has_no_sampled_items() -> None:
    log = impressions()
    everything = Interactions(
        log.users,
        log.items,
        np.concatenate([np.zeros(N_ITEMS, np.int32), log.user[log.user > 0]]),
        np.concatenate([np.arange(N_ITEMS, dtype=np.int32), log.item[log.user > 0]]),
        clicked=np.arange(N_ITEMS + int((log.user > 0).sum())) % 3 == 0,
    )
    for batch in Batches(everything, FromShown(batch_size=16)).epoch(cp.Streams(0), 0):
        assert batch.unseen is not None
        assert torch.equal(batch.unseen == 0, batch.users == 0)
    table = Table(np.zeros((N_USERS, N_ITEMS)))
    found = shown(table.float(), everything, FromShown(epochs=2, batch_size=16))
    assert bool(torch.isfinite(found.candidate.state_dict()["table"]).all())


def test_repeated_impressions_of_a_pair_count_each() -> None:
    log = impressions(positions=False)
    counts = np.ones(len(log), np.int64)
    counts[7] = 5
    repeated = log.take(np.repeat(np.arange(len(log)), counts))
    values = np.random.default_rng(4).normal(size=(N_USERS, N_ITEMS))
    config = FromShown(epochs=1, batch_size=1000, unseen_weight=0)
    found = shown(Table(values).float(), repeated, config).epochs[0].candidate_loss
    f = values[log.user, log.item]
    assert log.clicked is not None
    losses = np.logaddexp(0, np.where(log.clicked, -f, f))
    assert found == pytest.approx(np.average(losses, weights=counts), abs=1e-6)


def shown_board(checkerboard: Checkerboard) -> Interactions:
    """Return all pairs but the withheld as impressions: those of a user's own kind are clicked."""
    log = checkerboard.log
    user, item = np.divmod(np.arange(log.n_users * log.n_items), log.n_items)
    kept = item != checkerboard.withheld[user]
    user, item = user[kept].astype(np.int32), item[kept].astype(np.int32)
    time = np.random.default_rng(0).permutation(len(user)).astype(np.int64)
    order = stable_order(user, time)
    assert order is not None
    rows = {"user": user[order], "item": item[order], "time": time[order]}
    clicked = rows["user"] % 2 == rows["item"] % 2
    return Interactions(log.users, log.items, **rows, clicked=clicked)


@pytest.mark.parametrize("name", ["cf", "gmf", "mlp", "ncf", "attn"])
def test_the_withheld_item_ranks_first(name: ModelName, checkerboard: Checkerboard) -> None:
    log = shown_board(checkerboard)
    generator = torch.Generator().manual_seed(0)
    candidate = build(name, log, dim=4, length=9, dropout=0.1, generator=generator)
    # the withheld item is the only one that a user was not shown: it must not be sampled
    found = shown(candidate, log, FromShown(epochs=25, batch_size=64, rate=0.03, unseen_weight=0))
    assert (checkerboard.ranks(found.candidate) == 0).mean() == 1.0


def test_clicks_alone_are_refused(checkerboard: Checkerboard) -> None:
    candidate = build("gmf", checkerboard.log, dim=4)
    with pytest.raises(cp.DataError, match="found a log of clicks alone"):
        shown(candidate, checkerboard.log, FromShown())
    with pytest.raises(cp.DataError, match="found a log without"):
        ips(candidate, checkerboard.log, Inverse())
    with pytest.raises(ValueError, match="must be logistic"):
        FromShown(loss="hinge")


def test_equal_propensities_are_plain_learning(checkerboard: Checkerboard) -> None:
    log = replace(checkerboard.log, propensity=np.full(len(checkerboard.log), 0.2))
    options: dict[str, Any] = {"epochs": 2, "batch_size": 64}
    models = [build("gmf", log, dim=4, generator=torch.Generator().manual_seed(0)) for _ in "ab"]
    with pytest.warns(cp.CounterplayWarning, match="no effect"):
        ips(models[0], log, Inverse(**options))
    erm(models[1], log, Training(**options))
    for one, other in zip(models[0].parameters(), models[1].parameters(), strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=0)


def test_clicks_are_weighted_by_inverse_propensities_and_samples_are_not() -> None:
    log = impressions(positions=False)
    q = np.random.default_rng(2).uniform(0.02, 1, len(log))
    log = replace(log, clicked=None, propensity=q)
    table = Table(np.random.default_rng(3).normal(size=(N_USERS, N_ITEMS))).float()
    config = Inverse(batch_size=100, n_negatives=2, floor=0.5)
    method = Ips({"candidate": table}, log, config)
    method.prepare()
    (batch,) = Batches(log, config, table).epoch(cp.Streams(0), 0)
    meter = Meter()
    values = table.table.detach().double().numpy().copy()
    method.step(batch, meter)
    weight = 1 / np.maximum(q, 0.5 * q.mean())
    weight /= weight.mean()
    assert batch.propensity is not None
    losses = []
    for row in range(len(log)):
        user, items = int(batch.users[row]), batch.items[row].tolist()
        place = int(np.argmin(np.abs(q - float(batch.propensity[row]))))
        assert log.item[place] == items[0]
        losses.append(weight[place] * np.logaddexp(0, -values[user, items[0]]))
        losses += [np.logaddexp(0, values[user, item]) for item in items[1:]]
    assert meter.mean("candidate_loss") == pytest.approx(np.mean(losses), rel=1e-5)
    assert meter.ess() == pytest.approx(weight.sum() ** 2 / (weight**2).sum() / len(q), rel=1e-4)
