"""Plotly figures as plain values: one look for all, colours by name, every text escaped.

A colour is a name such as `@series-0` or, with an alpha in hexadecimal, `@series-0/22`; the page
replaces it by that of its style sheet, light or dark. Plotly reads some HTML in labels, so text
of others goes through `text`.
"""

from __future__ import annotations

import html
import math
import textwrap
from typing import TYPE_CHECKING, Any

from counterplay.report.words import interval, number

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    Numbers = Sequence[float | None]

Point = tuple[str, float, float | None, float | None]  # a name, a value and its interval
COLOURS = 7  # series-0 … series-6 of the style sheet
DASHES = ("solid", "dash", "dot", "dashdot")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x")
AHEAD, UNSURE, BEHIND = "ahead beyond chance", "not told apart", "behind beyond chance"
STATES = {  # of a difference: colour and symbol, so that it is seen in grey too
    AHEAD: ("@right", "square"),
    UNSURE: ("@muted", "square-open"),
    BEHIND: ("@wrong", "x"),
}
_DECADES = 2.5  # on an axis; over more of them only powers of ten are written
_FOLD, _LINES = 18, 3  # of a name beside an axis


def text(value: object) -> str:
    """Return a text that plotly shows as it stands.

    Example:
        >>> text("<b>5 & 6</b>")
        '&lt;b&gt;5 &amp; 6&lt;/b&gt;'
    """
    return html.escape(str(value), quote=False)


def folded(name: str) -> str:
    """Return a name for an axis, in lines that leave room for the drawing.

    Example:
        >>> folded("a name that is rather long")
        'a name that is<br>rather long'
    """
    lines = textwrap.wrap(name, _FOLD) or [""]
    if len(lines) > _LINES:
        lines = [*lines[: _LINES - 1], f"{lines[_LINES - 1][: _FOLD - 1]}…"]
    return "<br>".join(text(line) for line in lines)


def colour(place: int) -> str:
    """Return the colour of a series."""
    return f"@series-{place % COLOURS}"


def dash(place: int) -> str:
    """Return the dash of a series; with the colour it tells 28 series apart."""
    return DASHES[place % len(DASHES)]


def symbol(place: int) -> str:
    """Return the symbol of a series."""
    return SYMBOLS[place % len(SYMBOLS)]


def line(
    place: int,
    x: Numbers,
    y: Numbers,
    hover: Sequence[str],
    *,
    markers: bool = True,
    errors: tuple[Numbers, Numbers] | None = None,
) -> dict[str, Any]:
    """Return a series as a line; `errors` are the lower and upper ends of intervals."""
    trace: dict[str, Any] = {
        "type": "scatter",
        "mode": "lines+markers" if markers else "lines",
        "meta": place,
        "x": list(x),
        "y": list(y),
        "hovertext": list(hover),
        "hoverinfo": "text",
        "line": {"color": colour(place), "dash": dash(place), "width": 2},
        "marker": {"color": colour(place), "symbol": symbol(place), "size": 7},
    }
    if errors is not None:
        trace["error_y"] = whiskers(y, *errors, colour(place))
    return trace


def area(place: int, x: Numbers, low: Numbers, high: Numbers) -> list[dict[str, Any]]:
    """Return the ground between two lines."""
    edge = {
        "type": "scatter",
        "mode": "lines",
        "meta": place,
        "x": list(x),
        "hoverinfo": "skip",
        "line": {"color": colour(place), "dash": dash(place), "width": 1},
    }
    ground = {"fill": "tonexty", "fillcolor": f"{colour(place)}/14"}
    return [edge | {"y": list(low)}, edge | ground | {"y": list(high)}]


def whiskers(values: Numbers, low: Numbers, high: Numbers, tint: str) -> dict[str, Any]:
    """Return intervals around values, in plotly's terms."""

    def away(ends: Numbers, sign: int) -> list[float]:
        return [
            0.0 if value is None or end is None else max(0.0, sign * (end - value))
            for value, end in zip(values, ends, strict=True)
        ]

    return {
        "type": "data",
        "symmetric": False,
        "array": away(high, 1),
        "arrayminus": away(low, -1),
        "color": tint,
        "thickness": 1.5,
        "width": 0,
    }


def axis(title: str, **options: Any) -> dict[str, Any]:
    """Return an axis with its unit in the title."""
    return {
        "title": {"text": title, "standoff": 8, "font": {"size": 12, "color": "@muted"}},
        "automargin": True,
        "gridcolor": "@line",
        "linecolor": "@line",
        "zeroline": False,
        "tickfont": {"size": 12, "color": "@ink"},
        "ticks": "",
    } | options


def logarithmic(title: str, values: Iterable[float | None], **options: Any) -> dict[str, Any]:
    """Return a logarithmic axis with a few round ticks, written in full."""
    found = [value for value in values if value is not None and value > 0]
    low, high = (math.log10(end) for end in (min(found, default=0.1), max(found, default=1.0)))
    steps = (1, 2, 5) if high - low < _DECADES else (1,)
    powers = range(math.floor(low) - 1, math.ceil(high) + 1)
    ticks = [step * 10.0**power for power in powers for step in steps]
    shown = {"tickvals": ticks, "ticktext": [f"{tick:,.10g}" for tick in ticks]}
    return axis(title, type="log", **shown, **options)


