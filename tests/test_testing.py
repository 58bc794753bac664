"""The contracts: kept by what the library has, and broken by what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

import counterplay as cp
from counterplay.evaluation.estimators import ESTIMATORS
from counterplay.learning.batches import Batch
from counterplay.learning.methods import METHODS, method_of
from counterplay.learning.methods.erm import Erm
from counterplay.learning.records import Meter
from counterplay.models.factorization import GMF
from counterplay.models.names import MODELS
from counterplay.models.registry import build
from counterplay.models.scorer import History, Scorer
from counterplay.testing import EstimatorContract, MethodContract, ScorerContract


class TestMethods(MethodContract):
    @pytest.fixture(params=METHODS, autouse=True)
    def _each(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(type(self), "method", method_of(request.param), raising=False)

    def log(self) -> cp.Interactions:
        log = super().log()
        if self.method.needs == "propensities":
            return replace(log, propensity=np.linspace(0.1, 1, len(log)))
        if self.method.needs == "impressions":
            return all_shown(log)
        if self.method.needs == "ratings":
            shown = all_shown(log)
            assert shown.clicked is not None
            return replace(shown, clicked=None, rating=shown.clicked.astype(np.float32))
        return log


def all_shown(log: cp.Interactions) -> cp.Interactions:
    """Return a checkerboard's clicks among what users of the other kind clicked, shown to all."""
    rows = {"user": log.user, "item": log.item}
    other = {"user": log.user, "item": log.item ^ 1}
    both = {name: np.concatenate([rows[name], other[name]]) for name in rows}
    order = np.argsort(both["user"], kind="stable")
    clicked = np.arange(2 * len(log))[order] < len(log)
    user, item = both["user"][order], both["item"][order]
    return cp.Interactions(log.users, log.items, user, item, clicked=clicked)


class TestEstimators(EstimatorContract):
    @pytest.fixture(
        params=[name for name, each in ESTIMATORS.items() if each.propensities], autouse=True
    )
    def _each(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(type(self), "estimator", ESTIMATORS[request.param], raising=False)


class TestModels(ScorerContract):
    @pytest.fixture(params=MODELS, autouse=True)
    def _each(self, request: pytest.FixtureRequest) -> None:
        self.name = request.param

    def make(self, log: cp.Interactions, generator: torch.Generator) -> Scorer:
        return build(self.name, log, dim=8, length=6, heads=2, dropout=0.3, generator=generator)


class Frozen(Erm):
    """Looks at batches, and learns nothing."""

    def step(self, batch: Batch, meter: Meter) -> None:
        meter.add(batch, candidate_loss=torch.tensor(1.0))


class Lazy(GMF):
    """Scores all items as if they were the first."""

    def score_all(self, users: torch.Tensor, history: History | None = None) -> torch.Tensor:
        return super().score_all(users, history)[:, :1].expand(-1, self.n_items)


class _LazyModel(ScorerContract):
    def make(self, log: cp.Interactions, generator: torch.Generator) -> Scorer:
        return Lazy(log.n_users, log.n_items, generator=generator)


class _FrozenMethod(MethodContract):
    method = Frozen


class _BadEstimator(EstimatorContract):
    estimator = replace(
        ESTIMATORS["popularity"],
        propensities=lambda stage, *_: np.full(len(stage.targets), 1.5),
    )


@pytest.mark.parametrize(
    "broken",
    [
        _LazyModel().test_scoring_all_items_equals_scoring_each,
        _FrozenMethod().test_it_learns_a_checkerboard,
        _BadEstimator().test_propensities_are_probabilities_of_the_rows,
    ],
)
def test_a_contract_that_is_broken_is_told(broken: Callable[[], None]) -> None:
    with pytest.raises(AssertionError):
        broken()
