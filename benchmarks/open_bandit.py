"""Value each policy of Open Bandit's sample from the other policy's log; its own log is the truth.

The new policy is known by the frequencies of its items at each position. The model of rewards is
the mean of an item at a position, with a prior of 100 rows, cross-fitted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.timing import real_data
from counterplay.data.datasets.openbandit import read_open_bandit
from reproduction.random_policies import judge_by_own_log

if TYPE_CHECKING:
    from counterplay import Interactions

CAMPAIGNS, POLICIES = ("all", "men", "women"), ("random", "bts")
PRIOR = 100.0
LOGGED = ("ips", "snips", "dm", "dr")  # estimators that take the log's own propensities


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
    """Value the policy behind one log from another, with the logged propensities."""
    found = judge_by_own_log(target, log, prior=PRIOR)
    keys = ("estimator", "value", "low", "high", "n", "ess")
    return {
        "truth": found["truth"],
        "estimates": [
            {key: one[key] for key in keys}
            for one in found["estimates"]
            if one["estimator"] in LOGGED
        ],
    }
