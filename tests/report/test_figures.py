from __future__ import annotations

import gzip
import json
import math
from base64 import b64decode
from importlib.resources import files
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterplay.report import figures
from counterplay.report.assets import embedded, plotly, source_hash
from counterplay.report.blocks import charts_of
from counterplay.report.page import SECTIONS
from counterplay.report.words import factor, share, short
from counterplay.study.records import Findings

from .conftest import make_record


def test_twenty_eight_series_look_different() -> None:
    looks = {(figures.colour(place), figures.dash(place)) for place in range(28)}
    assert len(looks) == 28
    few = range(7)
    assert len({figures.symbol(place) for place in few}) == len({figures.colour(p) for p in few})


@given(st.text())
def test_a_folded_name_leaves_room(name: str) -> None:
    lines = figures.folded(name).split("<br>")
    assert len(lines) <= 3
    for line in lines:
        assert "<" not in line
        plain = line.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
        assert len(plain) <= 18


def test_whiskers_point_outwards_and_may_be_missing() -> None:
    found = figures.whiskers([1.0, 2.0, None], [0.5, None, 0.1], [1.25, None, 0.2], "@ink")
    assert found["array"] == [0.25, 0.0, 0.0]
    assert found["arrayminus"] == [0.5, 0.0, 0.0]


@pytest.mark.parametrize(
    ("values", "wanted", "unwanted"),
    [([0.01, 1.0], "0.05", "0.03"), ([1e-6, 1.0], "0.001", "0.002"), ([], "0.2", "7")],
)
def test_logarithmic_ticks_are_round(values: list[float], wanted: str, unwanted: str) -> None:
    axis = figures.logarithmic("x", values)
    assert wanted in axis["ticktext"]
    assert unwanted not in axis["ticktext"]
    assert axis["tickvals"] == sorted(axis["tickvals"])


@given(st.floats(1, 1e6))
def test_a_factor_is_never_rounded_up(value: float) -> None:
    assert float(factor(value).rstrip("×").replace(",", "")) <= value


@given(st.floats(-1e300, 1e300))
def test_a_number_in_four_figures_is_near(value: float) -> None:
    assert math.isclose(float(short(value).replace(",", "")), value, rel_tol=1e-3)


@given(st.floats(0, 1))
def test_a_share_is_near(value: float) -> None:
    assert math.isclose(float(share(value).rstrip("%")) / 100, value, rel_tol=0.06)


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)  # fmt: skip


@given(plain)
def test_embedded_data_come_out_as_they_went_in(value: Any) -> None:
    text = embedded(value)
    assert json.loads(text) == value
    assert not set("<>&\u2028\u2029") & set(text)


def test_the_library_unpacks_to_what_may_run() -> None:
    packed, allowed = plotly()
    assert source_hash(gzip.decompress(b64decode(packed))) == allowed


def test_colours_are_names_of_the_style_sheet(record: Findings) -> None:
    style = (files("counterplay.report") / "templates" / "style.css").read_text(encoding="utf-8")
    light, dark = style.split("prefers-color-scheme: dark", 1)
    used: set[str] = set()

    def look(value: Any, key: str = "") -> None:
        if isinstance(value, dict):
            for name, each in value.items():
                look(each, name)
        elif isinstance(value, list):
            for each in value:
                look(each, key)
        elif key.endswith("color") and isinstance(value, str):
            used.add(value)

    for make in SECTIONS:
        section = make(make_record(tuple(f"c{place}" for place in range(8))))
        assert section is not None
        for chart in charts_of(section.blocks):
            assert chart.tables, "every chart has its numbers as a table"
            for panel in chart.panels:
                look(panel.figure)
    assert used
    for each in used:
        assert each.startswith("@")
        name = each[1:].split("/")[0]
        assert f"--{name}: #" in light
        assert f"--{name}: #" in dark


def test_axes_have_names(record: Findings) -> None:
    for make in SECTIONS:
        section = make(record)
        assert section is not None
        for chart in charts_of(section.blocks):
            assert chart.reading.endswith(".")
            for panel in chart.panels:
                axes = panel.figure["layout"]["xaxis"], panel.figure["layout"]["yaxis"]
                categories = "ticktext" in axes[1] and axes[1].get("type") != "log"
                for axis in axes[: 1 if categories else 2]:
                    assert axis["title"]["text"]
