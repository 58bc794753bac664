"""Value each policy of Open Bandit's sample from the other policy's log; its own log is the truth.

The new policy is known by the frequencies of its items at each position. The model of rewards is
the mean of an item at a position, with a prior of 100 rows, cross-fitted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.timing import real_data
from counterplay import Streams, policy_values
from counterplay.data.datasets.openbandit import read_open_bandit
from counterplay.evaluation.policies import item_policy, reward_by_action

if TYPE_CHECKING:
    from counterplay import Interactions

CAMPAIGNS, POLICIES = ("all", "men", "women"), ("random", "bts")
PRIOR = 100.0


def run() -> dict[str, Any]:
    folder = real_data("obd")
    if folder is None:
        return {"skipped": "Open Bandit is not there; point COUNTERPLAY_DATA at its folder"}
    found = []
    for campaign in CAMPAIGNS:
        logs = {name: read_open_bandit(folder / name / campaign) for name in POLICIES}
        for target, other in (POLICIES, POLICIES[::-1]):
            found.append({"campaign": campaign, "policy": target, "log": other}
                         | _valued(logs[target], logs[other]))  # fmt: skip
    return {
        "settings": {"prior": PRIOR, "resamples": 1000, "level": 0.95},
        "values": found,
        "rows": [
            {
                "what": f"{each['campaign']}: value of {each['policy']} from the log of "
                f"{each['log']}, {one['estimator'].upper()}, clicks in 10,000",
                "ours": f"{1e4 * one['value']:.0f} [{1e4 * one['low']:.0f}, "
                f"{1e4 * one['high']:.0f}], {one['ess']:,.0f} effective rows",
                "yardstick": f"{1e4 * each['truth']['value']:.0f} on its own log",
                "ratio": f"{one['value'] / each['truth']['value']:.2f}",
                "goal": "the truth is in the interval",
                "met": bool(one["low"] <= each["truth"]["value"] <= one["high"]),
            }
            for each in found
            for one in each["estimates"]
            if one["estimator"] != "dm"  # its interval does not know the model's error
        ],
    }


def _valued(target: Interactions, log: Interactions) -> dict[str, Any]:
    """Value the policy behind one log from another."""
    assert log.rating is not None
    assert log.propensity is not None
    assert log.position is not None
    assert target.rating is not None
    assert target.position is not None
    rng = Streams(0).numpy("open bandit")
    places = int(max(log.position.max(), target.position.max())) + 1
    policy = np.zeros((places, log.n_items))
    np.add.at(policy, (target.position, target.item), 1)
    policy[policy.sum(1) == 0] = 1  # positions that do not occur
    model = reward_by_action(
        log.rating, log.item, log.n_items, rng, position=log.position, prior=PRIOR
    )
    values = policy_values(
        log.rating,
        log.propensity,
        item_policy(policy, log.item, log.position),
        rng,
        predicted=model.of(log.item),
        expected=model.under(policy, log.position),
    )
    ones = np.ones(len(target))
    truth = policy_values(target.rating, ones, ones, rng)[0]
    return {
        "truth": {"value": truth.value, "low": truth.low, "high": truth.high, "n": truth.n},
        "estimates": [
            {
                "estimator": one.estimator,
                "value": one.value,
                "low": one.low,
                "high": one.high,
                "n": one.n,
                "ess": one.ess,
            }
            for one in values
        ],
    }
