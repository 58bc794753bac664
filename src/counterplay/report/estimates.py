"""Candidates by estimators: values with intervals, differences, and what Γ does to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from counterplay.evaluation.estimators import ESTIMATORS
from counterplay.metrics.comparison import beyond_chance
from counterplay.report import figures
from counterplay.report.blocks import (
    Block,
    Cell,
    Chart,
    Fold,
    Items,
    Matrix,
    Panel,
    Part,
    Section,
    Table,
)
from counterplay.report.summary import (
    Key,
    best_of,
    by_estimator,
    estimates_of,
    headline_metric,
    truth_of,
)
from counterplay.report.words import (
    NONE,
    chance,
    count,
    factor,
    interval,
    measured,
    metric,
    number,
    protocol,
)

if TYPE_CHECKING:
    from collections.abc import Callable

TRUTH = "truth"
_MANY, _MOST = 40, 2000  # rows of differences: more are folded, and more yet left out


def estimates_section(record: dict[str, Any]) -> Section | None:
    """Return candidates by estimators, metric by metric."""
    found = estimates_of(record)
    key = headline_metric(record)
    if not found or key is None:
        return None
    keys = list(dict.fromkeys([key, *((each["metric"], each["k"]) for each in found)]))
    first = next(each for each in found if (each["metric"], each["k"]) == keys[0])
    part = (record.get("evaluation") or {}).get("part") or "test"
    blocks: list[Block] = [_matrix(record, keys[0]), _forest(record, keys[0])]
    notes = (record.get("evaluation") or {}).get("notes") or ()
    if notes:
        blocks.append(Part("With reservations", [Items(list(dict.fromkeys(notes)))]))
    if keys[1:]:
        others = [_matrix(record, each) for each in keys[1:]]
        blocks.append(Fold(f"The other metrics: {', '.join(metric(*k) for k in keys[1:])}", others))
    estimators = dict.fromkeys(each["estimator"] for each in found)
    said = [f"{name} {ESTIMATORS[name].assumes}" for name in estimators if name in ESTIMATORS]
    blocks.append(Fold("What each estimator assumes", [Items(said)]))
    reading = (
        "Each column is one account of what users had been shown, each cell an estimate on "
        f"{part} rows, {protocol(first['protocol'])}, with its {first['level']:.0%} interval over "
        "users. The best of a column is marked; compare within a column, not across."
    )
    return Section("estimates", "Candidates by estimators", reading, blocks)


def _matrix(record: dict[str, Any], key: Key) -> Matrix:
    found = by_estimator(record, key)
    names = list(dict.fromkeys(name for by_name in found.values() for name in by_name))
    columns: dict[str, str] = {}
    rows: dict[str, list[Cell]] = {name: [] for name in names}
    for estimator, by_name in found.items():
        sizes = {(each["n"], each.get("ess")) for each in by_name.values()}
        columns[estimator] = _size(*next(iter(sizes))) if len(sizes) == 1 else ""
        best = best_of({name: each["value"] for name, each in by_name.items()}, key)
        for name in names:
            each = by_name.get(name)
            if each is None:
                rows[name].append(Cell(NONE))
                continue
            own = () if len(sizes) == 1 else (_size(each["n"], each.get("ess")),)
            ends = interval(each["low"], each["high"])
            rows[name].append(Cell(number(each["value"]), (ends, *own), name == best))
    truth = truth_of(record) if key == headline_metric(record) else {}
    if truth:
        columns[TRUTH] = "known in this world"
        for name in names:
            cell = Cell(number(truth.get(name)), (), name == best_of(truth, key))
            rows[name].append(cell)
    return Matrix(metric(*key), "candidate", columns, rows)


def _size(n: int, effective: float | None) -> str:
    return f"{n:,} rows" if effective is None else f"{n:,} rows, {count(effective)} effective"


def _forest(record: dict[str, Any], key: Key) -> Chart:
    """Return the estimates as dots with intervals, a panel an estimator, on scales of their own."""
    panels, rows = [], []
    shown = metric(*key)
    for estimator, by_name in by_estimator(record, key).items():
        found = list(by_name.values())
        names, values = list(by_name), [each["value"] for each in found]
        low, high = [each["low"] for each in found], [each["high"] for each in found]
        panels.append(_dots(estimator, key, names, values, low, high))
        rows += [(estimator, each["candidate"], each) for each in found]
    truth = truth_of(record)
    if truth:
        nothing: list[float | None] = [None] * len(truth)
        panels.append(_dots(TRUTH, key, list(truth), list(truth.values()), nothing, nothing))
    table = Table(
        f"{shown} by estimator and candidate",
        {
            "estimator": [name for name, _, _ in rows] + [TRUTH] * len(truth),
            "candidate": [name for _, name, _ in rows] + list(truth),
            "value": [number(each["value"]) for _, _, each in rows]
            + [number(value) for value in truth.values()],
            "interval": [interval(each["low"], each["high"]) for _, _, each in rows]
            + [NONE] * len(truth),
        },
        {"estimator", "candidate"},
    )
    reading = (
        "A dot is an estimate and the line through it its interval. Each panel has its own scale: "
        "look at the order of the dots, and at how far the lines overlap. The diamond is the one "
        "that this estimator puts first."
    )
    return Chart("forest", f"Who is ahead in {shown}", reading, panels, [table])


def _dots(
    title: str,
    key: Key,
    names: list[str],
    values: list[float],
    low: list[float | None],
    high: list[float | None],
) -> Panel:
    best = best_of(dict(zip(names, values, strict=True)), key)
    hover = [
        f"{figures.text(name)}<br>{number(value)}"
        + (f"<br>{interval(start, end)}" if start is not None else "")
        for name, value, start, end in zip(names, values, low, high, strict=True)
    ]
    place = None if best is None else names.index(best)
    drawn, height = figures.dots(names, values, low, high, hover, place, measured(*key))
    return Panel(title, drawn, height)


def differences_section(record: dict[str, Any]) -> Section | None:
    """Return the paired differences, those of the leading candidate first."""
    found = (record.get("evaluation") or {}).get("comparisons") or []
    key = headline_metric(record)
    if not found or key is None:
        return None
    verdict = record.get("verdict") or {}
    leading = verdict.get("leader", verdict.get("recommended"))
    at_headline = [each for each in found if (each["metric"], each["k"]) == key]
    first = [each for each in at_headline if leading in (None, each["first"], each["second"])]
    if len(first) > _MANY:
        first = [each for each in first if each["estimator"] == verdict.get("estimator")]
    shown = first if len(first) <= _MANY else []
    rest = [each for each in at_headline if not shown or each not in shown]
    rest += [each for each in found if (each["metric"], each["k"]) != key]
    blocks: list[Block] = []
    if shown:
        blocks.append(_differences(shown, "Paired differences"))
    if rest:
        more = _differences(rest[:_MOST], "Other paired differences")
        summary = f"{len(rest):,} more pairs and metrics"
        if len(rest) > _MOST:
            summary += f", the first {_MOST:,} of them; the evaluation's JSON has all"
        blocks.append(Fold(summary, [more]))
    reading = (
        "First minus second on the same rows. Intervals and p come from resampling users, and hold "
        "for all pairs under an estimator and metric at once. A difference is beyond chance where "
        "its interval leaves out 0, which is where p is at most 1 minus the level; Γ says by what "
        "factor the exposure odds may be off before the order could turn."
    )
    return Section("differences", "Paired differences", reading, blocks)


def _differences(found: list[dict[str, Any]], title: str) -> Table:
    def column(show: Callable[[dict[str, Any]], str]) -> list[str]:
        return [show(each) for each in found]

    columns = {
        "first − second": column(lambda each: f"{each['first']} − {each['second']}"),
        "estimator": column(lambda each: each["estimator"]),
        "metric": column(lambda each: metric(each["metric"], each["k"])),
        "difference": column(lambda each: number(each["value"], "+")),
        "interval": column(lambda each: interval(each["low"], each["high"], "+")),
        "p": column(lambda each: chance(each["p"])),
        "beyond chance": column(
            lambda each: "yes" if beyond_chance(each["p"], each["level"]) else "no"
        ),
        "turns at Γ": column(_flip),
        "in words": column(lambda each: each.get("statement") or NONE),
    }
    if len(set(columns["metric"])) == 1:
        title += f" in {columns.pop('metric')[0]}"
    words = {"first − second", "estimator", "metric", "beyond chance", "in words"}
    return Table(title, columns, words)


def _flip(each: dict[str, Any]) -> str:
    if not each.get("statement") or "flip" not in each:
        return NONE
    return "never" if each["flip"] is None else factor(each["flip"])
