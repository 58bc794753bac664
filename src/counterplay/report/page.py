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
from counterplay.report.advice import next_steps_section, reservations_section
from counterplay.report.assets import embedded, plotly, source_hash
from counterplay.report.background import data_section, origin_section
from counterplay.report.blocks import Chart, People, blocks_in
from counterplay.report.differences import differences_section
from counterplay.report.estimates import estimates_section
from counterplay.report.exposure import exposure_section
from counterplay.report.glance import glance_section
from counterplay.report.online import online_section
from counterplay.report.quality import quality_section
from counterplay.report.segments import segments_section
from counterplay.report.sensitivity import sensitivity_section
from counterplay.report.summary import Summary, summary
from counterplay.report.training import training_section
from counterplay.report.users import users_section
from counterplay.report.words import plain
from counterplay.report.worst_case import worst_case_section

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from counterplay.report.blocks import Section
    from counterplay.study.records import Findings

SECTIONS: tuple[Callable[[Findings], Section | None], ...] = (
    reservations_section,
    next_steps_section,
    glance_section,
    worst_case_section,
    estimates_section,
    differences_section,
    segments_section,
    users_section,
    quality_section,
    sensitivity_section,
    online_section,
    exposure_section,
    data_section,
    origin_section,
    training_section,
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
    version = (record.versions or {}).get("counterplay")
    return page(
        record.name, top or summary(record), sections, version, world=record.kind == "world"
    )


def page(
    name: str,
    top: Summary,
    sections: Sequence[Section],
    version: str | None = None,
    *,
    world: bool = False,
) -> str:
    """Return the page of a summary and sections, with all that it needs in itself."""
    blocks = [block for section in sections for block in blocks_in(section.blocks)]
    charts = [each for each in (top.picture, *blocks) if isinstance(each, Chart)]
    drawn = {
        f"{chart.name}-{place}": panel.figure
        for chart in charts
        for place, panel in enumerate(chart.panels)
    }
    people = next((block.data for block in blocks if isinstance(block, People)), None)
    reading, script, (packed, packed_hash) = _file("reading.js"), _file("charts.js"), plotly()
    made = (
        _environment()
        .get_template("page.html")
        .render(
            name=name,
            world=world,
            top=top,
            sections=sections,
            figures=Markup(embedded(drawn)),
            has_charts=bool(drawn),
            people=None if people is None else Markup(embedded(people)),
            style=Markup(_file("style.css")),
            reading=Markup(reading),
            script=Markup(script),
            plotly=Markup(packed),
            allowed=[source_hash(each.encode()) for each in (reading, script)] + [packed_hash],
            version=version,
        )
    )
    return made.encode("utf-8", "replace").decode()  # half a character in a name is no reason


def write_report(
    record: Findings,
    path: str | Path,
    *,
    top: Summary | None = None,
    first: Sequence[Section] = (),
) -> None:
    """Write the page of a record, all of it or nothing; see `render`."""
    write_page(render(record, top=top, first=first), path)


def write_page(text: str, path: str | Path) -> None:
    """Write a page, all of it or nothing."""
    with new_file(Path(path)) as beside:
        beside.write_text(text, encoding="utf-8", newline="\n")


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
