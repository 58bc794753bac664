"""The options of commands that read a log are the same, and `look` shows what they do."""

from __future__ import annotations

import inspect
import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

from counterplay.cli.prepare import prepare
from counterplay.cli.reading import NAMES, look
from counterplay.cli.run import run as run_command
from counterplay.data.preparation import Preparation

from .conftest import Run

FAST = ("--candidates", "pop", "--set", "evaluation.n_resamples=200")
EVERYDAY = (
    *("format", "header", "separator", "quote", "encoding", "date_format", "drop_missing"),
    *("threshold", "split", "propensity", "position", "clicked", "random"),
)


def clicks(n: int = 240) -> pl.DataFrame:
    rng = np.random.default_rng(3)
    return pl.DataFrame(
        {
            "who": rng.integers(1, 30, n),
            "what": rng.integers(1, 20, n),
            "stars": rng.integers(1, 6, n),
            "when": np.arange(n) + 1_600_000_000,
        }
    )


def test_the_options_are_declared_once_for_all_commands() -> None:
    assert set(EVERYDAY) <= set(NAMES)
    for command in (look, run_command, prepare):
        names = set(inspect.signature(command).parameters)
        assert set(NAMES) <= names
    assert set(NAMES) <= Preparation.model_fields.keys()
    assert "k" in inspect.signature(run_command).parameters


def test_look_shows_how_a_log_is_read(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes("user;item;wann\nJürgen;a;31.12.2010\nZoë;b;1.1.2011\n".encode("latin-1"))
    outcome = run("look", path, "--time", "wann")
    assert outcome.code == 0
    assert outcome.err == ""
    for said in (
        "log: 2 rows, 2 users, 2 items",
        "csv, header: line 1, separated by ';', quotes \", in latin-1",
        "took user from 'user', item from 'item', time from 'wann'",
        "2010-12-31T00:00:00Z to 2011-01-01T00:00:00Z; dates in the form %d.%m.%Y",
        "clicks: every row is one",
        f"counterplay look {path} --format csv --header --separator ';'",
    ):
        assert said in outcome.out
    found = json.loads(run("look", path, "--json").out)
    assert found["file"]["encoding"] == "latin-1"
    assert found["not_taken"] == ["wann"]


def test_look_takes_standard_input_and_several_files(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = b"user,item\n1,a\n2,b\n"
    stdin = SimpleNamespace(buffer=io.BytesIO(content), isatty=lambda: False)
    monkeypatch.setattr(sys, "stdin", stdin)
    assert "stdin: 2 rows" in run("look", "-").out
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_bytes(content)
    assert "4 rows" in run("look", tmp_path / "a.csv", tmp_path / "b.csv").out
    assert "4 rows" in run("look", tmp_path / "*.csv").out
    absent = run("look", tmp_path / "none.csv")
    assert absent.code == 2
    assert "found nothing at" in absent.err


def test_run_and_prepare_take_what_the_message_asks_for(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    clicks().write_csv("log.data", separator="|", include_header=False)
    for command in ("run", "prepare"):
        refused = run(command, "log.data", "--out", "nothing")
        assert refused.code == 2
        assert "--no-header" in refused.err
        assert not Path("nothing").exists()
    options = ("--no-header", "--format", "csv", "--separator", "|")
    made = run("prepare", "log.data", *options, "--out", "data")
    assert made.code == 0
    assert "columns: the file has no header: took user from 1" in made.out
    study = run("run", "log.data", *options, *FAST, "--threshold", 2, "--split", "random",
                "--k", 3, "--out", "study")  # fmt: skip
    assert study.code == 0, study.err
    assert "file: csv, header: none; columns are numbered from 1, separated by '|'" in study.err
    record = json.loads(Path("study/study.json").read_text())
    assert record["split"]["kind"] == "random"
    assert any(step.startswith("threshold: kept") for step in record["steps"])
    assert record["configuration"]["evaluation"]["k"] == [3]


def test_several_files_and_patterns_are_studied(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    frame = clicks().rename({"who": "user", "what": "item", "when": "time"}).drop("stars")
    Path("parts").mkdir()
    frame[:100].write_csv("parts/0.csv")
    frame[100:].write_csv("parts/1.csv")
    assert run("run", "parts/0.csv", "parts/1.csv", *FAST, "--out", "a").code == 0
    assert run("run", "parts/*.csv", *FAST, "--out", "b").code == 0
    assert run("run", "parts", *FAST).code == 0
    whole = json.loads(Path("a/plan.json").read_text())["log"]
    for folder in ("b", "parts-study"):
        assert json.loads(Path(folder, "plan.json").read_text())["log"] == whole


RETURNS = "user,item,Quantity\n1,a,2\n1,b,-1\n2,a,1\n2,c,1\n3,b,0\n"


def test_what_was_brought_back_is_asked_about(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "log.csv"
    path.write_text(RETURNS)
    for command in ("run", "prepare"):
        outcome = run(command, path, "--out", tmp_path / "out")
        assert outcome.code == 2
        assert "found 2 of 5 rows where column 'Quantity' is 0 or less" in outcome.err
        assert "--threshold 1" in outcome.err
    kept = run("prepare", path, "--threshold", 1, "--split", "none", "--out", tmp_path / "out")
    assert "kept the 3 of 5 rows rated 1 or more" in kept.out


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([(1, item, item) for item in range(9)], "at least two users; found one, 1"),
        ([(user, 1, user) for user in range(9)], "at least two items; found one, 1"),
        ([(1, 1, 5)] * 9, "at least two users; found one, 1"),
        ([(user, user % 3, time) for user in range(9) for time in range(5)],
         "found only repeats: each of 9 users has one item in all 45 rows"),
        ([(user, user % 3, 1) for user in range(9)], "found none after the split leave-last-two"),
    ],
)  # fmt: skip
def test_a_log_that_can_teach_nothing_is_one_sentence(
    rows: list[tuple[int, int, int]], said: str, tmp_path: Path, run: Run
) -> None:
    frame = pl.DataFrame(rows, schema=["user", "item", "time"], orient="row")
    frame.write_csv(tmp_path / "log.csv")
    outcome = run("run", tmp_path / "log.csv", "--out", tmp_path / "study")
    assert outcome.code == 2
    assert said in outcome.err
    assert outcome.err.count("\n") == 1
    assert not (tmp_path / "study").exists()


def test_shards_take_the_same_options(tmp_path: Path, run: Run) -> None:
    lines = clicks().write_csv(separator=";", include_header=False).splitlines()
    (tmp_path / "log.csv").write_text("\n".join([*lines, ";4;3;1600000000", ""]))
    options = ("--no-header", "--drop-missing")
    one = run("prepare", tmp_path / "log.csv", *options, "--out", tmp_path / "one")
    many = run("prepare", tmp_path / "log.csv", *options, "--shards", 4, "--out", tmp_path / "two")
    assert one.code == many.code == 0, many.err
    assert "left out 1 of 241 rows without a user or an item" in many.out
    folders = (tmp_path / "one/dataset.json", tmp_path / "two/dataset.json")
    first, second = (json.loads(path.read_text()) for path in folders)
    assert first["fingerprint"] == second["fingerprint"]
    (tmp_path / "log.csv").write_text(RETURNS.replace("Quantity", "rating"))
    asked = run("prepare", tmp_path / "log.csv", "--shards", 4, "--out", tmp_path / "three")
    assert asked.code == 2
    assert "ratings must be above 0" in asked.err
