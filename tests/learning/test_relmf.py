"""Relevance from clicks: by hand, unbiased by enumeration, and as plain learning."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import expit

import counterplay as cp
from counterplay.learning.batches import Batches
from counterplay.learning.config import Relevance, Training
from counterplay.learning.methods.erm import erm
from counterplay.learning.methods.relmf import Relmf, relevance_loss, relmf
from counterplay.learning.records import Meter
from counterplay.models.registry import ModelName, build
from counterplay.runs.config import run_config
from counterplay.testing import MethodContract
from counterplay.testing.notes import without_notes

from .by_hand import Table
from .conftest import Checkerboard

LABELS: dict[str, Callable[[int, np.ndarray], np.ndarray]] = {
    "logistic": lambda label, f: np.logaddexp(0, -f if label else f),
    "squared": lambda label, f: (label - expit(f)) ** 2,
}


def clicks(seed: int = 0) -> cp.Interactions:
    rng = np.random.default_rng(seed)
    user, item = np.divmod(np.arange(48), 8)
    seen = rng.random(48) < np.linspace(0.2, 0.9, 8)[item]
    return cp.read({"user": user[seen], "item": item[seen]})


@pytest.mark.parametrize("label_loss", ["logistic", "squared"])
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("nonnegative", [False, True])
def test_a_step_by_hand(label_loss: str, known: bool, nonnegative: bool) -> None:
    log = clicks()
    q = np.random.default_rng(2).uniform(0.02, 1, len(log))
    if known:
        log = replace(log, propensity=q)
    values = 2 * np.random.default_rng(3).normal(size=(log.n_users, log.n_items))
    config = Relevance.model_validate(
        {"label_loss": label_loss, "nonnegative": nonnegative, "exponent": 0.7, "floor": 0.3,
         "batch_size": 100, "n_negatives": 2}
    )  # fmt: skip
    method = Relmf({"candidate": Table(values).float()}, log, config)
    method.prepare()
    (batch,) = Batches(log, config).epoch(cp.Streams(0), 0)
    counts = np.bincount(log.item)
    delta, losses, weights = LABELS[label_loss], [], []
    for row in range(len(log)):
        user, items = int(batch.users[row]), batch.items[row].tolist()
        of_item = (counts[items[0]] / counts.max()) ** 0.7
        found = float(batch.propensity[row]) if batch.propensity is not None else of_item
        inverse = 1 / max(found, 0.3)
        f = values[user, items]
        mine = inverse * delta(1, f[0]) + (1 - inverse) * delta(0, f[0])
        losses += [max(mine, 0) if nonnegative else mine, *delta(0, f[1:])]
        weights.append(inverse)
    meter = Meter()
    method.step(batch, meter)
    assert meter.mean("candidate_loss") == pytest.approx(np.mean(losses), rel=1e-5)
    w = np.array(weights)
    assert meter.ess() == pytest.approx(w.sum() ** 2 / (w**2).sum() / len(w), rel=1e-5)
    low, _, high = meter.propensity() or (0, 0, 0)
    assert (low, high) == pytest.approx((1 / w.max(), 1 / w.min()), rel=1e-5)
    if nonnegative:
        assert min(losses) == 0  # it matters


@pytest.mark.parametrize("label_loss", ["logistic", "squared"])
def test_over_exposures_the_loss_is_that_of_relevance(label_loss: str) -> None:
    """Pairs are exposed with probability q, and clicked if exposed and relevant."""
    q, relevance, f = np.array([0.2, 0.5, 0.9]), np.array([0.3, 0.8, 0.6]), np.array([-1, 0.4, 1.5])
    expected = np.zeros(3)
    for exposed, relevant in product((0, 1), repeat=2):
        chance = abs(1 - exposed - q) * abs(1 - relevant - relevance)
        y = torch.full((3,), float(exposed * relevant), dtype=torch.float64)
        loss = relevance_loss(y / torch.tensor(q), torch.tensor(f), label_loss)
        expected += chance * loss.numpy()
    delta = LABELS[label_loss]
    ideal = relevance * delta(1, f) + (1 - relevance) * delta(0, f)
    np.testing.assert_allclose(expected, ideal, rtol=1e-12)


@pytest.mark.parametrize("asked", [{"exponent": 0}, {"floor": 1}])
def test_propensities_of_one_are_plain_learning_bit_for_bit(
    asked: dict[str, Any], checkerboard: Checkerboard
) -> None:
    log, shared = checkerboard.log, {"epochs": 3, "batch_size": 64}
    models = [build("gmf", log, dim=4, generator=torch.Generator().manual_seed(0)) for _ in "ab"]
    with pytest.warns(cp.CounterplayWarning, match="plain learning.*; raise exponent, or lower"):
        relmf(models[0], log, Relevance.model_validate(shared | asked))
    erm(models[1], log, Training.model_validate(shared))
    for one, other in zip(models[0].parameters(), models[1].parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("name", ["cf", "mlp", "ncf", "attn"])
def test_every_model_learns_a_checkerboard(name: ModelName, checkerboard: Checkerboard) -> None:
    log = replace(checkerboard.log, propensity=np.linspace(0.5, 1, len(checkerboard.log)))
    generator = torch.Generator().manual_seed(0)
    candidate = build(name, log, dim=4, length=9, generator=generator)
    found = relmf(candidate, log, Relevance(epochs=25, batch_size=64, rate=0.03))
    assert (checkerboard.ranks(found.candidate) == 0).mean() == 1.0


@pytest.mark.filterwarnings("ignore:the weights have no effect")
class TestSquared(MethodContract):
    method = Relmf

    def config(self) -> Training:
        return Relevance(
            epochs=25, rate=0.03, batch_size=64, label_loss="squared", nonnegative=True
        )


def test_the_log_says_which_propensities_are_used() -> None:
    log = clicks()
    logged = replace(log, propensity=np.full(len(log), 0.25))
    found = {}
    for asked in ("auto", "logged", "popularity"):
        candidate = build("gmf", log, dim=4, generator=torch.Generator().manual_seed(0))
        config = Relevance.model_validate({"propensities": asked, "epochs": 1})
        with without_notes():
            fit = relmf(candidate, logged, config)
        assert fit.epochs[0].propensity is not None
        found[asked] = fit.epochs[0].propensity
    assert found["auto"] == found["logged"] == (0.25, 0.25, 0.25)
    assert found["popularity"][2] == 1


def test_what_it_does_not_have_is_refused(ratings: cp.Interactions) -> None:
    log = clicks()
    candidate = build("gmf", log, dim=4)
    with pytest.raises(cp.DataError, match="found a log without; name the column"):
        relmf(candidate, log, Relevance(propensities="logged"))
    with pytest.raises(cp.DataError, match="found ratings to predict"):
        relmf(candidate, ratings, Relevance())
    with pytest.raises(cp.ConfigError, match="label_loss"):
        run_config(None, ["method=relmf", "training.loss=squared"])
    with pytest.raises(cp.ConfigError, match=r"training\.floor must be"):
        run_config(None, ["method=relmf", "training.floor=0"])


def test_a_run_is_written_and_loaded(dataset: Path, tmp_path: Path) -> None:
    asked = ["method=relmf", "training.exponent=0.8", "training.epochs=2", "candidate.dim=4"]
    record = cp.train(dataset, tmp_path / "run", run_config(None, asked)).to_dict()
    assert record["configuration"]["training"]["exponent"] == 0.8
    split = cp.data.load_split(dataset)
    assert isinstance(cp.runs.load_run(tmp_path / "run", split.train)[0], cp.Scorer)
