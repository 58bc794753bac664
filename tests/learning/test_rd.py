"""Weights within Γ of fitted ones: against searches, by hand, and as propensity scoring."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

import counterplay as cp
from counterplay.learning.batches import Batches
from counterplay.learning.config import Bounded, Training, Weighted
from counterplay.learning.fitting import fit
from counterplay.learning.methods.ps import ps
from counterplay.learning.methods.rd import Rd, rd
from counterplay.learning.records import Meter
from counterplay.learning.worst_case import of_odds
from counterplay.models.registry import ModelName, build
from counterplay.runs.config import run_config
from counterplay.testing import MethodContract

from .by_hand import Table
from .conftest import Checkerboard

SHARED: dict[str, Any] = {"epochs": 3, "batch_size": 64, "rate": 0.03}
pytestmark = pytest.mark.filterwarnings("ignore:the weights have no effect")


def model(name: ModelName, log: cp.Interactions, seed: int) -> cp.Scorer:
    generator = torch.Generator().manual_seed(seed)
    return build(name, log, dim=4, length=9, dropout=0.1, generator=generator)


def same(one: cp.Scorer, other: cp.Scorer) -> bool:
    states = one.state_dict(), other.state_dict()
    return all(torch.equal(states[0][key], states[1][key]) for key in states[0])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("gamma", [1.5, 4.0])
def test_no_weights_within_gamma_have_a_larger_weighted_mean(seed: int, gamma: float) -> None:
    """The fraction is made linear (Charnes and Cooper): v = w / Σw, between its ends times s."""
    rng = np.random.default_rng(seed)
    losses, odds = rng.normal(size=7), rng.exponential(size=7)
    factors = of_odds(torch.tensor(losses)[:, None], torch.tensor(odds)[:, None], gamma, (1,))
    weights = 1 + odds * factors[:, 0].numpy()
    eye, n = np.eye(7), 7
    upper = np.hstack([eye, -(1 + odds * gamma)[:, None]])
    lower = np.hstack([-eye, (1 + odds / gamma)[:, None]])
    best = linprog(
        np.append(-losses, 0),
        A_ub=np.vstack([upper, lower]),
        b_ub=np.zeros(2 * n),
        A_eq=np.append(np.ones(n), 0)[None],
        b_eq=[1],
        bounds=[(0, None)] * (n + 1),
    )
    assert weights @ losses / weights.sum() == pytest.approx(-best.fun, rel=1e-9)


@given(st.integers(0, 1000), st.sampled_from([1.0, 1.2, 3.0]))
def test_all_corners_are_tried(seed: int, gamma: float) -> None:
    """Without groups the weighted sum, with them the weighted mean of each group is the largest."""
    rng = np.random.default_rng(seed)
    losses, odds = rng.normal(size=(2, 3)).round(1), rng.exponential(size=(2, 3))
    corners = np.array(list(product((1 / gamma, gamma), repeat=6))).reshape(-1, 2, 3)
    weights = 1 + odds * corners
    worst = of_odds(torch.tensor(losses), torch.tensor(odds), gamma, ()).numpy()
    sums = (weights * losses).sum((1, 2))
    assert ((1 + odds * worst) * losses).sum() == pytest.approx(sums.max())
    worst = of_odds(torch.tensor(losses), torch.tensor(odds), gamma, (1, 2)).numpy()
    for part in (slice(0, 1), slice(1, 3)):
        w, mine = weights[:, :, part], (1 + odds * worst)[:, part]
        means = (w * losses[:, part]).sum((1, 2)) / w.sum((1, 2))
        assert (mine * losses[:, part]).sum() / mine.sum() == pytest.approx(means.max())


@pytest.mark.parametrize("recipe", ["paper", "stable"])
@pytest.mark.parametrize("weigh", ["all", "observed"])
@pytest.mark.parametrize("learn", [False, True])
def test_a_gamma_of_one_is_propensity_scoring_bit_for_bit(
    recipe: str, weigh: str, learn: bool, checkerboard: Checkerboard
) -> None:
    log = checkerboard.log
    asked = SHARED | {"recipe": recipe, "weigh": weigh, "link": {"learn": learn}}
    candidates = [model("gmf", log, 0) for _ in range(2)]
    exposures = [model("gmf", log, 1) for _ in range(2)]
    robust = rd(candidates[0], exposures[0], log, Bounded(**asked, gamma=1))
    plain = ps(candidates[1], exposures[1], log, Weighted(**asked))
    assert same(candidates[0], candidates[1])
    assert robust.link is not None
    assert plain.link is not None
    assert robust.link.beta == plain.link.beta
    assert robust.ess == plain.ess


def test_a_larger_gamma_is_another_candidate(checkerboard: Checkerboard) -> None:
    log = checkerboard.log
    candidates = [model("gmf", log, 0) for _ in range(2)]
    for gamma, candidate in zip((1.0, 3.0), candidates, strict=True):
        rd(candidate, build("pop", log), log, Bounded(**SHARED, gamma=gamma))
    assert not same(candidates[0], candidates[1])


@pytest.mark.parametrize("recipe", ["paper", "stable"])
@pytest.mark.parametrize("benchmarked", [False, True])
def test_a_step_by_hand(recipe: str, benchmarked: bool) -> None:
    """The worst of all weights at the ends, by trying each threshold; benchmarks are subtracted."""
    rng = np.random.default_rng(4)
    pairs = rng.permutation(48)[:10]
    log = cp.read({"user": pairs // 8, "item": pairs % 8})
    f, g, b = rng.normal(size=(3, log.n_users, log.n_items)).astype(np.float32).astype(float)
    asked = {"recipe": recipe, "benchmarked": benchmarked, "batch_size": 10, "n_negatives": 2}
    config = Bounded.model_validate(asked | {"gamma": 2.5, "link": {"floor": 0.4}})
    players = {"candidate": Table(f).float(), "exposure": Table(g).float()}
    method = Rd(players, log, config)
    method.prepare()
    method.begin(0)
    if benchmarked:
        method.players["benchmark"].load_state_dict({"table": torch.tensor(b)})
    (batch,) = Batches(log, config, players["candidate"]).epoch(cp.Streams(0), 0)
    users, items = batch.users.numpy()[:, None], batch.items.numpy()
    sign = np.where(batch.observed.numpy() == 1, -1, 1)
    losses = np.logaddexp(0, sign * f[users, items])
    if benchmarked:
        losses = losses - np.logaddexp(0, sign * b[users, items])
    odds = 1 / np.maximum(1 / (1 + np.exp(-g[users, items][:, 0])), 0.4) - 1
    ends = 1 + odds / 2.5, 1 + odds * 2.5
    mine, n = losses[:, 0], losses.size
    found = []
    for corner in product((0, 1), repeat=10):
        weights = np.where(corner, ends[1], ends[0])
        scale = weights.mean() if recipe == "stable" else 1
        found.append(((weights / scale * mine).sum() + losses[:, 1:].sum()) / n)
    meter = Meter()
    method.step(batch, meter)
    assert meter.mean("candidate_loss") == pytest.approx(max(found), rel=1e-5)
    chosen = np.where(list(product((0, 1), repeat=10))[int(np.argmax(found))], ends[1], ends[0])
    assert meter.ess() == pytest.approx(chosen.sum() ** 2 / (chosen**2).sum() / 10, rel=1e-5)


def test_the_benchmark_is_the_candidate_of_propensity_scoring(checkerboard: Checkerboard) -> None:
    log = checkerboard.log
    config = Bounded(**SHARED, benchmarked=True)
    method = Rd({"candidate": model("gmf", log, 0), "exposure": model("gmf", log, 1)}, log, config)
    found = fit(method)
    candidate, exposure = model("gmf", log, 0), model("gmf", log, 1)
    asked = SHARED | {"weigh": "observed", "link": {"learn": False}}
    ps(candidate, exposure, log, Weighted(**asked))
    benchmark = found.players["benchmark"]
    assert isinstance(benchmark, cp.Scorer)
    assert same(benchmark, candidate)
    assert not any(each.requires_grad for each in benchmark.parameters())
    assert found.exposure is not None
    assert same(found.exposure, exposure)


@pytest.mark.parametrize("name", ["cf", "mlp", "ncf", "attn"])
def test_every_model_learns_a_checkerboard(name: ModelName, checkerboard: Checkerboard) -> None:
    log = checkerboard.log
    candidate, exposure = model(name, log, 0), model(name, log, 1)
    found = rd(candidate, exposure, log, Bounded(**SHARED | {"epochs": 25}))
    assert (checkerboard.ranks(found.candidate) == 0).mean() == 1.0


class TestBenchmarked(MethodContract):
    method = Rd

    def config(self) -> Training:
        return Bounded(epochs=25, rate=0.03, batch_size=64, benchmarked=True)


def test_the_defaults_leave_samples_and_the_link_alone() -> None:
    for config in (Bounded(), Bounded.model_validate({"link": {"floor": 0.2}})):
        assert (config.weigh, config.link.learn) == ("observed", False)
    config = Bounded.model_validate({"weigh": "all", "link": {"learn": True}})
    assert (config.weigh, config.link.learn) == ("all", True)
    study = cp.runs.RunConfig(method="rd", training=cp.learning.Game(rate=0.5)).of_method()
    assert study == Bounded(rate=0.5)


def test_a_gamma_below_one_is_refused() -> None:
    with pytest.raises(cp.ConfigError, match=r"training.gamma must be at least 1; found .*0\.5"):
        run_config(None, ["method=rd", "training.gamma=0.5"])


@pytest.mark.parametrize("benchmarked", ["false", "true"])
def test_a_run_is_written_and_loaded(benchmarked: str, dataset: Path, tmp_path: Path) -> None:
    asked = ["method=rd", "training.gamma=3", f"training.benchmarked={benchmarked}",
             "training.epochs=2", "candidate.dim=4", "exposure.name=pop"]  # fmt: skip
    record = cp.train(dataset, tmp_path / "run", run_config(None, asked)).to_dict()
    assert record["configuration"]["training"]["gamma"] == 3
    candidate, exposure, link = cp.runs.load_run(
        tmp_path / "run", cp.data.load_split(dataset).train
    )
    assert isinstance(candidate, cp.Scorer)
    assert isinstance(exposure, cp.Scorer)
    assert link is not None
