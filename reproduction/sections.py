"""A reproduced table or figure: what became of its claims, and its cells beside the paper's."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from counterplay.learning.effect import has_no_effect
from counterplay.report import figures
from counterplay.report.blocks import Block, Chart, Panel, Part, Prose, Section, Series, Table
from counterplay.report.page import write_report
from counterplay.report.summary import Summary
from counterplay.report.words import NONE, listed, share
from counterplay.runs.config import config_of
from counterplay.study.records import Findings, NamedRun

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

_METRIC, _SHOWN = "hit@10", "Hit@10, in points"
_AXES = {"dim": "hidden dimension", "alpha": "α"}  # what a figure of sensitivity is drawn against
Row = dict[str, Any]


def reproduction_words(found: Row) -> tuple[str, tuple[str, ...]]:
    """Return a headline, and what stands below it: each claim with how often it held."""
    jobs = found["jobs"]
    missing = jobs["known"] - jobs["done"] - jobs["failed"]
    done = f"{jobs['done']:,} of {jobs['known']:,} jobs that are known by now are done"
    rest = [f"{n:,} {word}" for n, word in ((jobs["failed"], "failed"), (missing, "not run")) if n]
    verdicts: dict[str, Counter[str]] = {}
    for each in found["claims"]:
        if each["n"]:
            verdicts.setdefault(each["claim"], Counter())[each["verdict"]] += 1
    said = [
        f"{claim[0].upper()}{claim[1:]}: "
        + listed([f"{verdict} in {n}" for verdict, n in counts.items()])
        + f" of {counts.total()} comparisons."
        for claim, counts in verdicts.items()
    ]
    return f"{', '.join([done, *rest])}.", tuple(said)


def write_page(record: Row, path: str | Path) -> None:
    """Write the page of a reproduction."""
    top = Summary(*reproduction_words(record["reproduction"]), "", ())
    makers = (claims_section, cells_section, families_section)
    findings = Findings(
        name=record["name"],
        versions=record.get("versions"),
        commands=record.get("commands", ()),
        runs=tuple(_run(each) for each in record["runs"]),
    )
    first = [found for make in makers if (found := make(record)) is not None]
    write_report(findings, path, top=top, first=first)


def _run(found: Row) -> NamedRun:
    """Return the record of a run of which only what a page needs was kept."""
    kept = {name: value for name, value in found.items() if name in NamedRun.model_fields}
    config = config_of(found["configuration"])
    kept |= {"configuration": config, "seed": config.training.seed}
    return NamedRun(**{"data": "", "ess": None, "threads": 1} | kept)


def claims_section(record: Row) -> Section | None:
    """Return every comparison that a claim was judged by."""
    claims = [each for each in (record.get("reproduction") or {}).get("claims", ()) if each["n"]]
    if not claims:
        return None
    blocks: list[Block] = []
    for claim in dict.fromkeys(each["claim"] for each in claims):
        own = [each for each in claims if each["claim"] == claim]
        columns = {
            "data": [each["dataset"] for each in own],
            "measured by": [each["column"] for each in own],
            "difference": [f"{each['first']} − {each['second']}" for each in own],
            "paper": [_signed(each["paper"]) for each in own],
            "ours": [_signed(each["value"]) for each in own],
            "95% interval": [_ends(each, _signed) for each in own],
            "seeds": [str(each["n"]) for each in own],
            "verdict": [each["verdict"] for each in own],
        }
        words = {"data", "measured by", "difference", "verdict"}
        blocks.append(Table(f"{claim[0].upper()}{claim[1:]}", columns, words))
    reading = (
        "Differences are paired over seeds. A claim is reproduced if the interval of the mean "
        "difference lies on the claimed side of 0, not reproduced if it lies on the other, "
        "undecided otherwise; “does not lose” allows for 1% of the rival's level."
    )
    return Section("claims", "What became of the claims", reading, blocks)


def cells_section(record: Row) -> Section | None:
    """Return the cells of a table of methods, a part a dataset."""
    cells = [
        each
        for each in (record.get("reproduction") or {}).get("cells", ())
        if each["metric"] == _METRIC and each["value"] is not None
    ]
    if not cells:
        return None
    blocks: list[Block] = []
    for dataset in dict.fromkeys(each["dataset"] for each in cells):
        own = [each for each in cells if each["dataset"] == dataset]
        blocks.append(Part(dataset, [_drawn(dataset, own)]))
    reading = (
        "Means over seeds, with the 95% interval of the mean over seeds where there are several. "
        "The paper's numbers are of its own data, negatives and tuning; compare the order."
    )
    return Section("cells", "Methods", reading, blocks)


def _drawn(dataset: str, cells: list[Row]) -> Chart:
    by_column = {
        column: [each for each in cells if each["column"] == column]
        for column in dict.fromkeys(each["column"] for each in cells)
    }
    swept = _swept(cells)
    titles = list(dict.fromkeys(each["title"] for each in cells))
    series = [Series(title, place) for place, title in enumerate(titles)] if swept else []
    panels = [
        _lines(column, own, swept, titles) if swept else _dots(column, own)
        for column, own in by_column.items()
    ]
    reading = (
        f"Each line is a method, against the {_AXES[swept]}." if swept else
        "A dot is a mean over seeds, the line through it its interval. Each panel has its own "
        "scale; the diamond is the highest."
    )  # fmt: skip
    return Chart(
        f"cells-{dataset}", f"Hit@10 on {dataset}", reading, panels, [_table(cells)], series
    )


def _swept(cells: list[Row]) -> str | None:
    """Return the setting that a figure goes through, if it does."""
    for name in ("alpha", "dim"):
        by_title: dict[str, set[float]] = {}
        for each in cells:
            by_title.setdefault(each["title"], set()).add(each["swept"].get(name))
        if all(len(values) > 1 for values in by_title.values()):
            return name
    return None


def _lines(column: str, cells: list[Row], swept: str, titles: list[str]) -> Panel:
    traces, ticks = [], set()
    for place, title in enumerate(titles):
        own = sorted(
            (each for each in cells if each["title"] == title),
            key=lambda each: float(each["swept"][swept]),
        )
        x = [each["swept"][swept] for each in own]
        ticks.update(x)
        hover = [
            f"{figures.text(title)}<br>{_AXES[swept]} {each['swept'][swept]:g}: "
            + _plain(each["value"])
            for each in own
        ]
        errors = [each["low"] for each in own], [each["high"] for each in own]
        traces.append(figures.line(place, x, [each["value"] for each in own], hover, errors=errors))
    return Panel(
        column,
        figures.figure(
            traces, figures.logarithmic(_AXES[swept], ticks), figures.axis(_SHOWN, nticks=6)
        ),
        320,
    )


def _dots(column: str, cells: list[Row]) -> Panel:
    names = _names(cells)
    values = [each["value"] for each in cells]
    hover = [
        f"{figures.text(name)}<br>{_plain(each['value'])}<br>{_ends(each, _plain)}"
        for name, each in zip(names, cells, strict=True)
    ]
    best = values.index(max(values)) if len(values) > 1 else None
    points = [
        (name, each["value"], each["low"], each["high"])
        for name, each in zip(names, cells, strict=True)
    ]
    return Panel(column, *figures.dots(points, best, _SHOWN, hover))


def _names(cells: list[Row]) -> list[str]:
    """Return the titles of cells, with what tells those of one title apart."""
    common: dict[str, set[str]] = {}
    for each in cells:
        common.setdefault(each["title"], set(each["about"])).intersection_update(each["about"])
    own = [[said for said in each["about"] if said not in common[each["title"]]] for each in cells]
    return [
        f"{each['title']} ({', '.join(said)})" if said else each["title"]
        for each, said in zip(cells, own, strict=True)
    ]


def _table(cells: list[Row]) -> Table:
    shares = [_effective(each) for each in cells]
    return Table(
        "The same in numbers",
        {
            "method": [f"{each['title']} ({', '.join(each['about'])})" for each in cells],
            "measured by": [each["column"] for each in cells],
            "paper": [NONE if not each["paper"] else f"{each['paper'][0]:.2f}" for each in cells],
            "ours": [_plain(each["value"]) for each in cells],
            "95% interval": [_ends(each, _plain) for each in cells],
            **({"effective share": shares} if set(shares) != {NONE} else {}),
            "seeds": [str(each["n"]) for each in cells],
        },
        {"method", "measured by"},
    )


def _effective(cell: Row) -> str:
    """Return the mean effective sample size of the weights, and whether it is plain learning."""
    found = [each for each in cell.get("ess") or () if each is not None]
    plain = sum(map(has_no_effect, found))
    said = f" ({plain} of {len(found)} plain learning)" if plain else ""
    return f"{share(sum(found) / len(found))}{said}" if found else NONE


def families_section(record: Row) -> Section | None:
    """Return the errors of estimators against online tests, a part a family of worlds."""
    families = [
        each
        for each in (record.get("reproduction") or {}).get("families", ())
        if each["estimators"]
    ]
    if not families:
        return None
    blocks: list[Block] = []
    for family in families:
        rows = [each for each in family["estimators"] if each["metric"] == "hit@5"]
        columns = {
            "estimator": [each["estimator"] for each in rows],
            "opponent": [each["kind"] or NONE for each in rows],
            "floor": [f"{each['floor']:g}" if each["floor"] else NONE for each in rows],
            "error of Hit@5, in points": [_root(each["mse"][0]) for each in rows],
            "bias": [_signed(100 * each["bias"][0]) for each in rows],
            "order": [_signed((each.get("rank") or [None])[0]) for each in rows],
        }
        blocks.append(
            Table(f"{family['family']}, {family['n']} worlds", columns, {"estimator", "opponent"})
        )
    reading = (
        "Error is the root of the mean squared difference between an offline estimate and the "
        "online test; order is Spearman's correlation of the candidates."
    )
    return Section("families", "Estimators against online tests", reading, [*_note(), *blocks])


def _note() -> Sequence[Block]:
    said = "Coat and Open Bandit, where exposure was randomised, are on the Markdown page."
    return [Prose([said])]


def _root(squared: float) -> str:
    return f"{100 * max(squared, 0.0) ** 0.5:.2f}"


def _plain(value: float | None) -> str:
    return NONE if value is None else f"{value:.{_digits(value)}f}"


def _signed(value: float | None) -> str:
    return NONE if value is None else f"{value:+.{_digits(value)}f}".replace("-", "−")


def _digits(value: float) -> int:
    """Return how many decimals show what matters of points."""
    return 2 if abs(value) >= 1 else 3


def _ends(each: Row, show: Callable[[float | None], str]) -> str:
    return NONE if each["low"] is None else f"{show(each['low'])} to {show(each['high'])}"
