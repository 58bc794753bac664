from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import counterplay as cp
from counterplay.cli.main import main

from .conftest import Run

FRAME = pl.DataFrame(
    {
        "customer nr": [f"c{n % 5:03}" for n in range(60)],
        "Artikel": [n % 7 for n in range(60)],
        "stars": [1 + n % 5 for n in range(60)],
        "when": [f"2024-03-{1 + n % 28:02}" for n in range(60)],
    }
)
COLUMNS = ("--user", "customer nr", "--item", "Artikel", "--time", "when")


@pytest.fixture
def odd_names(tmp_path: Path) -> Path:
    FRAME.write_csv(tmp_path / "export.csv", separator=";")
    return tmp_path / "export.csv"


def test_a_log_becomes_a_dataset_directory(odd_names: Path, tmp_path: Path, run: Run) -> None:
    arguments = ("prepare", odd_names, *COLUMNS, "--name", "[red]x", "--out")
    outcome = run(*arguments, tmp_path / "data")
    assert outcome.code == 0
    assert "[red]x: 60 rows, explicit feedback" in outcome.out  # names are not markup
    assert "leave-last-two: 50 train, 5 validation, 5 test" in outcome.out
    log, columns, *_, note = outcome.err.splitlines()
    assert log == "log: 60 rows: 60 ratings"
    assert columns.startswith("columns: took user from ")
    assert note.startswith("note: leave-last-two-out leaks time")
    result = json.loads(run(*arguments, tmp_path / "again", "--json").out)
    assert result["profile"]["n_interactions"] == 60
    assert result["split"]["counts"] == {"train": 50, "validation": 5, "test": 5}
    assert result["fingerprint"] == cp.data.load(tmp_path / "data").fingerprint
    assert len(result["notes"]) == 1


def test_filters_thresholds_and_splits(odd_names: Path, tmp_path: Path, run: Run) -> None:
    outcome = run(
        "prepare", odd_names, *COLUMNS, "--out", tmp_path / "data", "--duplicates", "first",
        "--threshold", 2, "--items-above", 1, "--users-below", 99, "--core", 2,
        "--split", "time", "--validation-from", "2024-03-20", "--test-from", "2024-03-25",
    )  # fmt: skip
    assert outcome.code == 0
    assert "step 1      duplicates: 25 of 60 rows repeat" in outcome.out
    assert cp.data.load_split(tmp_path / "data").kind == "time"


def test_what_is_there_is_kept_unless_told(odd_names: Path, tmp_path: Path, run: Run) -> None:
    arguments = ("prepare", odd_names, *COLUMNS, "--out", tmp_path / "data")
    assert run(*arguments).code == 0
    before = (tmp_path / "data" / "dataset.json").read_bytes()
    refused = run(*arguments, "--split", "none")
    assert refused.code == 2
    assert "must be a new or empty folder" in refused.err
    assert (tmp_path / "data" / "dataset.json").read_bytes() == before
    assert run(*arguments, "--split", "none", "--overwrite").code == 0
    assert (tmp_path / "data" / "dataset.json").read_bytes() != before


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("no_columns.csv", b"a,b\n1,2\n3,4\n"),
        ("cut.csv.gz", gzip.compress(FRAME.write_csv().encode(), mtime=0)[:50]),
        ("wrong.parquet", b"user,item\n1,2\n"),
        ("absent.csv", None),
    ],
)
def test_bad_input_is_one_sentence_and_nothing_is_left(
    name: str, content: bytes | None, tmp_path: Path, run: Run
) -> None:
    source = tmp_path / "in" / name
    source.parent.mkdir()
    if content is not None:
        source.write_bytes(content)
    outcome = run("prepare", source, "--out", tmp_path / "out" / "data")
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert outcome.err.startswith("counterplay: ")
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


