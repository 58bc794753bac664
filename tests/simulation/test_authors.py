from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

import counterplay as cp
from counterplay.data.interactions import Interactions
from counterplay.errors import DataError
from counterplay.simulation.authors import Authors, Stages
from counterplay.simulation.factors import Disturbed, Factors
from counterplay.simulation.policies import Exponential

N_USERS, N_ITEMS = 60, 40


def ratings() -> Interactions:
    """Even users rate even items higher; low numbers are rated more often."""
    rng = np.random.default_rng(3)
    user, item = np.divmod(np.arange(N_USERS * N_ITEMS), N_ITEMS)
    rated = rng.random(len(user)) < np.where(item < 10, 0.8, 0.2)
    user, item = user[rated], item[rated]
    rating = np.where((user + item) % 2 == 0, 5.0, 2.0)
    return cp.read({"user": user, "item": item, "rating": rating})


LOG = ratings()
QUICK: dict[str, Any] = {"n_users": 50, "n_items": 30, "dim": 4, "batch_size": 64}
EVERYBODY = np.arange(50)


def made(**options: Any) -> Stages:
    return Authors(**QUICK | options).stages(LOG)


@pytest.fixture(scope="module")
def forgotten() -> Stages:
    return made()


def test_the_first_users_and_items_are_kept(forgotten: Stages) -> None:
    world = forgotten.world
    assert (world.n_users, world.n_items) == (50, 30)
    assert world.users.ids.to_list() == LOG.users.ids[:50].to_list()
    assert world.items.ids.to_list() == LOG.items.ids[:30].to_list()


def test_relevance_is_the_predicted_rating_less_epsilon(forgotten: Stages) -> None:
    higher = made(epsilon=2.0)
    taste = forgotten.world.taste.of_all(EVERYBODY)
    assert forgotten.world.relevance(EVERYBODY) == pytest.approx(expit(taste))
    assert higher.world.taste.of_all(EVERYBODY) == pytest.approx(taste + 1)
    predicted = taste + 3
    likes = (EVERYBODY[:, None] + np.arange(30)) % 2 == 0
    assert predicted[likes].mean() > predicted[~likes].mean()


def test_exposure_is_a_power_of_a_disturbed_sigmoid(forgotten: Stages) -> None:
    policy = forgotten.world.policy
    assert isinstance(policy, Exponential)
    logits = policy.logits.of_all(EVERYBODY)
    assert forgotten.world.propensity(EVERYBODY) == pytest.approx(expit(logits) ** 2)
    assert isinstance(policy.logits, Disturbed)
    noise = logits - policy.logits.factors.of_all(EVERYBODY)
    assert noise.min() >= -1e-12
    assert noise.max() > 0
    none = made(noise_scale=0.0).world.policy
    assert isinstance(none, Exponential)
    assert none.logits.of_all(EVERYBODY) == pytest.approx(logits - noise)


def test_the_judge_has_another_epsilon_and_the_refitted_exposure(forgotten: Stages) -> None:
    judge, world = forgotten.judge, forgotten.world
    assert judge.taste.of_all(EVERYBODY) == pytest.approx(world.taste.of_all(EVERYBODY) - 1)
    assert isinstance(judge.policy, Exponential)
    assert isinstance(judge.policy.logits, Factors)
    logits = judge.policy.logits.of_all(EVERYBODY)
    assert judge.propensity(EVERYBODY) == pytest.approx(expit(logits))


def test_held_out_rows_are_by_the_second_stage_only_where_it_is_used(forgotten: Stages) -> None:
    used = made(second_stage="used")
    assert forgotten.held_out is forgotten.world
    assert used.split.train.pair.tolist() == forgotten.split.train.pair.tolist()
    assert used.held_out.propensity(EVERYBODY) == pytest.approx(
        used.judge.propensity(EVERYBODY) ** 2
    )
    assert used.split.test.pair.tolist() != forgotten.split.test.pair.tolist()


@pytest.mark.parametrize("second_stage", ["forgotten", "used"])
def test_no_held_out_pair_is_in_training(second_stage: str) -> None:
    split = made(second_stage=second_stage, epsilon=0.0).split
    parts = [set(each.pair.tolist()) for each in (split.train, split.validation, split.test)]
    assert all(parts)
    assert not parts[0] & parts[1]
    assert not parts[0] & parts[2]
    assert not parts[1] & parts[2]
    assert 0.35 < len(parts[1]) / (len(parts[1]) + len(parts[2])) < 0.65  # of about 250


def test_another_seed_is_another_world(forgotten: Stages) -> None:
    again, other = made(), made(seed=1)
    assert again.split.interactions.fingerprint == forgotten.split.interactions.fingerprint
    assert other.split.interactions.fingerprint != forgotten.split.interactions.fingerprint


def test_ratings_are_needed() -> None:
    with pytest.raises(DataError, match="need ratings; found a log without"):
        Authors().world(cp.read({"user": [1, 2], "item": [2, 3]}))


def test_a_disturbed_score_is_the_same_for_pairs_and_for_all(forgotten: Stages) -> None:
    policy = forgotten.world.policy
    assert isinstance(policy, Exponential)
    users, items = np.array([3, 3, 17]), np.array([[0, 5], [29, 1], [2, 2]])
    of_all = policy.logits.of_all(users)
    assert policy.logits.of(users, items) == pytest.approx(np.take_along_axis(of_all, items, 1))


def test_the_network_is_what_its_layers_say(forgotten: Stages) -> None:
    policy = forgotten.world.policy
    assert isinstance(policy, Exponential)
    logits = policy.logits
    assert isinstance(logits, Disturbed)
    x, z = logits.factors.user[7], logits.factors.item[11]
    hidden = np.maximum(np.concatenate([x, z, [1.0]]) @ logits.first, 0)
    hidden = np.maximum(np.append(hidden, 1.0) @ logits.second, 0)
    noise = max(0.0, float(np.append(hidden, 1.0) @ logits.last))
    pair = np.array([7]), np.array([[11]])
    assert logits.of(*pair)[0, 0] == pytest.approx(logits.factors.of(*pair)[0, 0] + noise)


def test_such_a_world_is_saved_and_loaded(forgotten: Stages, tmp_path: Path) -> None:
    cp.simulation.save_world(forgotten.world, tmp_path / "world")
    again = cp.simulation.load_world(tmp_path / "world")
    assert again.propensity(EVERYBODY).tolist() == forgotten.world.propensity(EVERYBODY).tolist()
    log = again.log((1.0,))
    assert log.fingerprint == forgotten.world.log((1.0,)).fingerprint
