"""Worst-case weights in closed form: against searches, by hand, and as plain learning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize

import counterplay as cp
from counterplay.learning.batches import Batches
from counterplay.learning.config import Robust, Training
from counterplay.learning.methods.dro import Dro, ItemLosses, dro
from counterplay.learning.methods.erm import erm
from counterplay.learning.records import Meter
from counterplay.learning.worst_case import by_cvar, in_kl_ball
from counterplay.models.registry import ModelName, build
from counterplay.runs.config import run_config
from counterplay.testing import MethodContract

from .by_hand import Table
from .conftest import Checkerboard

BALLS = ("kl", "cvar")
GROUPS = ("item", "click")


def problem(seed: int, n: int = 6) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.exponential(size=n), rng.dirichlet(np.ones(n))


@pytest.mark.parametrize("radius", [0.02, 0.3, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_no_weights_of_the_kl_ball_are_worse(seed: int, radius: float) -> None:
    losses, shares = problem(seed)
    found = in_kl_ball(torch.tensor(losses), torch.tensor(shares), radius).numpy()
    assert shares @ found == pytest.approx(1)

    def divergence(w: np.ndarray) -> float:
        return float(shares @ (w * np.log(np.maximum(w, 1e-300))))

    assert divergence(found) <= radius * (1 + 1e-6) + 1e-12
    best = minimize(
        lambda w: -(shares * losses) @ w,
        np.ones(len(losses)),
        bounds=[(1e-9, None)] * len(losses),
        constraints=[
            {"type": "eq", "fun": lambda w: shares @ w - 1},
            {"type": "ineq", "fun": lambda w: radius - divergence(w)},
        ],
        method="SLSQP",
        options={"ftol": 1e-12, "maxiter": 1000},
    )
    assert (shares * losses) @ found >= -best.fun - 1e-6
    if divergence(found) < radius - 1e-6:  # then nothing is left to gain
        assert (shares * losses) @ found == pytest.approx(losses.max())


@pytest.mark.parametrize("radius", [0.1, 1.0, 50.0])
@pytest.mark.parametrize("seed", range(3))
def test_no_weights_below_the_bound_are_worse(seed: int, radius: float) -> None:
    losses, shares = problem(seed)
    found = by_cvar(torch.tensor(losses), torch.tensor(shares), radius).numpy()
    best = linprog(-shares * losses, A_eq=shares[None], b_eq=[1], bounds=[(0, 1 + radius)] * 6)
    assert shares @ found == pytest.approx(1)
    assert found.min() >= 0
    assert found.max() <= 1 + radius
    assert (shares * losses) @ found == pytest.approx(-best.fun)


@given(
    st.lists(st.floats(0, 50, width=32), min_size=1, max_size=30),
    st.floats(1e-6, 20),
)
@example([0.0, 1e-7], 1e-6)
@example([3.0, 3.0], 0.5)
def test_worst_weights_have_mean_one_and_rise_with_the_loss(
    values: list[float], radius: float
) -> None:
    losses = torch.tensor(values, dtype=torch.float64)
    n = len(losses)
    for worst in (in_kl_ball, by_cvar):
        weights = worst(losses, torch.ones(n), radius)
        assert float(weights.mean()) == pytest.approx(1, abs=1e-6)
        assert bool((weights >= 0).all())
        by_loss = weights[losses.argsort(stable=True)]
        if worst is in_kl_ball:
            assert bool((by_loss.diff() >= 0).all())
            entropy = torch.special.xlogy(weights, weights).mean()
            assert float(entropy) <= radius + 1e-6
        assert float((weights * losses).mean()) >= float(losses.mean()) * (1 - 1e-6)
        assert torch.equal(worst(losses, torch.ones(n), 0), torch.ones(n, dtype=torch.float64))


def clicks() -> cp.Interactions:
    rng = np.random.default_rng(5)
    pairs = rng.permutation(48)[:24]
    return cp.read({"user": pairs // 8, "item": (pairs % 8)})


@pytest.mark.parametrize("ball", BALLS)
@pytest.mark.parametrize("group", GROUPS)
def test_a_step_by_hand(ball: str, group: str) -> None:
    """Two batches: what the second is weighted by remembers the first."""
    log = clicks()
    values = np.random.default_rng(1).normal(size=(log.n_users, log.n_items))
    table = Table(values).float()
    config = Robust.model_validate(
        {"ball": ball, "group": group, "radius": 0.4, "batch_size": 12, "n_negatives": 2,
         "rate": 1e-12, "memory": 0.7}
    )  # fmt: skip
    method = Dro({"candidate": table}, log, config)
    method.prepare()
    shares = np.bincount(log.item, minlength=log.n_items) / len(log)
    sums, known = np.zeros(log.n_items), np.zeros(log.n_items)
    meter, expected, all_weights = Meter(), [], []
    for batch in Batches(log, config, table).epoch(cp.Streams(0), 0):
        f = values[batch.users.numpy()[:, None], batch.items.numpy()]
        item = batch.items[:, 0].numpy()
        losses = np.logaddexp(0, np.where(batch.observed.numpy() == 1, -f, f))
        for each in sorted(set(item.tolist())):
            mine = losses[item == each, 0]
            kept = 0.7 ** len(mine)
            sums[each] = kept * sums[each] + (1 - kept) * mine.mean()
            known[each] = kept * known[each] + (1 - kept)
        worst = in_kl_ball if ball == "kl" else by_cvar
        if group == "click":
            weights = worst(torch.tensor(losses[:, 0]), torch.ones(len(item)), 0.4).numpy()
        else:
            seen = np.flatnonzero(known)
            means = torch.tensor(sums[seen] / known[seen])
            by_item = np.zeros(log.n_items)
            by_item[seen] = worst(means, torch.tensor(shares[seen]), 0.4).numpy()
            weights = by_item[item]
        expected.append(((weights * losses[:, 0]).sum() + losses[:, 1:].sum()) / losses.size)
        all_weights.append(weights)
        method.step(batch, meter)
    assert meter.mean("candidate_loss") == pytest.approx(np.mean(expected), rel=1e-5)
    weight = np.concatenate(all_weights)
    assert meter.ess() == pytest.approx(weight.sum() ** 2 / (weight**2).sum() / 24, rel=1e-4)
    assert meter.propensity() is None  # some weights are 0, and none is an inverse propensity


def test_f_moves_down_the_gradient_with_the_weights_held_fixed() -> None:
    """Danskin: the slope of the maximum, by differences, is that of the weighted mean."""
    losses, shares = problem(0)
    at = torch.tensor(losses)
    for worst in (in_kl_ball, by_cvar):
        weights = worst(at, torch.tensor(shares), 0.3).numpy()
        for place in range(len(losses)):
            ends = []
            for move in (1e-5, -1e-5):
                moved = losses.copy()
                moved[place] += move
                w = worst(torch.tensor(moved), torch.tensor(shares), 0.3).numpy()
                ends.append((shares * w) @ moved)
            slope = (ends[0] - ends[1]) / 2e-5
            assert slope == pytest.approx(shares[place] * weights[place], abs=1e-5)


@pytest.mark.parametrize("ball", BALLS)
@pytest.mark.parametrize("group", GROUPS)
def test_a_radius_of_zero_is_plain_learning_bit_for_bit(
    ball: str, group: str, checkerboard: Checkerboard
) -> None:
    log, shared = checkerboard.log, {"epochs": 3, "batch_size": 64}
    models = [build("gmf", log, dim=4, generator=torch.Generator().manual_seed(0)) for _ in "ab"]
    config = Robust.model_validate(shared | {"radius": 0, "ball": ball, "group": group})
    with pytest.warns(cp.CounterplayWarning, match="plain learning.*; raise radius$"):
        dro(models[0], log, config)
    erm(models[1], log, Training.model_validate(shared))
    for one, other in zip(models[0].parameters(), models[1].parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize(
    ("name", "group"),
    [(name, "item") for name in ("cf", "mlp", "ncf", "attn")]
    + [("cf", "click"), ("attn", "click")],
)
def test_every_model_learns_a_checkerboard(
    name: ModelName, group: str, checkerboard: Checkerboard
) -> None:
    log = checkerboard.log
    generator = torch.Generator().manual_seed(0)
    candidate = build(name, log, dim=4, length=9, generator=generator)
    asked = {"epochs": 25, "batch_size": 64, "rate": 0.03, "group": group, "radius": 0.1}
    found = dro(candidate, log, Robust.model_validate(asked))
    assert (checkerboard.ranks(found.candidate) == 0).mean() == 1.0
    assert found.ess is not None
    assert 0.3 < found.ess < 0.98


class TestByClick(MethodContract):
    method = Dro

    def config(self) -> Training:
        return Robust(epochs=25, rate=0.03, batch_size=64, group="click", ball="cvar", radius=0.5)


def test_ratings_are_weighted_too(ratings: cp.Interactions) -> None:
    candidate = build("cf", ratings, dim=4, generator=torch.Generator().manual_seed(0))
    found = dro(candidate, ratings, Robust(loss="squared", epochs=30, rate=0.08, batch_size=64))
    assert found.epochs[-1].candidate_loss is not None
    assert found.epochs[-1].candidate_loss < 0.5


def test_a_running_mean_forgets_by_clicks() -> None:
    running = ItemLosses(3, memory=0.5)
    running.update(torch.tensor([0, 0, 1]), torch.tensor([1.0, 3.0, 5.0]))
    assert (running.sums / running.known)[:2].tolist() == [2.0, 5.0]
    assert running.known.tolist() == [0.75, 0.5, 0.0]
    running.update(torch.tensor([1]), torch.tensor([2.0]))
    assert (running.sums / running.known)[:2].tolist() == [2.0, 3.0]  # (5/4 + 2/2) / (3/4)


@pytest.mark.parametrize("wrong", [{"radius": -0.1}, {"memory": 1}, {"radius": float("inf")}])
def test_what_is_no_ball_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(cp.ConfigError, match=f"training.{next(iter(wrong))}"):
        run_config(None, ["method=dro"], {"training": wrong})


def test_a_run_is_written_and_loaded(dataset: Path, tmp_path: Path) -> None:
    asked = ["method=dro", "training.radius=0.5", "training.epochs=2", "candidate.dim=4"]
    record = cp.train(dataset, tmp_path / "run", run_config(None, asked)).to_dict()
    assert record["configuration"]["training"]["radius"] == 0.5
    assert list(record["parameters"]) == ["candidate"]
    candidate, exposure, link = cp.runs.load_run(
        tmp_path / "run", cp.data.load_split(dataset).train
    )
    assert isinstance(candidate, cp.Scorer)
    assert (exposure, link) == (None, None)
