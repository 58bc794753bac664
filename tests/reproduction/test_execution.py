from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import counterplay as cp
from counterplay.runs.config import RunConfig
from reproduction import execution
from reproduction.datasets import Place, make
from reproduction.execution import TruePropensities, execute, values_at_random
from reproduction.jobs import TrainJob
from reproduction.methods import baselines, weighted


def test_true_propensities_are_those_of_the_world() -> None:
    world = cp.simulation.Synthetic(n_users=20, n_items=30, n_shown=5).world()
    settings = TruePropensities(name="pop", world=world)
    log = world.log((1.0,))
    exposure = settings.build(log, torch.Generator())
    assert not list(exposure.parameters())
    users, items = torch.arange(20), torch.arange(30).repeat(20, 1)
    found = torch.sigmoid(exposure(users, items)).numpy()
    np.testing.assert_allclose(found, world.propensity(np.arange(20)), atol=2e-6)


def test_in_a_record_the_truth_is_a_model_without_parameters() -> None:
    world = cp.simulation.Synthetic(n_users=20, n_items=30, n_shown=5).world()
    config = RunConfig(method="ps", exposure=TruePropensities(name="pop", world=world))
    assert isinstance(config.exposure, TruePropensities)
    dumped = config.model_dump(mode="json")
    assert "world" not in dumped["exposure"]
    assert RunConfig.model_validate(dumped).exposure.name == "pop"


def test_numbers_stay_and_weights_go(public: Path, tmp_path: Path) -> None:
    place = Place(public, tmp_path)
    make("ml-1m", place)
    (method,) = baselines(("cf",), 2)
    result = execute(TrainJob(data="ml-1m", method=method, epochs=2, patience=2), place)
    assert not list((tmp_path / "work").iterdir())
    assert (result["n_epochs"], "epochs" in result) == (2, False)
    assert result["best"] is not None
    kinds = {(each["protocol"], each["estimator"]) for each in result["metrics"]}
    assert kinds == {("sampled-100", "standard"), ("full", "standard")}
    assert {(each["metric"], each["k"]) for each in result["metrics"]} == {
        *(("hit", 5), ("hit", 10)),
        *(("ndcg", 5), ("ndcg", 10)),
    }
    assert result["dataset"]["fingerprint"].startswith("sha256:")
    assert result["configuration"]["candidate"]["dim"] == 4


def test_a_failure_leaves_nothing_to_go_on_from(
    public: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(job: TrainJob, place: Place) -> None:
        assert (place.out / "work" / job.key / "run.json").exists()
        raise cp.DataError("it must work; found that it does not; try again")

    place = Place(public, tmp_path)
    make("ml-1m", place)
    monkeypatch.setattr(execution, "_evaluated", failing)
    method = weighted(("gmf",), 2)[0]
    with pytest.raises(cp.DataError, match="found that it does not"):
        execute(TrainJob(data="ml-1m", method=method, epochs=1, patience=1), place)
    assert not list((tmp_path / "work").iterdir())


@given(st.integers(0, 99), st.integers(2, 4))
def test_a_random_ranking_is_worth_the_mean_over_all_orders(seed: int, n_items: int) -> None:
    world = cp.simulation.Synthetic(
        n_users=3, n_items=n_items, n_shown=0.5, skew=0, seed=seed
    ).world()
    user, item = np.array([[0, 1], [0, 0]], dtype=np.int32)
    seen = cp.Interactions(world.users, world.items, user, item)
    of_what: dict[str, Any] = {"metrics": ("hit", "ndcg", "mrr"), "k": (1, 3), "time": 1.0}
    found = values_at_random(world, seen, **of_what)
    flat = cp.simulation.Factors(
        np.ones((3, 1)), np.zeros((n_items, 1)), np.zeros(3), np.zeros(n_items)
    )
    orders = [
        cp.simulation.true_values(world, replace(flat, item_bias=np.array(order)), seen, **of_what)
        for order in permutations(np.arange(float(n_items)))
    ]
    for name, value in found.items():
        assert value == pytest.approx(np.mean([each[name] for each in orders]), rel=1e-9)
