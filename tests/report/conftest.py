"""Records of a study, made by hand: four candidates, four estimators, a world and its truth."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from counterplay.study.records import Findings

CANDIDATES = ("pop", "erm", "ps", "acl")
Values = dict[str, Any]
_VALUES = {
    "standard": (0.3120, 0.2980, 0.2710, 0.2634),
    "popularity": (0.0210, 0.0522, 0.0561, 0.0574),
    "opponent": (0.0190, 0.0497, 0.0530, 0.0571),
    "oracle": (0.0171, 0.0440, 0.0462, 0.0481),
}
_ESS = {"standard": 4000.0, "popularity": 812.4, "opponent": 655.2, "oracle": 540.7}
_METRICS = (("hit", 10, 1.0), ("ndcg", 10, 0.55), ("mrr", 10, 0.42))


def make_record(names: tuple[str, ...] = CANDIDATES, log: str = "synthetic") -> Findings:
    """Return a whole record with these candidates."""
    return Findings.model_validate(make_values(names, log))


def make_values(names: tuple[str, ...] = CANDIDATES, log: str = "synthetic") -> Values:
    """Return its plain values, as JSON has them."""
    runs = [_run(name, place) for place, name in enumerate(names)]
    best = names[min(3, len(names) - 1)]
    return {
        "name": log,
        "kind": "world",
        "seed": 0,
        "versions": {"counterplay": "0.1.0", "python": "3.11.7", "torch": "2.6.0"},
        "commands": ["counterplay simulate synthetic --out world", "counterplay run world/log"],
        "configuration": {"world": {"n_users": 2000, "n_items": 1000}, "k": [10], "quick": False},
        "profile": _profile(log),
        "steps": ["2,114 repeated rows dropped", "users with fewer than 3 rows dropped: 12"],
        "split": {
            "kind": "rounds",
            "counts": {"train": 52_310, "validation": 4_100, "test": 4_000},
            "seen_share": 0.9873,
            "cold": {"validation": {"user": 0, "item": 3}, "test": {"user": 1_000, "item": 0}},
        },
        "runs": runs,
        "evaluation": _evaluation(names, log),
        "online": _online(names),
        "verdict": _verdict(names, best),
    }


def _run(name: str, place: int) -> Values:
    method = ("erm", "erm", "ps", "acl")[place % 4]
    candidate = "pop" if place % 4 == 0 else "gmf"
    epochs = [_epoch(number, method) for number in range(40)]
    parameters = {"candidate": 0 if candidate == "pop" else 99_000}
    if method != "erm":
        parameters["exposure"] = 12_000
    return {
        "name": name,
        "configuration": {
            "method": method,
            "candidate": {"name": candidate, "dim": 32},
            "exposure": {"name": "gmf", "dim": 2},
            "training": {"epochs": 60, "rate": 0.01, "link": {"floor": 0.01, "learn": True}},
        },
        "seed": 0,
        "versions": {"counterplay": "0.1.0"},
        "data": "somewhere",
        "dataset": {
            "name": "synthetic",
            "fingerprint": "sha256:" + "ab" * 32,
            "split": "rounds",
            "split_fingerprint": "sha256:" + "cd" * 32,
        },
        "parameters": parameters,
        "epochs": epochs,
        "best_epoch": 29,
        "ess": epochs[29]["ess"],
        "threads": 1,
        "stopped": "no better validation value for 10 epochs",
        "validation": {
            "metric": "hit",
            "k": 10,
            "estimator": "standard",
            "protocol": "sampled-100",
            "value": 0.6034,
            "low": 0.5883,
            "high": 0.6183,
            "level": 0.95,
            "n": 4100,
            "ess": 4100.0,
            "top_share": 0.01,
            "normalised": True,
        },
    }


def _epoch(number: int, method: str) -> Values:
    fall = math.exp(-number / 8)
    weighted, game = method in ("ps", "acl"), method == "acl"
    return {
        "epoch": number,
        "candidate_loss": 0.31 + 0.38 * fall,
        "exposure_loss": 0.42 + 0.25 * fall if game else None,
        "objective": -0.11 + 0.13 * fall if game else None,
        "beta": [0.4 - 0.4 * fall, 1 + 0.2 * fall, 2.1 - 2 * fall] if weighted else None,
        "propensity": [0.01 + 0.2 * fall, 0.42 + 0.1 * fall, 0.97] if weighted else None,
        "ess": 0.62 + 0.35 * fall if weighted else None,
        "candidate_gradient": 0.1,
        "exposure_gradient": 0.1 if game else None,
        "validation": 0.6 - 0.35 * fall - 0.002 * max(0, number - 29),
        "exposure_validation": 0.45 - 0.2 * fall if weighted else None,
    }


def _profile(log: str) -> Values:
    levels = ("0%", "25%", "50%", "75%", "90%", "99%", "100%")
    return {
        "name": log,
        "feedback": "implicit",
        "n_interactions": 60_410,
        "n_users": 2_000,
        "n_items": 1_000,
        "density": 0.0302,
        "user_events": dict(zip(levels, (3, 17, 28, 41, 55, 83, 140), strict=True)),
        "item_events": dict(zip(levels, (0, 9, 24, 61, 160, 655, 1204), strict=True)),
        "popularity_gini": 0.6613,
        "repeated_share": 0.0,
        "rating_range": None,
        "first_time": "2020-01-01T00:00:00Z",
        "last_time": "2020-01-05T00:00:00Z",
        "n_implausible_times": 0,
        "exposed_share": None,
        "propensity_range": None,
        "features": {},
    }


def _evaluation(names: tuple[str, ...], log: str) -> Values:
    estimates, bands, comparisons = [], [], []
    for estimator, values in _VALUES.items():
        found = {
            name: values[place % 4] + 0.0007 * (place // 4) for place, name in enumerate(names)
        }
        for metric, k, scale in _METRICS:
            for name, value in found.items():
                own = {"candidate": name, "metric": metric, "k": k, "estimator": estimator}
                value = value * scale
                estimates.append(
                    own
                    | {
                        "protocol": "full",
                        "value": value,
                        "low": value * 0.93,
                        "high": value * 1.071,
                        "level": 0.95,
                        "n": 4000,
                        "ess": _ESS[estimator],
                        "top_share": 0.01 if estimator == "standard" else 0.083,
                        "normalised": True,
                    }
                )
                if estimator != "standard":
                    bands += [
                        own
                        | {
                            "gamma": gamma,
                            "low": value / (1 + 0.6 * (gamma - 1)),
                            "high": value * (1 + 0.6 * (gamma - 1)),
                        }
                        for gamma in (1.25, 1.5, 2.0, 3.0)
                    ]
            comparisons += _comparisons(found, estimator, metric, k, scale)
    return {
        "dataset": log,
        "part": "test",
        "configuration": {"protocol": "full", "opponent": {"kind": "item", "floor": 0.01}},
        "estimates": estimates,
        "bands": bands,
        "comparisons": comparisons,
        "dials": _dials(names),
        "diagnostics": _diagnostics(names),
        "notes": ["opponent: 1% of the rows carry 8% of the weight"],
    }


def _dials(names: tuple[str, ...]) -> Values:
    """Return leads that shrink as more of taste is exposure, and turn at 70% of it."""
    dials = [(gamma, lam) for gamma in (0.0, 0.5, 1.0) for lam in (0.0, 0.2, 0.4, 0.8)]
    leads = []
    for first in names:
        for second in names:
            if first != second:
                sign = 1 if names.index(first) > names.index(second) else -1
                value = [sign * (0.07 - 0.1 * lam) for _, lam in dials]
                low = [each - 0.035 for each in value]
                own = {"metric": "hit", "k": 10, "first": first, "second": second}
                leads.append(own | {"value": value, "low": low})
    return {
        "dials": dials,
        "box": [pair for pair in dials if pair[1] < 0.5],
        "point": (0.55, 0.3),
        "coefficients": {"popularity": 0.9} | dict.fromkeys(names[1:], 0.4),
        "n_fitted": 1234,
        "n_left_out": 0,
        "error": 0.0,
        "leads": leads,
    }


def _comparisons(
    found: dict[str, float], estimator: str, metric: str, k: int, scale: float
) -> list[Values]:
    rows = []
    names = list(found)
    for place, first in enumerate(names):
        for second in names[place + 1 :]:
            value = (found[first] - found[second]) * scale
            flip = 1.05 + 20 * abs(value)
            better, other = (first, second) if value > 0 else (second, first)
            rows.append(
                {
                    "metric": metric,
                    "k": k,
                    "estimator": estimator,
                    "first": first,
                    "second": second,
                    "value": value,
                    "low": value - 0.003,
                    "high": value + 0.003,
                    "level": 0.95,
                    "n": 4000,
                    "p": 0.0214 if abs(value) > 0.003 else 0.1523,
                    "flip": None if estimator == "standard" else flip,
                    "statement": None
                    if estimator == "standard"
                    else f"{better} beats {other} unless exposure odds are off by more than "
                    f"{flip:.1f}×",
                }
            )
    return rows


def _diagnostics(names: tuple[str, ...]) -> Values:
    edges = np.logspace(-2, 0, 25)
    middles = (np.log10(edges[1:]) + np.log10(edges[:-1])) / 2
    levels = ("0%", "1%", "25%", "50%", "75%", "99%", "100%")
    propensities = []
    for estimator, centre in (("popularity", -0.9), ("opponent", -1.2), ("oracle", -1.1)):
        counts = np.round(900 * np.exp(-((middles - centre) ** 2) / 0.18)).astype(int)
        propensities.append(
            {
                "estimator": estimator,
                "candidate": None,
                "n": 4000,
                "ess": _ESS[estimator],
                "top_share": 0.0831,
                "quantiles": dict(
                    zip(levels, (0.01, 0.012, 0.05, 0.12, 0.34, 0.9, 1.0), strict=True)
                ),
                "edges": edges.tolist(),
                "counts": counts.tolist(),
            }
        )
    deciles = np.arange(1, 11)
    recommended = []
    for place, name in enumerate(names):
        tilt = np.exp(deciles * (0.45 - 0.12 * (place % 4)))
        recommended.append(
            {
                "candidate": name,
                "k": 10,
                "n_users": 2000,
                "shares": (tilt / tilt.sum()).tolist(),
                "mean_popularity": 612.3 - 100 * (place % 4),
                "coverage": 0.11 + 0.1 * (place % 4),
                "gini": 0.93 - 0.05 * (place % 4),
                "measures": [
                    {"name": kind, "n": 1990, "value": value, "low": value - 0.1}
                    | {"high": value + 0.1, "level": 0.95}
                    for kind, value in (
                        ("novelty", 3.1 + place % 4),
                        ("diversity", 0.61 + 0.05 * (place % 4)),
                        ("popularity lift", 0.52 - 0.3 * (place % 4)),
                    )
                ],
            }
        )
    by_decile = [
        {
            "candidate": name,
            "metric": "hit",
            "k": 10,
            "decile": int(decile),
            "n": 400,
            "value": value if decile > 1 or place else None,
            "low": max(0.0, value - 0.02) if decile > 1 or place else None,
            "high": value + 0.02 if decile > 1 or place else None,
        }
        for place, name in enumerate(names)
        for decile in deciles
        for value in [0.02 + 0.006 * float(decile) ** (2.1 - 0.25 * (place % 4))]
    ]
    return {
        "propensities": propensities,
        "popularity": {
            "deciles": [
                {"decile": int(each), "items": int(520 / each**1.9), "logged": 0.1}
                for each in deciles
            ],
            "recommended": recommended,
            "logged_mean_popularity": 401.7,
        },
        "by_decile": by_decile,
        "calibration": [
            {
                "estimator": estimator,
                "candidate": None,
                "correlation": correlation,
                "bins": [
                    {"n": 400, "estimated": 10**-x, "true": 10 ** (-1.1 * x - shift)}
                    for x in np.linspace(1.9, 0.1, 9).tolist()
                ],
            }
            for estimator, correlation, shift in (
                ("popularity", 0.4312, 0.05),
                ("opponent", 0.3977, -0.1),
            )
        ],
        "segments": _segments(names),
        "gallery": make_gallery(names),
    }


def _segments(names: tuple[str, ...]) -> Values:
    kinds = [("activity of users", f"{n} to {n + 9} training rows") for n in (1, 11, 21)]
    kinds += [("user feature town", town) for town in ("<b>Oslo</b>", "Rome")]
    found = [
        {
            "of": of,
            "label": label,
            "n": 100 + place,
            "n_users": 60 + place,
            "values": [
                {
                    "candidate": name,
                    "estimator": estimator,
                    "value": 0.01 * (1 + own + place),
                    "low": None if own == 0 else 0.005,
                    "high": None if own == 0 else 0.09,
                }
                for estimator in ("opponent", "standard")
                for own, name in enumerate(names)
            ],
            "leads": [
                {"estimator": estimator, "value": 0.01 * (place - 2), "low": 0.01 * place - 0.025}
                | {"high": 0.01 * place - 0.015, "decided": place != 2}
                for estimator in ("opponent", "standard")
                if len(names) > 1
            ],
        }
        for place, (of, label) in enumerate(kinds)
    ]
    second = names[min(2, len(names) - 2)] if len(names) > 1 else None
    return {
        "metric": "hit", "k": 10, "level": 0.95, "estimator": "opponent",
        "first": names[min(3, len(names) - 1)], "second": second,
        "n_leads": len(found) if second is not None else 0, "segments": found,
        "left_out": ["item feature title, which is a name"],
    }  # fmt: skip


def make_gallery(names: tuple[str, ...], n_users: int = 5, prefix: str = "user ") -> Values:
    """Return a sample of users; each candidate shows other items, the last what was clicked."""
    return {
        "k": 3,
        "n_users": 400,
        "feedback": "clicks",
        "in_order": True,
        "items": [f"item-{place}" for place in range(9)],
        "names": [None, *(f"The {place}th" for place in range(1, 9))],
        "users": [
            {
                "user": f"{prefix}{user}",
                "n_history": 2 + 10 * user,
                "history": [0, 1],
                "n_chosen": 1,
                "chosen": [8],
                "ratings": None,
                "lists": {
                    name: [2 + place % 3, 5, 8 if place == len(names) - 1 else 7][: user + 1]
                    for place, name in enumerate(names)
                },
            }
            for user in range(n_users)
        ],
    }


def _online(names: tuple[str, ...]) -> Values:
    truth = (0.0168, 0.0437, 0.0466, 0.0483)
    arms, changes, daily = [], [], []
    for place, name in enumerate(names):
        value = truth[place % 4] + 0.0006
        arms.append(
            {
                "arm": name,
                "n_users": 500,
                "n_sessions": 3507,
                "measures": [
                    {"metric": metric, "k": k, "value": v, "low": v - 0.002, "high": v + 0.002}
                    | {"n": 500, "variance": 0.02, "level": 0.95}
                    for metric, k, v in (("ctr", 10, value * 3), ("hit", 10, value))
                ],
            }
        )
        if place:
            changes += [
                {
                    "arm": name,
                    "metric": metric,
                    "k": 10,
                    "value": scale * (value - 0.0174),
                    "low": scale * (value - 0.0174) - 0.003,
                    "high": scale * (value - 0.0174) + 0.003,
                    "n": 1000,
                    "p_value": 0.0003,
                    "level": 0.95,
                }
                for metric, scale in (("ctr", 3), ("hit", 1))
            ]
            daily += [
                {
                    "arm": name,
                    "day": day,
                    "difference": None if day == 1 else 3 * (value - 0.0174),
                    "low": None if day == 1 else 3 * (value - 0.0174) - 0.2 / day,
                    "high": None if day == 1 else 3 * (value - 0.0174) + 0.2 / day,
                    "p_value": None if day == 1 else min(1.0, 0.9 / day),
                    "level": 0.95,
                }
                for day in range(1, 15)
            ]
    return {
        "world": "synthetic",
        "control": names[0],
        "config": {"n_days": 14, "level": 0.95},
        "arms": arms,
        "changes": changes,
        "daily": daily,
        "truth": [
            {"arm": name, "metric": "hit", "k": 10, "value": truth[place % 4]}
            for place, name in enumerate(names)
        ],
    }


def _verdict(names: tuple[str, ...], best: str) -> Values:
    truth = {name: (0.0168, 0.0437, 0.0466, 0.0483)[place % 4] for place, name in enumerate(names)}
    choices = []
    for estimator, values in _VALUES.items():
        place = int(np.argmax(values[: len(names)]))
        value = values[place]
        choices.append(
            {
                "estimator": estimator,
                "candidate": names[place],
                "value": value,
                "low": value * 0.93,
                "high": value * 1.071,
                "n": 4000,
                "ess": _ESS[estimator],
                "runner_up": names[place - 1] if len(names) > 1 else None,
                "difference": {"value": 0.0041, "low": 0.0011, "high": 0.0071},
                "decided": estimator != "popularity",
                "flip": None if estimator == "standard" else 1.43,
            }
        )
    return {
        "metric": "hit",
        "k": 10,
        "smaller_is_better": False,
        "estimator": "opponent",
        "decided": True,
        "leader": best,
        "recommended": best,
        "headline": f"Ship {best}: it is ahead in Hit@10 under the robust estimate, beyond chance.",
        "sentences": [
            f"Standard offline evaluation would have shipped {names[0]}, whose true Hit@10 is a "
            f"third of the best.",
            f"The robust estimate ships {best}; the order turns only if the exposure odds are off "
            "by more than 1.4×.",
        ],
        "choices": choices,
        "truth": {
            "candidate": best,
            "values": truth,
            "regret": {"standard": 0.6522, "popularity": 0.0, "opponent": 0.0, "oracle": 0.0},
        },
    }


@pytest.fixture
def record() -> Findings:
    return make_record()


@pytest.fixture
def values() -> Values:
    return make_values()
