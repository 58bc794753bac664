from __future__ import annotations

import gzip
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import counterplay as cp
from counterplay.data.vocabulary import Vocabulary
from counterplay.runs.config import run_config
from counterplay.serving.recommend import load_trained, read_users

FAST = ["method=erm", "candidate.dim=4", "candidate.length=5", "training.epochs=2",
        "training.batch_size=128", "validation.n_negatives=20"]  # fmt: skip


@pytest.fixture(scope="module")
def runs(dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for name in ("gmf", "attn"):
        cp.train(dataset, folder / name, run_config(None, [*FAST, f"candidate.name={name}"]))
    ratings = run_config(None, [*FAST, "candidate.name=cf", "training.loss=squared"])
    cp.train(dataset, folder / "ratings", ratings)
    return folder


@pytest.mark.parametrize("name", ["gmf", "attn", "ratings"])
@pytest.mark.parametrize("include_seen", [False, True])
def test_lists_are_the_best_of_all_scores(
    name: str, include_seen: bool, runs: Path, dataset: Path, tmp_path: Path
) -> None:
    result = cp.recommend(runs / name, tmp_path / "a.parquet", k=7, include_seen=include_seen)
    trained = load_trained(runs / name)
    log = cp.data.load(dataset)
    matrix = cp.metrics.ModelScores(trained.model, log).of_all(np.arange(log.n_users))
    expected = []
    for user, scores in enumerate(matrix.tolist()):
        own = set() if include_seen else set(log.item[log.user == user].tolist())
        best = sorted(set(range(log.n_items)) - own, key=lambda item: (-scores[item], item))[:7]
        expected += [
            (log.users.ids[user], log.items.ids[item], rank) for rank, item in enumerate(best, 1)
        ]
    found = pl.read_parquet(tmp_path / "a.parquet")
    assert found.select("user", "item", "rank").rows() == expected
    assert result["rows"] == len(expected)
    assert result["users"] == log.n_users
    assert found.schema["user"] == pl.Int64


def test_all_rows_are_seen_those_of_the_test_too(runs: Path, dataset: Path, tmp_path: Path) -> None:
    cp.recommend(runs / "gmf", tmp_path / "a.parquet", k=60)
    split = cp.data.load_split(dataset)
    found = pl.read_parquet(tmp_path / "a.parquet")
    for part in (split.train, split.validation, split.test):
        assert len(part)
        assert found.join(part.to_frame(), on=["user", "item"], how="semi").height == 0
    assert found.height == 40 * 60 - len(np.unique(split.interactions.pair))


def test_a_list_is_never_longer_than_there_are_items(runs: Path, tmp_path: Path) -> None:
    result = cp.recommend(runs / "gmf", tmp_path / "a.parquet", k=10**12, include_seen=True)
    assert result["rows"] == 40 * 60


def test_users_are_those_of_the_file_in_its_order(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "users.txt").write_text("31\n\n4\n31\n0\n")
    done: list[tuple[int, int | None]] = []
    cp.recommend(
        runs / "gmf",
        tmp_path / "some.parquet",
        k=3,
        users=tmp_path / "users.txt",
        progress=lambda n, total: done.append((n, total)),
    )
    cp.recommend(runs / "gmf", tmp_path / "all.parquet", k=3)
    some, everybody = (pl.read_parquet(tmp_path / f"{name}.parquet") for name in ("some", "all"))
    assert some["user"].unique(maintain_order=True).to_list() == [31, 4, 0]
    columns = ["user", "item", "rank"]
    assert some.join(everybody, on=columns, how="semi").height == some.height == 9
    assert done == [(3, 3)]


def test_data_that_moved_are_asked_for_and_others_refused(
    runs: Path, dataset: Path, tmp_path: Path
) -> None:
    shutil.copytree(dataset, tmp_path / "data")
    cp.train(tmp_path / "data", tmp_path / "run", run_config(None, FAST))
    (tmp_path / "data").rename(tmp_path / "moved")
    out = tmp_path / "lists.parquet"
    with pytest.raises(cp.DataError, match=r"found nothing at '.*data'; say with --data where"):
        cp.recommend(tmp_path / "run", out)
    cp.recommend(tmp_path / "run", out, data=tmp_path / "moved")
    out.unlink()
    split = cp.data.load_split(dataset)
    other = np.array(split.part)
    other[[0, 1]] = 2
    cp.data.save(replace(split, part=other), tmp_path / "data")
    with pytest.raises(cp.DataError, match="must be used with the data it was trained on"):
        cp.recommend(tmp_path / "run", out)
    with pytest.raises(cp.DataError, match=r"readable run.json"):
        cp.recommend(tmp_path, out)
    assert not out.exists()


def test_lists_are_parquet_by_name_too(runs: Path, tmp_path: Path) -> None:
    with pytest.raises(cp.ConfigError, match=r"found the name 'lists.csv'"):
        cp.recommend(runs / "gmf", tmp_path / "lists.csv")
    with pytest.raises(cp.ConfigError, match="k must be 1 or more"):
        cp.recommend(runs / "gmf", tmp_path / "lists.parquet", k=0)
    assert not list(tmp_path.iterdir())


NUMBERS, TEXTS = Vocabulary.of([3, 5, 70]), Vocabulary.of(["007", "5", "a b", "é"])


def write(path: Path, values: dict[str, list[object]]) -> Path:
    if path.suffix == ".parquet":
        pl.DataFrame(values).write_parquet(path)
    elif path.suffix == ".gz":
        path.write_bytes(gzip.compress(pl.DataFrame(values).write_csv().encode()))
    else:
        pl.DataFrame(values).write_csv(path)
    return path


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.parquet"])
@pytest.mark.parametrize(
    ("values", "vocabulary", "expected"),
    [
        ({"user": [70, 3]}, NUMBERS, [2, 0]),
        ({"user": ["70", "3"]}, NUMBERS, [2, 0]),
        ({"who": [5]}, NUMBERS, [1]),
        ({"item": [3, 3], "user": [5, 5]}, NUMBERS, [1]),
        ({"user": [5]}, TEXTS, [1]),
        ({"user": ["é", "007", "a b"]}, TEXTS, [3, 0, 2]),
    ],
)
def test_users_of_tables(
    values: dict[str, list[object]],
    vocabulary: Vocabulary,
    expected: list[int],
    name: str,
    tmp_path: Path,
) -> None:
    assert read_users(write(tmp_path / name, values), vocabulary).tolist() == expected


def test_users_of_plain_text(tmp_path: Path) -> None:
    path = tmp_path / "users.TXT"
    path.write_bytes("\ufeffé\r\n007\r\n\r\na b".encode())
    assert read_users(path, TEXTS).tolist() == [3, 0, 2]


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.txt", "3\n4\nuser\n", r"found 2 of 3 in .* that are not, the first is '4'"),
        ("a.csv", "user\n3\n07\n", r"found 1 of 2 in .*, the first is '07'"),
        ("a.csv", "user\n3.0\n", "the first is '3.0'"),
        ("a.txt", "\n\n", "must name one or more; found none"),
        ("a.csv", "user\n", "must name one or more; found none"),
        ("a.csv", "", "found an empty file"),
        ("a.csv", "a,b\n1,2\n", "in a column 'user'; found only a, b"),
        ("a.json", "[3]", "format must show in its name"),
        ("a.parquet", "user\n3\n", "must be what its name says"),
        ("a.jsonl", '{"user": [3, 5]}\n', r"found one of List\(Int64\)"),
        ("a.txt", b"\xff\xfe3\n", "whole, valid text file"),
    ],
)
def test_users_that_cannot_be_read_are_one_sentence(
    name: str, content: str | bytes, expected: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(cp.DataError, match=expected) as caught:
        read_users(path, NUMBERS)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    for name in ("a.txt", "a.csv"):
        with pytest.raises(cp.DataError, match="found nothing at"):
            read_users(tmp_path / name, NUMBERS)
