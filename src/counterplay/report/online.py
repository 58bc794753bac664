"""The online test in a world: what users clicked when they were shown the candidates' lists."""

from __future__ import annotations

from typing import Any

from counterplay.report import figures
from counterplay.report.blocks import Block, Chart, Panel, Section, Table
from counterplay.report.summary import headline_metric, series_of
from counterplay.report.words import chance, count, interval, measured, metric, number


def online_section(record: dict[str, Any]) -> Section | None:
    """Return the arms, their differences to the control, and what daily looks could conclude."""
    found = record.get("online")
    if not found or not found.get("arms"):
        return None
    blocks: list[Block] = [_arms(found, headline_metric(record)), _measures(found)]
    if found.get("changes"):
        blocks.append(_changes(found))
    if any(each.get("value") is not None for each in found.get("daily") or ()):
        blocks.append(_daily(record, found))
    config = found.get("config") or {}
    reading = (
        f"The candidates were deployed in the world {found.get('world', '')}, each to its own "
        f"users, for {config.get('n_days', '?')} days; {found.get('control')} is the control. "
        "This is the test that offline estimates try to foresee, here with the truth beside it."
    )
    return Section("online", "The online test", reading, blocks)


def _truth(found: dict[str, Any]) -> dict[tuple[str, str, int], float]:
    return {
        (each["arm"], each["metric"], each["k"]): each["value"] for each in found.get("truth") or ()
    }


def _arms(found: dict[str, Any], headline: tuple[str, int] | None) -> Chart:
    """Return each arm's measure with its interval, and the true value."""
    keys = dict.fromkeys(
        (each["metric"], each["k"]) for arm in found["arms"] for each in arm["measures"]
    )
    key = headline if headline in keys else next(iter(keys))
    assert key is not None
    rows = [
        (arm["arm"], each)
        for arm in found["arms"]
        for each in arm["measures"]
        if (each["metric"], each["k"]) == key
    ]
    names, values = [name for name, _ in rows], [each["value"] for _, each in rows]
    low, high = [each["low"] for _, each in rows], [each["high"] for _, each in rows]
    truth = _truth(found)
    known = [truth.get((name, *key)) for name in names]
    hover = [
        f"{figures.text(name)}<br>{number(each['value'])}<br>{interval(each['low'], each['high'])}"
        for name, each in rows
    ]
    best = max(range(len(values)), key=lambda place: values[place]) if len(values) > 1 else None
    drawn, height = figures.dots(names, values, low, high, hover, best, measured(*key))
    if any(value is not None for value in known):
        mark = {"color": "@ink", "symbol": "line-ns-open", "size": 20, "line": {"width": 2}}
        drawn["data"].append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": known,
                "y": list(range(len(names))),
                "hovertext": [
                    f"{figures.text(name)}<br>truth {number(value)}"
                    for name, value in zip(names, known, strict=True)
                ],
                "hoverinfo": "text",
                "marker": mark,
            }
        )
    table = Table(
        f"{metric(*key)} online",
        {
            "candidate": names,
            "value": [number(value) for value in values],
            "interval": [interval(*ends) for ends in zip(low, high, strict=True)],
            "truth": [number(value) for value in known],
        },
        {"candidate"},
    )
    reading = (
        "A dot is what was measured, the line through it its interval, the upright stroke the "
        "truth. The diamond did best online."
    )
    title = f"{metric(*key)} as measured online"
    return Chart("online-arms", title, reading, [Panel("", drawn, height)], [table])


def _measures(found: dict[str, Any]) -> Table:
    truth = _truth(found)
    rows = [(arm, each) for arm in found["arms"] for each in arm["measures"]]
    return Table(
        "All measures",
        {
            "candidate": [arm["arm"] for arm, _ in rows],
            "users": [count(arm["n_users"]) for arm, _ in rows],
            "sessions": [count(arm["n_sessions"]) for arm, _ in rows],
            "metric": [metric(each["metric"], each["k"]) for _, each in rows],
            "value": [number(each["value"]) for _, each in rows],
            "interval": [interval(each["low"], each["high"]) for _, each in rows],
            "truth": [
                number(truth.get((arm["arm"], each["metric"], each["k"]))) for arm, each in rows
            ],
        },
        {"candidate", "metric"},
    )


def _changes(found: dict[str, Any]) -> Table:
    rows = found["changes"]
    return Table(
        f"Differences to {found.get('control')}",
        {
            "candidate": [each["arm"] for each in rows],
            "metric": [metric(each["metric"], each["k"]) for each in rows],
            "difference": [number(each["value"], "+") for each in rows],
            "interval": [interval(each["low"], each["high"], "+") for each in rows],
            "p": [chance(each["p_value"]) for each in rows],
        },
        {"candidate", "metric"},
    )


def _daily(record: dict[str, Any], found: dict[str, Any]) -> Chart:
    """Return the difference of CTR day by day; its bounds hold however often one looks."""
    rows = [each for each in found["daily"] if each.get("value") is not None]
    series = series_of(record, dict.fromkeys(each["arm"] for each in rows))
    traces = []
    for name, place in ((each.name, each.place) for each in series):
        own = [each for each in rows if each["arm"] == name]
        days, values = [each["day"] for each in own], [each["value"] for each in own]
        hover = [
            f"{figures.text(name)}, day {each['day']}<br>{number(each['value'], '+')}"
            f"<br>{interval(each.get('low'), each.get('high'), '+')}"
            for each in own
        ]
        low, high = [each.get("low") for each in own], [each.get("high") for each in own]
        traces += figures.area(place, days, low, high)
        traces.append(figures.line(place, days, values, hover))
    x = figures.axis("day (of the test)", nticks=8, tickformat="d")
    y = figures.axis("difference in CTR (clicks a place)", nticks=6)
    y |= {"zeroline": True, "zerolinecolor": "@muted"}
    table = Table(
        "Difference in CTR after each day",
        {
            "candidate": [each["arm"] for each in rows],
            "day": [str(each["day"]) for each in rows],
            "difference": [number(each["value"], "+") for each in rows],
            "interval": [interval(each.get("low"), each.get("high"), "+") for each in rows],
            "always-valid p": [chance(each.get("p_value")) for each in rows],
        },
        {"candidate"},
    )
    reading = (
        f"Clicks a shown place, minus those of {found.get('control')}; the bounds are always "
        "valid, so a test may be ended on the first day on which they leave out 0."
    )
    panels = [Panel("", figures.figure(traces, x, y), 320)]
    title = "What daily looks could conclude"
    return Chart("online-daily", title, reading, panels, [table], series)
