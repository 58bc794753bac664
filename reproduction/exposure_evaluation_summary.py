"""How near estimators came to the truth as logs knew more: lines by mechanism, and their page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from reproduction.agreement import mean_over_repetitions
from reproduction.trial_judgements import Judged
from reproduction.trial_summary import scores

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from counterplay.data.jobs import Result

    Scores = dict[str, dict[str, float]]  # by estimator, of one world

N_PLANNED = 10  # seeds
N_MECHANISMS = 6
YARDSTICK = "clicks: robust"
GOALS = ("+ impressions: impressions", "+ impressions: doubly-robust")
MOST_REGRET, LEAST_ORDER, LEVEL = 0.01, 0.92, 0.95
_PAIRED = ("error", "order", "regret")


def summarised(worlds: Sequence[Result]) -> dict[str, Any]:
    """Return a line an estimator, over all worlds and by mechanism."""
    mechanisms = list(dict.fromkeys(world["mechanism"] for world in worlds))
    by_mechanism = {
        name: [world for world in worlds if world["mechanism"] == name] for name in mechanisms
    }
    return {
        "n_seeds": min(len(each) for each in by_mechanism.values()),
        "n_worlds": len(worlds),
        "rows": {
            name: float(np.mean([world["rows"][name] for world in worlds]))
            for name in worlds[0]["rows"]
        },
        "truth": {
            name: float(np.mean([world["truth"][place] for world in worlds]))
            for place, name in enumerate(worlds[0]["candidates"])
        },
        "overall": _lines(worlds),
        "between": _differing(GOALS[1], GOALS[0], [world_scores(world) for world in worlds]),
        "mechanisms": {name: _lines(each) for name, each in by_mechanism.items()},
    }


def world_scores(world: Result) -> Scores:
    """Return how every estimator fared in one world."""
    truth = np.array(world["truth"])
    found = {}
    for name, record in world["judged"].items():
        judged = Judged.of(record)
        off = np.abs(judged.values - truth)
        found[name] = scores(judged, truth) | {
            "error": float(off.mean()),
            "half_width": float((judged.high - judged.low).mean() / 2),
        }
    return found


def _lines(worlds: Sequence[Result]) -> list[dict[str, Any]]:
    found = [world_scores(world) for world in worlds]
    common = _in_common(worlds)
    return [_line(name, found) | common[name] for name in found[0]]


def _line(name: str, found: Sequence[Scores]) -> dict[str, Any]:
    """Return one estimator's scores over worlds, and what they differ by from the yardstick."""
    mine = [each[name] for each in found]
    mean = {key: float(np.mean([each[key] for each in mine])) for key in mine[0]}
    decided, wrong = (sum(each[key] for each in mine) for key in ("decided", "wrong"))
    return {
        "estimator": name,
        "error": mean["error"],
        "bias": mean["bias"],
        "order": mean_over_repetitions([each["order"] for each in mine]),
        "regret": mean_over_repetitions([each["regret"] for each in mine]),
        "decided": decided / sum(each["pairs"] for each in mine),
        "n_decided": int(decided),
        "wrong": wrong / decided if decided else None,
        "coverage": mean["held"],
        "half_width": mean["half_width"],
        "against": _differing(name, YARDSTICK, found),
    }


def _differing(first: str, second: str, found: Sequence[Scores]) -> dict[str, Any]:
    """Return the paired differences of two estimators over worlds."""
    return {
        key: mean_over_repetitions([each[first][key] - each[second][key] for each in found])
        for key in _PAIRED
    }


def _in_common(worlds: Sequence[Result]) -> dict[str, dict[str, float | None]]:
    """Return how much of the error worlds of a mechanism have in common, by estimator.

    systematic is a share of the squared error: the square of a candidate's mean error over seeds,
    less what chance adds to that. coverage_without is that of intervals from which the mean error
    of the other seeds is taken off.
    """
    found: dict[str, dict[str, float | None]] = {}
    mechanisms = sorted({world["mechanism"] for world in worlds})
    for name in worlds[0]["judged"]:
        common, whole, held = [], [], []
        for mechanism in mechanisms:
            here = [world for world in worlds if world["mechanism"] == mechanism]
            judged = [Judged.of(world["judged"][name]) for world in here]
            errors = np.array(
                [one.values - world["truth"] for one, world in zip(judged, here, strict=True)]
            )
            n = len(errors)
            if n < 2:
                continue
            common.append((errors.mean(axis=0) ** 2 - errors.var(axis=0, ddof=1) / n).mean())
            whole.append((errors**2).mean())
            others = (errors.sum(axis=0) - errors) / (n - 1)
            truth = np.array([world["truth"] for world in here]) + others
            low, high = (np.array([getattr(one, end) for one in judged]) for end in ("low", "high"))
            held.append(((low <= truth) & (truth <= high)).mean())
        found[name] = {
            "systematic": float(np.clip(sum(common) / sum(whole), 0, 1)) if whole else None,
            "coverage_without": float(np.mean(held)) if held else None,
        }
    return found


