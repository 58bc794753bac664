"""What the estimators take exposure to have been, and what the candidates make of it."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from counterplay.report import figures
from counterplay.report.blocks import Block, Chart, Panel, Section, Series, Table
from counterplay.report.popularity import by_decile, popularity
from counterplay.report.words import NONE, count, number, share, short

if TYPE_CHECKING:
    from collections.abc import Sequence

    from counterplay.evaluation.records import Bin, Calibration, Spread
    from counterplay.study.records import Findings


def exposure_section(record: Findings) -> Section | None:
    """Return the diagnostics, those that the record has."""
    found = record.evaluation.diagnostics if record.evaluation else None
    if found is None:
        return None
    blocks: list[Block] = []
    if found.propensities:
        blocks += [_histogram(found.propensities), _sizes(found.propensities)]
    if found.popularity.recommended:
        blocks.append(popularity(record, found.popularity))
    if found.by_decile and record.key is not None:
        blocks.append(by_decile(record, found.by_decile, record.key))
    if found.calibration:
        blocks.append(_calibration(found.calibration))
    if not blocks:
        return None
    reading = (
        "Estimates are only as good as the exposure that they assume: how unequal the weights "
        "are, whom they favour, and, where the truth is known, how near it they come."
    )
    return Section("exposure", "Exposure", reading, blocks)


def _histogram(found: Sequence[Spread]) -> Chart:
    """Return how propensities are spread over the rows, and the weight over the weights."""
    rows, weight, cells = [], [], []
    for place, each in enumerate(found):
        edges, counts, name = each.edges, each.counts, each.name
        middles = [(low * high) ** 0.5 for low, high in pairwise(edges)]
        carried = [n / middle for n, middle in zip(counts, middles, strict=True)]
        of_rows = [n / max(sum(counts), 1) for n in counts]
        of_weight = [part / (sum(carried) or 1) for part in carried]
        rows.append(_steps(place, name, "propensity", edges, of_rows))
        inverse = [1 / edge for edge in reversed(edges)]
        weight.append(_steps(place, name, "weight", inverse, of_weight[::-1]))
        bins = zip(pairwise(edges), counts, of_weight, strict=True)
        cells += [
            (name, short(low), short(high), count(n), share(part))
            for (low, high), n, part in bins
            if n
        ]
    every = [edge for each in found for edge in each.edges]
    inverses = [1 / edge for edge in every]
    share_axis = {"tickformat": ".0%", "rangemode": "tozero", "nticks": 6}
    sides = (
        (
            "Propensities: share of rows",
            "propensity (probability of having been shown)",
            every,
            rows,
        ),
        ("Weights: share of all weight", "weight of a row (times)", inverses, weight),
    )
    panels = []
    for title, unit, ticks, traces in sides:
        x = figures.logarithmic(unit, ticks)
        y = figures.axis(f"{title.partition(': ')[2]} (%)", **share_axis)
        panels.append(Panel(title, figures.figure(traces, x, y), 280))
    heads = ("estimator", "from", "to", "rows", "share of all weight")
    table = Table.of("Rows and weight by propensity", heads, cells, {"estimator"})
    reading = (
        "A row's weight is the inverse of its propensity: at 0.01 it counts a hundred times. The "
        "more of all weight lies far to the right, the fewer rows an estimate really rests on."
    )
    series = [Series(each.name, place) for place, each in enumerate(found)]
    tables = [_quantiles(found), table]
    return Chart("propensities", "Propensities and weights", reading, panels, tables, series)


def _steps(
    place: int, name: str, what: str, edges: Sequence[float], shares: Sequence[float]
) -> dict[str, Any]:
    """Return a histogram as a stepped line: bars have no width on a logarithmic axis."""
    hover = [
        f"{figures.text(name)}<br>{what} {short(low)} to {short(high)}<br>{share(part)}"
        for (low, high), part in zip(pairwise(edges), shares, strict=True)
    ]
    last = shares[-1:] or [0.0]
    trace = figures.line(place, edges, [*shares, *last], [*hover, *hover[-1:]], markers=False)
    trace["line"] |= {"shape": "hv"}
    return trace | {"fill": "tozeroy", "fillcolor": f"{figures.colour(place)}/14"}


def _quantiles(found: Sequence[Spread]) -> Table:
    levels = dict.fromkeys(level for each in found for level in each.quantiles)
    columns = {"estimator": [each.name for each in found]} | {
        level: [number(each.quantiles.get(level)) for each in found] for level in levels
    }
    return Table("Quantiles of the propensities", columns, {"estimator"})


def _sizes(found: Sequence[Spread]) -> Table:
    least = [each.quantiles.get("0%") for each in found]
    columns = {
        "estimator": [each.name for each in found],
        "rows": [count(each.n) for each in found],
        "effective rows": [count(each.ess) for each in found],
        "effective share": [share(each.ess / max(each.n, 1)) for each in found],
        "weight of the heaviest 1%": [share(each.top_share) for each in found],
        "median propensity": [number(each.quantiles.get("50%")) for each in found],
        "lowest propensity": [number(q) for q in least],
        "largest weight": [f"{short(1 / q)}×" if q else NONE for q in least],
    }
    return Table("How many rows the weights leave", columns, {"estimator"})


def _calibration(found: Sequence[Calibration]) -> Chart:
    """Return estimated against true propensities; on the diagonal they agree."""
    points = [value for each in found for bin_ in each.bins for value in _ends(bin_)]
    low, high = min(points, default=0.01), max(points, default=1.0)
    diagonal = {
        "type": "scatter",
        "mode": "lines",
        "x": [low, high],
        "y": [low, high],
        "hoverinfo": "skip",
        "line": {"color": "@muted", "width": 1, "dash": "dash"},
    }
    traces, cells = [diagonal], []
    for place, each in enumerate(found):
        bins = [bin_ for bin_ in each.bins if len(_ends(bin_)) == 2]
        hover = [
            f"{figures.text(each.name)}<br>estimated {number(bin_.estimated)}"
            f"<br>true {number(bin_.true)}<br>{count(bin_.n)} rows"
            for bin_ in bins
        ]
        x, y = [bin_.estimated for bin_ in bins], [bin_.true for bin_ in bins]
        traces.append(figures.line(place, x, y, hover))
        cells += [
            (each.name, count(bin_.n), number(bin_.estimated), number(bin_.true))
            for bin_ in each.bins
        ]
    title = "Correlation with the true propensities, row by row"
    told = [(each.name, number(each.correlation, "+")) for each in found]
    known = Table.of(title, ("estimator", "correlation"), told, {"estimator"})
    heads = ("estimator", "rows", "estimated", "true")
    table = Table.of("Estimated and true propensities by bin", heads, cells, {"estimator"})
    x_axis = figures.logarithmic("estimated propensity (probability)", points)
    y_axis = figures.logarithmic("true propensity (probability)", points)
    reading = (
        "On the dashed diagonal an estimated propensity is the true one. Self-normalised estimates "
        "need them only up to a common factor, so a parallel to the diagonal is as good; a flat "
        "line knows nothing."
    )
    series = [Series(each.name, place) for place, each in enumerate(found)]
    panels = [Panel("", figures.figure(traces, x_axis, y_axis), 380)]
    return Chart(
        "calibration", "Calibration against the truth", reading, panels, [known, table], series
    )


def _ends(bin_: Bin) -> list[float]:
    """Return both propensities of a bin, those that a logarithm can be taken of."""
    return [value for value in (bin_.estimated, bin_.true) if value > 0]
