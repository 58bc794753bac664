from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import counterplay as cp

from .conftest import Run
from .test_train import FAST


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on a log whose user ids are markup."""
    from counterplay.runs.config import run_config
    from counterplay.runs.training import train_run

    folder = tmp_path_factory.mktemp("recommend")
    pairs = [(user, (user + 3 * place) % 20) for user in range(1, 6) for place in range(4)]
    pairs += [(0, item) for item in range(20)]  # the first user has them all
    users, items = zip(*pairs, strict=True)
    log = cp.read({"user": [f"[b]{user}" for user in users], "item": items})
    split = cp.split_at_random(log, cp.Streams(0).numpy("split"), fractions=(0, 0.1))
    cp.save(split, folder / "data")
    settings = ["candidate.dim=4", "training.epochs=1", "method=erm"]
    train_run(folder / "data", folder / "run", run_config(None, settings))
    return folder


def test_lists_are_written(trained: Path, tmp_path: Path, run: Run) -> None:
    outcome = run("recommend", trained / "run", "--k", 5, "--out", tmp_path / "a.parquet")
    assert outcome.code == 0, outcome.err
    assert "6, of 5 items or, where no more are left, fewer" in outcome.out
    assert "left out" in outcome.out
    assert outcome.err == ""
    found = pl.read_parquet(tmp_path / "a.parquet")
    assert found["user"].unique(maintain_order=True).to_list() == [f"[b]{n}" for n in range(1, 6)]
    assert found.group_by("user").len()["len"].to_list() == [5] * 5


def test_json_some_users_and_what_was_seen(trained: Path, tmp_path: Path, run: Run) -> None:
    (tmp_path / "users.csv").write_text("user\n[b]0\n[b]4\n")
    outcome = run(
        "recommend",
        trained / "run",
        "--users",
        tmp_path / "users.csv",
        "--out",
        tmp_path / "a.parquet",
        "--include-seen",
        "--data",
        trained / "data",
        "--json",
    )
    assert outcome.code == 0, outcome.err
    result = json.loads(outcome.out)
    assert (result["users"], result["rows"], result["k"]) == (2, 20, 10)
    assert result["include_seen"] is True
    assert pl.read_parquet(tmp_path / "a.parquet")["user"].unique().len() == 2


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--out", "TMP/a.csv"), "let it end in .parquet"),
        (("--out", "TMP/none/a.parquet"), "must name a file in a folder that exists"),
        (("--out", "TMP/a.parquet", "--users", "TMP/no.txt"), "found nothing at"),
        (("--out", "TMP/a.parquet", "--users", "TMP/users.txt"), "1 of 2 in"),
        (("--out", "TMP/a.parquet", "--data", "TMP"), "readable dataset.json"),
        (("--out", "TMP/a.parquet", "--k", 0), "--k"),
        (("--out", "TMP/a.parquet", "--k", 5, 10), "lists must have one length; found 5, 10"),
        ((), "--out"),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_nothing(
    arguments: tuple[object, ...], expected: str, trained: Path, tmp_path: Path, run: Run
) -> None:
    (tmp_path / "users.txt").write_text("[b]1\n[red]nobody\n")
    given = [str(each).replace("TMP", str(tmp_path)) for each in arguments]
    outcome = run("recommend", trained / "run", *given)
    assert outcome.code == 2
    assert expected in outcome.err
    assert "Traceback" not in outcome.err
    assert [entry.name for entry in tmp_path.iterdir()] == ["users.txt"]


def test_a_trained_run_is_used_as_it_is(trained: Path, tmp_path: Path, run: Run) -> None:
    """From train to lists by commands alone."""
    made = run(
        "train", trained / "data", "--out", tmp_path / "run", "--method", "erm", *FAST,
        "--candidate", "attn",
    )  # fmt: skip
    assert made.code == 0, made.err
    outcome = run("recommend", tmp_path / "run", "--out", tmp_path / "lists.pq", "--k", 1)
    assert outcome.code == 0, outcome.err
    assert pl.read_parquet(tmp_path / "lists.pq").height == 5


@pytest.mark.parametrize(
    "name", ["data/interactions.parquet", "data/split.parquet", "run/users.parquet", "link.parquet"]
)
def test_lists_do_not_replace_what_they_are_made_of(
    name: str, trained: Path, tmp_path: Path, run: Run
) -> None:
    link = trained / "link.parquet"
    link.unlink(missing_ok=True)
    link.symlink_to(trained / "data" / "users.parquet")
    before = {path: path.read_bytes() for path in trained.rglob("*") if path.is_file()}
    outcome = run("recommend", trained / "run", "--out", trained / name)
    assert outcome.code == 2
    assert "must not replace a part of a dataset, run, study, world or export" in outcome.err
    users = tmp_path / "users.parquet"
    pl.DataFrame({"user": ["[b]1"]}).write_parquet(users)
    outcome = run("recommend", trained / "run", "--users", users, "--out", users)
    assert outcome.code == 2
    assert "must not replace what it is made of" in outcome.err
    assert pl.read_parquet(users)["user"].to_list() == ["[b]1"]
    assert {path: path.read_bytes() for path in trained.rglob("*") if path.is_file()} == before
    outcome = run("recommend", trained / "run", "--out", trained / "run" / "lists.parquet")
    assert outcome.code == 0  # a file of one's own may lie where one wants
    (trained / "run" / "lists.parquet").unlink()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("run/run.json", b"{}"),
        ("run/run.json", b"[" * 100_000),
        ("run/run.json", b'{"format": 2, "configuration": {}}'),
        ("run/model.safetensors", b"\xff" * 8),
        ("data/users.parquet", b"PAR1" * 100),
        ("data/dataset.json", b"\0" * 100),
    ],
)
def test_damaged_state_is_one_sentence(
    name: str, content: bytes, trained: Path, tmp_path: Path, run: Run
) -> None:
    path = trained / name
    before = path.read_bytes()
    path.write_bytes(content)
    try:
        outcome = run("recommend", trained / "run", "--out", tmp_path / "a.parquet")
    finally:
        path.write_bytes(before)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("counterplay: ")
    assert outcome.err.count("\n") == 1
    assert "mistake" not in outcome.err
    assert f"{name.split('/')[1]}' must be" in outcome.err
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_one_sentence(
    trained: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", str(tmp_path / "a.parquet"))

    monkeypatch.setattr("counterplay.data.publishing._sync", full)
    outcome = run("recommend", trained / "run", "--out", tmp_path / "a.parquet")
    assert outcome.code == 2
    assert "the disk must have room for what is written; found no space left at" in outcome.err
    assert list(tmp_path.iterdir()) == []


def test_lists_do_not_replace_the_log(tmp_path: Path, run: Run) -> None:
    log = tmp_path / "log.parquet"
    users, items = np.divmod(np.arange(60), 6)
    pl.DataFrame({"user": users, "item": (users + 2 * items) % 20, "time": items}).write_parquet(
        log
    )
    before = log.read_bytes()
    assert run("prepare", log, "--out", tmp_path / "data").code == 0
    options = ("--method", "erm", "--epochs", 1, "--set", "validation.k=3")
    assert run("train", tmp_path / "data", "--out", tmp_path / "run", *options).code == 0
    outcome = run("recommend", tmp_path / "run", "--out", log)
    assert outcome.code == 2
    assert "must not replace what it is made of" in outcome.err
    assert log.read_bytes() == before
