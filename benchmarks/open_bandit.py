"""Value each policy of Open Bandit's sample from the other policy's log; its own log is the truth.

The new policy is known by the frequencies of its items at each position. The model of rewards is
the mean of an item at a position, with a prior of 100 rows, cross-fitted.
"""

from __future__ import annotations

from typing import Any

from benchmarks.timing import real_data
from reproduction.offline import judge_open_bandit

LOGGED = ("ips", "snips", "dm", "dr")  # estimators that take the log's own propensities


def run() -> dict[str, Any]:
    folder = real_data("obd")
    if folder is None:
        return {"skipped": "Open Bandit is not there; point COUNTERPLAY_DATA at its folder"}
    found = [_by_logged_propensities(each) for each in judge_open_bandit(folder)]
    return {
        "settings": {"prior": 100.0, "resamples": 1000, "level": 0.95},
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


def _by_logged_propensities(found: dict[str, Any]) -> dict[str, Any]:
    """Return the value of a policy from the log of another, with the logged propensities."""
    keys = ("estimator", "value", "low", "high", "n", "ess")
    return {
        **{key: found[key] for key in ("campaign", "policy", "log", "truth")},
        "estimates": [
            {key: one[key] for key in keys}
            for one in found["estimates"]
            if one["estimator"] in LOGGED
        ],
    }
