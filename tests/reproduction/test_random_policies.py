from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import counterplay as cp
from counterplay.data.datasets.randomized import read_open_bandit
from counterplay.metrics.off_policy import policy_values
from reproduction.random_policies import (
    NOT_DEFINED,
    judge_by_own_log,
    summarise_policies,
)

Z = 4.0  # |z| of an unbiased estimate exceeds it once in 15,000 runs
CLICK = np.array([0.1, 0.3, 0.5, 0.7])
POLICY = {"even": np.full(4, 0.25), "steep": np.array([0.1, 0.2, 0.3, 0.4])}


def impressions(name: str, n: int = 4000, seed: int = 0) -> cp.Interactions:
    """Return the log of a policy over four items at two positions; the second has fewer clicks."""
    rng = np.random.default_rng(seed)
    item, position = rng.choice(4, n, p=POLICY[name]), rng.integers(0, 2, n)
    item[:4] = np.arange(4)  # all of them occur
    click = rng.random(n) < CLICK[item] / (1 + position)
    return cp.read(
        {
            "user": np.arange(n),
            "item": item,
            "clicked": click,
            "propensity": POLICY[name][item],
            "position": position,
        },
        clicked="clicked",
    )


def test_all_but_standard_find_the_other_policys_click_rate() -> None:
    truth = {name: float(policy @ CLICK * 0.75) for name, policy in POLICY.items()}
    for target, other in (("even", "steep"), ("steep", "even")):
        log = impressions(other, seed=1)
        found = judge_by_own_log(impressions(target, seed=2), log, prior=10, n_resamples=200)
        assert log.clicked is not None
        by_name = {one["estimator"]: one for one in found["estimates"]}
        assert list(by_name) == [
            "standard", "popularity", "propensity", "ips", "snips", "dm", "dr",
        ]  # fmt: skip
        assert by_name["standard"]["value"] == pytest.approx(float(log.clicked.mean()))
        assert not by_name["standard"]["error_low"] <= 0 <= by_name["standard"]["error_high"]
        assert by_name["standard"]["right"] is False
        # The rate of 4,000 impressions, weighted by 2.5 at most, deviates by about 0.01.
        for name in ("popularity", "propensity", "ips", "snips", "dm", "dr"):
            assert abs(by_name[name]["value"] - truth[target]) < Z * 0.012, name
            assert by_name[name]["right"] is True
            assert by_name[name]["error_low"] < by_name[name]["error"] < by_name[name]["error_high"]
        assert found["robust"] == NOT_DEFINED
        assert found["robust"].startswith("not defined, because")


def test_a_policy_is_weighted_by_the_shares_of_both_logs() -> None:
    target, log = impressions("steep", 300, 3), impressions("even", 200, 4)
    assert target.position is not None
    assert log.position is not None
    assert log.clicked is not None
    found = {
        one["estimator"]: one["value"]
        for one in judge_by_own_log(target, log, prior=5, n_resamples=200)["estimates"]
    }
    above, below = {"popularity": 0.0, "propensity": 0.0}, {"popularity": 0.0, "propensity": 0.0}
    for item, place, click in zip(log.item, log.position, log.clicked.tolist(), strict=True):
        here = target.position == place
        chance = (target.item[here] == item).mean()
        share = (log.item == item).mean()
        there = log.position == place
        at_place = ((log.item[there] == item).sum() + 5 * share) / (there.sum() + 5)
        for name, q in (("popularity", share), ("propensity", at_place)):
            above[name] += chance / q * click
            below[name] += chance / q
    for name in above:
        assert found[name] == pytest.approx(above[name] / below[name])


def test_the_error_has_both_logs_in_its_interval() -> None:
    target, log = impressions("steep", seed=5), impressions("even", seed=6)
    result = judge_by_own_log(target, log, n_resamples=400)
    truth = result["truth"]
    for one in result["estimates"]:
        least = max(one["value"] - one["low"], truth["high"] - truth["value"])
        reach = one["error"] - one["error_low"]
        assert least <= reach <= np.sqrt(2) * least + 1e-12
        assert one["error"] == one["value"] - truth["value"]


def test_a_pair_of_logs_needs_its_columns() -> None:
    target, log = impressions("steep", 200), impressions("even", 200)
    with pytest.raises(cp.DataError, match="the target must hold clicks and positions"):
        judge_by_own_log(replace(target, position=None), log)
    with pytest.raises(cp.DataError, match="the log must hold clicks, positions and prop"):
        judge_by_own_log(target, replace(log, propensity=None))
    with pytest.raises(cp.DataError, match="must have the same items"):
        judge_by_own_log(target, log.take(log.item > 0).compact())


def test_a_summary_of_policies_equals_what_a_hand_computes() -> None:
    def one(error: float, low: float, high: float, right: bool | None) -> dict[str, Any]:
        return {"estimator": "ips", "error": error, "error_low": low, "error_high": high,
                "right": right}  # fmt: skip

    results = [
        {"truth": {"value": 0.5}, "estimates": [one(0.1, -0.1, 0.3, True)]},
        {"truth": {"value": 0.2}, "estimates": [one(-0.1, -0.2, -0.05, None)]},
        {"truth": {"value": 0.1}, "estimates": [one(0.3, 0.0, 0.5, False)]},
    ]
    (found,) = summarise_policies(results)
    assert found["bias"] == pytest.approx(0.1)
    assert found["squared_error"] == pytest.approx(0.11 / 3)
    assert found["relative"] == pytest.approx(np.sqrt((0.04 + 0.25 + 9) / 3))
    assert (found["covered"], found["right"], found["n_decided"], found["n"]) == (2, 1, 2, 3)
    with pytest.raises(cp.DataError, match="found none"):
        summarise_policies([])


def test_open_bandit_as_it_is(real_data: Callable[[str], Path]) -> None:
    folder = real_data("obd")
    target, log = (read_open_bandit(folder / name / "men") for name in ("bts", "random"))
    found = judge_by_own_log(target, log, n_resamples=200)
    assert target.clicked is not None
    assert found["truth"]["value"] == pytest.approx(float(target.clicked.mean()))
    by_name = {one["estimator"]: one["value"] for one in found["estimates"]}
    assert log.clicked is not None
    assert log.propensity is not None
    ones = np.ones(len(log))
    again = policy_values(log.clicked, ones, ones, np.random.default_rng(0), n_resamples=200)
    assert by_name["standard"] == again[0].value
    assert by_name["ips"] == pytest.approx(by_name["snips"], rel=0.1)
