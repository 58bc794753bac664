from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import counterplay as cp
from counterplay.models.registry import ModelName
from counterplay.simulation.checks import check_world
from counterplay.simulation.factors import Factors
from counterplay.simulation.feedback import factors_of, feedback_loop, model_policy
from counterplay.simulation.logs import DAY, START
from counterplay.simulation.policies import Mixture, Policy, Scored
from counterplay.simulation.store import load_world, save_world
from counterplay.simulation.synthetic import Synthetic
from counterplay.simulation.world import World

torch.set_num_threads(1)  # the models are tiny, and tests run side by side
N_USERS, N_ITEMS, N_SHOWN, N_ROUNDS = 300, 100, 10.0, 4


@cache
def start() -> World:
    """Everything is shown alike at first."""
    return Synthetic(
        n_users=N_USERS, n_items=N_ITEMS, n_shown=N_SHOWN, exposure="uniform", seed=3
    ).world()


def trained(log: cp.Interactions, name: ModelName = "cf", epochs: int = 40) -> cp.Scorer:
    model = cp.models.build(name, log, dim=4, generator=torch.Generator().manual_seed(0))
    cp.learning.erm(model, log, cp.learning.Training(epochs=epochs, rate=0.02, batch_size=1024))
    return model


def by_model(log: cp.Interactions) -> Policy:
    return model_policy(
        factors_of(trained(log), log), log, n_shown=N_SHOWN, sharpness=3.0, exploration=0.05
    )


def alike(log: cp.Interactions) -> Policy:
    return model_policy(
        factors_of(trained(log, epochs=1), log), log, n_shown=N_SHOWN, exploration=1
    )


@cache
def loop(sample: int = 0) -> tuple[cp.Interactions, list[World]]:
    return feedback_loop(start(), N_ROUNDS, by_model, sample=sample, with_truth=True)


def round_of(log: cp.Interactions) -> NDArray[np.int64]:
    assert log.time is not None
    return (log.time - START) // DAY


def exposure(world: World) -> NDArray[np.float64]:
    return np.asarray(world.shown(np.arange(N_USERS)).sum(0))


def gini(counts: NDArray[np.floating]) -> float:
    """Half the mean difference of all pairs, as a share of the mean."""
    return float(np.abs(counts[:, None] - counts).mean() / (2 * counts.mean()))


def test_retraining_concentrates_exposure() -> None:
    log, worlds = loop()
    even, uniform = feedback_loop(start(), N_ROUNDS, alike)
    assert gini(exposure(uniform[-1])) < 0.01
    assert gini(exposure(worlds[-1])) > 0.2
    last, alike_last = (
        np.bincount(each.item[round_of(each) == N_ROUNDS - 1], minlength=N_ITEMS)
        for each in (log, even)
    )
    assert gini(last.astype(float)) > gini(alike_last.astype(float)) + 0.1


def test_the_trained_policy_finds_what_is_liked() -> None:
    """Of what is shown, a larger share would be clicked, round by round: 0.20, 0.23, … 0.28."""
    users = np.arange(N_USERS)
    rates = [
        float((world.shown(users) * world.relevance(users)).sum() / world.shown(users).sum())
        for world in loop()[1]
    ]
    assert rates == sorted(rates)
    assert rates[-1] > rates[0] + 0.06


def test_a_pair_is_clicked_once_and_rows_stand_in_order() -> None:
    log, worlds = loop()
    assert len(np.unique(log.pair)) == len(log)
    assert log.time is not None
    users, times = np.diff(log.user), np.diff(log.time)
    assert ((users > 0) | ((users == 0) & (times >= 0))).all()
    assert len(worlds) == N_ROUNDS + 1
    assert worlds[0] is start()
    assert set(round_of(log)) == set(range(N_ROUNDS))
    assert [step.text for step in log.steps] == [
        "4 rounds of feedback in the world 'synthetic-uniform', sample 0"
    ]


def test_propensities_are_those_of_the_rounds_policy() -> None:
    log, worlds = loop()
    rounds = round_of(log)
    assert log.propensity is not None
    assert log.position is not None
    for number, world in enumerate(worlds[:-1]):
        mine = rounds == number
        for which in range(N_ROUNDS):
            stated = worlds[which].shown(
                log.user[mine], log.item[mine, None], occasion=("log", 0, number)
            )[:, 0] * world.examination ** (log.position[mine] - 1.0)
            assert np.allclose(stated, log.propensity[mine]) == (which == number)


def test_what_is_trained_on_grows_and_days_go_on() -> None:
    lengths = []

    def counting(log: cp.Interactions) -> Policy:
        lengths.append((len(log), int(round_of(log).max())))
        return start().policy

    log, _ = feedback_loop(start(), 3, counting, rates=(0.5, 0.2))
    assert [day for _, day in lengths] == [1, 3, 5]
    assert 0 < lengths[0][0] < lengths[1][0] < lengths[2][0] == len(log)
    assert log.propensity is None


def test_the_same_seed_gives_the_same_bytes() -> None:
    log, _ = loop()
    again, _ = feedback_loop(start(), 2, by_model, with_truth=True)  # the rest begins from these
    assert again.fingerprint == log.take(round_of(log) < 2).fingerprint
    short, _ = feedback_loop(start(), 1, alike, sample=1)
    assert short.fingerprint != feedback_loop(start(), 1, alike)[0].fingerprint


