"""Several studies side by side: their verdicts and main values, then each by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterplay.report.advice import reservations_section
from counterplay.report.blocks import Block, Cell, Items, Matrix, Part, Prose, Section, Table
from counterplay.report.estimates import matrix
from counterplay.report.leads import lead_chart
from counterplay.report.page import page, write_page
from counterplay.report.summary import Summary
from counterplay.report.words import NONE, best_of, count, ends, metric, number

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from counterplay.study.records import StudyRecord


def write_studies(studies: Mapping[str, StudyRecord], path: str | Path) -> None:
    """Write one page of several studies, by the names that they go by; all of it or nothing."""
    write_page(render_studies(studies), path)


def render_studies(studies: Mapping[str, StudyRecord]) -> str:
    """Return one page of several studies."""
    decided = [name for name, record in studies.items() if record.verdict.decided]
    headline = f"{count(len(decided))} of {count(len(studies))} studies are decided."
    text = (
        "Studies of different logs, splits or metrics are not comparable by their values: compare "
        "candidates within a study."
    )
    sections = [_verdicts(studies), _values(studies)]
    sections += [
        _study(place, name, record) for place, (name, record) in enumerate(studies.items())
    ]
    first = next(iter(studies.values()))
    top = Summary(headline, (text,), "", ())
    return page(", ".join(studies), top, sections, first.versions.get("counterplay"))


def _verdicts(studies: Mapping[str, StudyRecord]) -> Section:
    columns: dict[str, list[str]] = {
        "study": list(studies),
        "log": [each.name for each in studies.values()],
        "test rows": [count(each.split.counts.get("test")) for each in studies.values()],
        "split": [each.split.kind for each in studies.values()],
        "metric": [metric(*each.verdict.key) for each in studies.values()],
        "follows": [each.verdict.estimator for each in studies.values()],
        "first": [each.verdict.leader for each in studies.values()],
        "decided": ["yes" if each.verdict.decided else "no" for each in studies.values()],
        "in words": [each.verdict.headline for each in studies.values()],
    }
    table = Table("Verdicts", columns, set(columns) - {"test rows"})
    reading = "What each study would ship, and by which estimator."
    return Section("verdicts", "Verdicts side by side", reading, [table])


def _values(studies: Mapping[str, StudyRecord]) -> Section:
    """Return candidates in rows and studies in columns, by what each verdict follows."""
    found = {
        name: record.by_estimator(record.verdict.key).get(record.verdict.estimator, {})
        for name, record in studies.items()
    }
    names = dict.fromkeys(candidate for own in found.values() for candidate in own)
    rows: dict[str, list[Cell]] = {candidate: [] for candidate in names}
    for name, own in found.items():
        key = studies[name].verdict.key
        best = best_of({candidate: each.value for candidate, each in own.items()}, key)
        for candidate in names:
            each = own.get(candidate)
            rows[candidate].append(
                Cell(NONE)
                if each is None
                else Cell(number(each.value), (ends(each),), candidate == best)
            )
    columns = {
        name: f"{metric(*record.verdict.key)}, {record.verdict.estimator}"
        for name, record in studies.items()
    }
    reading = "With intervals; the best of a study is marked. Compare within a column."
    blocks: list[Block] = [Matrix("Main values", "candidate", columns, rows)]
    return Section("values", "Main values side by side", reading, blocks)


def _study(place: int, name: str, record: StudyRecord) -> Section:
    """Return what is most important of one study."""
    found, blocks = record.verdict, list[Block]()
    chart = lead_chart(record, f"lead-{place}")
    if chart is not None:
        blocks.append(chart)
    blocks.append(Prose([found.headline, *found.sentences[:1]]))
    notes = reservations_section(record)
    if notes is not None:
        blocks.append(Part(notes.title, notes.blocks))
    if found.next_steps:
        blocks.append(Part("Next steps", [Items(found.next_steps)]))
    blocks.append(matrix(record, found.key))
    reading = f"{record.name}: {count(record.profile.n_interactions)} rows of "
    reading += f"{count(record.profile.n_users)} users. Its own report has more."
    return Section(f"study-{place}", f"The study {name}", reading, blocks)
