"""One self-contained HTML page from a record: no request, no clock, the same bytes again."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from counterplay.data.publishing import new_file
from counterplay.errors import DataError
from counterplay.report import figures
from counterplay.report.assets import embedded, plotly, source_hash
from counterplay.report.background import data_section, origin_section
from counterplay.report.blocks import charts_of
from counterplay.report.differences import differences_section
from counterplay.report.estimates import estimates_section
from counterplay.report.exposure import exposure_section
from counterplay.report.glossary import glossary_section
from counterplay.report.online import online_section
from counterplay.report.sensitivity import sensitivity_section
from counterplay.report.summary import TRUTH, Summary, summary
from counterplay.report.training import training_section
from counterplay.report.words import plain
from counterplay.report.worst_case import worst_case_section

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from counterplay.report.blocks import Section
    from counterplay.study.records import Findings

SECTIONS: tuple[Callable[[Findings], Section | None], ...] = (
    glossary_section,
    worst_case_section,
    estimates_section,
    differences_section,
    sensitivity_section,
    online_section,
    training_section,
    exposure_section,
    data_section,
    origin_section,
)


def render(record: Findings, *, top: Summary | None = None, first: Sequence[Section] = ()) -> str:
    """Return the page of a record; what the record does not have is left out.

    Args:
        record: Of a study, or of runs and an evaluation of them.
        top: What stands at the top, instead of what follows from the record.
        first: Sections of one's own, before all others.
    """
    if not hasattr(record, "evaluation"):
        raise DataError(
            "a report is made of the record of a study, or of runs; found "
            f"{type(record).__name__}; give study.record of cp.study.load_study"
        )
    sections = [*first, *(found for make in SECTIONS if (found := make(record)) is not None)]
    drawn = {
        f"{chart.name}-{place}": panel.figure
        for section in sections
        for chart in charts_of(section.blocks)
        for place, panel in enumerate(chart.panels)
    }
    script, (packed, packed_hash) = _file("charts.js"), plotly()
    page = (
        _environment()
        .get_template("page.html")
        .render(
            name=record.name,
            world=record.kind == "world",
            top=top or summary(record),
            truth=TRUTH,
            sections=sections,
            figures=Markup(embedded(drawn)),
            has_charts=bool(drawn),
            style=Markup(_file("style.css")),
            script=Markup(script),
            plotly=Markup(packed),
            allowed=[source_hash(script.encode()), packed_hash],
            version=(record.versions or {}).get("counterplay"),
        )
    )
    return page.encode("utf-8", "replace").decode()  # half a character in a name is no reason


def write_report(
    record: Findings,
    path: str | Path,
    *,
    top: Summary | None = None,
    first: Sequence[Section] = (),
) -> None:
    """Write the page of a record, all of it or nothing; see `render`."""
    page = render(record, top=top, first=first)
    with new_file(Path(path)) as beside:
        beside.write_text(page, encoding="utf-8", newline="\n")


def _file(name: str) -> str:
    """Return one of our own files: besides these and what is escaped nothing becomes Markup."""
    return (files("counterplay.report") / "templates" / name).read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("counterplay.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["plain"] = plain
    environment.globals["colour"] = lambda place: figures.colour(place).removeprefix("@")
    environment.globals["dash"] = figures.dash
    environment.globals["symbol"] = figures.symbol
    return environment
