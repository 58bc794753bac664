"""What an evaluation says in plain words: what to ship, how sure that is, and what would turn it.

Each estimator that all candidates share puts one of them first, and its choice is decided where
that one is ahead of every other beyond chance, all pairs of the estimator judged at once. The
verdict is that of the most trusted one that is there (`counterplay.evaluation.estimators` has the
order), and recommends its choice only where it is decided. The headline says no more than that:
others agree where they choose the same one and are decided themselves, and where another one is
preferred, or a small error in the odds of exposure would turn the order, the verdict has a
reservation. In a world, the truth says who was right, and what the others' choices lose.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from counterplay.display import named as shown
from counterplay.evaluation.estimators import ESTIMATORS, trusted
from counterplay.evaluation.old_system import NAME as OLD_SYSTEM
from counterplay.metrics.measures import SMALLER_IS_BETTER
from counterplay.study.records import Choice, Lead, Truth, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from counterplay.evaluation.deployment import TrueValue
    from counterplay.evaluation.records import Comparison, EvaluationRecord, Key

_ROUNDING = 1e-12  # values closer than that are equal
_SLIGHT = 1.25  # odds of exposure are easily off by that factor
_NOT_SURE = "not beyond chance"


def verdict(evaluation: EvaluationRecord, truth: Sequence[TrueValue] | None = None) -> Verdict:
    """Return the verdict on an evaluation of several candidates.

    Args:
        evaluation: Of `counterplay.compare_runs`.
        truth: In a world, what each candidate's ranking is truly worth.
    """
    key = evaluation.estimates[0].key
    named = dict.fromkeys(each.estimator for each in evaluation.estimates)
    choices = tuple(
        _choice(evaluation, estimator, key) for estimator in named if ESTIMATORS[estimator].shared
    )
    by_estimator = {each.estimator: each for each in choices}
    decisive = by_estimator[next(name for name in trusted() if name in by_estimator)]
    found = Verdict(
        metric=key[0],
        k=key[1],
        smaller_is_better=key[0] in SMALLER_IS_BETTER,
        estimator=decisive.estimator,
        decided=decisive.decided,
        leader=decisive.candidate,
        recommended=decisive.candidate if decisive.decided else None,
        choices=choices,
        truth=None if truth is None else _truth(truth, key, choices),
    )
    sentences = (
        *(_says(each, key) for each in choices if ESTIMATORS[each.estimator].trust),
        *_turns(decisive),
        *_truly(found, decisive),
    )
    return found.model_copy(update={"headline": _headline(found, decisive), "sentences": sentences})


def _choice(evaluation: EvaluationRecord, estimator: str, key: Key) -> Choice:
    """Return whom an estimator puts first, and how sure that is; see `Choice`."""
    sign = -1 if key[0] in SMALLER_IS_BETTER else 1
    ranked = sorted(
        (each for each in evaluation.estimates if each.key == key and each.estimator == estimator),
        key=lambda each: -sign * each.value,
    )
    best = ranked[0]
    found = Choice(
        estimator=estimator, candidate=best.candidate, value=best.value, low=best.low,
        high=best.high, n=best.n, ess=best.ess,
    )  # fmt: skip
    compared = [
        each for each in evaluation.comparisons if each.key == key and each.estimator == estimator
    ]
    rivals = [_before(best.candidate, each.candidate, compared) for each in ranked[1:]]
    if not rivals:
        return found
    nearest = next((each for each in rivals if not each.decided), rivals[0])
    weakest = min(rivals, key=lambda each: math.inf if each.flip is None else each.flip)
    turning = weakest if nearest.decided else nearest
    return found.model_copy(
        update={
            "runner_up": nearest.second,
            "difference": Lead(value=nearest.value, low=nearest.low, high=nearest.high),
            "decided": nearest.decided,
            "flip": turning.flip,
            "turned_by": turning.second,
        }
    )


def _before(name: str, rival: str, compared: Sequence[Comparison]) -> Comparison:
    """Return the comparison of two candidates, seen from the first."""
    found = next(each for each in compared if {each.first, each.second} == {name, rival})
    if found.first == name:
        return found
    low, high = (None if end is None else -end for end in (found.high, found.low))
    turned = {"first": name, "second": rival, "value": -found.value, "low": low, "high": high}
    return found.model_copy(update=turned)


def _truth(truth: Sequence[TrueValue], key: Key, choices: Sequence[Choice]) -> Truth | None:
    """Return who is truly the best, and what share of that each choice loses; None if unknown."""
    values = {each.arm: each.value for each in truth if each.key == key}
    if not all(each.candidate in values for each in choices):
        return None  # such as the truth of ratings
    best = max(values, key=lambda name: values[name])
    regret = {
        each.estimator: 1 - values[each.candidate] / values[best] if values[best] else 0.0
        for each in choices
    }
    return Truth(candidate=best, values=values, regret=regret)


def _headline(found: Verdict, decisive: Choice) -> str:
    """Say what to ship; then what others would have shipped, and in a world who was right."""
    name, rival = decisive.candidate, decisive.runner_up
    if rival is None:
        return f"There is one candidate, {name}: nothing to choose from."
    text = f"Keep the {name}." if name == OLD_SYSTEM else f"Ship {name}."
    if _tied(decisive):
        text = f"Undecided: {name} and {rival} do equally well."
    elif not decisive.decided:
        text = f"Undecided: {name} leads, but {_NOT_SURE}; {rival} may be as good."
    judges = [name for name, each in ESTIMATORS.items() if not each.trust]  # and choose for nobody
    silent = (*judges, decisive.estimator)
    others = [each for each in found.choices if each.estimator not in silent]
    text += _agreement([each for each in others if each.candidate == name], others, decisive)
    text += "".join(_dissent(each) for each in others if each.candidate != name)
    if decisive.decided and decisive.flip is not None and decisive.flip < _SLIGHT:
        text += f" One reservation: {decisive.turned_by} may be better if the odds of exposure "
        text += f"are off by {_factor(decisive.flip)}."
    if found.truth:
        best = found.truth.candidate
        text += f" In truth {best} is the best."
    return text


def _agreement(agreeing: list[Choice], others: list[Choice], decisive: Choice) -> str:
    """Say who chooses the same, and how surely; nothing where nothing is decided."""
    if not agreeing or not decisive.decided:
        return ""
    sure = [each for each in agreeing if each.decided]
    if len(agreeing) == len(others):
        if sure == agreeing:
            return " Every estimator agrees."
        if not sure:
            return f" The others choose it too, but {_NOT_SURE}."
    doubtful = [each for each in agreeing if not each.decided]
    text = f" {_listed(sure)} ship{'s' * (len(sure) == 1)} it too." if sure else ""
    if doubtful:
        text += f" {_listed(doubtful)} choose{'s' * (len(doubtful) == 1)} it too, but {_NOT_SURE}."
    return text


def _dissent(choice: Choice) -> str:
    """Say what an estimator prefers instead; standard's word is a warning, not a reservation."""
    estimator, other, sure = choice.estimator, choice.candidate, choice.decided
    if estimator == "standard":
        if sure:
            return f" {ESTIMATORS[estimator].title} would have shipped {other}."
        return f" {ESTIMATORS[estimator].title} puts {other} first, but {_NOT_SURE}."
    said = f" One reservation: {_lower(ESTIMATORS[estimator].title)} prefers {other}"
    return f"{said}." if sure else f"{said}, but {_NOT_SURE}."


