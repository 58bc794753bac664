from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

import counterplay as cp
from counterplay.learning.config import Game
from counterplay.learning.fitting import fit
from counterplay.learning.methods.acl import Acl
from counterplay.models.factorization import GMF
from counterplay.models.scorer import Scorer
from reproduction.definitions import METHOD_TABLES
from reproduction.jobs import Plan
from reproduction.turns import NAME, ByTurns, Turns

pytestmark = pytest.mark.filterwarnings("ignore::counterplay.errors.CounterplayWarning")
SETTINGS: dict[str, Any] = {
    "epochs": 4, "batch_size": 16, "warmup": 1, "alpha": 0.5, "recipe": "paper"
}  # fmt: skip


def players() -> dict[str, Scorer]:
    generator = torch.Generator().manual_seed(0)
    return {role: GMF(9, 12, dim=3, generator=generator) for role in ("candidate", "exposure")}


def log(*, rated: bool = False) -> Any:
    rng = np.random.default_rng(0)
    rows = {"user": rng.integers(9, size=60), "item": rng.integers(12, size=60)}
    return cp.read(rows | ({"rating": 1.0 + rng.integers(5, size=60)} if rated else {}))


def states(method: Acl) -> list[list[torch.Tensor]]:
    """Train, and return f with β, and g, after every epoch."""
    found: list[list[torch.Tensor]] = []

    def look(*_: Any) -> None:
        f, g, link = (method.players[name] for name in ("candidate", "exposure", "link"))
        found.append([_flat(f, link), _flat(g)])

    fit(method, callbacks=[look])
    return found


def _flat(*models: torch.nn.Module) -> torch.Tensor:
    return torch.cat([p.detach().flatten().clone() for m in models for p in m.parameters()])


def test_with_neither_it_is_algorithm_1() -> None:
    ours = states(Turns(players(), log(), ByTurns.model_validate(SETTINGS)))
    theirs = states(Acl(players(), log(), Game.model_validate(SETTINGS)))
    for own, other in zip(ours, theirs, strict=True):
        for a, b in zip(own, other, strict=True):
            torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)


def test_the_link_sees_ratings_with_mean_0(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[torch.Tensor] = []
    weights = Turns.weights

    def watched(self: Turns, g: torch.Tensor, y: torch.Tensor, **how: bool) -> torch.Tensor:
        seen.append(y)
        return weights(self, g, y, **how)

    monkeypatch.setattr(Turns, "weights", watched)
    fit(Turns(players(), log(rated=True), ByTurns.model_validate(SETTINGS)))
    assert max(float(each.mean().abs()) for each in seen) < 1  # ratings have a mean of 3


def test_its_record_is_that_of_algorithm_1() -> None:
    ours = fit(Turns(players(), log(), ByTurns.model_validate(SETTINGS)))
    theirs = fit(Acl(players(), log(), Game.model_validate(SETTINGS)))
    for own, other in zip(ours.epochs, theirs.epochs, strict=True):
        for name in ("candidate_loss", "exposure_loss", "objective", "ess", "propensity"):
            expected = pytest.approx(getattr(other, name), rel=1e-3)
            assert getattr(own, name) == expected, (own.epoch, name)


def test_f_and_g_take_turns_by_epochs_after_those_of_g_alone() -> None:
    found = states(Turns(players(), log(), ByTurns.model_validate(SETTINGS | {"turns": True})))
    moved = [
        [not torch.equal(before, after) for before, after in zip(first, then, strict=True)]
        for first, then in pairwise(found)
    ]
    assert moved == [[True, False], [False, True], [True, False]]  # f, g, f


def test_g_moves_in_each_of_its_own_epochs() -> None:
    begun = players()
    first = [_flat(begun["candidate"]), _flat(begun["exposure"])]
    settings = SETTINGS | {"warmup": 2, "turns": True}
    found = states(Turns(begun, log(), ByTurns.model_validate(settings)))
    f = [state[0][: len(first[0])] for state in found]
    assert [torch.equal(first[0], each) for each in f] == [True, True, False, False]
    g = [first[1], *(state[1] for state in found)]
    assert [not torch.equal(a, b) for a, b in pairwise(g)] == [True, True, False, True]


def test_the_product_link_multiplies_y_by_g() -> None:
    method = Turns(players(), log(), ByTurns.model_validate(SETTINGS | {"product": True}))
    with torch.no_grad():
        method.link.intercept.fill_(0.3)
        assert method.link.outcome is not None
        method.link.outcome.fill_(-0.6)
    g = torch.tensor([[1.5, -0.5]], requires_grad=True)
    y = torch.tensor([[1.0, 0.0]])
    weights = method.weights(g, y)
    expected = [1 + np.exp(-(0.3 + 0.4 * 1.5)), 1 + np.exp(-(0.3 - 0.5))]
    assert weights.tolist()[0] == pytest.approx(expected)
    weights.sum().backward()
    assert g.grad is not None
    slopes = [-0.4 * (expected[0] - 1), -1.0 * (expected[1] - 1)]
    assert g.grad.tolist()[0] == pytest.approx(slopes)
    assert method.link.outcome.grad is not None
    constant = method.weights(g, y, learn=False)
    method.link.outcome.grad = None
    constant.sum().backward()
    assert method.link.outcome.grad is None


def test_the_product_has_the_floor_and_may_leave_the_outcome_out() -> None:
    settings = SETTINGS | {"product": True, "link": {"with_outcome": False, "floor": 0.1}}
    method = Turns(players(), log(), ByTurns.model_validate(settings))
    with torch.no_grad():
        method.link.intercept.fill_(0.3)
    g, y = torch.tensor([[1.5, -50.0]]), torch.tensor([[1.0, 1.0]])
    assert method.weights(g, y).tolist()[0] == pytest.approx([1 + np.exp(-1.8), 10])


def test_turns_take_an_epoch_of_each_after_those_of_g() -> None:
    table = next(each for each in METHOD_TABLES if each.name == "table1-authors")
    found = set()
    for method in table.methods(Plan()):
        if method.method == "acl":
            config = method.run_config((), log(), seed=0, epochs=100, patience=15)
            training: Any = config.of_method()
            turns = isinstance(training, ByTurns) and training.turns
            found.add((turns, training.epochs - training.warmup))
    assert found == {(False, 10), (True, 20)}


def test_the_authors_table_has_the_game_as_their_code_plays_it() -> None:
    table = next(each for each in METHOD_TABLES if each.name == "table1-authors")
    found = []
    for method in table.methods(Plan()):
        config = method.run_config((), log(), seed=0, epochs=100, patience=15)
        if config.method == NAME:
            training = config.of_method()
            assert isinstance(training, ByTurns)
            found.append((method.candidate, training.product, training.turns))
    assert found == [
        ("mlp", True, False), ("gmf", True, False), ("mlp", True, True), ("gmf", True, True)
    ]  # fmt: skip
