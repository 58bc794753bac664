"""Logs whose rounds have policies of their own.

Seeds are fixed. With other seeds a statistical test would alarm falsely once in 10,000 times.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import counterplay as cp
from counterplay.simulation import logs
from counterplay.simulation.logs import DAY, START, joined, oracle_propensities
from counterplay.simulation.policies import Policy, Scored
from counterplay.simulation.synthetic import Synthetic
from counterplay.simulation.world import World
from counterplay.simulation.writing import split_of
from tests.simulation.makers import counts

N_USERS, N_ITEMS = 40, 12


def world(**options: Any) -> World:
    plain = {"n_users": N_USERS, "n_items": N_ITEMS, "n_shown": 2.5, "mean_relevance": 0.4}
    return Synthetic.model_validate(plain | options).world()


def policies_in_turn() -> list[Policy]:
    """Return three that differ: by popularity, all alike, and the other way round."""
    caps, active = np.linspace(0.2, 1, N_ITEMS), np.ones(N_USERS)
    return [
        Scored(caps, active),
        Scored(0.4 * active[:N_ITEMS], active),
        Scored(caps[::-1], active),
    ]


@pytest.mark.parametrize("random_share", [0.0, 0.2])
@pytest.mark.parametrize("at_once", [8, 1 << 20])
def test_policies_in_turn_are_worlds_in_turn(
    monkeypatch: pytest.MonkeyPatch, at_once: int, random_share: float
) -> None:
    """Each round is what its policy alone would have drawn, after the clicks before it."""
    monkeypatch.setattr(logs, "_AT_ONCE", at_once)
    place, rates, policies = world(confounding=0.5), (1.0, 0.7, 0.5), policies_in_turn()
    options: dict[str, Any] = {"sample": 1, "impressions": True, "random_share": random_share}
    earlier = place.log((0.4,), **options)
    whole = place.log(rates, first_round=1, before=earlier, policies=policies, **options)
    assert whole.time is not None
    parts = [earlier]
    for number, (policy, rate) in enumerate(zip(policies, rates, strict=True), 1):
        alone = replace(place, policy=policy)
        parts.append(alone.log((rate,), first_round=number, before=joined(parts), **options))
        assert whole.take((whole.time - START) // DAY == number) == parts[-1]
    text = "3 rounds of the world 'synthetic-history' by policies in turn, sample 1"
    assert [step.text for step in whole.steps] == [text]


def test_one_policy_in_every_turn_is_the_log_of_that_policy() -> None:
    place = world()
    for options in ({}, {"impressions": True, "random_share": 0.2, "with_truth": True}):
        drawn = place.log((1.0, 0.5), policies=[place.policy] * 2, **options)  # type: ignore[arg-type]
        assert drawn == place.log((1.0, 0.5), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("impressions", [False, True])
def test_the_propensity_of_a_row_is_that_of_its_rounds_policy(impressions: bool) -> None:
    place, rates = world(examination=1.0, confounding=0.5), (1.0, 1.0, 1.0)
    policies = policies_in_turn()
    log = place.log(rates, sample=2, policies=policies, impressions=impressions, with_truth=True)
    assert log.propensity is not None
    assert log.time is not None
    expected = np.empty(len(log))
    for number, policy in enumerate(policies):
        rows = (log.time - START) // DAY == number
        assert rows.sum() > 20
        shown = replace(place, policy=policy).shown(
            log.user[rows], log.item[rows, None], occasion=("log", 2, number)
        )
        expected[rows] = shown[:, 0]
    np.testing.assert_allclose(log.propensity, expected, rtol=1e-12)
    found = oracle_propensities(place, log, sample=2, policies=policies)
    np.testing.assert_allclose(found, log.propensity, rtol=1e-12)
    assert not np.allclose(oracle_propensities(place, log, sample=2), log.propensity)


def test_weighted_clicks_of_policies_in_turn_add_up_to_the_demand() -> None:
    """In the second round, of what was not clicked in the first: within 4 standard errors."""
    place, users, policies = world(confounding=0.5), np.arange(N_USERS), policies_in_turn()[:2]
    relevance, errors = place.relevance(users, time=1.0), []
    for sample in range(400):
        log = place.log((1.0, 1.0), sample=sample, policies=policies, with_truth=True)
        assert log.time is not None
        assert log.propensity is not None
        later = log.time >= START + DAY
        left = relevance[counts(log, ~later) == 0].sum()
        errors.append((1 / log.propensity[later]).sum() - left)
    error = float(np.std(errors, ddof=1)) / len(errors) ** 0.5
    assert abs(np.mean(errors)) < 4 * error < 0.05 * relevance.sum()


@pytest.mark.parametrize("n", [0, 1, 3])
def test_policies_in_turn_are_as_many_as_rounds(n: int) -> None:
    with pytest.raises(cp.ConfigError, match=f"as many as rounds, 2; found {n}; give one for each"):
        world().log((1.0, 0.5), policies=policies_in_turn()[:1] * n)


def test_a_split_can_have_policies_in_turn() -> None:
    place, rates, policies = world(), (1.0, 0.7, 0.7), policies_in_turn()
    split = split_of(place, rates, policies=policies)
    assert split.interactions == place.log(rates, policies=policies)
