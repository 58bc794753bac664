"""Where the lead holds: a map over the shares of popularity and of taste that are exposure."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from counterplay.evaluation.estimators import RANDOMISED
from counterplay.metrics.dials import LAMBDAS
from counterplay.report import figures
from counterplay.report.blocks import Chart, Panel, Prose, Section, Table
from counterplay.report.words import interval, metric, number, share

if TYPE_CHECKING:
    from collections.abc import Sequence

    from counterplay.evaluation.records import DialsRecord, LeadMap, RandomDials
    from counterplay.study.records import Findings

_EDGE = 0.07  # around the box, so that its cells lie within


def worst_case_section(record: Findings) -> Section | None:
    """Return a map of the leader's lead over each rival."""
    dials = record.evaluation.dials if record.evaluation else None
    if dials is None or record.verdict is None:
        return None
    key, leader = record.verdict.key, record.verdict.leader
    found = {(each.first, each.second): each for each in dials.leads if each.key == key}
    rivals = [second for first, second in found if first == leader]
    if not rivals:
        return None
    panels = [
        Panel(
            f"{leader} − {rival}",
            _map(dials, found[leader, rival], found[rival, leader]),
            300,
        )
        for rival in rivals
    ]
    tables = [
        _table(dials, found[leader, rival], found[rival, leader], metric(*key)) for rival in rivals
    ]
    reading = (
        "Each mark is one assumption about exposure: how much of an item's popularity (across) and "
        "of a user's apparent taste (up) is due to what was shown. A filled square: the leader is "
        "ahead beyond chance. An open square: the two are not told apart. A cross: it is behind. "
        "The frame holds the assumptions that the decision rests on; the line is where the two are "
        "equal. Standard evaluation is at 0% and 0%, weighting by popularity at 100% and 0%."
    )
    chart = Chart("map", f"Lead of {leader} in {metric(*key)}", reading, panels, tables)
    rows = ", ".join(
        f"{name} {value:.2f}" for name, value in dials.coefficients.items() if name != "popularity"
    )
    basis = (
        f"What is personal in the clicks is judged by a click model, fitted on {dials.n_fitted:,} "
        f"rows that are not test rows; the weight of each candidate in it: {rows or 'none'}."
    )
    if dials.error:
        basis += (
            f" Sums over users come from a sample: log propensities are off by {dials.error:.3f}."
        )
    said = (
        "What a click log cannot say is how much of it is exposure. Here is where the lead holds."
    )
    prose = [basis] if dials.random is None else [_random_rows(record, dials, dials.random), basis]
    return Section("worst-case", "Where the lead holds", said, [chart, Prose(prose)])


def _random_rows(record: Findings, dials: DialsRecord, random: RandomDials) -> str:
    """Say how many random rows there were, what they say alone, and what they did to the dials."""
    choices = record.verdict.choices if record.verdict else ()
    alone = next((each for each in choices if each.estimator == RANDOMISED), None)
    said = f"Of {random.n:,} random rows {random.n_clicks:,} were clicked."
    if alone is not None:
        sure = "ahead of all others" if alone.decided else "but not beyond chance"
        said += (
            f" Alone they put {alone.candidate} first ({number(alone.value)}, "
            f"{interval(alone.low, alone.high)}), {sure}."
        )
    gammas, lambdas = zip(*dials.box, strict=True)
    said += (
        f" By them {share(random.gamma)} of popularity and {share(random.lam)} of taste are most "
        f"likely to be exposure; {_range(gammas)} and {_range(lambdas)} remain possible. The "
        "usual frame, without random rows, reaches from 0% to 100% of popularity and from 0% to "
        f"{share(max(LAMBDAS))} of taste."
    )
    if random.exposure_only:
        said += " So clicks show exposure, not taste: test online."
    return said


def _range(values: Sequence[float]) -> str:
    low, high = min(values), max(values)
    return share(low) if low == high else f"{share(low)} to {share(high)}"


def _map(dials: DialsRecord, lead: LeadMap, back: LeadMap) -> dict[str, Any]:
    """Return the drawing of one lead; `back` is the same pair seen from the rival."""
    cells = list(zip(dials.dials, lead.value, lead.low, back.low, strict=True))
    traces: list[dict[str, Any]] = []
    size = 17 if dials.random is None else 9  # the dials of random rows lie closer
    for state, (tint, symbol) in figures.STATES.items():
        own = [
            (gamma, lam, value, low, None if other is None else -other)
            for (gamma, lam), value, low, other in cells
            if _state(low, other) == state
        ]
        if own:
            traces.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "x": [gamma for gamma, *_ in own],
                    "y": [lam for _, lam, *_ in own],
                    "marker": {"color": tint, "symbol": symbol, "size": size, "line": {"width": 2}},
                    "hovertext": [
                        f"popularity {share(gamma)}, taste {share(lam)}<br>{state}<br>"
                        f"{number(value, '+')}, {interval(low, high, '+')}"
                        for gamma, lam, value, low, high in own
                    ],
                    "hoverinfo": "text",
                }
            )
    crossing = _zero_line(dials, lead)
    if len(crossing) > 1:
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "x": [gamma for gamma, _ in crossing],
                "y": [lam for _, lam in crossing],
                "line": {"color": "@ink", "width": 2, "dash": "dot"},
                "hoverinfo": "skip",
            }
        )
    gammas, lambdas = zip(*dials.box, strict=True)
    frame = {
        "type": "rect",
        "x0": min(gammas) - _EDGE,
        "x1": max(gammas) + _EDGE,
        "y0": min(lambdas) - _EDGE,
        "y1": max(lambdas) + _EDGE,
        "line": {"color": "@accent", "width": 2},
    }
    x, y = (
        figures.axis(title, tickformat=".0%", range=_reach(shares), showgrid=False)
        for title, shares in (
            ("popularity that is exposure (γ)", gammas),
            ("taste that is exposure (λ)", lambdas),
        )
    )
    return figures.figure(traces, x, y, shapes=[frame])


def _reach(shares: Sequence[float]) -> list[float]:
    """Return the ends of an axis: 0 to 1, and further where the frame is."""
    return [min(0.0, *shares) - 0.12, max(1.0, *shares) + 0.12]


def _state(low: float | None, back: float | None) -> str:
    return figures.state_of(low, None if back is None else -back)


def _zero_line(dials: DialsRecord, lead: LeadMap) -> list[tuple[float, float]]:
    """Return where the lead is 0, one λ for each γ that has one, between neighbours of the map."""
    found = []
    for gamma in sorted({gamma for gamma, _ in dials.dials}):
        column = sorted(
            (lam, value)
            for (own, lam), value in zip(dials.dials, lead.value, strict=True)
            if own == gamma
        )
        for (below, first), (above, second) in pairwise(column):
            if first * second < 0:
                found.append((gamma, below + (above - below) * first / (first - second)))
                break
    return found


def _table(dials: DialsRecord, lead: LeadMap, back: LeadMap, shown: str) -> Table:
    return Table(
        f"{lead.first} − {lead.second} in {shown}",
        {
            "γ": [share(gamma) for gamma, _ in dials.dials],
            "λ": [share(lam) for _, lam in dials.dials],
            "in the frame": ["yes" if each in dials.box else "no" for each in dials.dials],
            "lead": [number(value, "+") for value in lead.value],
            "least": [number(low, "+") for low in lead.low],
            "most": [number(None if low is None else -low, "+") for low in back.low],
        },
        {"in the frame"},
    )
