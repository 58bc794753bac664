"""Offline estimators against randomised data: Coat's random ratings, Open Bandit's other policy.

Up to half an hour on one core, nearly all of it Coat's opponents. The jobs are those of table 3, of
ten seeds; where they are done in the same folder, they are not run again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from reproduction.execution import results_of
from reproduction.jobs import RandomisedJob
from reproduction.random_policies import summarise_policies
from reproduction.random_ratings import summarise_ratings
from reproduction.rating_candidates import RatingComparison

if TYPE_CHECKING:
    from reproduction.datasets import Place

SOURCES: tuple[str, ...] = ("coat", "open-bandit")
N_SEEDS = 10


def run(place: Place) -> dict[str, Any]:
    """Judge all candidates on Coat, seed by seed, and the policies of Open Bandit."""
    coat = [RandomisedJob(data="coat", seed=seed) for seed in range(N_SEEDS)]
    *rated, bandit = results_of([*coat, RandomisedJob(data="open-bandit")], place)
    ratings = summarise_ratings([found["ratings"] for found in rated])
    policies = summarise_policies(bandit["policies"])
    return {
        "settings": RatingComparison().model_dump(mode="json"),
        "ratings": ratings,
        "pairs": bandit["policies"],
        "policies": policies,
        "rows": [*rating_rows(ratings), *policy_rows(policies)],
    }


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
