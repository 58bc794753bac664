"""The top of the page: the verdict, and what each estimator would ship."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from counterplay.metrics.measures import SMALLER_IS_BETTER
from counterplay.report.blocks import Series
from counterplay.report.words import interval, listed, metric, number, share, turning

if TYPE_CHECKING:
    from collections.abc import Iterable

TRUTH = "the truth"
_FEW = 6  # names that a headline can hold
Key = tuple[str, int]  # a metric and its cutoff


@dataclass(frozen=True, slots=True)
class Choice:
    """What one estimator, or the truth, puts first.

    Attributes:
        name: Of the estimator.
        verb: What it does.
        candidate: What it puts first.
        value: Its value.
        interval: Of the value, where there is one.
        notes: What else is to be known of it.
        right: Whether it is truly the best; None where nobody knows.
    """

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
    choices: tuple[Choice, ...]


def headline_metric(record: dict[str, Any]) -> Key | None:
    """Return the metric and cutoff that decide: the verdict's, or the first estimate's."""
    found = record.get("verdict") or next(iter(estimates_of(record)), None)
    return None if found is None else (found["metric"], found["k"])


def estimates_of(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Return all estimates of a record."""
    return list((record.get("evaluation") or {}).get("estimates") or ())


def series_of(record: dict[str, Any], names: Iterable[str]) -> list[Series]:
    """Return the candidates as series, each with the same look on every chart of the page."""
    runs = (run["name"] for run in record.get("runs") or ())
    known = dict.fromkeys([*(each["candidate"] for each in estimates_of(record)), *runs])
    places = {name: place for place, name in enumerate(known)}
    return [Series(name, places.setdefault(name, len(places))) for name in names]


def by_estimator(record: dict[str, Any], key: Key) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the estimates at one metric, by estimator and candidate."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for each in estimates_of(record):
        if (each["metric"], each["k"]) == key:
            found.setdefault(each["estimator"], {})[each["candidate"]] = each
    return found


def best_of(values: dict[str, float], key: Key) -> str | None:
    """Return whose value is the best, the first of equals; None where there is no choice."""
    if len(values) < 2:
        return None
    return (min if key[0] in SMALLER_IS_BETTER else max)(values, key=lambda name: values[name])


def truth_of(record: dict[str, Any]) -> dict[str, float]:
    """Return the true values of the candidates at the metric that decides."""
    return dict(((record.get("verdict") or {}).get("truth") or {}).get("values") or {})


def summary(record: dict[str, Any]) -> Summary:
    """Return what stands at the top."""
    verdict = record.get("verdict")
    key = headline_metric(record)
    shown = "" if key is None else metric(*key)
    if verdict:
        return Summary(
            verdict["headline"], tuple(verdict.get("sentences") or ()), shown, _decided(verdict)
        )
    names = [run["name"] for run in record.get("runs") or ()]
    choices = _leaders(record)
    trained = f"{len(names)} run{'s' if len(names) != 1 else ''}"
    if 0 < len(names) <= _FEW:
        trained += f": {listed(names)}"
    if choices:
        said = "No verdict was asked for: below is what each estimator puts first."
    elif estimates_of(record):
        said = "One candidate has been evaluated: there is nothing to choose from."
    else:
        said = "Nothing has been evaluated on test rows yet: this page shows how training went."
    return Summary(f"{trained}.", (said,), shown, choices)


def _decided(verdict: dict[str, Any]) -> tuple[Choice, ...]:
    truth = verdict.get("truth") or {}
    regrets = truth.get("regret") or {}
    found = []
    for each in verdict.get("choices") or ():
        notes = _doubt(each)
        regret = regrets.get(each["estimator"])
        if regret:
            notes.append(f"loses {share(regret)} of the best true value")
        found.append(
            Choice(
                each["estimator"],
                "would ship" if each.get("decided") else "puts first",
                each["candidate"],
                number(each["value"]),
                _interval(each),
                tuple(notes),
                _right(each, truth) if truth else None,
            )
        )
    if truth:
        value = number(truth.get("values", {}).get(truth["candidate"]))
        note = "what users would truly have liked: only a simulated world knows it"
        found.append(Choice(TRUTH, "truly best is", truth["candidate"], value, notes=(note,)))
    return tuple(found)


def _right(each: dict[str, Any], truth: dict[str, Any]) -> bool:
    """Tell whether a choice is truly the best, or as good as that."""
    lost = (truth.get("regret") or {}).get(each["estimator"])
    return bool(each["candidate"] == truth["candidate"] or lost == 0)


def _doubt(each: dict[str, Any]) -> list[str]:
    """Say how sure a choice is, and what could turn it."""
    runner_up, notes = each.get("runner_up"), []
    if runner_up is not None:
        difference = each.get("difference") or {}
        ahead = number(difference.get("value"), "+")
        if each.get("decided"):
            notes.append(f"ahead of {runner_up} by {ahead}, beyond chance")
        else:
            notes.append(f"not told apart from {runner_up} ({ahead})")
    if each["estimator"] == "standard":
        notes.append("knows no exposure, so no Γ can be named")
    elif runner_up is not None and each.get("decided"):
        notes.append(f"turns {turning(each.get('flip'))}")
    return notes


def _interval(each: dict[str, Any]) -> str:
    known = each.get("low") is not None and each.get("high") is not None
    return interval(each["low"], each["high"]) if known else ""


def _leaders(record: dict[str, Any]) -> tuple[Choice, ...]:
    """Return who has the best value under each estimator, where there is no verdict."""
    key = headline_metric(record)
    choices: list[Choice] = []
    if key is None:
        return ()
    for estimator, by_name in by_estimator(record, key).items():
        values = {name: each["value"] for name, each in by_name.items()}
        best = best_of(values, key)
        if best is not None:
            value, ends = number(values[best]), _interval(by_name[best])
            choices.append(Choice(estimator, "puts first", best, value, ends))
    return tuple(choices)