def _listed(choices: list[Choice]) -> str:
    """Name estimators as a sentence does that begins with them."""
    first, *rest = [ESTIMATORS[each.estimator].title for each in choices]
    *middle, last = [first, *(_lower(each) for each in rest)]
    return f"{', '.join(middle)} and {last}" if middle else last


def _lower(words: str) -> str:
    return words[:1].lower() + words[1:]


def _says(choice: Choice, key: Key) -> str:
    name = choice.candidate
    text = f"{ESTIMATORS[choice.estimator].title} "
    text += f"ships {name}" if choice.decided else f"puts {name} first"
    text += f" ({shown(*key)} {choice.value:.4f}"
    if choice.low is not None:
        text += f" [{choice.low:.4f}, {choice.high:.4f}]"
    text += ")"
    if choice.difference is None:
        return f"{text}."
    if _tied(choice):
        return f"{text}; {choice.runner_up} does equally well."
    found = choice.difference
    text += f"; its lead over {choice.runner_up} is {abs(found.value):.4f}"
    if found.low is None or found.high is None:
        return f"{text}, with too few users for an interval."
    least, most = sorted((abs(found.low), abs(found.high)))
    if choice.decided:
        return f"{text} [{least:.4f}, {most:.4f}]."
    return f"{text}, which may be chance."


def _tied(choice: Choice) -> bool:
    return choice.difference is not None and abs(choice.difference.value) <= _ROUNDING


def _turns(choice: Choice) -> list[str]:
    if choice.runner_up is None or not ESTIMATORS[choice.estimator].weighs or _tied(choice):
        return []
    name, rival, flip = choice.candidate, choice.turned_by, choice.flip
    if not choice.decided:
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


def _truly(found: Verdict, decisive: Choice) -> list[str]:
    """Say what the truth was, and what each choice cost."""
    truth = found.truth
    if truth is None:
        return []
    best, values = truth.candidate, truth.values
    text = [f"In truth {best} is the best, with {found.metric}@{found.k} {values[best]:.4f}."]
    for estimator in dict.fromkeys(("standard", decisive.estimator, "robust-shared")):
        if estimator not in truth.regret:
            continue
        choice = next(each for each in found.choices if each.estimator == estimator)
        name, lost = choice.candidate, truth.regret[estimator]
        said = f"lost {lost:.1%} of that by its choice"
        if lost == 0:
            said = "chose it" if name == best else "chose one that is as good"
        if values[name] > 0:
            said += f", and promised {choice.value / values[name]:.1f} times what is true of {name}"
        text.append(f"{ESTIMATORS[estimator].title} {said}.")
    return text
