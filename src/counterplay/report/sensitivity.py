"""What the estimates could be if the exposure that they assume were wrong by a factor Γ."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterplay.report import figures
from counterplay.report.blocks import Block, Chart, Items, Panel, Section, Series, Table
from counterplay.report.summary import series_of
from counterplay.report.words import interval, measured, metric, number, short, turning

if TYPE_CHECKING:
    from counterplay.evaluation.records import Band, CandidateEstimate, Key
    from counterplay.study.records import Findings


def sensitivity_section(record: Findings) -> Section | None:
    """Return the bands of the metric that decides, a panel an estimator."""
    chart = None if record.key is None else bands_chart(record, record.key)
    if chart is None:
        return None
    said = "What the estimates could be if the exposure that they assume were wrong."
    return Section("sensitivity", "Sensitivity to exposure", said, [*_turns(record), chart])


def bands_chart(record: Findings, key: Key) -> Chart | None:
    """Return the bands of a metric, a panel an estimator; None where there are none."""
    bands = record.evaluation.bands if record.evaluation else ()
    found = [each for each in bands if each.key == key]
    if not found:
        return None
    series = series_of(record, dict.fromkeys(each.candidate for each in found))
    fitted = record.by_estimator(key)
    panels = []
    for estimator in dict.fromkeys(each.estimator for each in found):
        own = [each for each in found if each.estimator == estimator]
        panels.append(_bands(estimator, series, own, fitted.get(estimator, {}), key))
    cells = [
        (each.estimator, each.candidate, short(each.gamma), number(each.low), number(each.high))
        for each in found
    ]
    heads = ("estimator", "candidate", "Γ", "low", "high")
    table = Table.of(f"Smallest and largest {metric(*key)} at each Γ", heads, cells, set(heads[:2]))
    reading = (
        "A line is all that an estimate could be if the true odds of exposure differed from the "
        "fitted ones by up to Γ, row by row, in the worst way; at 1× they are taken as they are. "
        "Lines are exact and are not confidence intervals. Where those of two candidates part, no "
        "such error turns their order; where they overlap, the paired differences say more."
    )
    return Chart("bands", f"{metric(*key)} against Γ", reading, panels, [table], series)


def _bands(
    estimator: str,
    series: list[Series],
    found: list[Band],
    fitted: dict[str, CandidateEstimate],
    key: Key,
) -> Panel:
    """Return the bands of one estimator, candidates side by side at each Γ."""
    gammas = sorted({1.0, *(each.gamma for each in found)})
    traces = []
    for beside, one in enumerate(series):
        own = {each.gamma: (each.low, each.high) for each in found if each.candidate == one.name}
        value = fitted[one.name].value if one.name in fitted else None
        limits = {1.0: (value, value)} | own
        x = [at + figures.aside(beside, len(series)) for at, g in enumerate(gammas) if g in limits]
        rows = [(gamma, *limits[gamma]) for gamma in gammas if gamma in limits]
        hover = [
            f"{figures.text(one.name)}, Γ = {gamma:g}<br>{interval(low, high)}"
            for gamma, low, high in rows
        ]
        middle = [low if value is None else value for _, low, _ in rows]
        errors = [low for _, low, _ in rows], [high for _, _, high in rows]
        trace = figures.line(one.place, x, middle, hover, errors=errors)
        traces.append(trace | {"mode": "markers"})
    ticks = {
        "tickvals": list(range(len(gammas))),
        "ticktext": [f"{gamma:g}×" for gamma in gammas],
        "showgrid": False,
    }
    x_axis = figures.axis("Γ (factor that the exposure odds may be off by)", **ticks)
    both = [end for each in found for end in (each.low, each.high)]
    y_axis = (  # far out one candidate's band would dwarf all others
        figures.logarithmic(f"{measured(*key)}, log scale", both)
        if min(both) > 0
        else figures.axis(measured(*key), nticks=6)
    )
    return Panel(estimator, figures.figure(traces, x_axis, y_axis), 320)


def _turns(record: Findings) -> list[Block]:
    """Say at which Γ each estimator's choice would turn."""
    said = [
        f"{each.estimator}: {each.candidate} is ahead of {each.runner_up}; that turns "
        f"{turning(each.flip)}."
        for each in (record.verdict.choices if record.verdict else ())
        if each.estimator != "standard" and each.runner_up is not None
    ]
    return [Items(said)] if said else []
