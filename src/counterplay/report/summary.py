"""The top of the page: the verdict, and what each estimator would ship."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from counterplay.report.blocks import Card, Chart, Series
from counterplay.report.glossary import candidates_of
from counterplay.report.leads import lead_chart
from counterplay.report.words import best_of, ends, listed, metric, number, share, turning

if TYPE_CHECKING:
    from collections.abc import Iterable

    from counterplay.study.records import Choice, Findings, Truth, Verdict

TRUTH = "the truth"
_FEW = 6  # names that a headline can hold
_SENTENCES = 3  # at the top, the headline's among them


@dataclass(frozen=True, slots=True)
class Summary:
    """The verdict: a picture, a few sentences, and who the candidates are."""

    headline: str
    sentences: tuple[str, ...]
    metric: str
    choices: tuple[Card, ...]
    picture: Chart | None = None
    candidates: dict[str, str] = field(default_factory=dict)


def series_of(record: Findings, names: Iterable[str]) -> list[Series]:
    """Return the candidates as series, each with the same look on every chart of the page."""
    known = [each.candidate for each in record.estimates] + [run.name for run in record.runs]
    places = {name: place for place, name in enumerate(dict.fromkeys(known))}
    return [Series(name, places.setdefault(name, len(places))) for name in names]


def summary(record: Findings) -> Summary:
    """Return what stands at the top: with the headline three sentences at most."""
    verdict, shown = record.verdict, metric(*record.key) if record.key else ""
    picture, who = lead_chart(record), candidates_of(record)
    if verdict:
        said = _brief(verdict.headline, (*verdict.sentences[:1], *verdict.reservations))
        return Summary(verdict.headline, said, shown, choices_of(record), picture, who)
    names = [run.name for run in record.runs]
    choices = choices_of(record)
    trained = f"{len(names)} run{'s' if len(names) != 1 else ''}"
    if 0 < len(names) <= _FEW:
        trained += f": {listed(names)}"
    if choices:
        text = "No verdict was asked for: below is what each estimator puts first."
    elif record.estimates:
        text = "One candidate has been evaluated: there is nothing to choose from."
    else:
        text = "Nothing has been evaluated on test rows yet: this page shows how training went."
    return Summary(f"{trained}.", (text,), shown, choices, picture, who)


def _brief(headline: str, sentences: tuple[str, ...]) -> tuple[str, ...]:
    """Return as many sentences as make three with those of the headline."""
    room = _SENTENCES - len(re.findall(r"[.!?](?=\s|$)", headline))
    return sentences[: max(room, 0)]


def choices_of(record: Findings) -> tuple[Card, ...]:
    """Return what each estimator would ship, or puts first where there is no verdict."""
    return _decided(record.verdict) if record.verdict else _leaders(record)


def _decided(verdict: Verdict) -> tuple[Card, ...]:
    truth = verdict.truth
    found = [_card(each, truth) for each in verdict.choices]
    if truth:
        value = number(truth.values[truth.candidate])
        note = "what users would truly have liked: only a simulated world knows it"
        found.append(Card(TRUTH, "truly best is", truth.candidate, value, notes=(note,)))
    return tuple(found)


def _card(each: Choice, truth: Truth | None) -> Card:
    notes, right = _doubt(each), None
    if truth:
        lost = truth.regret[each.estimator]
        right = each.candidate == truth.candidate or lost == 0
        notes += [f"loses {share(lost)} of the best true value"] if lost else []
    return Card(
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


def _leaders(record: Findings) -> tuple[Card, ...]:
    """Return who has the best value under each estimator, where there is no verdict."""
    choices: list[Card] = []
    key = record.key
    if key is None:
        return ()
    for estimator, by_name in record.by_estimator(key).items():
        best = best_of({name: each.value for name, each in by_name.items()}, key)
        if best is not None:
            found = by_name[best]
            shown = "" if found.low is None else ends(found)
            choices.append(Card(estimator, "puts first", best, number(found.value), shown))
    return tuple(choices)
