from __future__ import annotations

import subprocess
import sys
from html.parser import HTMLParser

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import counterplay as cp
from counterplay.display import between, flat, html_table, named, pairs, to_pandas, to_polars
from counterplay.metrics.comparison import Difference

TEXT = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=20)


class Reader(HTMLParser):
    """Reads a table back, and counts what it is made of."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.texts.append("")
        assert all(value == "text-align: left" for _, value in attrs)  # no colours, no scripts

    def handle_data(self, data: str) -> None:
        self.texts[-1] += data

    def of(self, tag: str) -> list[str]:
        return [text for name, text in zip(self.tags, self.texts, strict=True) if name == tag]


def estimate(metric: str = "hit", low: float = 0.25) -> cp.metrics.Estimate:
    return cp.metrics.Estimate(
        metric, 10, "robust", "full", 0.5, low, 0.75, 0.95, 1000, 800, 0.02, True
    )


@given(TEXT, st.dictionaries(TEXT, st.lists(TEXT, min_size=2, max_size=2), min_size=1, max_size=4))
def test_a_table_holds_its_texts_whatever_they_are(
    title: str, columns: dict[str, list[str]]
) -> None:
    read = Reader(html_table(title, columns))
    assert read.of("p") == [title]
    assert read.of("th") == list(columns)
    assert read.of("td") == [column[row] for row in range(2) for column in columns.values()]
    assert set(read.tags) == {"div", "p", "table", "thead", "tbody", "tr", "th", "td"}


def test_cells() -> None:
    column = [None, float("nan"), 1234567, 0.123456, True, "<b>&", "x" * 100, 1e-9]
    assert Reader(html_table("", {"a": column})).of("td") == [
        "–", "–", "1,234,567", "0.1235", "True", "<b>&", "x" * 79 + "…", "1e-09",
    ]  # fmt: skip


def test_pairs_have_no_head() -> None:
    read = Reader(html_table("title", pairs({"users": 3, "items": 4})))
    assert read.of("td") == ["users", "3", "items", "4"]
    assert "th" not in read.tags


def test_an_empty_table() -> None:
    assert Reader(html_table("nothing", {})).tags == ["div", "p", "table", "tbody"]


def test_values_one_level_deep() -> None:
    parts = {"range": ("low", "high")}
    assert flat({"n": 1, "range": None}, parts) == {"n": 1, "range_low": None, "range_high": None}
    assert flat({"range": [1, 2]}, parts) == {"range_low": 1, "range_high": 2}
    assert flat({"by": {"a": 1, "b": [2]}, "none": {}}) == {"by_a": 1, "by_b": [2]}
    with pytest.raises(ValueError, match="zip"):
        flat({"range": [1, 2, 3]}, parts)


def test_words() -> None:
    assert (named("ndcg", 10), named("rmse", 0)) == ("ndcg@10", "rmse")
    assert between(-0.5, 0.25, 0.9, "+") == "[-0.5000, +0.2500] at 90%"
    assert between(float("nan"), 0.25, 0.9) == "without an interval"


def test_results_as_frames() -> None:
    found = [estimate(), estimate("ndcg", low=float("nan"))]
    frame = to_polars(found)
    assert frame.rows(named=True) == [each.to_dict() for each in found]
    assert frame["low"].to_list() == [0.25, None]
    assert frame.equals(to_polars([each.to_dict() for each in found]))  # as records hold them
    assert frame.equals(pl.concat([each.to_polars() for each in found], how="vertical_relaxed"))
    for other in (to_pandas(found), to_pandas(tuple(found))):
        assert other.columns.tolist() == frame.columns
        assert other["metric"].tolist() == ["hit", "ndcg"]
    assert estimate().to_pandas()["value"].tolist() == [0.5]


def test_comparisons_as_frames() -> None:
    difference = Difference(0.5, 0.25, 0.75, 0.95, 100, 50, 0.01)
    frame = to_polars([("a", "b", difference), ("a", "<c>", difference)])
    assert frame.columns[:3] == ["first", "second", "value"]
    assert frame["second"].to_list() == ["b", "<c>"]


def test_what_some_results_lack_is_null() -> None:
    rows: list[dict[str, object]] = [{"a": 1}, {"b": 0.5, "a": None}, {}]
    assert to_polars(rows).rows() == [(1, None), (None, 0.5), (None, None)]
    late = [{"a": None}] * 200 + [{"a": 0.5}]  # beyond what is looked at to guess a type
    assert to_polars(late)["a"].sum() == 0.5
    assert to_polars([{"a": 1}, {"a": 0.5}])["a"].to_list() == [1.0, 0.5]
    assert to_polars([]).shape == (0, 0)


@pytest.mark.parametrize("result", [3, "hit", ("a", "b"), ("a", "b", 3)])
def test_what_is_no_result_is_refused(result: object) -> None:
    with pytest.raises(cp.DataError, match=r"a frame is made of results.*; found .*; give a list"):
        to_polars([result])  # type: ignore[list-item]


def test_a_single_result_stands_for_itself() -> None:
    assert to_polars(estimate()).equals(estimate().to_polars())


def test_pandas_may_be_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(cp.ConfigError, match=r"needs pandas; found none .*counterplay\[pandas\]"):
        estimate().to_pandas()


def test_showing_loads_nothing_heavy() -> None:
    code = (
        "import sys, counterplay.display; print({'polars', 'numpy', 'pandas'} & set(sys.modules))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "set()\n"
