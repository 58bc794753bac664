"""What an evaluation says in plain words: what to ship, how sure that is, and what would turn it.

Each estimator that all candidates share names its choice. The recommendation is that of the first
of `TRUSTED` that is there: what was logged of exposure, else popularity, which on worlds with a
known truth chose better than the robust estimator. That one is the test that a choice has to stand:
where it prefers another, the verdict has a reservation. In a world, the truth says who was right,
and what the others' choices lose.
"""

from __future__ import annotations

import math
from typing import Any

from counterplay.evaluation.comparison import beyond_chance
from counterplay.evaluation.metrics import SMALLER_IS_BETTER
from counterplay.experiments.old_system import NAME as OLD_SYSTEM
from counterplay.experiments.propensities import SHARED

TRUSTED = ("logged", "popularity", "robust-shared", "propensity", "standard")  # the first is heeded
_JUDGES = ("oracle",)  # it knows what nobody does, and chooses for nobody
_ROUNDING = 1e-12  # values closer than that are equal
_SHIPS = {
    "standard": "Standard offline evaluation",
    "popularity": "Weighting by popularity",
    "propensity": "Weighting by a fitted exposure model",
    "robust-shared": "The robust evaluation",
    "logged": "Weighting by the logged propensities",
    "oracle": "Weighting by the true propensities",
}


def verdict(
    evaluation: dict[str, Any], truth: dict[str, dict[tuple[str, int], float]] | None = None
) -> dict[str, Any]:
    """Return the verdict on an evaluation of several candidates, as plain values.

    Args:
        evaluation: Of `counterplay.compare_runs`.
        truth: In a world, by candidate, metric and k what its ranking is truly worth.
    """
    first = evaluation["estimates"][0]
    metric, k = first["metric"], first["k"]
    named = [each["estimator"] for each in evaluation["estimates"]]
    choices = [
        _choice(evaluation, estimator, metric, k)
        for estimator in dict.fromkeys(named)
        if estimator in SHARED
    ]
    by_estimator = {each["estimator"]: each for each in choices}
    decisive = by_estimator[next(name for name in TRUSTED if name in by_estimator)]
    found: dict[str, Any] = {
        "metric": metric,
        "k": k,
        "smaller_is_better": metric in SMALLER_IS_BETTER,
        "estimator": decisive["estimator"],
        "recommended": decisive["candidate"],
        "choices": choices,
        "truth": None if truth is None else _truth(truth, metric, k, choices),
    }
    found["headline"] = _headline(found, decisive)
    found["sentences"] = [
        *(_says(each, metric, k) for each in choices if each["estimator"] not in _JUDGES),
        *_turns(decisive),
        *_truly(found, decisive),
    ]
    return found


def _choice(evaluation: dict[str, Any], estimator: str, metric: str, k: int) -> dict[str, Any]:
    """Return whom an estimator ships, and how far that is beyond chance and beyond doubt."""
    same = {"estimator": estimator, "metric": metric, "k": k}
    sign = -1 if metric in SMALLER_IS_BETTER else 1
    ranked = sorted(
        (each for each in evaluation["estimates"] if same.items() <= each.items()),
        key=lambda each: -sign * each["value"],
    )
    best = ranked[0]
    found = {
        "estimator": estimator,
        "candidate": best["candidate"],
        **{key: best[key] for key in ("value", "low", "high", "n", "ess")},
        "runner_up": None,
        "difference": None,
        "decided": False,
        "flip": None,
    }
    rivals = [_lead(evaluation, same, best["candidate"], each["candidate"]) for each in ranked[1:]]
    if not rivals:
        return found
    return found | next((each for each in rivals if not each["decided"]), rivals[0])


def _lead(
    evaluation: dict[str, Any], same: dict[str, Any], name: str, rival: str
) -> dict[str, Any]:
    """Return how far one candidate is before another, and whether that is beyond chance."""
    each = next(
        each
        for each in evaluation["comparisons"]
        if same.items() <= each.items() and {each["first"], each["second"]} == {name, rival}
    )
    sign = 1 if each["first"] == name else -1
    low, high = (None if each[end] is None else sign * each[end] for end in ("low", "high")[::sign])
    return {
        "runner_up": rival,
        "difference": {"value": sign * each["value"], "low": low, "high": high},
        "decided": beyond_chance(low, high),
        "flip": each["flip"],
    }


