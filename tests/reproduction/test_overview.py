from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from reproduction.claims import BEATS_BASE, UNIFORMLY, judged
from reproduction.overview import BEGIN, CLAIMS, END, collapsed, overview, write


def test_the_committed_page_is_made_of_the_committed_results(root: Path, tmp_path: Path) -> None:
    folder = root / "docs" / "results"
    for path in folder.glob("*.json"):
        shutil.copy(path, tmp_path)
    (tmp_path / "runs").symlink_to(folder / "runs")
    page = shutil.copy(folder / "index.md", tmp_path)
    write(tmp_path)
    assert Path(page).read_text(encoding="utf-8") == (folder / "index.md").read_text("utf-8")


GAME = "ACL GMF / GMF, paper"


def results(folder: Path, name: str, *differences: list[float], dataset: str = "d") -> None:
    claims = [
        judged(
            BEATS_BASE,
            each,
            dataset=dataset,
            column="truth",
            first="ACL GMF / GMF, paper",
            second="GMF",
        )
        for each in differences
    ]
    (folder / f"{name}.json").write_text(json.dumps({"claims": claims, "cells": []}))


def line_of(folder: Path) -> list[str]:
    said = CLAIMS[0].said
    (line,) = (each for each in overview(folder) if each.startswith(f"| {said} |"))
    return [cell.strip() for cell in line.strip("|").split("|")]


UP, DOWN, UNSURE = [1.0, 1.1, 0.9], [-1.0, -1.1, -0.9], [1.0, -1.1, 0.3]


@pytest.mark.parametrize(
    ("here", "there", "verdict"),
    [
        ((UP,), (UP,), "reproduced"),
        ((UP,), (DOWN,), "mixed"),
        ((UNSURE,), (), "undecided"),
        ((DOWN,), (UNSURE,), "not reproduced where it is decided"),
        ((), (UP, UNSURE), "reproduced where it is decided"),
        ((), (), "not run"),
        (([3.0],), (), "undecided"),
    ],
)
def test_the_verdict_is_that_of_all_comparisons(
    tmp_path: Path, here: Any, there: Any, verdict: str
) -> None:
    results(tmp_path, "table1-authors", *here)
    results(tmp_path, "table1", *there)
    assert line_of(tmp_path)[4] == verdict


def test_one_failure_is_enough_against_uniformly(tmp_path: Path) -> None:
    claims = [judged(UNIFORMLY, each, dataset="d", column="c", first="A", second="B")
              for each in (UP, UP, DOWN)]  # fmt: skip
    (tmp_path / "table2.json").write_text(json.dumps({"claims": claims}))
    (line,) = (each for each in overview(tmp_path) if "uniformly, standard" in each)
    assert line.split(" | ")[4] == "not reproduced"


def test_both_settings_are_counted_apart_with_their_ends(tmp_path: Path) -> None:
    results(tmp_path, "table1-authors", UP)
    results(tmp_path, "table1", DOWN, UNSURE, dataset="ml-1m")
    cells = line_of(tmp_path)
    assert cells[2].startswith("*truth*: reproduced in 1 of 1; +1.00 [")
    assert "not reproduced in 1" in cells[3]
    assert "of 2; −1.00 [" in cells[3]
    assert "(ml-1m, truth, ACL GMF, paper)" in cells[3]


def test_runs_are_counted_by_what_their_weights_did(tmp_path: Path) -> None:
    for number, (method, recipe, ess) in enumerate(
        [
            ("acl", "paper", 0.999),
            ("acl", "paper", 0.5),
            ("ps", "paper", 0.99),
            ("reproduction.separate:SeparatePs", "paper", 0.2),
            ("erm", "", None),
        ]
    ):
        record = {
            "best": {"ess": ess},
            "configuration": {"method": method, "training": {"recipe": recipe}},
        }
        (tmp_path / f"{number}.json").write_text(json.dumps(record))
    assert collapsed(tmp_path)[2:] == ["| ACL | 1 of 2 | 0 of 0 |", "| PS | 1 of 2 | 0 of 0 |"]


def test_what_stands_around_the_tables_stays(tmp_path: Path) -> None:
    marks = [f"{BEGIN.format(name)}\nstale\n{END.format(name)}" for name in ("claims", "collapsed")]
    (tmp_path / "index.md").write_text("before\n" + "\nbetween\n".join(marks) + "\nafter\n")
    (tmp_path / "runs").mkdir()
    write(tmp_path)
    once = (tmp_path / "index.md").read_text()
    write(tmp_path)
    assert (tmp_path / "index.md").read_text() == once
    assert "stale" not in once
    assert once.startswith("before\n")
    assert "\nbetween\n" in once
    assert once.endswith("\nafter\n")
