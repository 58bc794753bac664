"""How far a lead reaches: where in the box it holds, who objects, and what would decide it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterplay.evaluation.estimators import ESTIMATORS, RANDOMISED
from counterplay.evaluation.old_system import NAME as OLD_SYSTEM
from counterplay.metrics.measures import SMALLER_IS_BETTER
from counterplay.simulation.sequential import users_needed
from counterplay.study.records import OnlinePlan

if TYPE_CHECKING:
    from collections.abc import Callable

    from counterplay.evaluation.records import DialsRecord, EvaluationRecord, Key, LeadMap
    from counterplay.study.records import Choice

    Dials = tuple[float, float]

_OF_IMPRESSIONS = {name for name, each in ESTIMATORS.items() if each.needs == "impressions"}
_MOST_USERS = 10_000_000  # of an arm; a difference that needs more is not worth a test


def holds(dials: DialsRecord, leads: list[LeadMap]) -> str | None:
    """Say on which part of the box a candidate leads all rivals beyond chance; None if on none.

    Args:
        dials: The box, and the pairs that leads are known at.
        leads: Of the candidate over each rival.
    """
    ahead = {
        pair: all(each.low[place] is not None and each.low[place] > 0 for each in leads)  # type: ignore[operator]
        for place, pair in enumerate(dials.dials)
        if pair in dials.box
    }

    def reach(value: Callable[[Dials], float]) -> float | None:
        """Return the last value up to which it leads, whatever the other dial is."""
        last = None
        for step in sorted({value(pair) for pair in ahead}):
            if not all(led for pair, led in ahead.items() if value(pair) == step):
                break
            last = step
        return last

    if (taste := reach(lambda pair: pair[1])) is not None and taste >= 0:
        return f"unless {_more_than(taste)} of the personal signal in the clicks is exposure"
    if (most := reach(lambda pair: pair[0])) is not None and most >= 0:
        return f"unless {_more_than(most)} of popularity is exposure"
    if (least := reach(lambda pair: -pair[0])) is not None and -least <= 1:
        return f"unless less than {-least:.0%} of popularity is exposure"
    return None


def _more_than(share: float) -> str:
    return f"more than {share:.0%}" if share else "part"


def left(leads: list[LeadMap], dials: DialsRecord) -> tuple[str, ...]:
    """Return the rivals that a candidate does not lead on the whole box."""
    places = [place for place, pair in enumerate(dials.dials) if pair in dials.box]
    return tuple(
        each.second
        for each in leads
        if not all(each.low[place] is not None and each.low[place] > 0 for place in places)  # type: ignore[operator]
    )


def plan(evaluation: EvaluationRecord, key: Key, decisive: Choice) -> OnlinePlan | None:
    """Return the online test that would tell a choice from its nearest rival.

    The difference is that of the estimator that decides if it knows exposure, else that of dials. A
    user's outcome is 0 to 1, so its variance is at most that of a coin with the same mean.
    """
    by = decisive.estimator if ESTIMATORS[decisive.estimator].needs else "dials"
    values = {
        each.candidate: each.value
        for each in evaluation.estimates
        if each.key == key and each.estimator == by
    }
    candidate, rival = decisive.candidate, decisive.runner_up
    if candidate not in values or rival is None or rival not in values:
        return None
    mean, difference = values[rival], values[candidate] - values[rival]
    users = None
    if difference and 0 < mean < 1:
        needed = users_needed(mean, mean * (1 - mean), abs(difference), relative=False)
        users = needed if needed <= _MOST_USERS else None
    return OnlinePlan(candidate=candidate, rival=rival, difference=difference, users=users)


def next_steps(rest: tuple[str, ...], test: OnlinePlan | None, known: set[str]) -> tuple[str, ...]:
    """Say what to do where nothing is decided: who is left, and what would decide.

    On random rows the two are compared row by row, so that as many clicks do as users of an arm.
    `known` are the estimators that the evaluation has.
    """
    said = [f"Still in the race: {', '.join(rest)}."] if len(rest) > 2 else []
    if test is not None and test.users is not None:
        said.append(
            f"An online test of {test.candidate} against {test.rival} would decide: about "
            f"{test.users:,} users in each arm, if the difference is {test.difference:+.4f}."
        )
        if RANDOMISED not in known:
            said.append(
                f"So would about {test.users:,} clicks on items that were shown at random; fewer "
                "already narrow down what is exposure."
            )
        if not known & _OF_IMPRESSIONS:
            said.append("A log of all that was shown, clicked or not, may decide without a test.")
    elif test is not None:
        said.append(
            f"{test.candidate} and {test.rival} are so close that no online test of a usual size "
            "would tell them apart; choose by other reasons."
        )
    return tuple(said)


def objection(evaluation: EvaluationRecord, decisive: Choice, key: Key) -> str | None:
    """Say why a choice cannot be followed, whatever its lead; None where nothing objects.

    Clicks favour what showed them: in worlds 50 of 82 leads of the old system that held over the
    whole box were wrong (`reproduction/results/trials-opponent.md`).
    """
    name = decisive.candidate
    if name == OLD_SYSTEM and not ESTIMATORS[decisive.estimator].needs:
        return "clicks favour the system that collected them: test online."
    random = evaluation.dials.random if evaluation.dials else None
    if random is not None and random.exposure_only and not ESTIMATORS[decisive.estimator].needs:
        return "clicks show exposure, not taste: test online."
    sign = -1 if key[0] in SMALLER_IS_BETTER else 1
    for each in evaluation.comparisons:
        if (each.estimator, each.key) == (RANDOMISED, key) and each.decided:
            ahead, behind = (each.first, each.second)[:: 1 if sign * each.value > 0 else -1]
            if behind == name:
                return f"random rows put {ahead} before it: test online."
    return None