def rows(summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the lines of the summary of all experiments."""
    overall = {each["estimator"]: each for each in summary["overall"]}
    clicks = overall[YARDSTICK]
    found = []
    for name in GOALS:
        each = overall[name]
        regret, order = each["regret"]["value"], each["order"]["value"]
        reached = regret <= MOST_REGRET and order >= LEAST_ORDER
        whole = summary["n_seeds"] >= N_PLANNED and len(summary["mechanisms"]) == N_MECHANISMS
        found.append(
            {
                "what": f"estimator from impressions, {name.split(': ')[1]}: "
                f"{summary['n_worlds']} worlds",
                "ours": f"regret {regret:.1%}, order {order:.3f}, error "
                f"{100 * each['error']:.2f} points, intervals hold {each['coverage']:.0%}",
                "yardstick": f"regret {clicks['regret']['value']:.1%}, order "
                f"{clicks['order']['value']:.2f}, error {100 * clicks['error']:.2f} points, "
                "robust from clicks",
                "ratio": "–",
                "goal": f"regret at most {MOST_REGRET:.0%}, order at least {LEAST_ORDER:g}",
                "met": (True if whole else None) if reached else False,
            }
        )
    return found


def page(summary: Mapping[str, Any], random_share: float, causes: Sequence[str], notes: str) -> str:
    """Return the page of the evaluation half."""
    counts = summary["rows"]
    lines = [
        "# Estimators, as the log knows more",
        "",
        f"Planned: {N_PLANNED} seeds of {N_MECHANISMS} mechanisms of exposure. Run: "
        f"{summary['n_seeds']} seeds, {summary['n_worlds']} worlds of 1,200 users and 600 items. "
        f"On average {counts['train']:,.0f} training clicks, {counts['test']:,.0f} test clicks "
        f"among {counts['impressions']:,.0f} test impressions, and {counts['random']:,.0f} random "
        f"rows ({random_share:.0%} of what is shown), {counts['clicked at random']:,.0f} of them "
        "clicked.",
        "",
        "Seven candidates are judged by Hit@10 on the last round of the log. Their true values, "
        "in points, mean over worlds: "
        + ", ".join(f"{name} {100 * value:.2f}" for name, value in summary["truth"].items())
        + ". `cf4` and `cf16` are factorisations by ERM on clicks, `shown` one of impressions.",
        "",
        "Error is the mean absolute difference to the true value, in points; bias its mean with "
        "the sign. Order is Spearman's correlation with the truth. Regret is the share of the best "
        "true value that is lost by choosing the best estimate. A pair is decided where the "
        "interval of its difference leaves 0 out; wrong is the share of these with the other order "
        f"in truth. Coverage is how often the {LEVEL:.0%} interval of a value holds the truth. "
        "Systematic is the share of the squared error that all seeds of a mechanism have in "
        "common, which no number of rows would remove; coverage without it takes the mean error "
        "of the other seeds off.",
        "",
        "## All worlds",
        "",
        *_table(summary["overall"]),
        "",
        "Intervals are Student's t over worlds, 95%.",
        "",
        f"## Against `{YARDSTICK}`",
        "",
        "Paired differences over worlds, with intervals of 95%. Error in points, regret in "
        "percentage points; below 0 is better for both. For order, above 0 is better.",
        "",
        *_differences(summary["overall"]),
        "",
        "`doubly-robust` less `impressions`, both without random rows: "
        f"error {_told(summary['between']['error'], '+.2f', 100)}, "
        f"order {_told(summary['between']['order'], '+.2f')}.",
        "",
        "## Where the error comes from",
        "",
        "Bias in points, mean over candidates and over worlds of seeds 100 and 101, which are not "
        "among the worlds above. Test clicks are weighted by the probability that an item is "
        "shown, as `impressions` fits it or as it truly is, and by the true probability that its "
        "place is examined, or without it. The last column is `logged`.",
        "",
        *causes,
        "",
        "## What it says",
        "",
        notes.strip(),
    ]
    for name, each in summary["mechanisms"].items():
        lines += ["", f"## {name}", "", *_table(each), "", *_differences(each)]
    return "\n".join([*lines, "", "Made by `python -m reproduction exposure-evaluation`.", ""])


def _table(found: Sequence[Mapping[str, Any]]) -> list[str]:
    head = (
        "| log: estimator | error | bias | order | regret | decided | wrong | coverage | "
        "half width | systematic | coverage without |"
    )
    lines = [head, "|" + "---|" * (head.count("|") - 1)]
    for each in found:
        wrong = "–" if each["wrong"] is None else f"{each['wrong']:.1%}"
        common, without = (
            "–" if each[key] is None else f"{each[key]:.0%}"
            for key in ("systematic", "coverage_without")
        )
        lines.append(
            f"| {each['estimator']} | {100 * each['error']:.2f} | {100 * each['bias']:+.2f} | "
            f"{_told(each['order'], '.2f')} | {_told(each['regret'], '.1f', 100)} % | "
            f"{each['decided']:.0%} | {wrong} | {each['coverage']:.0%} | "
            f"{100 * each['half_width']:.2f} | {common} | {without} |"
        )
    return lines


def _differences(found: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = ["| log: estimator | error | order | regret |", "|---|---|---|---|"]
    for each in found:
        if each["estimator"] != YARDSTICK:
            one = each["against"]
            lines.append(
                f"| {each['estimator']} | {_told(one['error'], '+.2f', 100)} | "
                f"{_told(one['order'], '+.2f')} | {_told(one['regret'], '+.1f', 100)} |"
            )
    return lines


def _told(found: Mapping[str, Any], form: str, scale: float = 1.0) -> str:
    """Return a mean with its interval, where there is one."""
    said = f"{scale * found['value']:{form}}"
    if found["low"] is None:
        return said
    return f"{said} [{scale * found['low']:{form}}, {scale * found['high']:{form}}]"
