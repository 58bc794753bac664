from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from counterplay.report.blocks import Chart, Part, Table
from reproduction.sections import (
    cells_section,
    claims_section,
    families_section,
    reproduction_words,
    write_page,
)


def cell(title: str, value: float | None, **swept: float) -> dict[str, Any]:
    known = value is not None
    return {
        "dataset": "ml-1m", "column": "full ranking", "metric": "hit@10", "title": title,
        "about": [f"{name} {at:g}" for name, at in swept.items()], "swept": swept,
        "paper": [63.97, 0.1] if title == "GMF" else None, "value": value, "n": 3 if known else 0,
        "low": value - 1 if value is not None else None,
        "high": value + 1 if value is not None else None,
    }  # fmt: skip


def claim(verdict: str, value: float | None) -> dict[str, Any]:
    known = value is not None
    return {
        "claim": "the game wins", "dataset": "ml-1m", "column": "full ranking",
        "first": "ACL <b>", "second": "GMF", "paper": 0.1, "value": value,
        "low": -0.5 if known else None, "high": 0.2 if known else None,
        "n": 3 if known else 0, "verdict": verdict,
    }  # fmt: skip


def record(**found: Any) -> dict[str, Any]:
    jobs = {"known": 9, "done": 6, "failed": 1}
    return {
        "name": "Table 0",
        "runs": [],
        "reproduction": {"jobs": jobs, "claims": [], "cells": [], **found},
    }


def test_the_top_counts_jobs_and_verdicts() -> None:
    claims = [claim("undecided", -0.1), claim("undecided", -0.2), claim("reproduced", 0.3)]
    words = reproduction_words(record(claims=[*claims, claim("undecided", None)])["reproduction"])
    assert words == (
        "6 of 9 jobs that are known by now are done, 1 failed, 2 not run.",
        ("The game wins: undecided in 2 and reproduced in 1 of 3 comparisons.",),
    )


def test_claims_are_a_table_and_what_was_not_run_is_left_out() -> None:
    found = claims_section(record(claims=[claim("undecided", -0.15), claim("undecided", None)]))
    assert found is not None
    (table,) = found.blocks
    assert isinstance(table, Table)
    assert table.rows == [
        ("ml-1m", "full ranking", "ACL <b> − GMF", "+0.100", "−0.150", "−0.500 to +0.200", "3",
         "undecided")
    ]  # fmt: skip
    assert claims_section(record()) is None
    assert claims_section({}) is None


def test_methods_are_dots_with_the_paper_beside_them() -> None:
    cells = [cell("GMF", 67.5, dim=64), cell("ACL", 68.25, dim=32), cell("Pop", None, dim=64)]
    found = cells_section(record(cells=cells))
    assert found is not None
    (part,) = found.blocks
    assert isinstance(part, Part)
    (chart,) = part.blocks
    assert isinstance(chart, Chart)
    assert [panel.title for panel in chart.panels] == ["full ranking"]
    assert chart.tables[0].columns["paper"] == ["63.97", "–"]
    assert chart.tables[0].columns["ours"] == ["67.50", "68.25"]
    assert chart.tables[0].columns["95% interval"] == ["66.50 to 68.50", "67.25 to 69.25"]


def test_cells_of_one_title_are_told_apart() -> None:
    cells = [cell("ACL", 68.0, dim=32), cell("ACL", 69.0, dim=32, with_outcome=0)]
    found = cells_section(record(cells=[*cells, cell("GMF", 67.0, dim=64)]))
    assert found is not None
    chart = found.blocks[0].blocks[0]  # type: ignore[union-attr]
    assert isinstance(chart, Chart)
    names = chart.panels[0].figure["layout"]["yaxis"]["ticktext"]
    assert [str(each).replace("<br>", " ") for each in names] == [
        "ACL",
        "ACL (with_outcome 0)",
        "GMF",
    ]


@pytest.mark.parametrize("name", ["dim", "alpha"])
def test_a_sweep_is_drawn_as_lines(name: str) -> None:
    fixed = {} if name == "dim" else {"dim": 32.0}
    cells = [
        cell(title, 60 + at, **{name: at}, **fixed) for title in ("GMF", "ACL") for at in (2.0, 1.0)
    ]
    found = cells_section(record(cells=cells))
    assert found is not None
    chart = found.blocks[0].blocks[0]  # type: ignore[union-attr]
    assert isinstance(chart, Chart)
    assert [each.name for each in chart.series] == ["GMF", "ACL"]
    first, second = chart.panels[0].figure["data"]
    assert (first["x"], first["y"]) == ([1.0, 2.0], [61.0, 62.0])
    assert second["x"] == [1.0, 2.0]


def test_estimators_are_a_table_a_family() -> None:
    row = {
        "metric": "hit@5", "estimator": "standard", "kind": "", "floor": 0.0,
        "mse": [0.0025, None, None], "bias": [0.04, None, None], "rank": [-0.5, None, None],
    }  # fmt: skip
    families = [
        {"family": "synthetic", "n": 2, "estimators": [row, row | {"metric": "ndcg@5"}]},
        {"family": "ml-1m", "n": 0, "estimators": []},
    ]
    found = families_section(record(families=families))
    assert found is not None
    table = found.blocks[-1]
    assert isinstance(table, Table)
    assert table.title == "synthetic, 2 worlds"
    assert table.rows == [("standard", "–", "–", "5.00", "+4.00", "−0.500")]


def test_the_page_escapes_what_it_shows(tmp_path: Path) -> None:
    cells = [cell("GMF", 67.5, dim=64), cell("<i>ACL", 68.25, dim=32)]
    write_page(record(claims=[claim("undecided", -0.1)], cells=cells), tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "ACL &lt;b&gt; − GMF" in page
    assert "<i>ACL" not in page


def test_cells_tell_which_runs_are_plain_learning() -> None:
    weighted = cell("ACL", 60.0, dim=4) | {"ess": [0.999, 0.5]}
    found = cells_section(record(cells=[cell("GMF", 61.0, dim=4) | {"ess": [None]}, weighted]))
    assert found is not None
    (part,) = found.blocks
    assert isinstance(part, Part)
    (chart,) = part.blocks
    assert isinstance(chart, Chart)
    (table,) = chart.tables
    assert table.columns["effective share"][1] == "75% (1 of 2 plain learning)"
    plain = cells_section(record(cells=[cell("GMF", 61.0, dim=4)]))
    assert plain is not None
    assert "effective share" not in str(plain)