def _truth(
    truth: dict[str, dict[tuple[str, int], float]],
    metric: str,
    k: int,
    choices: list[dict[str, Any]],
) -> dict[str, Any] | None:
    """Return who is truly the best, and what share of that each choice loses; None if unknown."""
    values = {name: each[metric, k] for name, each in truth.items() if (metric, k) in each}
    if not all(each["candidate"] in values for each in choices):
        return None  # such as the truth of ratings
    best = max(values, key=lambda name: values[name])
    regret = {
        each["estimator"]: 1 - values[each["candidate"]] / values[best] if values[best] else 0.0
        for each in choices
    }
    return {"candidate": best, "values": values, "regret": regret}


def _headline(found: dict[str, Any], decisive: dict[str, Any]) -> str:
    """Say what to ship; then what others would have shipped, and in a world who was right."""
    name, rival = decisive["candidate"], decisive["runner_up"]
    if rival is None:
        return f"There is one candidate, {name}: nothing to choose from."
    text = f"Keep the {name}." if name == OLD_SYSTEM else f"Ship {name}."
    if _tied(decisive):
        text = f"Undecided: {name} and {rival} do equally well."
    elif not decisive["decided"]:
        text = f"Undecided: {name} leads, but not beyond chance; {rival} may be as good."
    silent = (*_JUDGES, decisive["estimator"])
    others = [each for each in found["choices"] if each["estimator"] not in silent]
    dissent = {each["estimator"]: each["candidate"] for each in others if each["candidate"] != name}
    robust = {each["candidate"] for each in others if each["estimator"] == "robust-shared"}
    if "standard" in dissent and robust == {name} and decisive["decided"]:
        text += " The robust evaluation ships it too; the standard one would have shipped "
        text += f"{dissent.pop('standard')}."
    elif "standard" in dissent:
        text += f" Standard offline evaluation would have shipped {dissent.pop('standard')}."
    elif others and not dissent and decisive["decided"]:
        text += " Every estimator agrees."
    for estimator, other in dissent.items():
        text += f" One reservation: {_SHIPS[estimator].lower()} prefers {other}."
    if found["truth"]:
        best = found["truth"]["candidate"]
        text += f" In truth {best} is the best."
    return text


def _says(choice: dict[str, Any], metric: str, k: int) -> str:
    label = f"{metric}@{k}" if k else metric
    text = f"{_SHIPS[choice['estimator']]} ships {choice['candidate']}"
    text += f" ({label} {choice['value']:.4f}"
    if choice["low"] is not None:
        text += f" [{choice['low']:.4f}, {choice['high']:.4f}]"
    text += ")"
    if choice["difference"] is None:
        return f"{text}."
    if _tied(choice):
        return f"{text}; {choice['runner_up']} does equally well."
    found = choice["difference"]
    text += f"; its lead over {choice['runner_up']} is {abs(found['value']):.4f}"
    if found["low"] is None:
        return f"{text}, with too few users for an interval."
    least, most = sorted((abs(found["low"]), abs(found["high"])))
    if choice["decided"]:
        return f"{text} [{least:.4f}, {most:.4f}]."
    return f"{text}, which may be chance."


def _tied(choice: dict[str, Any]) -> bool:
    return bool(abs(choice["difference"]["value"]) <= _ROUNDING)


def _turns(choice: dict[str, Any]) -> list[str]:
    if choice["runner_up"] is None or choice["estimator"] == "standard" or _tied(choice):
        return []
    name, rival, flip = choice["candidate"], choice["runner_up"], choice["flip"]
    if not choice["decided"]:
        return []  # what may be chance needs no error to turn
    if flip is None:
        return [f"No error in the odds of exposure would put {rival} before {name}."]
    if flip < 1.01:
        return [f"If the odds of exposure are off by as little as 1%, {rival} may be better."]
    steps = 10 if flip >= 1.1 else 100
    shown = math.floor(flip * steps) / steps
    return [f"{name} stays before {rival} unless the odds of exposure are off by {shown:,}×."]


def _truly(found: dict[str, Any], decisive: dict[str, Any]) -> list[str]:
    """Say what the truth was, and what each choice cost."""
    truth = found["truth"]
    if truth is None:
        return []
    best, values = truth["candidate"], truth["values"]
    text = [f"In truth {best} is the best, with {found['metric']}@{found['k']} {values[best]:.4f}."]
    for estimator in dict.fromkeys(("standard", decisive["estimator"], "robust-shared")):
        if estimator not in truth["regret"]:
            continue
        choice = next(each for each in found["choices"] if each["estimator"] == estimator)
        name, lost = choice["candidate"], truth["regret"][estimator]
        said = f"lost {lost:.1%} of that by its choice"
        if lost == 0:
            said = "chose it" if name == best else "chose one that is as good"
        if values[name] > 0:
            said += (
                f", and promised {choice['value'] / values[name]:.1f} times what is true of {name}"
            )
        text.append(f"{_SHIPS[estimator]} {said}.")
    return text
