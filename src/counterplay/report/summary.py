"""The top of the page: the verdict, and what each estimator would ship."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from counterplay.metrics.measures import SMALLER_IS_BETTER
from counterplay.report.blocks import Series
from counterplay.report.words import ends, listed, metric, number, share, turning

if TYPE_CHECKING:
    from collections.abc import Iterable

    from counterplay.evaluation.records import Key
    from counterplay.study.records import Choice, Findings, Truth, Verdict

TRUTH = "the truth"
_FEW = 6  # names that a headline can hold


@dataclass(frozen=True, slots=True)
class Glance:
    """What an estimator, or the truth, puts first; `right` is None where nobody knows the truth."""

    name: str
    verb: str
    candidate: str
    value: str
    interval: str = ""
    notes: tuple[str, ...] = ()
    right: bool | None = None


@dataclass(frozen=True, slots=True)
class Summary:
    """The verdict in words, and the choices at a glance."""

    headline: str
    sentences: tuple[str, ...]
    metric: str
    choices: tuple[Glance, ...]


def series_of(record: Findings, names: Iterable[str]) -> list[Series]:
    """Return the candidates as series, each with the same look on every chart of the page."""
    known = [each.candidate for each in record.estimates] + [run.name for run in record.runs]
    places = {name: place for place, name in enumerate(dict.fromkeys(known))}
    return [Series(name, places.setdefault(name, len(places))) for name in names]


def best_of(values: dict[str, float], key: Key) -> str | None:
    """Return whose value is the best, the first of equals; None where there is no choice."""
    if len(values) < 2:
        return None
    return (min if key[0] in SMALLER_IS_BETTER else max)(values, key=lambda name: values[name])


def summary(record: Findings) -> Summary:
    """Return what stands at the top."""
    verdict, shown = record.verdict, metric(*record.key) if record.key else ""
    if verdict:
        return Summary(verdict.headline, verdict.said, shown, _decided(verdict))
    names = [run.name for run in record.runs]
    choices = _leaders(record)
    trained = f"{len(names)} run{'s' if len(names) != 1 else ''}"
    if 0 < len(names) <= _FEW:
        trained += f": {listed(names)}"
    if choices:
        said = "No verdict was asked for: below is what each estimator puts first."
    elif record.estimates:
        said = "One candidate has been evaluated: there is nothing to choose from."
    else:
        said = "Nothing has been evaluated on test rows yet: this page shows how training went."
    return Summary(f"{trained}.", (said,), shown, choices)


def _decided(verdict: Verdict) -> tuple[Glance, ...]:
    truth = verdict.truth
    found = [_glance(each, truth) for each in verdict.choices]
    if truth:
        value = number(truth.values[truth.candidate])
        note = "what users would truly have liked: only a simulated world knows it"
        found.append(Glance(TRUTH, "truly best is", truth.candidate, value, notes=(note,)))
    return tuple(found)


def _glance(each: Choice, truth: Truth | None) -> Glance:
    notes, right = _doubt(each), None
    if truth:
        lost = truth.regret[each.estimator]
        right = each.candidate == truth.candidate or lost == 0
        notes += [f"loses {share(lost)} of the best true value"] if lost else []
    return Glance(
        each.estimator,
        "would ship" if each.decided else "puts first",
        each.candidate,
        number(each.value),
        "" if each.low is None else ends(each),
        tuple(notes),
        right,
    )


def _doubt(each: Choice) -> list[str]:
    """Say how sure a choice is, and what could turn it."""
    notes = []
    if each.runner_up is not None:
        ahead = number(each.difference.value if each.difference else None, "+")
        if each.decided:
            notes.append(f"ahead of {each.runner_up} by {ahead}, beyond chance")
        else:
            notes.append(f"not told apart from {each.runner_up} ({ahead})")
    if each.estimator == "standard":
        notes.append("knows no exposure, so no Γ can be named")
    elif each.runner_up is not None and each.decided:
        notes.append(f"turns {turning(each.flip)}")
    return notes


def _leaders(record: Findings) -> tuple[Glance, ...]:
    """Return who has the best value under each estimator, where there is no verdict."""
    choices: list[Glance] = []
    key = record.key
    if key is None:
        return ()
    for estimator, by_name in record.by_estimator(key).items():
        best = best_of({name: each.value for name, each in by_name.items()}, key)
        if best is not None:
            found = by_name[best]
            shown = "" if found.low is None else ends(found)
            choices.append(Glance(estimator, "puts first", best, number(found.value), shown))
    return tuple(choices)
