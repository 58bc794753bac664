"""Doubly robust learning of ratings: unbiased by enumeration, by hand, and as a run."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.special import expit

import counterplay as cp
from counterplay.learning.batches import Batches
from counterplay.learning.config import Joint
from counterplay.learning.methods.dr import Dr, doubly_robust, dr
from counterplay.learning.records import Meter
from counterplay.models.registry import ModelName, build
from counterplay.runs.config import run_config

from .by_hand import Table

Array = NDArray[np.float64]


def expected_loss(r: Array, f: Array, imputed: Array, chance: Array, q: Array) -> float:
    """Return the expectation over who rated what, and over which unrated items are sampled.

    Of one user; the first item is always rated, so that there is a row.
    """
    n = len(r)
    total = 0.0
    for rest in product((0, 1), repeat=n - 1):
        o = np.array([1, *rest])
        probability = np.prod(np.where(o == 1, chance, 1 - chance))
        seen, unseen = np.flatnonzero(o == 1), np.flatnonzero(o == 0)
        draws = [(0,)] if len(unseen) == 0 else [(int(each),) for each in unseen]
        for drawn in draws:  # the same for each row, as all are alike in expectation
            items = np.array([[row, *drawn] for row in seen])
            rows = doubly_robust(
                torch.tensor(r[seen]),
                torch.tensor(f[items]),
                torch.tensor(imputed[items]),
                torch.tensor(1 / q[seen]),
                torch.full((len(seen),), len(unseen) / len(seen), dtype=torch.float64),
            )
            density = len(seen) / n
            total += probability / len(draws) * density * float(rows.mean())
    return total


R, F = np.array([5.0, 1.0, 3.0, 4.0]), np.array([3.5, 2.0, 2.5, 4.5])
CHANCE = np.array([1.0, 0.3, 0.6, 0.8])
TRUTH = float(((R - F) ** 2).mean())


@pytest.mark.parametrize("q", [CHANCE, np.full(4, 0.5), np.array([0.2, 0.9, 0.1, 0.7])])
def test_a_perfect_imputation_is_unbiased_whatever_the_propensities(q: Array) -> None:
    assert expected_loss(R, F, R, CHANCE, q) == pytest.approx(TRUTH, rel=1e-12)


@pytest.mark.parametrize("imputed", [R, F, np.zeros(4), np.array([1.0, 5.0, 2.0, 2.0])])
def test_true_propensities_are_unbiased_whatever_the_imputation(imputed: Array) -> None:
    assert expected_loss(R, F, imputed, CHANCE, CHANCE) == pytest.approx(TRUTH, rel=1e-12)


def test_if_both_are_wrong_it_is_biased() -> None:
    found = expected_loss(R, F, np.zeros(4), CHANCE, np.full(4, 0.5))
    assert abs(found - TRUTH) > 0.1


def rated(seed: int = 0) -> cp.Interactions:
    rng = np.random.default_rng(seed)
    user, item = np.divmod(np.arange(48), 8)
    seen = rng.random(48) < np.linspace(0.2, 0.8, 8)[item]
    return cp.read({"user": user[seen], "item": item[seen], "rating": rng.normal(3, 1, seen.sum())})


@pytest.mark.parametrize("known", [False, True])
def test_a_step_by_hand(known: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    log = rated()
    n, rng = len(log), np.random.default_rng(1)
    if known:
        log = replace(log, propensity=rng.uniform(0.05, 1, n))
    f, h, g = rng.normal(size=(3, log.n_users, log.n_items)).astype(np.float32).astype(float)
    players: dict[str, cp.Scorer] = {
        role: Table(values).float()
        for role, values in (("candidate", f), ("imputation", h), ("exposure", g))
    }
    config = Joint(batch_size=100, n_negatives=3, floor=0.5)
    method = Dr(players, log, config)
    method.prepare()
    method.begin(0)
    (batch,) = Batches(log, config).epoch(cp.Streams(0), 0)
    assert batch.ratings is not None
    seen_by = np.bincount(log.user)
    density = n / 48
    inverse = np.empty(n)
    rows, missed = [], []
    for row in range(n):
        user, items = int(batch.users[row]), batch.items[row].tolist()
        others = (8 - seen_by[user]) / seen_by[user]
        q = expit(g[user, items[0]] + np.log(3 / others))
        if batch.propensity is not None:
            q = float(batch.propensity[row])
        inverse[row] = 1 / max(q, 0.5 * density)
    if not known:
        inverse /= inverse.mean() * density
    for row in range(n):
        user, items = int(batch.users[row]), batch.items[row].tolist()
        others = (8 - seen_by[user]) / seen_by[user]
        error = float(batch.ratings[row, 0]) - f[user, items[0]]
        guess = h[user, items] ** 2
        rows.append(guess[0] + inverse[row] * (error**2 - guess[0]) + others * guess[1:].mean())
        missed.append(inverse[row] * (h[user, items[0]] - error) ** 2)
    gradients: dict[str, Any] = {}
    for role, player in players.items():
        if role in method.optimizers:

            def step(loss: torch.Tensor, role: str = role, player: cp.Scorer = player) -> None:
                loss.backward()
                gradients[role] = next(player.parameters()).grad

            monkeypatch.setattr(method.optimizers[role], "step", step)
    meter = Meter()
    method.step(batch, meter)
    assert meter.mean("candidate_loss") == pytest.approx(density * np.mean(rows), rel=1e-4)
    assert meter.mean("imputation_loss") == pytest.approx(density * np.mean(missed), rel=1e-4)
    share = inverse.sum() ** 2 / (inverse**2).sum() / n
    assert meter.ess() == pytest.approx(share, rel=1e-4)
    expected = np.zeros_like(f)
    for row in range(n):
        user, items = int(batch.users[row]), batch.items[row].tolist()
        others = (8 - seen_by[user]) / seen_by[user]
        error = float(batch.ratings[row, 0]) - f[user, items[0]]
        mine = h[user, items]
        expected[user, items[0]] -= 2 * ((1 - inverse[row]) * mine[0] + inverse[row] * error)
        for item in items[1:]:
            expected[user, item] -= 2 * others * h[user, item] / 3
    np.testing.assert_allclose(
        gradients["candidate"].numpy(), density * expected / n, rtol=1e-3, atol=1e-5
    )


@pytest.mark.parametrize("name", ["cf", "gmf", "mlp", "ncf", "attn"])
def test_every_model_predicts_ratings(name: ModelName, ratings: cp.Interactions) -> None:
    models = [
        build(name, ratings, dim=4, length=9, generator=torch.Generator().manual_seed(seed))
        for seed in range(2)
    ]
    hard = name in ("mlp", "attn")  # so few rows tell them the mean alone, by erm as well
    config = Joint(epochs=6 if hard else 20, rate=0.05, imputation_rate=0.05, batch_size=64)
    found = dr(models[0], models[1], build("pop", ratings), ratings, config)
    (batch,) = Batches(ratings, Joint(batch_size=10_000), models[0]).epoch(cp.Streams(0), 0)
    with torch.no_grad():
        predicted = found.candidate(*batch.query)
    assert batch.ratings is not None
    most = 1.2 if hard else 0.3  # their mean is 3, their deviation 1
    assert float((predicted - batch.ratings).abs().mean()) < most
    first, last = found.epochs[0].imputation_loss, found.epochs[-1].imputation_loss
    assert first is not None
    assert last is not None
    assert last < first


def test_fitted_propensities_are_near_the_true_ones() -> None:
    """Items are rated with a chance of their own; a logit an item finds it."""
    rng = np.random.default_rng(0)
    user, item = np.divmod(np.arange(200 * 10), 10)
    chance = np.linspace(0.1, 0.8, 10)
    seen = rng.random(2000) < chance[item]
    log = cp.read({"user": user[seen], "item": item[seen], "rating": np.ones(seen.sum())})
    models = [build("cf", log, dim=1, generator=torch.Generator().manual_seed(s)) for s in (0, 1)]
    config = Joint(epochs=30, rate=0.05, batch_size=256)
    for exposure in (build("pop", log), cp.models.popularity.ItemLevel(log.n_users, log.n_items)):
        method = Dr(
            {"candidate": models[0], "imputation": models[1], "exposure": exposure}, log, config
        )
        first = method.first()
        if first is not None:
            cp.learning.fit(first)
        (batch,) = Batches(log, Joint(batch_size=2000)).epoch(cp.Streams(0), 0)
        inverse = method._inverse(batch).numpy()
        items = batch.items[:, 0].numpy()
        found = np.array([1 / inverse[items == each].mean() for each in range(10)])
        assert np.corrcoef(found, chance)[0, 1] > 0.95
        if first is not None:  # counts alone are near where chances are small
            np.testing.assert_allclose(found, chance, atol=0.1)


def test_what_it_does_not_have_is_refused(ratings: cp.Interactions) -> None:
    players = {role: build("cf", ratings, dim=2) for role in Dr.roles}
    with pytest.raises(cp.DataError, match="dr predicts ratings; found a log without"):
        Dr(players, replace(ratings, rating=None), Joint())
    with pytest.raises(cp.ConfigError, match="found one without parameters"):
        Dr(players | {"imputation": build("pop", ratings)}, ratings, Joint())
    with pytest.raises(cp.DataError, match="propensities=logged needs"):
        Dr(players, ratings, Joint(propensities="logged"))
    for asked, words in (
        ("training.loss=logistic", "must be squared"),
        ("training.negatives_exponent=0.5", "negatives_exponent must be 0"),
        ("training.n_negatives=0", "must be at least 1"),
    ):
        with pytest.raises(cp.ConfigError, match=words):
            run_config(None, ["method=dr", asked])


def test_a_run_is_written_and_loaded(tmp_path: Path, ratings: cp.Interactions) -> None:
    split = cp.data.split_at_random(ratings, cp.Streams(0).numpy("split"))
    cp.data.save(split, tmp_path / "data")
    asked = ["method=dr", "training.epochs=2", "candidate.name=cf", "candidate.dim=4",
             "exposure.name=pop"]  # fmt: skip
    record = cp.train(tmp_path / "data", tmp_path / "run", run_config(None, asked)).to_dict()
    assert record["validation"]["metric"] == "mse"
    assert record["parameters"]["imputation"] == record["parameters"]["candidate"] > 0
    assert record["epochs"][-1]["imputation_loss"] > 0
    assert isinstance(cp.runs.load_run(tmp_path / "run", split.train)[0], cp.Scorer)
