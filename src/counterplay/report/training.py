"""How training went: losses, validation, the link and propensities, epoch by epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from counterplay.learning.effect import has_no_effect
from counterplay.report import figures
from counterplay.report.blocks import Block, Chart, Fold, Panel, Part, Prose, Section, Series, Table
from counterplay.report.words import count, ends, interval, measured, metric, number, share

if TYPE_CHECKING:
    from counterplay.study.records import Findings, NamedRun

_OPEN = 6  # runs that are shown; more are folded
_POINTS = 120  # of a line; of more epochs every second, third … is drawn, and the table has all
_MARKED = 12  # points of a line that are marked
_BETAS = {f"β{place}": f"beta_{place}" for place in range(3)}
_SERIES = ("candidate", "exposure model", "objective", *_BETAS, "propensities", "effective share")
_PLACES = {name: place for place, name in enumerate(_SERIES)}
_LOSSES = {
    "candidate": "candidate_loss",
    "exposure model": "exposure_loss",
    "objective": "objective",
}
_VALUES = {"candidate": "validation", "exposure model": "exposure_validation"}
_COLUMNS = {
    "candidate loss": "candidate_loss",
    "exposure loss": "exposure_loss",
    "objective": "objective",
    "validation": "validation",
    "exposure validation": "exposure_validation",
    **_BETAS,
    "lowest propensity": "propensity_low",
    "mean propensity": "propensity_mean",
    "highest propensity": "propensity_high",
    "effective share": "ess",
}
Row = dict[str, Any]  # an epoch, its values flat


def training_section(record: Findings) -> Section | None:
    """Return what each run's epochs were like."""
    runs = sorted((run for run in record.runs if run.epochs), key=_little_to_see)
    if not runs:
        return None
    parts = [Part(run.name, _run(place, run)) for place, run in enumerate(runs)]
    blocks: list[Block] = list(parts[:_OPEN])
    if parts[_OPEN:]:
        blocks.append(Fold(f"{len(parts) - _OPEN} more runs", parts[_OPEN:]))
    reading = (
        "A candidate is trained to have a small loss; in the game an exposure model plays against "
        "it by putting weight where the candidate is bad, within what the clicks allow. The dashed "
        "line marks the epoch that was kept."
    )
    return Section("training", "Appendix: the game, epoch by epoch", reading, blocks)


def _idle(run: NamedRun) -> bool:
    return run.parameters.get("candidate") == 0


def _little_to_see(run: NamedRun) -> tuple[bool, int]:
    """Return what runs are sorted by: the game first, what has nothing to learn last."""
    return _idle(run), sum(value is None for value in run.epochs[-1].to_dict().values())


def _run(place: int, run: NamedRun) -> list[Block]:
    said = Prose([_said(run)])
    return [said] if _idle(run) else [said, _chart(f"training-{place}", run)]


def _said(run: NamedRun) -> str:
    """Say in words what came of a run."""
    names = [run.model_of(role) for role in run.parameters]
    text = f"Method {run.configuration.method}, {' against '.join(names)}. "
    if _idle(run):
        text += "It has nothing to learn. "
    else:
        n, best = len(run.epochs), run.best_epoch
        text += f"{n} epoch{'s' if n != 1 else ''}{f', the best is {best}' if best >= 0 else ''}"
        text += f"; {run.stopped}. "
    found = run.validation
    if found:
        text += (
            f"Validation {metric(*found.key)} {number(found.value)} ({ends(found)}) on "
            f"{count(found.n)} rows, {found.protocol}. "
        )
    return f"{text}{_effect(run)}".rstrip()


def _effect(run: NamedRun) -> str:
    """Say whether the weights did anything in the epoch that was kept."""
    best = max(run.best_epoch, 0)
    kept = next((each for each in run.epochs if each.epoch == best), run.epochs[-1])
    if kept.ess is None:
        return ""
    text = f"The effective sample size of the weights is {share(kept.ess)} of the rows"
    if not has_no_effect(kept.ess):
        return f"{text}."
    who = "weights have" if kept.objective is None else "opponent has"
    return f"{text}: the {who} no effect; this is plain learning."


