"""What an evaluation says in plain words: what to ship, how sure that is, and what would turn it.

Each estimator that all candidates share puts one of them first, and its choice is decided where
that one is ahead of every other beyond chance, all rivals judged at once. The verdict is that of
the most trusted estimator that is there (`counterplay.evaluation.estimators` has the order), and
recommends its choice only where it is decided. From clicks alone that is the worst case over a box
of dials: "Ship" needs a lead whichever of those exposures is right. A lead that holds on a part of
the box is said with that part. Otherwise the verdict names who is left, and the online test that
would decide. Random rows are followed before all others where they decide by themselves; where they
do not, they still set the box. Nothing is recommended that they put behind another beyond chance,
nor anything that rests on clicks if by them clicks show exposure and not taste.
In a world, the truth says who was right, and what the others' choices lose.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from counterplay.display import named as shown
from counterplay.evaluation.estimators import ESTIMATORS, RANDOMISED, trusted
from counterplay.evaluation.old_system import NAME as OLD_SYSTEM
from counterplay.evaluation.worst_case import ROBUST
from counterplay.metrics.measures import SMALLER_IS_BETTER
from counterplay.study.reach import holds, left, next_steps, objection, plan
from counterplay.study.records import Choice, Lead, Truth, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from counterplay.evaluation.deployment import TrueValue
    from counterplay.evaluation.records import Comparison, EvaluationRecord, Key, LeadMap
    from counterplay.evaluation.segments import Followed

_ROUNDING = 1e-12  # values closer than that are equal
_SLIGHT = 1.25  # odds of exposure are easily off by that factor
_FEW_ROWS = 200  # to judge what is personal by
_NOT_SURE = "not beyond chance"


def verdict(evaluation: EvaluationRecord, truth: Sequence[TrueValue] | None = None) -> Verdict:
    """Return the verdict on an evaluation of several candidates.

    Args:
        evaluation: Of `counterplay.compare`.
        truth: In a world, what each candidate's ranking is truly worth.
    """
    key = evaluation.estimates[0].key
    named = dict.fromkeys(each.estimator for each in evaluation.estimates)
    choices = tuple(
        _choice(evaluation, estimator, key) for estimator in named if ESTIMATORS[estimator].shared
    )
    by_estimator = {each.estimator: each for each in choices}
    decisive = _decisive(by_estimator)
    doubt = objection(evaluation, decisive, key)
    if doubt:
        decisive = decisive.model_copy(update={"decided": False})
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
    others = [
        each
        for each in choices
        if ESTIMATORS[each.estimator].trust and each.estimator != decisive.estimator
    ]
    may_be = "which may be chance"
    if doubt or decisive.estimator == ROBUST:
        held = "which does not hold under every exposure"
        may_be = "which may be exposure alone" if doubt else held
    return found.model_copy(
        update={
            **_undecided(evaluation, decisive, key),
            "headline": _headline(evaluation, found, decisive, doubt),
            "reservations": tuple(_reservations(evaluation, decisive, others, doubt)),
            "sentences": (
                _says(decisive, key, may_be),
                *(_turns(decisive) if decisive.flip is None or decisive.flip >= _SLIGHT else ()),
                *_truly(found, decisive),
            ),
        }
    )


def followed(evaluation: EvaluationRecord) -> Followed:
    """Return what the verdict on an evaluation follows."""
    from counterplay.evaluation.segments import Followed

    found = verdict(evaluation)
    choice = next(each for each in found.choices if each.estimator == found.estimator)
    return Followed(found.estimator, found.key, found.leader, choice.runner_up)


def _decisive(by_estimator: dict[str, Choice]) -> Choice:
    """Return the choice to follow: of the most trusted estimator; random rows only if decided."""
    found = [by_estimator[name] for name in trusted() if name in by_estimator]
    return next((each for each in found if each.estimator != RANDOMISED or each.decided), found[0])


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


def _leads(evaluation: EvaluationRecord, name: str, key: Key) -> list[LeadMap]:
    """Return the maps of a candidate's leads."""
    leads = evaluation.dials.leads if evaluation.dials else ()
    return [each for each in leads if each.key == key and each.first == name]


