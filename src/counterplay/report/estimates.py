"""Candidates by estimators: values with intervals, and how to read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterplay.report import figures
from counterplay.report.blocks import (
    Block,
    Cell,
    Chart,
    Fold,
    Matrix,
    Panel,
    Section,
    Table,
)
from counterplay.report.words import (
    NONE,
    best_of,
    count,
    ends,
    measured,
    metric,
    number,
    protocol,
)

if TYPE_CHECKING:
    from counterplay.evaluation.records import CandidateEstimate, Key
    from counterplay.study.records import Findings

TRUTH = "truth"


def estimates_section(record: Findings) -> Section | None:
    """Return candidates by estimators, metric by metric."""
    found, key = record.evaluation, record.key
    if found is None or key is None:
        return None
    keys = list(dict.fromkeys([key, *(each.key for each in found.estimates)]))
    first = next(each for each in found.estimates if each.key == key)
    blocks: list[Block] = [matrix(record, key), forest(record, key)]
    if keys[1:]:
        others = [matrix(record, each) for each in keys[1:]]
        blocks.append(Fold(f"The other metrics: {', '.join(metric(*k) for k in keys[1:])}", others))
    reading = (
        "Each column is one assumption about what users had been shown, each cell an estimate on "
        f"{found.part} rows, {protocol(first.protocol)}, with its {first.level:.0%} interval over "
        "users. The best of a column is marked; compare within a column, not across."
    )
    return Section("estimates", "Candidates by estimators", reading, blocks)


def matrix(record: Findings, key: Key) -> Matrix:
    """Return the values of a metric, candidates in rows and estimators in columns."""
    found = record.by_estimator(key)
    names = list(dict.fromkeys(name for by_name in found.values() for name in by_name))
    columns: dict[str, str] = {}
    rows: dict[str, list[Cell]] = {name: [] for name in names}
    for estimator, by_name in found.items():
        sizes = {_size(each) for each in by_name.values()}
        columns[estimator] = next(iter(sizes)) if len(sizes) == 1 else ""
        best = best_of({name: each.value for name, each in by_name.items()}, key)
        for name in names:
            each = by_name.get(name)
            if each is None:
                rows[name].append(Cell(NONE))
                continue
            own = () if len(sizes) == 1 else (_size(each),)
            rows[name].append(Cell(number(each.value), (ends(each), *own), name == best))
    if record.truth and key == record.key:
        columns[TRUTH] = "known in this world"
        best = best_of(record.truth, key)
        for name in names:
            rows[name].append(Cell(number(record.truth.get(name)), (), name == best))
    return Matrix(metric(*key), "candidate", columns, rows)


def _size(each: CandidateEstimate) -> str:
    return f"{each.n:,} rows, {count(each.ess)} effective"


def forest(record: Findings, key: Key) -> Chart:
    """Return the estimates as dots with intervals, a panel an estimator, on scales of their own."""
    shown, cells, panels = metric(*key), [], []
    for estimator, by_name in record.by_estimator(key).items():
        points = [(name, each.value, each.low, each.high) for name, each in by_name.items()]
        panels.append(_dots(estimator, key, points))
        cells += [
            (estimator, name, number(each.value), ends(each)) for name, each in by_name.items()
        ]
    if record.truth:
        panels.append(_dots(TRUTH, key, [(*each, None, None) for each in record.truth.items()]))
        cells += [(TRUTH, name, number(value), NONE) for name, value in record.truth.items()]
    heads = ("estimator", "candidate", "value", "interval")
    table = Table.of(f"{shown} by estimator and candidate", heads, cells, set(heads[:2]))
    reading = (
        "A dot is an estimate and the line through it its interval. Each panel has its own scale: "
        "look at the order of the dots, and at how far the lines overlap. The diamond is the one "
        "that this estimator puts first."
    )
    return Chart("forest", f"Who is ahead in {shown}", reading, panels, [table])


def _dots(title: str, key: Key, points: list[figures.Point]) -> Panel:
    values = {name: value for name, value, _, _ in points}
    best = best_of(values, key)
    place = None if best is None else list(values).index(best)
    return Panel(title, *figures.dots(points, place, measured(*key)))