def _chart(name: str, run: NamedRun) -> Chart:
    rows = [row for each in run.epochs for row in each.to_rows()]
    step, kept = -(-len(rows) // _POINTS), {run.best_epoch, rows[-1]["epoch"]}
    drawn = [row for place, row in enumerate(rows) if place % step == 0 or row["epoch"] in kept]
    found = run.validation
    shown = measured(*found.key) if found else measured("validation value", 0)
    lines = [
        _panel("Losses and objective", "mean over rows", _LOSSES, drawn, run.best_epoch),
        _panel("On the validation rows", shown, _VALUES, drawn, run.best_epoch),
        _panel("The link, β", "β (logits)", _BETAS, drawn, run.best_epoch),
        _propensities(drawn, run.best_epoch),
        _panel(
            "Effective sample", "share of rows", {"effective share": "ess"}, drawn, run.best_epoch
        ),
    ]
    panels = [panel for panel in lines if panel is not None]
    used = {trace["meta"] for panel in panels for trace in panel.figure["data"]}
    series = [Series(each, place) for each, place in _PLACES.items() if place in used]
    reading = (
        "Falling losses mean that the players learn; the objective is what the candidate wants "
        "small and the exposure model large. An effective sample of more than 98% of the rows "
        "means that all weights are alike, and that the game has become plain learning; a negative "
        "β1, that propensities fall as exposure scores rise."
        if any(row["objective"] is not None for row in rows)
        else "A falling loss means that the candidate learns; the validation value decides which "
        "epoch is kept."
    )
    return Chart(name, "Epoch by epoch", reading, panels, [_table(run, rows)], series)


def _panel(
    title: str, unit: str, columns: dict[str, str], rows: list[Row], best: int
) -> Panel | None:
    """Return the columns that are there as lines over the epochs."""
    x, traces, percent = [row["epoch"] for row in rows], [], "ess" in columns.values()
    for name, column in columns.items():
        values = [row[column] for row in rows]
        if all(value is None for value in values):
            continue
        hover = [
            f"{name}, epoch {epoch}<br>{share(value) if percent else number(value)}"
            for epoch, value in zip(x, values, strict=True)
        ]
        traces.append(figures.line(_PLACES[name], x, values, hover, markers=len(x) <= _MARKED))
    if not traces:
        return None
    y = figures.axis(unit, nticks=6, **({"tickformat": ".0%"} if percent else {}))
    return Panel(title, _over_epochs(traces, y, best), 240)


def _over_epochs(traces: list[dict[str, Any]], y: dict[str, Any], best: int) -> dict[str, Any]:
    """Return a figure over the epochs with the best one marked."""
    mark: dict[str, Any] = {}
    if best >= 0:
        rule = {"type": "line", "x0": best, "x1": best, "y0": 0, "y1": 1, "yref": "paper"}
        mark = {"shapes": [rule | {"line": {"color": "@muted", "width": 1, "dash": "dash"}}]}
    last = max(max(trace["x"]) for trace in traces)
    x = figures.axis("epoch (number)", dtick=max(1, round(last / 6)), tickformat="d")
    return figures.figure(traces, x, y, **mark)


def _propensities(rows: list[Row], best: int) -> Panel | None:
    """Return the mean propensity within the lowest and the highest one."""
    x, place = [row["epoch"] for row in rows], _PLACES["propensities"]
    low, mean, high = (
        [row[f"propensity_{end}"] for row in rows] for end in ("low", "mean", "high")
    )
    if all(value is None for value in mean):
        return None
    hover = [
        f"propensities, epoch {epoch}<br>mean {number(middle)}<br>{interval(start, end)}"
        for epoch, start, middle, end in zip(x, low, mean, high, strict=True)
    ]
    traces = figures.area(place, x, low, high)
    traces.append(figures.line(place, x, mean, hover, markers=len(x) <= _MARKED))
    y = figures.logarithmic("propensity (probability)", [*low, *high])
    return Panel("Propensities: lowest, mean, highest", _over_epochs(traces, y, best), 240)


def _table(run: NamedRun, rows: list[Row]) -> Table:
    columns = {
        name: [share(row[key]) if key == "ess" else number(row[key]) for row in rows]
        for name, key in _COLUMNS.items()
    }
    kept = {name: cells for name, cells in columns.items() if set(cells) != {number(None)}}
    best = run.best_epoch
    first = [f"{row['epoch']}{' (kept)' if row['epoch'] == best else ''}" for row in rows]
    return Table(f"Epochs of {run.name}", {"epoch": first} | kept, set())
