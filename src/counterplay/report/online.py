"""The online test in a world: what users clicked when they were shown the candidates' lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterplay.report import figures
from counterplay.report.blocks import Block, Chart, Panel, Section, Table
from counterplay.report.summary import series_of
from counterplay.report.words import chance, count, ends, measured, metric, number

if TYPE_CHECKING:
    from counterplay.evaluation.deployment import Day, OnlineRecord
    from counterplay.evaluation.records import Key
    from counterplay.study.records import Findings

Truths = dict[tuple[str, str, int], float]  # by arm, metric and cutoff


def online_section(record: Findings) -> Section | None:
    """Return the arms, their differences to the control, and what daily looks could conclude."""
    found = record.online
    if not found or not found.arms:
        return None
    truth = {(each.arm, *each.key): each.value for each in found.truth}
    blocks: list[Block] = [_arms(found, record.key, truth), _measures(found, truth)]
    if found.changes:
        blocks.append(_changes(found))
    daily = [each for each in found.daily if each.difference is not None]
    if daily:
        blocks.append(_daily(record, daily, found.control))
    reading = (
        f"The candidates were deployed in the world {found.world}, each to its own "
        f"users, for {found.config.n_days} days; {found.control} is the control. "
        "This is the test that offline estimates try to foresee, here with the truth beside it."
    )
    return Section("online", "The online test", reading, blocks)


def _arms(found: OnlineRecord, headline: Key | None, truth: Truths) -> Chart:
    """Return each arm's measure with its interval, and the true value."""
    keys = dict.fromkeys(each.key for arm in found.arms for each in arm.measures)
    key = headline if headline in keys else next(iter(keys))
    assert key is not None
    rows = {arm.arm: each for arm in found.arms for each in arm.measures if each.key == key}
    known = [truth.get((name, *key)) for name in rows]
    points = [(name, each.value, each.low, each.high) for name, each in rows.items()]
    best = max(range(len(points)), key=lambda n: points[n][1]) if len(points) > 1 else None
    drawn, height = figures.dots(points, best, measured(*key))
    if any(value is not None for value in known):
        mark = {"color": "@ink", "symbol": "line-ns-open", "size": 20, "line": {"width": 2}}
        drawn["data"].append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": known,
                "y": list(range(len(rows))),
                "hovertext": [
                    f"{figures.text(name)}<br>truth {number(value)}"
                    for name, value in zip(rows, known, strict=True)
                ],
                "hoverinfo": "text",
                "marker": mark,
            }
        )
    cells = [
        (name, number(each.value), ends(each), number(value))
        for (name, each), value in zip(rows.items(), known, strict=True)
    ]
    heads = ("candidate", "value", "interval", "truth")
    table = Table.of(f"{metric(*key)} online", heads, cells, {"candidate"})
    reading = (
        "A dot is what was measured, the line through it its interval, the upright stroke the "
        "truth. The diamond did best online."
    )
    title = f"{metric(*key)} as measured online"
    return Chart("online-arms", title, reading, [Panel("", drawn, height)], [table])


def _measures(found: OnlineRecord, truth: Truths) -> Table:
    cells = [
        (arm.arm, count(arm.n_users), count(arm.n_sessions), metric(*each.key), number(each.value),
         ends(each), number(truth.get((arm.arm, *each.key))))
        for arm in found.arms
        for each in arm.measures
    ]  # fmt: skip
    heads = ("candidate", "users", "sessions", "metric", "value", "interval", "truth")
    return Table.of("All measures", heads, cells, {"candidate", "metric"})


def _changes(found: OnlineRecord) -> Table:
    cells = [
        (each.arm, metric(*each.key), number(each.value, "+"), ends(each, "+"),
         chance(each.p_value))
        for each in found.changes
    ]  # fmt: skip
    heads = ("candidate", "metric", "difference", "interval", "p")
    return Table.of(f"Differences to {found.control}", heads, cells, {"candidate", "metric"})


def _daily(record: Findings, rows: list[Day], control: str) -> Chart:
    """Return the difference of CTR day by day; its bounds hold however often one looks."""
    series = series_of(record, dict.fromkeys(each.arm for each in rows))
    traces = []
    for one in series:
        own = [each for each in rows if each.arm == one.name]
        days = [each.day for each in own]
        hover = [
            f"{figures.text(one.name)}, day {each.day}<br>{number(each.difference, '+')}"
            f"<br>{ends(each, '+')}"
            for each in own
        ]
        low, high = [each.low for each in own], [each.high for each in own]
        traces += figures.area(one.place, days, low, high)
        traces.append(figures.line(one.place, days, [each.difference for each in own], hover))
    x = figures.axis("day (of the test)", nticks=8, tickformat="d")
    y = figures.axis("difference in CTR (clicks a place)", nticks=6)
    y |= {"zeroline": True, "zerolinecolor": "@muted"}
    cells = [
        (each.arm, str(each.day), number(each.difference, "+"), ends(each, "+"),
         chance(each.p_value))
        for each in rows
    ]  # fmt: skip
    heads = ("candidate", "day", "difference", "interval", "always-valid p")
    table = Table.of("Difference in CTR after each day", heads, cells, {"candidate"})
    reading = (
        f"Clicks a shown place, minus those of {control}; the bounds are always "
        "valid, so a test may be ended on the first day on which they leave out 0."
    )
    panels = [Panel("", figures.figure(traces, x, y), 320)]
    title = "What daily looks could conclude"
    return Chart("online-daily", title, reading, panels, [table], series)
