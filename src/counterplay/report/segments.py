"""For whom the lead holds: the metric that decides by part of the audience."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterplay.metrics.measures import SMALLER_IS_BETTER
from counterplay.report import figures
from counterplay.report.blocks import Block, Cell, Chart, Fold, Matrix, Panel, Prose, Section, Table
from counterplay.report.words import NONE, best_of, count, ends, interval, metric, number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from counterplay.evaluation.audience_records import Segment, SegmentLead, Segments
    from counterplay.study.records import Findings

_OPEN = 6  # kinds of segments that are shown; more are folded


def segments_section(record: Findings) -> Section | None:
    """Return the lead and the values segment by segment."""
    diagnostics = record.evaluation.diagnostics if record.evaluation else None
    found = diagnostics.segments if diagnostics else None
    if found is None or not found.segments:
        return None
    kinds = list(dict.fromkeys(each.of for each in found.segments))
    by_kind = {of: [each for each in found.segments if each.of == of] for of in kinds}
    first, rest = kinds[:_OPEN], kinds[_OPEN:]
    blocks = _blocks(found, {of: by_kind[of] for of in first}, "segments")
    if rest:
        more = _blocks(found, {of: by_kind[of] for of in rest}, "more-segments")
        blocks.append(Fold(f"{len(rest)} more features", more))
    if found.left_out:
        blocks.append(Prose([f"Not shown: {'; '.join(found.left_out)}."]))
    reading = (
        f"{metric(*found.key)} by part of the audience, under the estimator {found.estimator}. "
        f"Each value has its own {found.level:.0%} interval over users, not corrected for their "
        f"number: of {count(len(found.segments))} segments some will stand out by chance. "
        "Differences are paired, and corrected for all segments at once (Bonferroni)."
    )
    return Section("segments", "For whom the lead holds", reading, blocks)


def _blocks(found: Segments, by_kind: dict[str, list[Segment]], name: str) -> list[Block]:
    blocks: list[Block] = [_chart(found, by_kind, name)] if found.n_leads else []
    blocks += [_matrix(found, of, own, found.estimator) for of, own in by_kind.items()]
    if found.estimator != "standard":
        others = [_matrix(found, of, own, "standard") for of, own in by_kind.items()]
        blocks.append(Fold("The same under standard, where every row counts alike", others))
    return blocks


def _chart(found: Segments, by_kind: dict[str, list[Segment]], name: str) -> Chart:
    """Return the lead of the first candidate over its nearest rival, a panel a kind."""
    sign = -1 if found.metric in SMALLER_IS_BETTER else 1
    panels, cells = [], []
    for of, own in by_kind.items():
        leads = [(each, _lead(each, found.estimator)) for each in own]
        points = [(each.label, *_seen(lead, sign)) for each, lead in leads if lead is not None]
        if points:
            unit = f"lead in {metric(*found.key)}" if sign > 0 else f"{metric(*found.key)} saved"
            panels.append(Panel(of, *figures.leads(points, unit)))
        cells += [
            (of, each.label, lead.estimator, count(each.n), count(each.n_users),
             number(sign * lead.value, "+"), interval(*_seen(lead, sign)[1:], "+"),
             "yes" if lead.decided else "no")
            for each in own
            for lead in each.leads
        ]  # fmt: skip
    title = f"Lead of {found.first} over {found.second} in {metric(*found.key)}, by segment"
    heads = ("by", "segment", "estimator", "rows", "users", "lead", "interval", "beyond chance")
    words = {"by", "segment", "estimator", "beyond chance"}
    reading = (
        f"Right of the line {found.first} is ahead, left of it {found.second}. A bar that crosses "
        "the line does not tell the two apart on these rows."
    )
    return Chart(name, title, reading, panels, [Table.of(title, heads, cells, words)])


def _lead(each: Segment, estimator: str) -> SegmentLead | None:
    return next((lead for lead in each.leads if lead.estimator == estimator), None)


def _seen(lead: SegmentLead, sign: int) -> tuple[float, float | None, float | None]:
    """Return a lead so that more is better."""
    if lead.low is None or lead.high is None:
        return sign * lead.value, None, None
    low, high = sorted((sign * lead.low, sign * lead.high))
    return sign * lead.value, low, high


def _matrix(found: Segments, of: str, own: Sequence[Segment], estimator: str) -> Matrix:
    """Return candidates in rows and segments in columns; the best of a column is marked."""
    names = list(dict.fromkeys(value.candidate for each in own for value in each.values))
    rows: dict[str, list[Cell]] = {name: [] for name in names}
    for each in own:
        values = {value.candidate: value for value in each.values if value.estimator == estimator}
        best = best_of({name: value.value for name, value in values.items()}, found.key)
        for name in names:
            rows[name].append(
                Cell(number(values[name].value), (ends(values[name]),), name == best)
                if name in values
                else Cell(NONE)
            )
    columns = {each.label: f"{count(each.n)} rows of {count(each.n_users)} users" for each in own}
    title = f"{metric(*found.key)} by {of}, {estimator}"
    return Matrix(title, "candidate", columns, rows)