def aside(place: int, n: int) -> float:
    """Return how far a series stands from its tick, so that intervals are beside each other."""
    return 0.6 * (place - (n - 1) / 2) / n


def figure(
    traces: Sequence[dict[str, Any]],
    x: dict[str, Any],
    y: dict[str, Any],
    **layout: Any,
) -> dict[str, Any]:
    """Return a figure; the page adds its font."""
    common = {
        "xaxis": x,
        "yaxis": y,
        "showlegend": False,
        "hovermode": "closest",
        "paper_bgcolor": "@clear",
        "plot_bgcolor": "@clear",
        "font": {"color": "@ink", "size": 12},
        "hoverlabel": {
            "bgcolor": "@paper",
            "bordercolor": "@muted",
            "font": {"color": "@ink", "size": 13},
            "align": "left",
        },
        "margin": {"l": 8, "r": 12, "t": 10, "b": 8},
    }
    return {"data": list(traces), "layout": common | layout}


def dots(
    points: Sequence[Point], best: int | None, title: str, hover: Sequence[str] = ()
) -> tuple[dict[str, Any], int]:
    """Return values with their intervals, a name a line and the best one marked, and the height."""
    hover = hover or [
        f"{text(name)}<br>{number(value)}"
        + (f"<br>{interval(low, high)}" if low is not None else "")
        for name, value, low, high in points
    ]
    traces = []
    for marked in (False, True):
        own = [place for place in range(len(points)) if (place == best) == marked]
        tint = "@accent" if marked else "@muted"
        values, low = [points[place][1] for place in own], [points[place][2] for place in own]
        high = [points[place][3] for place in own]
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": values,
                "y": own,
                "hovertext": [hover[place] for place in own],
                "hoverinfo": "text",
                "marker": {
                    "color": tint,
                    "symbol": "diamond" if marked else "circle",
                    "size": 11 if marked else 8,
                },
                "error_x": whiskers(values, low, high, tint),
            }
        )
    x = axis(title, nticks=5)
    y, height = _names([name for name, *_ in points])
    return figure([trace for trace in traces if trace["y"]], x, y), height


def leads(
    points: Sequence[Point], title: str, truths: Sequence[float | None] = ()
) -> tuple[dict[str, Any], int]:
    """Return differences with their intervals around a line at 0, and the height.

    An interval right of the line is a filled square, one left of it a cross, and one that holds
    the line an open square, so that they are told apart in grey too; `truths` are upright strokes.
    """
    traces: list[dict[str, Any]] = []
    for state, (tint, shape) in STATES.items():
        own = [n for n, (_, _, *ends) in enumerate(points) if state_of(*ends) == state]
        values = [points[n][1] for n in own]
        low, high = [points[n][2] for n in own], [points[n][3] for n in own]
        shown = [
            f"{text(points[n][0])}<br>{number(points[n][1], '+')}<br>"
            f"{interval(points[n][2], points[n][3], '+')}<br>{state}"
            for n in own
        ]
        mark = {"color": tint, "symbol": shape, "size": 11, "line": {"width": 2, "color": tint}}
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": values,
                "y": own,
                "hovertext": shown,
                "hoverinfo": "text",
                "marker": mark,
                "error_x": whiskers(values, low, high, tint),
            }
        )
    known = [n for n, value in enumerate(truths) if value is not None]
    stroke = {"color": "@ink", "symbol": "line-ns-open", "size": 18, "line": {"width": 2}}
    traces.append(
        {
            "type": "scatter",
            "mode": "markers",
            "x": [truths[n] for n in known],
            "y": known,
            "hovertext": [f"{text(points[n][0])}<br>truth {number(truths[n], '+')}" for n in known],
            "hoverinfo": "text",
            "marker": stroke,
        }
    )
    line = {"type": "line", "x0": 0, "x1": 0, "y0": 0, "y1": 1, "yref": "paper"}
    zero = line | {"line": {"color": "@ink", "width": 1}}
    y, height = _names([name for name, *_ in points])
    x = axis(title, nticks=5, tickformat="+")
    return figure([each for each in traces if each["y"]], x, y, shapes=[zero]), height


def state_of(low: float | None, high: float | None) -> str:
    """Return whether an interval is right of 0, left of it, or holds it."""
    if low is not None and low > 0:
        return AHEAD
    return BEHIND if high is not None and high < 0 else UNSURE


def _names(names: Sequence[str]) -> tuple[dict[str, Any], int]:
    """Return an axis with a name a line, the first at the top, and the height that needs."""
    shown = [folded(name) for name in names]
    lines = len(names) * max(2, *(1 + label.count("<br>") for label in shown), 2)
    ticks = {"tickvals": list(range(len(names))), "ticktext": shown}
    y = axis("", range=[len(names) - 0.5, -0.5], showgrid=True, **ticks)
    return y, 70 + 16 * lines
