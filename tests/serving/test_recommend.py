from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import counterplay as cp
from counterplay.runs.config import run_config
from counterplay.serving import recommend as recommending
from counterplay.serving.recommend import load_trained

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


def test_endings_say_the_format_and_all_formats_hold_the_same(runs: Path, tmp_path: Path) -> None:
    lists = cp.recommend(runs / "gmf", k=4)
    assert lists.columns == ["user", "item", "rank", "score"]
    assert lists.height == 160
    for name, reader in (
        ("a.csv", pl.read_csv),
        ("a.NDJSON", pl.read_ndjson),
        ("a.jsonl", pl.read_ndjson),
        ("a.parquet", pl.read_parquet),
        ("a.pq", pl.read_parquet),
    ):
        path = tmp_path / name
        path.write_bytes(b"from the day before")  # which is replaced
        assert cp.recommend(runs / "gmf", path, k=4)["rows"] == 160
        assert reader(path).cast(lists.schema).equals(lists)
    before = sorted(tmp_path.iterdir())
    for name in ("lists.xlsx", "lists", "lists.csv.gz"):
        with pytest.raises(cp.ConfigError, match=rf"must end in .*\.csv.*; found '{name}'"):
            cp.recommend(runs / "gmf", tmp_path / name)
    with pytest.raises(cp.ConfigError, match="k must be 1 or more"):
        cp.recommend(runs / "gmf", tmp_path / "lists.parquet", k=0)
    assert sorted(tmp_path.iterdir()) == before


def test_unknown_users_get_the_most_popular_items_at_the_end(runs: Path, dataset: Path) -> None:
    with pytest.warns(cp.CounterplayWarning, match=r"2 of 4 users are not in .* first is 99"):
        lists = cp.recommend(runs / "gmf", k=5, users=[99, 3, 1000, 4])
    assert lists["user"].unique(maintain_order=True).to_list() == [3, 4, 99, 1000]
    known = cp.recommend(runs / "gmf", k=5, users=[3, 4])
    assert lists.schema == known.schema
    assert lists.head(10).equals(known)
    train = cp.data.load_split(dataset).train
    events = np.bincount(train.item, minlength=train.n_items)
    best = np.argsort(-events, kind="stable")[:5]
    for user in (99, 1000):
        own = lists.filter(user=user)
        assert own["item"].to_list() == train.items.decode(best).to_list()
        assert own["rank"].to_list() == [1, 2, 3, 4, 5]
        assert own["score"].is_sorted(descending=True)
    with pytest.warns(cp.CounterplayWarning, match="1 of 1 users"):
        alone = cp.recommend(runs / "gmf", k=5, users=[99])
    assert alone.equals(lists.filter(user=99))
    with pytest.warns(cp.CounterplayWarning, match="users"):
        some = cp.recommend(runs / "gmf", k=3, users=[99], without_items=alone["item"].head(2))
    assert some["item"].to_list() == alone["item"].to_list()[2:]


def test_unknown_users_of_ratings_get_the_best_rated_items(runs: Path) -> None:
    with pytest.warns(cp.CounterplayWarning, match="users"):
        lists = cp.recommend(runs / "ratings", k=3, users=["-5"])
    means = load_trained(runs / "ratings").fallback.items[:-1]
    assert lists["score"].to_list() == np.sort(means)[::-1][:3].tolist()


def test_many_unknown_users_are_listed_in_parts(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recommending, "_AT_A_TIME", 7)
    users = list(range(100, 130))
    for out in (None, tmp_path / "a.csv"):
        with pytest.warns(cp.CounterplayWarning, match="30 of 30"):
            found = cp.recommend(runs / "gmf", out, k=3, users=users)
    assert isinstance(found, dict)
    assert (found["users"], found["unknown"], found["cold"], found["rows"]) == (30, 30, 0, 90)
    assert pl.read_csv(tmp_path / "a.csv")["user"].to_list() == np.repeat(users, 3).tolist()


@pytest.mark.parametrize("include_seen", [False, True])
def test_filters_leave_the_best_of_what_they_let_through(
    include_seen: bool, runs: Path, tmp_path: Path
) -> None:
    whole = cp.recommend(runs / "gmf", k=60, include_seen=include_seen)
    only, without = list(range(0, 60, 2)), [4, 8, 59]
    kept = set(only) - set(without)
    found = cp.recommend(
        runs / "gmf", k=5, only_items=only, without_items=without, include_seen=include_seen
    )
    expected = (
        whole.filter(pl.col("item").is_in(kept))
        .group_by("user", maintain_order=True)
        .head(5)
        .with_columns((pl.int_range(pl.len()).over("user") + 1).cast(pl.Int32).alias("rank"))
    )
    assert found.equals(expected.select(found.columns))
    (tmp_path / "only.txt").write_text("\n".join(map(str, only)))
    pl.DataFrame({"item": without, "name": ["a", "b", "c"]}).write_csv(tmp_path / "without.csv")
    told = cp.recommend(
        runs / "gmf", tmp_path / "a.parquet", k=5, include_seen=include_seen,
        only_items=tmp_path / "only.txt", without_items=tmp_path / "without.csv",
    )  # fmt: skip
    assert pl.read_parquet(tmp_path / "a.parquet").equals(found)
    assert told["items"] == len(kept)


def test_unknown_items_change_nothing_and_are_counted(runs: Path) -> None:
    with pytest.warns(cp.CounterplayWarning, match=r"1 of 3 items of only_items .* first is 77"):
        found = cp.recommend(runs / "gmf", k=5, only_items=[1, 77, 2], include_seen=True)
    assert set(found["item"]) == {1, 2}
    with pytest.warns(cp.CounterplayWarning, match=r"2 of 2 items of without_items"):
        found = cp.recommend(runs / "gmf", k=5, without_items=["77", "78"])
    assert found.equals(cp.recommend(runs / "gmf", k=5))


@pytest.mark.filterwarnings("ignore::counterplay.CounterplayWarning")
def test_a_shelf_without_items_is_refused(runs: Path, tmp_path: Path) -> None:
    out = tmp_path / "a.csv"
    for filters in (
        {"without_items": range(60)},
        {"only_items": [1, 2], "without_items": [2, 1]},
        {"only_items": [77]},
    ):
        with pytest.raises(cp.ConfigError, match="found none of the dataset's 60 left"):
            cp.recommend(runs / "gmf", out, **filters)
    for asked in ("users", "only_items", "without_items"):
        with pytest.raises(cp.DataError, match="must be one or more; found none; add"):
            cp.recommend(runs / "gmf", out, **{asked: []})  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="kk"):
        cp.recommend(runs / "gmf", out, kk=3)  # type: ignore[call-overload]
    assert not list(tmp_path.iterdir())
