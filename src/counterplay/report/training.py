"""How training went: losses, validation, the link and propensities, epoch by epoch."""

from __future__ import annotations

from typing import Any

from counterplay.learning.effect import has_no_effect
from counterplay.report import figures
from counterplay.report.blocks import Block, Chart, Fold, Panel, Part, Prose, Section, Series, Table
from counterplay.report.words import count, interval, measured, metric, number, share

_OPEN = 6  # runs that are shown; more are folded
_POINTS = 120  # of a line; of more epochs every second, third … is drawn, and the table has all
_SERIES = (
    "candidate",
    "exposure model",
    "objective",
    "β0",
    "β1",
    "β2",
    "propensities",
    "effective share",
)
_PLACES = {name: place for place, name in enumerate(_SERIES)}


def training_section(record: dict[str, Any]) -> Section | None:
    """Return what each run's epochs were like."""
    runs = [run for run in record.get("runs") or () if run.get("epochs")]
    if not runs:
        return None
    runs.sort(key=_little_to_see)
    parts = [Part(run["name"], _run(place, run)) for place, run in enumerate(runs)]
    blocks: list[Block] = list(parts[:_OPEN])
    if parts[_OPEN:]:
        blocks.append(Fold(f"{len(parts) - _OPEN} more runs", parts[_OPEN:]))
    reading = (
        "A candidate is trained to have a small loss; in the game an exposure model plays against "
        "it by putting weight where the candidate is bad, within what the clicks allow. The dashed "
        "line marks the epoch that was kept."
    )
    return Section("training", "The game, epoch by epoch", reading, blocks)


def _little_to_see(run: dict[str, Any]) -> tuple[bool, int]:
    """Return what runs are sorted by: the game first, what has nothing to learn last."""
    idle = (run.get("parameters") or {}).get("candidate") == 0
    return idle, sum(1 for value in run["epochs"][-1].values() if value is None)


def _run(place: int, run: dict[str, Any]) -> list[Block]:
    blocks: list[Block] = [Prose([_said(run)])]
    if (run.get("parameters") or {}).get("candidate") != 0:
        blocks.append(_chart(f"training-{place}", run))
    return blocks


def _said(run: dict[str, Any]) -> str:
    """Say in words what came of a run."""
    configuration = run.get("configuration") or {}
    names = [
        str((configuration.get(role) or {}).get("name", role)) for role in run.get("parameters", {})
    ]
    method = configuration.get("method", "run")
    text = f"Method {method}, {' against '.join(names)}. " if names else f"Method {method}. "
    if (run.get("parameters") or {}).get("candidate") == 0:
        text += "It has nothing to learn. "
    else:
        n = len(run["epochs"])
        best = run.get("best_epoch")
        text += f"{n} epoch{'s' if n != 1 else ''}"
        text += f", the best is {best}" if best is not None and best >= 0 else ""
        text += f"; {run['stopped']}. " if run.get("stopped") else ". "
    found = run.get("validation")
    if found:
        text += (
            f"Validation {metric(found['metric'], found['k'])} {number(found['value'])} "
            f"({interval(found['low'], found['high'])}) on {count(found['n'])} rows, "
            f"{found['protocol']}. "
        )
    return f"{text}{_effect(run)}".rstrip()


def _effect(run: dict[str, Any]) -> str:
    """Say whether the weights did anything in the epoch that was kept."""
    epochs, best = run["epochs"], max(run.get("best_epoch") or 0, 0)
    kept = next((each for each in epochs if each["epoch"] == best), epochs[-1])
    if kept.get("ess") is None:
        return ""
    text = f"The effective sample size of the weights is {share(kept['ess'])} of the rows"
    if not has_no_effect(kept["ess"]):
        return f"{text}."
    who = "weights have" if kept.get("objective") is None else "opponent has"
    return f"{text}: the {who} no effect; this is plain learning."


def _chart(name: str, run: dict[str, Any]) -> Chart:
    epochs = _drawn(run)
    validation = run.get("validation") or {}
    shown = measured(validation.get("metric", "validation value"), validation.get("k"))
    best = run.get("best_epoch")
    losses = {
        "candidate": [each.get("candidate_loss") for each in epochs],
        "exposure model": [each.get("exposure_loss") for each in epochs],
        "objective": [each.get("objective") for each in epochs],
    }
    values = {
        "candidate": [each.get("validation") for each in epochs],
        "exposure model": [each.get("exposure_validation") for each in epochs],
    }
    betas = {
        f"β{place}": [(each.get("beta") or (None,) * 3)[place] for each in epochs]
        for place in range(3)
    }
    effective = {"effective share": [each.get("ess") for each in epochs]}
    numbers = [each["epoch"] for each in epochs]
    drawn = [
        _panel("Losses and objective", "mean over rows", losses, numbers, best),
        _panel("On the validation rows", shown, values, numbers, best),
        _panel("The link, β", "β (logits)", betas, numbers, best),
        _propensities(epochs, numbers, best),
        _panel("Effective sample", "share of rows", effective, numbers, best, percent=True),
    ]
    panels = [panel for panel in drawn if panel is not None]
    used = {trace["meta"] for panel in panels for trace in panel.figure["data"]}
    series = [Series(each, place) for each, place in _PLACES.items() if place in used]
    reading = (
        "Falling losses mean that the players learn; the objective is what the candidate wants "
        "small and the exposure model large. An effective sample of more than 98% of the rows "
        "means that all weights are alike, and that the game has become plain learning; a negative "
        "β1, that propensities fall as exposure scores rise."
        if any(each.get("objective") is not None for each in epochs)
        else "A falling loss means that the candidate learns; the validation value decides which "
        "epoch is kept."
    )
    return Chart(name, "Epoch by epoch", reading, panels, [_table(run)], series)


