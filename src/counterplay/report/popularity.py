"""Popularity: of what is recommended against what was logged, and of what is found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterplay.report import figures
from counterplay.report.blocks import Chart, Panel, Table
from counterplay.report.summary import series_of
from counterplay.report.words import count, ends, measured, metric, number, share

if TYPE_CHECKING:
    from collections.abc import Sequence

    from counterplay.evaluation.records import DecileMean, Key, Popularity
    from counterplay.study.records import Findings

_DECILES = "popularity decile (10 = the most popular items)"


def popularity(record: Findings, found: Popularity) -> Chart:
    """Return what is recommended against what was logged, by popularity."""
    deciles = [each.decile for each in found.deciles]
    logged = [each.logged for each in found.deciles]
    bars = {
        "type": "bar",
        "x": deciles,
        "y": logged,
        "hovertext": [
            f"logged, decile {each.decile}<br>{share(each.logged)} of training events"
            f"<br>{count(each.items)} items"
            for each in found.deciles
        ],
        "hoverinfo": "text",
        "marker": {"color": "@line"},
    }
    traces, columns = [bars], {"logged": [share(value) for value in logged]}
    series = series_of(record, (each.candidate for each in found.recommended))
    for place, each in zip((own.place for own in series), found.recommended, strict=True):
        hover = [
            f"{figures.text(each.candidate)}, decile {decile}<br>{share(value)} of its top {each.k}"
            for decile, value in zip(deciles, each.shares, strict=True)
        ]
        traces.append(figures.line(place, deciles, each.shares, hover))
        columns[each.candidate] = [share(value) for value in each.shares]
    x = figures.axis(_DECILES, dtick=1, showgrid=False)
    y = figures.axis("share (%)", tickformat=".0%", rangemode="tozero", nticks=6)
    first = {
        "decile": [str(decile) for decile in deciles],
        "items": [count(each.items) for each in found.deciles],
    }
    reading = (
        "Grey bars: training events; lines: places in the candidates' lists. Each decile holds "
        "about a tenth of the training events, so a line that climbs at the right recommends the "
        "popular more than users clicked it, and one that is high at the left goes into the long "
        "tail."
    )
    table = Table("Shares by popularity decile", first | columns, set())
    panels = [Panel("", figures.figure(traces, x, y, bargap=0.25), 340)]
    title = "Popularity of what is recommended, against what was logged"
    return Chart("popularity", title, reading, panels, [table], series)


def by_decile(record: Findings, found: Sequence[DecileMean], headline: Key) -> Chart:
    """Return the metric by popularity of the target, beside each other so that intervals show."""
    keys = dict.fromkeys(each.key for each in found)
    key = headline if headline in keys else next(iter(keys))
    rows = [each for each in found if each.key == key]
    series = series_of(record, dict.fromkeys(each.candidate for each in rows))
    traces = []
    for beside, one in enumerate(series):
        own = [each for each in rows if each.candidate == one.name]
        aside = figures.aside(beside, len(series))
        hover = [
            f"{figures.text(one.name)}, decile {each.decile}<br>{number(each.value)}"
            f"<br>{ends(each)}<br>{count(each.n)} rows"
            for each in own
        ]
        x, y = [each.decile + aside for each in own], [each.value for each in own]
        errors = [each.low for each in own], [each.high for each in own]
        traces.append(figures.line(one.place, x, y, hover, errors=errors))
    shown = metric(*key)
    cells = [
        (each.candidate, str(each.decile), count(each.n), number(each.value), ends(each))
        for each in rows
    ]
    heads = ("candidate", "decile", "rows", "value", "interval")
    title = f"{shown} by popularity decile of the target"
    table = Table.of(title, heads, cells, {"candidate"})
    x_axis = figures.axis(_DECILES, dtick=1, showgrid=False)
    y_axis = figures.axis(measured(*key), rangemode="tozero", nticks=6)
    reading = (
        "How well each candidate finds test items of each popularity, unweighted, with intervals. "
        "A candidate that is good only at the right has learnt what is popular."
    )
    panels = [Panel("", figures.figure(traces, x_axis, y_axis), 360)]
    return Chart(
        "deciles", f"{shown} by popularity of the target", reading, panels, [table], series
    )
