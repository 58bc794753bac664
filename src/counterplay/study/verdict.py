"""What an evaluation says in plain words: what to ship, how sure that is, and what would turn it.

Each estimator that all candidates share puts one of them first, and its choice is decided where
that one is ahead of every other beyond chance, all pairs of the estimator judged at once. The
verdict is that of the first of `TRUSTED` that is there, and recommends its choice only where it is
decided. The headline says no more than that: others agree where they choose the same one and are
decided themselves, and where another one is preferred, or a small error in the odds of exposure
would turn the order, the verdict has a reservation. In a world, the truth says who was right, and
what the others' choices lose.

The order of trust goes by what choosing cost where the truth is known. Logged propensities are the
exposure itself. In the 25 worlds of `reproduction/results/estimators.json` the choices of standard,
propensity and popularity lost 2.6, 2.9 and 2.9% of the best true value, which is no difference, and
those of robust-shared 5.9%. Between the three, popularity comes first because its values are near
the truth, where those of standard are several times too high, and because in the ten worlds of the
demo standard lost 3.1% and popularity nothing; docs/guide/estimators.md has all of it.
"""

from __future__ import annotations

import math
from typing import Any

from counterplay.evaluation.old_system import NAME as OLD_SYSTEM
from counterplay.evaluation.propensities import SHARED
from counterplay.metrics.comparison import beyond_chance
from counterplay.metrics.measures import SMALLER_IS_BETTER

TRUSTED = ("logged", "popularity", "propensity", "standard", "robust-shared")  # the first is heeded
_JUDGES = ("oracle",)  # it knows what nobody does, and chooses for nobody
_ROUNDING = 1e-12  # values closer than that are equal
_SLIGHT = 1.25  # odds of exposure are easily off by that factor
_SHIPS = {
    "standard": "Standard offline evaluation",
    "popularity": "Weighting by popularity",
    "propensity": "Weighting by a fitted exposure model",
    "robust-shared": "The robust evaluation",
    "logged": "Weighting by the logged propensities",
    "oracle": "Weighting by the true propensities",
}
_NOT_SURE = "not beyond chance"


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
        "decided": decisive["decided"],
        "leader": decisive["candidate"],
        "recommended": decisive["candidate"] if decisive["decided"] else None,
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
    """Return whom an estimator puts first, and how far that is beyond chance and beyond doubt.

    The runner-up is the nearest rival that it cannot be told apart from, or else the second; the
    flip is the smallest factor that would put a rival, `turned_by`, before it.
    """
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
        "turned_by": None,
    }
    rivals = [_lead(evaluation, same, best["candidate"], each["candidate"]) for each in ranked[1:]]
    if not rivals:
        return found
    nearest = next((each for each in rivals if not each["decided"]), rivals[0])
    weakest = min(rivals, key=lambda each: math.inf if each["flip"] is None else each["flip"])
    turns = {"flip": weakest["flip"], "turned_by": weakest["runner_up"]}
    return found | nearest | (turns if nearest["decided"] else {"turned_by": nearest["runner_up"]})


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
        "decided": beyond_chance(each["p"], each["level"]),
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
        text = f"Undecided: {name} leads, but {_NOT_SURE}; {rival} may be as good."
    silent = (*_JUDGES, decisive["estimator"])
    others = [each for each in found["choices"] if each["estimator"] not in silent]
    text += _agreement([each for each in others if each["candidate"] == name], others, decisive)
    text += "".join(_dissent(each) for each in others if each["candidate"] != name)
    if decisive["decided"] and decisive["flip"] is not None and decisive["flip"] < _SLIGHT:
        text += f" One reservation: {decisive['turned_by']} may be better if the odds of exposure "
        text += f"are off by {_factor(decisive['flip'])}."
    if found["truth"]:
        best = found["truth"]["candidate"]
        text += f" In truth {best} is the best."
    return text


def _agreement(
    agreeing: list[dict[str, Any]], others: list[dict[str, Any]], decisive: dict[str, Any]
) -> str:
    """Say who chooses the same, and how surely; nothing where nothing is decided."""
    if not agreeing or not decisive["decided"]:
        return ""
    sure = [each for each in agreeing if each["decided"]]
    if len(agreeing) == len(others):
        if sure == agreeing:
            return " Every estimator agrees."
        if not sure:
            return f" The others choose it too, but {_NOT_SURE}."
    doubtful = [each for each in agreeing if not each["decided"]]
    text = f" {_listed(sure)} ship{'s' * (len(sure) == 1)} it too." if sure else ""
    if doubtful:
        text += f" {_listed(doubtful)} choose{'s' * (len(doubtful) == 1)} it too, but {_NOT_SURE}."
    return text


def _dissent(choice: dict[str, Any]) -> str:
    """Say what an estimator prefers instead; standard's word is a warning, not a reservation."""
    estimator, other, sure = choice["estimator"], choice["candidate"], choice["decided"]
    if estimator == "standard":
        if sure:
            return f" {_SHIPS[estimator]} would have shipped {other}."
        return f" {_SHIPS[estimator]} puts {other} first, but {_NOT_SURE}."
    said = f" One reservation: {_lower(_SHIPS[estimator])} prefers {other}"
    return f"{said}." if sure else f"{said}, but {_NOT_SURE}."


def _listed(choices: list[dict[str, Any]]) -> str:
    """Name estimators as a sentence does that begins with them."""
    first, *rest = [_SHIPS[each["estimator"]] for each in choices]
    *middle, last = [first, *(_lower(each) for each in rest)]
    return f"{', '.join(middle)} and {last}" if middle else last


def _lower(words: str) -> str:
    return words[:1].lower() + words[1:]


def _says(choice: dict[str, Any], metric: str, k: int) -> str:
    label = f"{metric}@{k}" if k else metric
    name = choice["candidate"]
    text = f"{_SHIPS[choice['estimator']]} "
    text += f"ships {name}" if choice["decided"] else f"puts {name} first"
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
    name, rival, flip = choice["candidate"], choice["turned_by"], choice["flip"]
    if not choice["decided"]:
        return []  # what may be chance needs no error to turn
    if flip is None:
        return [f"No error in the odds of exposure would put {rival} before {name}."]
    if flip < 1.01:
        return [f"If the odds of exposure are off by as little as 1%, {rival} may be better."]
    return [f"{name} stays before {rival} unless the odds of exposure are off by {_factor(flip)}."]


def _factor(flip: float) -> str:
    """Return a factor, rounded down; what is next to nothing is 1.01."""
    steps = 10 if flip >= 1.1 else 100
    return f"{max(1.01, math.floor(flip * steps) / steps):,}×"


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