def _drawn(run: dict[str, Any]) -> list[dict[str, Any]]:
    """Return so many epochs that a line is smooth, with the last one and the one that was kept."""
    epochs: list[dict[str, Any]] = run["epochs"]
    step = -(-len(epochs) // _POINTS)
    kept = {run.get("best_epoch"), epochs[-1]["epoch"]}
    return [each for place, each in enumerate(epochs) if place % step == 0 or each["epoch"] in kept]


def _panel(
    title: str,
    unit: str,
    columns: dict[str, list[float | None]],
    numbers: list[int],
    best: int | None,
    *,
    percent: bool = False,
) -> Panel | None:
    """Return the columns that are there as lines over the epochs."""
    traces = []
    for name, values in columns.items():
        if all(value is None for value in values):
            continue
        hover = [
            f"{name}, epoch {epoch}<br>{share(value) if percent else number(value)}"
            for epoch, value in zip(numbers, values, strict=True)
        ]
        traces.append(
            figures.line(_PLACES[name], numbers, values, hover, markers=len(numbers) <= 12)
        )
    if not traces:
        return None
    y = figures.axis(unit, nticks=6, **({"tickformat": ".0%"} if percent else {}))
    return Panel(title, _over_epochs(traces, y, best), 240)


def _over_epochs(
    traces: list[dict[str, Any]], y: dict[str, Any], best: int | None
) -> dict[str, Any]:
    """Return a figure over the epochs with the best one marked."""
    mark: dict[str, Any] = {}
    if best is not None and best >= 0:
        rule = {"type": "line", "x0": best, "x1": best, "y0": 0, "y1": 1, "yref": "paper"}
        rule["line"] = {"color": "@muted", "width": 1, "dash": "dash"}
        mark = {"shapes": [rule]}
    last = max((max(trace["x"], default=0) for trace in traces), default=0)
    x = figures.axis("epoch (number)", dtick=max(1, round(last / 6)), tickformat="d")
    return figures.figure(traces, x, y, **mark)


def _propensities(
    epochs: list[dict[str, Any]], numbers: list[int], best: int | None
) -> Panel | None:
    """Return the mean propensity within the lowest and the highest one."""
    triples = [each.get("propensity") or (None,) * 3 for each in epochs]
    low, mean, high = (list(column) for column in zip(*triples, strict=True))
    if all(value is None for value in mean):
        return None
    place = _PLACES["propensities"]
    hover = [
        f"propensities, epoch {epoch}<br>mean {number(middle)}<br>{interval(start, end)}"
        for epoch, start, middle, end in zip(numbers, low, mean, high, strict=True)
    ]
    traces = figures.area(place, numbers, low, high)
    traces.append(figures.line(place, numbers, mean, hover, markers=len(numbers) <= 12))
    y = figures.logarithmic("propensity (probability)", [*low, *high])
    return Panel("Propensities: lowest, mean, highest", _over_epochs(traces, y, best), 240)


def _table(run: dict[str, Any]) -> Table:
    epochs = run["epochs"]
    single = {
        "candidate loss": "candidate_loss",
        "exposure loss": "exposure_loss",
        "objective": "objective",
        "validation": "validation",
        "exposure validation": "exposure_validation",
    }
    triples = {
        "β0": ("beta", 0),
        "β1": ("beta", 1),
        "β2": ("beta", 2),
        "lowest propensity": ("propensity", 0),
        "mean propensity": ("propensity", 1),
        "highest propensity": ("propensity", 2),
    }
    columns = {name: [number(each.get(key)) for each in epochs] for name, key in single.items()}
    for name, (key, place) in triples.items():
        columns[name] = [number((each.get(key) or (None,) * 3)[place]) for each in epochs]
    columns["effective share"] = [share(each.get("ess")) for each in epochs]
    kept = {name: cells for name, cells in columns.items() if set(cells) != {number(None)}}
    best = run.get("best_epoch")
    first = {
        "epoch": [f"{each['epoch']}{' (kept)' if each['epoch'] == best else ''}" for each in epochs]
    }
    return Table(f"Epochs of {run['name']}", first | kept, set())
