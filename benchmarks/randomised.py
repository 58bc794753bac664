"""Offline estimators against randomised data: Coat's random ratings, Open Bandit's other policy.

Up to half an hour on one core, nearly all of it Coat's opponents. A seed that is finished is kept
in the folder to work in, and not computed again unless the configuration is another.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.movielens import WORK
from benchmarks.open_bandit import CAMPAIGNS, POLICIES, PRIOR
from benchmarks.timing import real_data
from counterplay.data.datasets.coat import read_coat
from counterplay.data.datasets.openbandit import read_open_bandit
from reproduction.random_policies import judge_by_own_log, summarise_policies
from reproduction.random_ratings import judge_by_random_ratings, summarise_ratings
from reproduction.rating_candidates import RatingComparison

SEEDS = range(10)
CONFIGURATION = RatingComparison()


def run() -> dict[str, Any]:
    coat, bandit = real_data("coat"), real_data("obd")
    if coat is None or bandit is None:
        return {"skipped": "Coat or Open Bandit is not there; point COUNTERPLAY_DATA at them"}
    ratings = summarise_ratings([kept_coat(coat, seed) for seed in SEEDS])
    pairs = judge_open_bandit(bandit)
    policies = summarise_policies(pairs)
    return {
        "settings": CONFIGURATION.model_dump(mode="json"),
        "ratings": ratings,
        "pairs": pairs,
        "policies": policies,
        "rows": [*rating_rows(ratings), *policy_rows(policies)],
    }


def kept_coat(folder: Path, seed: int) -> dict[str, Any]:
    """Return what `judge_coat` finds, or found before with the same configuration."""
    record = WORK / "randomised" / f"coat-{seed}.json"
    configuration = CONFIGURATION.model_dump(mode="json")
    if record.exists():
        kept: dict[str, Any] = json.loads(record.read_text())
        if kept["configuration"] == configuration:
            return kept
    found = {"configuration": configuration} | judge_coat(folder, seed)
    record.parent.mkdir(parents=True, exist_ok=True)
    record.with_suffix(".part").write_text(json.dumps(found))
    record.with_suffix(".part").replace(record)
    return found


def judge_coat(folder: Path, seed: int) -> dict[str, Any]:
    """Judge all candidates once; Coat's learned propensities are the logged ones."""
    split = read_coat(folder)
    propensity = np.loadtxt(folder / "propensities.ascii")
    chosen = split.train
    chosen = replace(chosen, propensity=propensity[chosen.user, chosen.item])
    return judge_by_random_ratings(
        chosen,
        split.test,
        CONFIGURATION,
        seed=seed,
        progress=lambda text: print(text, file=sys.stderr, flush=True),
    )


def judge_open_bandit(folder: Path) -> list[dict[str, Any]]:
    found = []
    for campaign in CAMPAIGNS:
        logs = {name: read_open_bandit(folder / name / campaign) for name in POLICIES}
        for target, other in (POLICIES, POLICIES[::-1]):
            about = {"campaign": campaign, "policy": target, "log": other}
            found.append(about | judge_by_own_log(logs[target], logs[other], prior=PRIOR))
    return found


def rating_rows(summary: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a line an estimator of the squared error."""
    found = [each for each in summary["estimators"] if each["metric"] == "mse"]
    standard = found[0]["squared_error"]["value"]
    return [
        {
            "what": f"Coat: {each['estimator']}, estimate of a candidate's MSE, "
            f"{summary['n_seeds']} seeds",
            "ours": f"root of squared error {np.sqrt(each['squared_error']['value']):.3f}, "
            f"bias {_with_interval(each['bias'])}, "
            f"order {_with_interval(each['rank_correlation'])}, "
            f"winner {each['win_rate']['value']:.0%}, regret {each['regret']['value']:.3f}",
            "yardstick": f"root of squared error {np.sqrt(standard):.3f}, standard",
            "ratio": f"{np.sqrt(each['squared_error']['value'] / standard):.2f}",
            "goal": "none",
            "met": None,
        }
        for each in found
    ]


def policy_rows(summary: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a line an estimator of the click rate."""
    standard = summary[0]["relative"]
    return [
        {
            "what": f"Open Bandit: {each['estimator']}, estimate of a click rate from the other "
            f"policy's log, {each['n']} pairs of logs",
            "ours": f"off by {each['relative']:.0%} (root mean square), 0 in the error's interval "
            f"{each['covered']} times, better policy told {each['right']} times of "
            f"{each['n_decided']}",
            "yardstick": f"off by {standard:.0%}, standard",
            "ratio": f"{each['relative'] / standard:.2f}",
            "goal": "none",
            "met": None,
        }
        for each in summary
    ]


def _with_interval(found: dict[str, Any]) -> str:
    return f"{found['value']:+.3f} [{found['low']:+.3f}, {found['high']:+.3f}]"
