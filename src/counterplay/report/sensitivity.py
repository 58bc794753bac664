"""What the estimates could be if the exposure that they assume were wrong by a factor Γ."""

from __future__ import annotations

from typing import Any

from counterplay.report import figures
from counterplay.report.blocks import Block, Chart, Items, Panel, Section, Series, Table
from counterplay.report.summary import Key, by_estimator, headline_metric, series_of
from counterplay.report.words import interval, measured, metric, number, short, turning


def sensitivity_section(record: dict[str, Any]) -> Section | None:
    """Return the bands of the metric that decides, a panel an estimator."""
    key = headline_metric(record)
    found = [
        each
        for each in (record.get("evaluation") or {}).get("bands") or ()
        if (each["metric"], each["k"]) == key
    ]
    if not found or key is None:
        return None
    series = series_of(record, dict.fromkeys(each["candidate"] for each in found))
    fitted = by_estimator(record, key)
    panels = []
    for estimator in dict.fromkeys(each["estimator"] for each in found):
        own = [each for each in found if each["estimator"] == estimator]
        panels.append(_bands(estimator, series, own, fitted.get(estimator, {}), key))
    table = Table(
        f"Smallest and largest {metric(*key)} at each Γ",
        {
            "estimator": [each["estimator"] for each in found],
            "candidate": [each["candidate"] for each in found],
            "Γ": [short(each["gamma"]) for each in found],
            "low": [number(each["low"]) for each in found],
            "high": [number(each["high"]) for each in found],
        },
        {"estimator", "candidate"},
    )
    reading = (
        "A line is all that an estimate could be if the true odds of exposure differed from the "
        "fitted ones by up to Γ, row by row, in the worst way; at 1× they are taken as they are. "
        "Lines are exact and are not confidence intervals. Where those of two candidates part, no "
        "such error turns their order; where they overlap, the paired differences say more."
    )
    chart = Chart("bands", f"{metric(*key)} against Γ", reading, panels, [table], series)
    said = "What the estimates could be if the exposure that they assume were wrong."
    return Section("sensitivity", "Sensitivity to exposure", said, [*_turns(record), chart])


def _bands(
    estimator: str,
    series: list[Series],
    found: list[dict[str, Any]],
    fitted: dict[str, dict[str, Any]],
    key: Key,
) -> Panel:
    """Return the bands of one estimator, candidates side by side at each Γ."""
    gammas = sorted({1.0, *(each["gamma"] for each in found)})
    traces = []
    for beside, (name, place) in enumerate((each.name, each.place) for each in series):
        limits = {each["gamma"]: each for each in found if each["candidate"] == name}
        value = fitted[name]["value"] if name in fitted else None
        limits.setdefault(1.0, {"low": value, "high": value})
        rows = [(x, gamma, limits[gamma]) for x, gamma in enumerate(gammas) if gamma in limits]
        hover = [
            f"{figures.text(name)}, Γ = {gamma:g}<br>{interval(each['low'], each['high'])}"
            for _, gamma, each in rows
        ]
        aside = figures.aside(beside, len(series))
        trace = figures.line(
            place,
            [x + aside for x, _, _ in rows],
            [value if value is not None else each["low"] for _, _, each in rows],
            hover,
            errors=([each["low"] for _, _, each in rows], [each["high"] for _, _, each in rows]),
        )
        traces.append(trace | {"mode": "markers"})
    ticks = {
        "tickvals": list(range(len(gammas))),
        "ticktext": [f"{gamma:g}×" for gamma in gammas],
        "showgrid": False,
    }
    x_axis = figures.axis("Γ (factor that the exposure odds may be off by)", **ticks)
    ends = [end for each in found for end in (each["low"], each["high"])]
    y_axis = (  # far out one candidate's band would dwarf all others
        figures.logarithmic(f"{measured(*key)}, log scale", ends)
        if min(ends) > 0
        else figures.axis(measured(*key), nticks=6)
    )
    return Panel(estimator, figures.figure(traces, x_axis, y_axis), 320)


def _turns(record: dict[str, Any]) -> list[Block]:
    """Say at which Γ each estimator's choice would turn."""
    said = [
        f"{each['estimator']}: {each['candidate']} is ahead of {each['runner_up']}; that turns "
        f"{turning(each.get('flip'))}."
        for each in (record.get("verdict") or {}).get("choices") or ()
        if each["estimator"] != "standard" and each.get("runner_up") is not None
    ]
    return [Items(said)] if said else []
