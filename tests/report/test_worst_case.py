"""The map of a lead: what is drawn is what the record says."""

from __future__ import annotations

import pytest

from counterplay.report.blocks import Chart
from counterplay.report.worst_case import worst_case_section
from counterplay.study.records import Findings

from .conftest import make_record


def chart_of(record: Findings) -> Chart:
    section = worst_case_section(record)
    assert section is not None
    chart = section.blocks[0]
    assert isinstance(chart, Chart)
    return chart


def test_a_panel_a_rival_and_every_cell_is_in_one_state(record: Findings) -> None:
    assert record.verdict is not None
    assert record.evaluation is not None
    assert record.evaluation.dials is not None
    dials, chart = record.evaluation.dials, chart_of(record)
    leads = [each for each in dials.leads if each.first == record.verdict.leader]
    assert [panel.title for panel in chart.panels] == [
        f"{record.verdict.leader} − {each.second}" for each in leads
    ]
    for panel, lead in zip(chart.panels, leads, strict=True):
        marks = [each for each in panel.figure["data"] if each["mode"] == "markers"]
        drawn = {
            pair: trace["marker"]["symbol"]
            for trace in marks
            for pair in zip(trace["x"], trace["y"], strict=True)
        }
        assert drawn.keys() == set(dials.dials)
        for pair, low in zip(dials.dials, lead.low, strict=True):
            assert low is not None
            assert (drawn[pair] == "square") == (low > 0)


def test_the_line_is_where_the_lead_is_0_and_the_frame_is_the_box(record: Findings) -> None:
    figure = chart_of(record).panels[0].figure
    (line,) = (each for each in figure["data"] if each["mode"] == "lines")
    assert line["x"] == [0.0, 0.5, 1.0]
    assert line["y"] == pytest.approx([0.7, 0.7, 0.7])
    (frame,) = figure["layout"]["shapes"]
    assert frame["x0"] < 0 < 1 < frame["x1"]
    assert frame["y0"] < 0 < 0.4 < frame["y1"] < 0.8


def test_the_table_has_both_ends(record: Findings) -> None:
    table = chart_of(record).tables[0]
    assert table.columns["in the frame"].count("no") == 3
    assert (table.columns["lead"][0], table.columns["least"][0]) == ("+0.0700", "+0.0350")
    assert table.columns["most"][0] == "+0.1050"


def test_without_rivals_or_dials_there_is_no_map() -> None:
    record = make_record()
    assert record.evaluation is not None
    without = record.evaluation.model_copy(update={"dials": None})
    assert worst_case_section(record.model_copy(update={"evaluation": without})) is None
    assert worst_case_section(record.model_copy(update={"verdict": None})) is None
    assert worst_case_section(make_record(("one",))) is None