def _undecided(evaluation: EvaluationRecord, decisive: Choice, key: Key) -> dict[str, object]:
    """Return who may be the best, and the test that would decide; nothing where that is known."""
    if decisive.decided or decisive.runner_up is None:
        return {}
    name, rival = decisive.candidate, decisive.runner_up
    rivals: tuple[str, ...] = (rival,)
    if decisive.estimator == ROBUST and evaluation.dials:
        rivals = left(_leads(evaluation, name, key), evaluation.dials) or rivals
    rest, test = (name, *rivals), plan(evaluation, key, decisive)
    known = {each.estimator for each in evaluation.estimates}
    return {"left": rest, "online": test, "next_steps": next_steps(rest, test, known)}


def _headline(
    evaluation: EvaluationRecord, found: Verdict, decisive: Choice, doubt: str | None
) -> str:
    """Say what to ship, or that it is not decided, and why; in a world, who was right."""
    name, rival = decisive.candidate, decisive.runner_up
    if rival is None:
        return f"There is one candidate, {name}: nothing to choose from."
    text = f"Keep the {name}." if name == OLD_SYSTEM else f"Ship {name}."
    if _tied(decisive):
        text = f"Undecided: {name} and {rival} do equally well."
    elif not decisive.decided:
        leads = _leads(evaluation, name, found.key)
        part = None
        if doubt:
            return f"Undecided: {name} is first, but {doubt}{_in_truth(found)}"
        text = f"Undecided: {name} is first, but {_NOT_SURE} against {rival}."
        if decisive.estimator == ROBUST and evaluation.dials:
            part = holds(evaluation.dials, leads)
            text = f"Undecided: {name} is first on average, but {rival} may be as good."
        if part is not None:
            text = f"{name} leads {part}. Otherwise {rival} may be better."
    return text + _in_truth(found)


def _in_truth(found: Verdict) -> str:
    return f" In truth {found.truth.candidate} is the best." if found.truth else ""


def _reservations(
    evaluation: EvaluationRecord, decisive: Choice, others: list[Choice], doubt: str | None
) -> list[str]:
    """Say what speaks against the choice."""
    if decisive.runner_up is None:
        return []
    said = [doubt[0].upper() + doubt[1:]] if doubt else []
    said += [_dissent(each) for each in others if each.candidate != decisive.candidate]
    if decisive.flip is not None and decisive.flip < _SLIGHT:
        said += _turns(decisive)
    if decisive.estimator == "standard":
        said.append("It takes everything as shown: what exposure did to this lead is not known.")
    dials = evaluation.dials
    if decisive.estimator == ROBUST and dials is not None and dials.n_fitted < _FEW_ROWS:
        said.append(
            f"What is personal in the clicks was judged by {dials.n_fitted:,} rows only; hold out "
            "more validation rows."
        )
    return said


def _dissent(choice: Choice) -> str:
    """Say what an estimator prefers instead, and how surely."""
    title, other = ESTIMATORS[choice.estimator].title, choice.candidate
    if choice.decided:
        return f"{title} would ship {other}."
    return f"{title} puts {other} first, but {_NOT_SURE}."


def _says(choice: Choice, key: Key, may_be: str = "which may be chance") -> str:
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
    return f"{text}, {may_be}."


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
    for estimator in dict.fromkeys(("standard", "popularity", decisive.estimator)):
        if estimator not in truth.regret:
            continue
        choice = next(each for each in found.choices if each.estimator == estimator)
        name, lost = choice.candidate, truth.regret[estimator]
        said = f"lost {lost:.1%} of that by its choice"
        if lost == 0:
            said = "chose it" if name == best else "chose one that is as good"
        text.append(
            f"{ESTIMATORS[estimator].title} {said}{_over(choice.value, values[name], name)}."
        )
    return text


def _over(value: float, true: float, name: str) -> str:
    """Say how far a value is from the truth."""
    if not (value > 0 and true > 0):
        return ""
    factor = value / true
    if 0.95 <= factor <= 1.05:
        return f", and estimated {name} within 5% of its true value"
    way, times = ("over", factor) if factor > 1 else ("under", 1 / factor)
    return f", and {way}estimated {name} by a factor of {times:.1f}"
