from __future__ import annotations

import json
import sys
from pathlib import Path

import polars as pl
import pytest

import counterplay as cp
from counterplay.data.files import read_json

from .conftest import Run


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs on a log whose user ids are markup."""
    from counterplay.runs.config import run_config

    folder = tmp_path_factory.mktemp("serving")
    pairs = [(user, (user + 3 * place) % 20) for user in range(1, 6) for place in range(4)]
    pairs += [(0, item) for item in range(20)]  # the first user has them all
    users, items = zip(*pairs, strict=True)
    log = pl.DataFrame({"user": [f"[b]{user}" for user in users], "item": items})
    log.write_parquet(folder / "log.parquet")
    rng = cp.Streams(0).numpy("split")
    cp.data.save(cp.data.split_at_random(cp.read(folder / "log.parquet"), rng, fractions=(0, 0.1)),
            folder / "data")  # fmt: skip
    for name in ("gmf", "mlp"):
        settings = [f"candidate.name={name}", "candidate.dim=4", "training.epochs=1", "method=erm"]
        cp.train(folder / "data", folder / name, run_config(None, settings))
    return folder


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_lists_are_written(trained: Path, tmp_path: Path, run: Run) -> None:
    outcome = run("recommend", trained / "gmf", "--k", 5, "--out", tmp_path / "a.parquet")
    assert (outcome.code, outcome.err) == (0, "")
    assert "6, of 5 items or, where no more are left, fewer" in outcome.out
    assert "left out" in outcome.out
    found = pl.read_parquet(tmp_path / "a.parquet")
    assert found["user"].unique(maintain_order=True).to_list() == [f"[b]{n}" for n in range(1, 6)]
    assert found.group_by("user").len()["len"].to_list() == [5] * 5


def test_lists_of_some_users_with_what_was_seen(trained: Path, tmp_path: Path, run: Run) -> None:
    (tmp_path / "users.csv").write_text("user\n[b]0\n[b]4\n")
    options = ("--users", tmp_path / "users.csv", "--out", tmp_path / "a.parquet")
    more = ("--include-seen", "--data", trained / "data", "--json")
    result = json.loads(run("recommend", trained / "gmf", *options, *more).out)
    assert (result["users"], result["rows"], result["k"]) == (2, 20, 10)
    assert result["include_seen"] is True
    assert pl.read_parquet(tmp_path / "a.parquet")["user"].unique().len() == 2


def test_filters_formats_and_unknown_users(trained: Path, tmp_path: Path, run: Run) -> None:
    pl.DataFrame({"item": [1, 2, 3, 4]}).write_csv(tmp_path / "only.csv")
    options = ("--only-items", tmp_path / "only.csv", "--without-items", "4,99", "--include-seen")
    command = ("recommend", trained / "gmf", "--users", "[b]5,nobody,[b]0,nemo", *options)
    outcome = run(*command, "--k", 2, "--out", tmp_path / "a.ndjson")
    assert outcome.code == 0
    assert "items          3 that may be recommended" in outcome.out
    assert "unknown users  2 lists, of the most popular items" in outcome.out
    assert "2 of 4 users are not in the dataset" in outcome.err
    assert "1 of 2 items of without_items are not in the dataset" in outcome.err
    found = pl.read_ndjson(tmp_path / "a.ndjson")
    assert found["user"].unique(maintain_order=True).to_list() == ["[b]5", "[b]0", "nobody", "nemo"]
    assert set(found["item"]) <= {1, 2, 3}
    told = json.loads(run(*command, "--out", tmp_path / "a.csv", "--json").out)
    assert (told["unknown"], told["items"], told["users"], told["rows"]) == (2, 3, 4, 12)
    assert told["run"] == str(trained / "gmf")


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("recommend gmf --out TMP/a.xlsx", "found 'a.xlsx'; let it end in one of them"),
        ("recommend gmf --out TMP/none/a.parquet", "must name a file in a folder that exists"),
        ("recommend gmf --out TMP/a.parquet --users TMP/no.txt", "found nothing at"),
        ("recommend gmf --out TMP/a.csv --users TMP/none.txt", "found nothing at"),
        ("recommend gmf --out TMP/a.csv --users ,", "must be one or more; found none"),
        ("recommend gmf --out TMP/a.csv --only-items one,2", "as integers; found 1 of 2 that"),
        ("recommend gmf --out TMP/a.csv --without-items TMP/items.csv", "found nothing at"),
        ("recommend gmf --out TMP/a.csv --only-items 1,2 --without-items 2,1", "found none of"),
        ("recommend gmf --out TMP/a.csv --candidate erm", "found 'erm' and no study"),
        ("export gmf --out TMP/out --candidate erm", "found 'erm' and no study"),
        ("refit gmf --out TMP/out", "leave them out, or add items"),  # a user has them all
        ("refit gmf --out TMP", "new or empty folder"),
        ("refit gmf --out TMP/out --data TMP", "readable dataset.json"),
        ("refit gmf --out TMP/out --track mlflw", "did you mean 'mlflow'"),
        ("refit data --out TMP/out", "readable run.json"),
        ("recommend gmf --out TMP/a.parquet --k 5 10", "must have one length; found 5, 10"),
        ("recommend gmf --out TMP/a.parquet --data TMP", "readable dataset.json"),
        ("recommend gmf", "--out"),
        ("export mlp --out TMP/out", "found mlp; export it with --onnx"),
        ("export gmf --out TMP", "found something at"),
        ("export gmf --out TMP/out --format csv", "--format"),
        ("export data --out TMP/out", "readable run.json"),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_nothing(
    typed: str, expected: str, trained: Path, tmp_path: Path, run: Run
) -> None:
    (tmp_path / "users.txt").write_text("[b]1\n[red]nobody\n")
    command, name, *options = typed.replace("TMP", str(tmp_path)).split()
    outcome = run(command, trained / name, *options)
    assert outcome.code == 2
    assert expected in outcome.err
    assert outcome.err.count("\n") == 1
    assert [entry.name for entry in tmp_path.iterdir()] == ["users.txt"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("data/split.parquet", "a part of a dataset, run, study, world or export"),
        ("gmf/users.parquet", "a part of a dataset, run, study, world or export"),
        ("link.parquet", "a part of a dataset, run, study, world or export"),
        ("log.parquet", "what it is made of"),
        ("users.parquet", "what it is made of"),
    ],
)
def test_lists_do_not_replace_what_they_are_made_of(
    name: str, said: str, trained: Path, run: Run
) -> None:
    link, users = trained / "link.parquet", trained / "users.parquet"
    link.unlink(missing_ok=True)
    link.symlink_to(trained / "data" / "users.parquet")
    pl.DataFrame({"user": ["[b]1"]}).write_parquet(users)
    before = contents(trained)
    outcome = run("recommend", trained / "gmf", "--users", users, "--out", trained / name)
    assert outcome.code == 2
    assert f"must not replace {said}" in outcome.err
    assert contents(trained) == before


@pytest.mark.parametrize("content", [b"{}", b"[" * 100_000])
def test_a_damaged_run_is_one_sentence(
    content: bytes, trained: Path, tmp_path: Path, run: Run
) -> None:
    path = trained / "gmf" / "run.json"
    before = path.read_bytes()
    path.write_bytes(content)
    outcome = run("recommend", trained / "gmf", "--out", tmp_path / "a.parquet")
    path.write_bytes(before)
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert "run.json' must be" in outcome.err
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_one_sentence(
    trained: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", str(tmp_path / "a.parquet"))

    monkeypatch.setattr("counterplay.data.publishing._sync", full)
    outcome = run("recommend", trained / "gmf", "--out", tmp_path / "a.parquet")
    assert outcome.code == 2
    assert "found no space left at" in outcome.err
    assert list(tmp_path.iterdir()) == []


def test_vectors_index_and_onnx_are_written(trained: Path, tmp_path: Path, run: Run) -> None:
    outcome = run("export", trained / "gmf", "--out", tmp_path / "out", "--ann", "--onnx")
    assert (outcome.code, outcome.err) == (0, "")
    assert "gmf of 6 users and 20 items" in outcome.out
    assert "finds 100.0% of the 10 best items, on 6 users" in outcome.out
    assert outcome.out.count("of the model's scores, on 16,384 pairs") == 2
    assert (tmp_path / "out" / "model.onnx").exists()


def test_json_is_what_is_in_the_export(trained: Path, tmp_path: Path, run: Run) -> None:
    options = ("--data", trained / "data", "--out", tmp_path / "out", "--format", "npy", "--json")
    described = json.loads(run("export", trained / "gmf", *options).out)
    assert described == read_json(tmp_path / "out" / "export.json", "an export")
    assert described["vectors"]["format"] == "npy"
    assert described["ann"] is described["onnx"] is None


def test_an_extra_that_is_not_installed_is_named(
    trained: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "usearch.index", None)
    outcome = run("export", trained / "gmf", "--out", tmp_path / "out", "--ann")
    assert outcome.code == 2
    assert "install counterplay[ann]" in outcome.err
    assert not list(tmp_path.iterdir())
