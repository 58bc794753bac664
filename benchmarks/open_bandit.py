"""Value each policy of Open Bandit's sample from the other policy's log; its own log is the truth.

The new policy is known by the frequencies of its items at each position. The model of rewards is
the mean of an item at a position, with a prior of 100 rows, cross-fitted.

Open Bandit Pipeline (obp) has the same rows, policy and model, and must come to the same values to
nine digits. What is replayed is the policy that always shows what the log shows most at a position.
"""

from __future__ import annotations

from itertools import permutations, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.timing import real_data
from benchmarks.yardsticks import measure
from counterplay.data.datasets.randomized import read_open_bandit
from counterplay.metrics.off_policy import (
    item_policy,
    policy_values,
    replay_value,
    reward_by_action,
)
from reproduction.offline import judge_open_bandit

if TYPE_CHECKING:
    from counterplay.data.interactions import Interactions

LOGGED = ("ips", "snips", "dm", "dr")  # estimators that take the log's own propensities
DIGITS = 1e-9  # by which values may differ from those of obp, relatively


def run() -> dict[str, Any]:
    folder = real_data("obd")
    if folder is None:
        return {"skipped": "Open Bandit is not there; point COUNTERPLAY_DATA at its folder"}
    found = [_by_logged_propensities(each) for each in judge_open_bandit(folder)]
    same = _beside_obp(folder)
    return {
        "settings": {"prior": 100.0, "resamples": 1000, "level": 0.95},
        "values": found,
        "beside_obp": same,
        "rows": [_row_of(name, same) for name in same[0]["ours"]]
        + [
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


def _row_of(name: str, same: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the row of an estimator: the largest difference over campaigns and policies."""
    pairs = [(each["ours"][name], each["obp"][name]) for each in same]
    gaps = [abs(one - other) / max(abs(other), 1e-9) for one, other in pairs]
    gap, last = max(gaps), same[-1]
    return {
        "what": f"{name.upper()} beside obp 0.4.1, {len(gaps)} logs of 10,000 rows",
        "ours": f"{last['ours'][name]:.12g}, the last one",
        "yardstick": f"{last['obp'][name]:.12g}",
        "ratio": f"1 ± {gap:.1g} at most",
        "goal": "nine digits of every one",
        "met": gap < DIGITS,
    }


def _beside_obp(folder: Path) -> list[dict[str, Any]]:
    """Value each policy from the log of the other by both libraries."""
    found = []
    for campaign, (target, other) in product(
        ("all", "men", "women"), permutations(("random", "bts"))
    ):
        logs = [read_open_bandit(folder / name / campaign) for name in (target, other)]
        about = {"campaign": campaign, "policy": target, "log": other}
        found.append(about | _by_both(*logs))
    return found


def _by_both(target: Interactions, log: Interactions) -> dict[str, Any]:
    """Return the values of one policy from the log of another, by us and by obp."""
    assert target.position is not None
    assert log.position is not None
    assert log.clicked is not None
    assert log.propensity is not None
    rng = np.random.default_rng(0)
    counts = np.zeros((int(max(log.position.max(), target.position.max())) + 1, log.n_items))
    np.add.at(counts, (target.position, target.item), 1)
    counts[counts.sum(1) == 0] = 1  # positions that do not occur
    policy = counts / counts.sum(1, keepdims=True)
    shown = np.zeros_like(counts)
    np.add.at(shown, (log.position, log.item), 1)
    best = np.eye(log.n_items)[shown.argmax(1)]
    model = reward_by_action(
        log.clicked, log.item, log.n_items, rng, position=log.position, prior=100.0
    )
    values = policy_values(
        log.clicked, log.propensity, item_policy(policy, log.item, log.position), rng,
        predicted=model.of(log.item), expected=model.under(policy, log.position),
    )  # fmt: skip
    values.append(replay_value(log.clicked, item_policy(best, log.item, log.position), rng))
    arrays = {
        "reward": log.clicked.astype(np.float64), "action": log.item.astype(np.int64),
        "position": log.position.astype(np.int64), "propensity": log.propensity,
        "policy": policy, "best": best, "predicted": model.table[model.line],
    }  # fmt: skip
    with TemporaryDirectory() as work:
        theirs = measure("obp", "obp_values", arrays, Path(work))
    return {"ours": {each.estimator: each.value for each in values}, "obp": theirs}


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
