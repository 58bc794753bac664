from __future__ import annotations

import json
from pathlib import Path

import pytest

from counterplay.data.files import read_json

from .conftest import Run


@pytest.fixture
def public(tmp_path: Path) -> Path:
    """A folder with books too few for the paper's filter."""
    folder = tmp_path / "public" / "books"
    folder.mkdir(parents=True)
    (folder / "ratings.csv").write_text("user_id,book_id,rating\n1,1,5\n2,2,3\n")
    return folder.parent


def test_jobs_are_listed_with_their_states(run: Run, public: Path, tmp_path: Path) -> None:
    asked = ("table2", "--data", public, "--out", tmp_path / "out", "--list")
    outcome = run(*asked, "--only", "gmf-64", "--only", "seed-0", "--trials", 1)
    assert outcome.code == 0
    assert [line.split() for line in outcome.out.splitlines()] == [
        ["no", "data", "ml-1m/gmf-64/defaults/seed-0"],
        ["no", "data", "lastfm/gmf-64/defaults/seed-0"],
        ["no", "data", "lastfm-distinct/gmf-64/defaults/seed-0"],
        ["waiting", "goodbooks/gmf-64/defaults/seed-0"],
        ["no", "data", "goodreads/gmf-64/defaults/seed-0"],
    ]
    listed = json.loads(run(*asked, "--only", "goodbooks/gmf", "--json").out)
    assert [each["state"] for each in listed] == ["waiting"] * 4
    assert not (tmp_path / "out").exists()


def test_a_table_is_run_and_a_failure_is_counted(run: Run, public: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    asked = ("table2", "--data", public, "--out", out, "--workers", 1)
    outcome = run(*asked, "--only", "goodbooks/gmf", "--trials", 1)
    assert (outcome.code, outcome.err) == (0, "")
    assert "0 done of 30 that are known by now, 1 failed" in outcome.out
    assert "a filter must leave" in (out / "table2.md").read_text()
    result = json.loads(run(*asked, "--only", "nothing", "--trials", 1, "--json").out)
    assert result == read_json(out / "table2.json", "a table")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (("table9",), "found no experiment 'table9'; did you mean 'table3'"),
        (("table2", "--data", "absent"), "--data must be a folder"),
        (("table2", "--ray", "--workers", 2), "found --workers and --ray; leave one out"),
        (("table2", "--seeds", 0), "--seeds must be"),
        (("table2", "--out", __file__), "--out must be a folder, or a new one; found a file"),
    ],
)
def test_bad_input_is_one_sentence(
    changes: tuple[object, ...], words: str, run: Run, public: Path, tmp_path: Path
) -> None:
    outcome = run("--data", public, "--out", tmp_path / "out", *changes)
    assert outcome.code == 2
    assert words in outcome.err
    assert outcome.err.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nonsense",), "must be one of figure-a1, "),
        (("nonsense",), "found no experiment 'nonsense'; choose one of them"),
        (("--out", "out", "recipe"), "found no experiment 'recipe'; did you mean 'recipes'"),
        (("--out", "out", "recipes"), "must be named first; found 'recipes'"),
        (("table2",), "needs --data"),
    ],
)
def test_a_wrong_name_is_told_before_an_option_is_asked_for(
    arguments: tuple[str, ...], words: str, run: Run
) -> None:
    outcome = run(*arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert words in outcome.err