def test_its_worlds_are_good_and_can_be_saved(tmp_path: Path) -> None:
    """False-alarm rate 1e-6."""
    last = loop()[1][-1]
    save_world(last, tmp_path / "world")
    loaded = load_world(tmp_path / "world")
    assert [finding for finding in check_world(loaded) if not finding.ok] == []
    assert loaded.log().fingerprint == last.log().fingerprint


def test_a_loop_needs_a_round() -> None:
    with pytest.raises(cp.ConfigError, match="at least one round; found 0"):
        feedback_loop(start(), 0, alike)


@pytest.mark.parametrize("name", ["cf", "gmf"])
@pytest.mark.parametrize("features", [False, True])
def test_factors_score_as_the_model_does(name: ModelName, features: bool) -> None:
    rng = np.random.default_rng(0)
    rows = {"user": np.arange(200) % 20, "item": rng.integers(0, 15, 200)}
    tables: dict[str, Any] = {"item_features": {"id": range(15), "price": rng.normal(size=15)}}
    log = cp.read(rows, **(tables if features else {}))
    model = trained(log, name, epochs=3)
    factors, scores = factors_of(model, log), cp.metrics.ModelScores(model, log)
    users, items = np.arange(20), rng.integers(0, 15, (20, 4))
    np.testing.assert_allclose(factors.of_all(users), scores.of_all(users), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        factors.of(users, items), scores.of(users, items), rtol=1e-5, atol=1e-6
    )
    if features:  # they are added to an item's own vector in single precision
        return
    in_double = cp.metrics.ModelScores(model.double(), log).model.score_all(torch.arange(20))
    np.testing.assert_allclose(
        factors.of_all(users), in_double.detach().numpy(), rtol=1e-12, atol=1e-12
    )


def test_other_models_are_no_factors() -> None:
    log = start().log()
    with pytest.raises(cp.ConfigError, match="found MLP"):
        factors_of(cp.models.build("mlp", log), log)
    small = cp.read({"user": [1, 2], "item": [1, 2]})
    with pytest.raises(cp.DataError, match="found 2 and 2"):
        factors_of(cp.models.build("cf", small), log)


@pytest.mark.parametrize("exploration", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("sharpness", [0.0, 1.0, 5.0])
def test_a_policy_shows_as_much_as_is_wanted(exploration: float, sharpness: float) -> None:
    """Whatever the scale of the scores; to 3 %, as they are standardised by a sample."""
    log, rng = start().log(), np.random.default_rng(0)
    scores = Factors(
        rng.normal(size=(N_USERS, 3)),
        40 * rng.normal(size=(N_ITEMS, 3)),
        np.zeros(N_USERS),
        np.full(N_ITEMS, 700.0),
    )
    policy = model_policy(scores, log, n_shown=7.0, sharpness=sharpness, exploration=exploration)
    users = np.arange(N_USERS)
    shown = policy.caps * policy.accept(users, None)
    assert shown.sum(1).mean() == pytest.approx(7, rel=0.03)
    assert isinstance(policy, Mixture if exploration == 0.3 else Scored)
    follows = np.corrcoef(shown.ravel(), scores.of_all(users).ravel())[0, 1]
    assert (follows > 0.4) == (exploration < 1 and sharpness > 0)


def test_any_scores_make_a_policy() -> None:
    """A neural model is one too; it only cannot be saved."""
    log = start().log()
    scores = cp.metrics.ModelScores(trained(log, "mlp", epochs=2), log)
    policy = model_policy(scores, log, n_shown=N_SHOWN)
    again = model_policy(scores, log, n_shown=N_SHOWN)
    users = np.arange(N_USERS)
    np.testing.assert_array_equal(policy.accept(users, None), again.accept(users, None))
    world = World(start().taste, policy, noise=0.5, exposure_noise=1.0, examination=0.9)
    assert [finding for finding in check_world(world) if not finding.ok] == []


def test_equal_scores_are_shown_alike() -> None:
    same = Factors(
        np.zeros((N_USERS, 1)), np.zeros((N_ITEMS, 1)), np.zeros(N_USERS), np.zeros(N_ITEMS)
    )
    policy = model_policy(same, start().log(), n_shown=5.0, exploration=0)
    np.testing.assert_allclose(policy.caps * policy.accept(np.arange(N_USERS), None), 5 / N_ITEMS)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"exploration": 1.5}, "exploration from 0 to 1; found 2 and 1.5"),
        ({"sharpness": -1.0}, "sharpness must be 0 or more"),
        ({"n_shown": 80.0}, "fewer than 50 of 100 items; found n_shown 80"),
    ],
)
def test_impossible_policies_are_refused(options: dict[str, float], text: str) -> None:
    log = start().log()
    scores = factors_of(cp.models.build("cf", log), log)
    with pytest.raises(cp.ConfigError, match=text):
        model_policy(scores, log, **{"n_shown": 5.0, **options})


def test_pairs_without_a_score_are_refused() -> None:
    log = start().log()
    scores = cp.metrics.TableScores(log.user, log.item, np.ones(len(log)), log.n_items)
    with pytest.raises(cp.DataError, match="a score for every pair"):
        model_policy(scores, log, n_shown=5.0)
