"""The picture at the top: how far the leading candidate is before each rival."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterplay.evaluation.estimators import ESTIMATORS, trusted
from counterplay.metrics.measures import SMALLER_IS_BETTER
from counterplay.report import figures
from counterplay.report.blocks import Chart, Panel, Table
from counterplay.report.words import best_of, ends, interval, measured, metric, number

if TYPE_CHECKING:
    from counterplay.evaluation.records import Comparison, EvaluationRecord, Key
    from counterplay.study.records import Findings

_MOST = 12  # rivals in the picture; the paired differences have all


def lead_chart(record: Findings, name: str = "lead") -> Chart | None:
    """Return the lead of the leading candidate; its values where it has no rival, None if none."""
    found, key = record.evaluation, record.key
    if found is None or key is None:
        return None
    estimator = record.verdict.estimator if record.verdict else follows(found, key)
    leader = record.verdict.leader if record.verdict else first_of(found, key, estimator)
    chart = chart_of(found, key, estimator, leader, truth=record.truth, name=name)
    return chart or _values(found, key, name)


def follows(found: EvaluationRecord, key: Key) -> str:
    """Return the most trusted estimator that compares candidates, or else the first there is."""
    there = {each.estimator for each in found.comparisons if each.key == key}
    first = next(each.estimator for each in found.estimates if each.key == key)
    return next((each for each in trusted() if each in there), first)


def first_of(found: EvaluationRecord, key: Key, estimator: str) -> str:
    """Return whom an estimator puts first."""
    values = {
        each.candidate: each.value
        for each in found.estimates
        if each.key == key and each.estimator == estimator
    }
    return best_of(values, key) or next(iter(values))


def chart_of(
    found: EvaluationRecord,
    key: Key,
    estimator: str,
    leader: str,
    *,
    truth: dict[str, float],
    name: str = "lead",
) -> Chart | None:
    """Return the leader's lead over each rival, the nearest first; None where it has no rival."""
    points = [
        _seen_from(leader, each)
        for each in found.comparisons
        if each.key == key and each.estimator == estimator and leader in (each.first, each.second)
    ]
    if not points:
        return None
    points.sort(key=lambda point: point[1])
    n, points = len(points), points[:_MOST]
    sign = -1 if key[0] in SMALLER_IS_BETTER else 1
    truths = [
        sign * (truth[leader] - truth[rival]) if {leader, rival} <= set(truth) else None
        for rival, *_ in points
    ]
    better = "smaller" if sign < 0 else "larger"
    unit = f"lead in {metric(*key)}" if sign > 0 else f"{metric(*key)} saved"
    drawn, height = figures.leads(points, unit, truths)
    known = any(value is not None for value in truths)
    heads = ("rival", "lead", "interval", "told apart") + (("in truth",) if known else ())
    cells = [
        (rival, number(value, "+"), interval(low, high, "+"), figures.state_of(low, high))
        + ((number(true, "+"),) if known else ())
        for (rival, value, low, high), true in zip(points, truths, strict=True)
    ]
    reading = (
        f"Right of the line {leader} is ahead, with a {better} {metric(*key)}; a bar that crosses "
        f"the line does not tell the two apart. {_bars(estimator)}"
    )
    if n > len(points):
        reading += f" The nearest {len(points)} of {n} rivals."
    if known:
        reading += " An upright stroke is the truth."
    title = f"Lead of {leader} over each rival in {metric(*key)}"
    table = Table.of(title, heads, cells, {"rival", "told apart"})
    return Chart(name, title, reading, [Panel("", drawn, height)], [table])


def _bars(estimator: str) -> str:
    """Say what a bar reaches over."""
    found = ESTIMATORS.get(estimator)
    if found is not None and found.propensities is None and not found.needs:
        return "Bars reach over every exposure that is held possible, and over chance."
    return f"Bars are intervals over users, by the estimator {estimator}, for all rivals at once."


def _seen_from(leader: str, each: Comparison) -> figures.Point:
    """Return the rival, and how much better the leader is than it."""
    better = -1 if each.metric in SMALLER_IS_BETTER else 1
    sign = better * (1 if each.first == leader else -1)
    rival = each.second if each.first == leader else each.first
    if each.low is None or each.high is None:
        return rival, sign * each.value, None, None
    low, high = sorted((sign * each.low, sign * each.high))
    return rival, sign * each.value, low, high


def _values(found: EvaluationRecord, key: Key, name: str) -> Chart:
    """Return the values by estimator, where there is nothing to compare."""
    several = len({each.candidate for each in found.estimates}) > 1
    own = [each for each in found.estimates if each.key == key][:_MOST]
    labels = [f"{each.candidate}, {each.estimator}" if several else each.estimator for each in own]
    points = [
        (label, each.value, each.low, each.high) for label, each in zip(labels, own, strict=True)
    ]
    drawn, height = figures.dots(points, None, measured(*key))
    cells = [
        (label, number(each.value), ends(each)) for label, each in zip(labels, own, strict=True)
    ]
    title = f"{metric(*key)} by estimator"
    table = Table.of(title, ("estimator", "value", "interval"), cells, {"estimator"})
    reading = "A dot is an estimate and the line through it its interval."
    return Chart(name, title, reading, [Panel("", drawn, height)], [table])
