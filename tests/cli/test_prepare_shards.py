from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import counterplay as cp
from counterplay.data.directory import describe

from .conftest import Run, said_at_last, wait_for

N = 300


@pytest.fixture
def files(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    frame = pl.DataFrame(
        {"user": rng.integers(0, 30, N), "item": rng.integers(0, 9, N), "time": np.arange(N)}
    )
    folder = tmp_path / "clicks.v2"
    folder.mkdir()
    for place in range(3):
        frame[place * 100 : place * 100 + 100].write_parquet(folder / f"{place}.parquet")
    frame.write_parquet(tmp_path / "clicks.parquet")
    return folder


def test_a_folder_becomes_the_dataset_of_one_file(files: Path, tmp_path: Path, run: Run) -> None:
    one = run("prepare", tmp_path / "clicks.parquet", "--out", tmp_path / "one")
    many = run("prepare", files, "--out", tmp_path / "many", "--shards", 4)
    assert one.code == many.code == 0
    assert cp.data.load(tmp_path / "many") == cp.data.load(tmp_path / "one")
    assert "clicks: 300 rows" in many.out
    assert "ranges of users  4, of " in many.out
    for part in ("leave-last-two: 240 train, 30 validation, 30 test", "duplicates: "):
        assert part in one.out
        assert part in many.out
    notes = [line for line in one.err.splitlines() if line.startswith("note: ")]
    assert notes == many.err.splitlines() != []
    said = describe(tmp_path / "many")
    assert (said["name"], said["source"]) == ("clicks", str(files))


def test_the_result_can_be_json_and_replaced(files: Path, tmp_path: Path, run: Run) -> None:
    arguments = ("prepare", files, "--out", tmp_path / "data", "--shards", 4, "--split", "random")
    found = json.loads(run(*arguments, "--json").out)
    assert found["counts"] == {"users": 30, "items": 9, "interactions": N}
    assert found["fingerprint"] == cp.data.load(tmp_path / "data").fingerprint
    assert found["split"]["kind"] == "random"
    assert found["shards"]["rows"][-1] == N
    assert run(*arguments).code == 2
    assert json.loads(run(*arguments, "--json", "--overwrite").out) == found


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--workers", 2), "--workers needs ranges of users"),
        (("--ray",), "--ray needs ranges of users"),
        (("--shards", 2, "--workers", 2, "--ray"), "found both --workers and --ray"),
        (("--shards", 2, "--order", "file"), "found --order file"),
        (("s3://a/b.csv", "--shards", 2), "--shards takes a file or a folder on this machine"),
    ],
)
def test_bad_wishes_are_one_sentence(
    files: Path, tmp_path: Path, run: Run, arguments: tuple[object, ...], said: str
) -> None:
    outcome = run("prepare", files, "--out", tmp_path / "data", *arguments)
    assert outcome.code == 2
    assert said in outcome.err
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_command_that_is_ended_goes_on(
    files: Path, tmp_path: Path, run: Run, number: signal.Signals
) -> None:
    arguments = ["prepare", files, "--out", tmp_path / "data", "--shards", 20, "--split", "random"]
    work = tmp_path / ".data.work"
    command = [sys.executable, "-m", "counterplay", *map(str, arguments)]
    process = subprocess.Popen([*command, "--workers", "2"], stderr=subprocess.PIPE, text=True)
    wait_for(process, lambda: any(work.glob("jobs/order*.json")))
    process.send_signal(number)
    _, said = process.communicate()
    assert process.returncode == (-number if number == signal.SIGKILL else 128 + number)
    assert not (tmp_path / "data").exists()
    if number != signal.SIGKILL:
        told = "counterplay: interrupted; give the same command again to go on"
        assert said_at_last(said) == told
    before = {path.name: path.stat().st_mtime_ns for path in work.glob("jobs/cut*.json")}
    assert len(before) == 3
    assert run(*arguments).code == 0
    assert not work.exists()
    run("prepare", files, "--out", tmp_path / "again", "--shards", 3, "--split", "random")
    assert cp.data.load_split(tmp_path / "data").fingerprint == (
        cp.data.load_split(tmp_path / "again").fingerprint
    )


def test_after_a_refusal_the_command_that_it_asks_for_is_taken(tmp_path: Path, run: Run) -> None:
    """The columns of a text file are seen only when it is read."""
    rng = np.random.default_rng(0)
    frame = pl.DataFrame(
        {"user": rng.integers(0, 30, N), "item": rng.integers(0, 9, N), "rank": np.arange(N) % 5}
    )
    frame.write_csv(tmp_path / "log.csv")
    given = ("prepare", tmp_path / "log.csv", "--out", tmp_path / "data", "--shards", 4)
    refused = run(*given)
    assert refused.code == 2
    assert "rank" in refused.err
    assert [each.name for each in tmp_path.iterdir()] == ["log.csv"]
    assert run(*given, "--position", "-").code == 0
