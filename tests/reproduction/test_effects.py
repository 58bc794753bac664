from __future__ import annotations

import json
from pathlib import Path

from counterplay.data.jobs import Results
from reproduction.definitions import METHOD_TABLES
from reproduction.effects import effect_cell, effects_of, effects_page
from reproduction.jobs import TrainJob
from reproduction.methods import baselines, games, weighted


def jobs() -> list[TrainJob]:
    methods = [*baselines(("gmf",), 4), *weighted(("gmf",), 4), *games(("gmf",), 4)]
    return [TrainJob(data="ml-1m", method=method, settings=()) for method in methods]


def test_runs_are_counted_by_method_and_recipe(tmp_path: Path) -> None:
    results = Results(tmp_path)
    shares = {"erm": None, "ps": 0.97, "acl": 0.981}
    for job in jobs():
        if job.method.recipe == "paper" or job.method.method == "erm":
            results.keep(job, {"best": {"ess": shares[job.method.method]}})
    effects = effects_of(jobs(), results)
    assert effects == [
        {"method": "acl", "recipe": "paper", "runs": 1, "plain": 1},
        {"method": "ps", "recipe": "paper", "runs": 2, "plain": 0},
    ]
    assert "1 of 1 of ACL, paper, 0 of 2 of PS, paper." in effects_page(effects)[2]
    assert effects_page([]) == []


def test_a_cell_says_how_many_runs_are_plain_learning() -> None:
    assert effect_cell({"ess": [0.999, 0.985, 0.9]}) == "96.1%, 2 of 3 collapsed"
    assert effect_cell({"ess": [0.3]}) == "30.0%"
    assert effect_cell({"ess": [None, None]}) == effect_cell({}) == ""


def test_the_committed_pages_say_how_many_runs_are_plain_learning(root: Path) -> None:
    """As many as their records have: the pages are made of them."""
    folder = root / "docs" / "results"
    for table in METHOD_TABLES:
        result = json.loads((folder / f"{table.name}.json").read_text(encoding="utf-8"))
        page = (folder / f"{table.name}.md").read_text(encoding="utf-8")
        assert result["effects"] or not table.name.endswith(("table1", "table2", "authors"))
        if result["effects"]:
            assert effects_page(result["effects"])[2] in page