@given(st.binary(max_size=200), st.sampled_from(["csv", "tsv", "ndjson", "parquet", "csv.gz"]))
def test_fuzzed_files_never_leave_anything_behind(
    tmp_path: Path, content: bytes, ending: str
) -> None:
    source = tmp_path / f"fuzz.{ending}"
    source.write_bytes(content)
    with pytest.raises(SystemExit) as caught:
        main(["prepare", str(source), "--out", str(tmp_path / "data")])
    assert caught.value.code == 2
    assert [path.name for path in tmp_path.iterdir()] == [source.name]
    source.unlink()


def test_places_that_cannot_be_written_exit_2(odd_names: Path, tmp_path: Path, run: Run) -> None:
    for out in (odd_names / "x", odd_names):
        outcome = run("prepare", odd_names, *COLUMNS, "--out", out)
        assert outcome.code == 2
        assert "the output must be" in outcome.err


def test_being_ended_leaves_nothing_behind(tmp_path: Path) -> None:
    """The signal comes when writing has begun, in a folder of its own."""
    n_rows = 3_000_000
    pl.DataFrame(
        {"user": pl.int_range(n_rows, eager=True), "item": pl.int_range(n_rows, eager=True)}
    ).write_parquet(tmp_path / "log.parquet")
    command = [sys.executable, "-m", "counterplay", "prepare", "log.parquet", "--out", "data"]
    running = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE)
    while not any(path.name.endswith(".part") for path in tmp_path.iterdir()):
        assert running.poll() is None
    running.terminate()
    _, error = running.communicate()
    assert running.returncode == 143, error
    said = error.splitlines()[-1]
    assert said == b"counterplay: interrupted; nothing half-written was left behind"
    assert [path.name for path in tmp_path.iterdir()] == ["log.parquet"]


def test_the_order_of_the_file_counts_if_asked_for(tmp_path: Path, run: Run) -> None:
    rows = [f"{n % 4},{n}" for n in range(20)]
    path = tmp_path / "log.csv"
    path.write_text("\n".join(["user,item", *rows]))
    options = ("prepare", path, "--split", "leave-last-two", "--out", tmp_path / "data")
    refused = run(*options)
    assert refused.code == 2
    assert "(--order file)" in refused.err
    assert not (tmp_path / "data").exists()
    outcome = run(*options, "--order", "file")
    assert outcome.code == 0
    assert "order: rows of one user at one time stand as in the input" in outcome.out
    split = cp.data.load_split(tmp_path / "data")
    assert sorted(split.test.to_frame()["item"]) == [16, 17, 18, 19]
    assert cp.data.load(tmp_path / "data").in_file_order


def test_impressions_beside_clicks_are_joined(tmp_path: Path, run: Run) -> None:
    rng = np.random.default_rng(0)
    shown = pl.DataFrame(
        {
            "user": rng.integers(0, 9, 600),
            "item": rng.integers(0, 30, 600),
            "time": range(0, 6000, 10),
        }
    ).with_columns(pos=pl.col("item") % 4)
    clicks = shown.sample(120, seed=0).select("user", "item", pl.col("time") + 5)
    shown.write_parquet(tmp_path / "shown.parquet")
    clicks.write_parquet(tmp_path / "clicks.parquet")
    options = ("--impressions", tmp_path / "shown.parquet", "--window", "1m", "--time-unit", "s")
    place = tmp_path / "data"
    outcome = run("prepare", tmp_path / "clicks.parquet", *options, "--json", "--out", place)
    assert outcome.code == 0
    found = json.loads(outcome.out)
    assert found["profile"]["n_impressions"] == 600
    assert found["profile"]["n_organic"] == 0
    assert found["profile"]["position_range"][::2] == [1, 4]
    assert outcome.err.startswith("log: 600 rows: 120 clicks, 0 of them organic, 480 impressions")
    assert any(step.startswith("join: 120 of 120 clicks") for step in found["steps"])
    wrong = run("prepare", tmp_path / "clicks.parquet", "--window", "1m", "--out", tmp_path / "no")
    assert wrong.code == 2
    assert "--impressions" in wrong.err
