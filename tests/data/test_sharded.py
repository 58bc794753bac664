"""A log that is prepared by ranges of users is the log that one machine prepares, to the byte."""

from __future__ import annotations

import datetime as dt
import tempfile
import warnings
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterplay.data import pieces, sharded_stages, whole
from counterplay.data import shards as shards_module
from counterplay.data.directory import ROW_GROUP, describe, load, load_split, save
from counterplay.data.jobs import Executor, Finished, Job, Work, in_processes, in_turn, processes
from counterplay.data.preparation import Preparation, prepare
from counterplay.data.sharded import prepare_shards
from counterplay.errors import ConfigError, CounterplayError, DataError
from counterplay.notes import noted

from .test_jobs import End

N = 400
PLANS: dict[str, dict[str, Any]] = {
    "leave-last-two": {},
    "time": {"split": "time", "test": 0.2},
    "moments": {
        "split": "time",
        "validation_from": dt.datetime(2017, 7, 14, 2, 41),
        "test_from": dt.datetime(2017, 7, 14, 2, 44),
    },
    "random": {"split": "random", "validation": 0.15, "seed": 3},
    "none": {"split": "none"},
    "paper": {"items_above": 3, "users_above": 2, "users_below": 60, "split": "random"},
    "core": {"core": 3},
    "both": {"items_above": 2, "users_above": 1, "core": 4, "split": "time"},
    "first": {"duplicates": "first", "threshold": 3.0},
    "last": {"duplicates": "last", "threshold": 2.0, "core": 2, "split": "random"},
}


def a_log(seed: int = 0, n: int = N, *, text: bool = True) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pl.DataFrame(
        {
            "user": rng.zipf(1.4, n) % 47,
            "item": rng.zipf(1.3, n) % 31,
            "rating": rng.integers(1, 6, n) / 1.0,
            "time": rng.integers(1_500_000_000, 1_500_000_300, n),
            "exposed": rng.random(n) < 0.7,
            "position": rng.integers(0, 9, n),
            "propensity": rng.uniform(0.1, 1, n),
        }
    )
    if text:
        return frame.with_columns(
            pl.format("u{}", "user").alias("user"), pl.format("é{}", "item").alias("item")
        )
    return frame.with_columns((pl.col("user") * 10**12 - 5).alias("user"))


def in_files(frame: pl.DataFrame, folder: Path, cuts: Sequence[int] = (0, 7, 7, 250)) -> Path:
    folder.mkdir()
    for place, (begin, end) in enumerate(pairwise([*cuts, frame.height])):
        frame[begin:end].write_parquet(folder / f"part-{place}.parquet")
    return folder


def by_one(source: object, out: Path, plan: dict[str, Any]) -> tuple[Any, list[str]]:
    """Prepare as one machine does; return the directory or why there is none, and the notes."""
    with noted() as notes:
        try:
            save(prepare(source, Preparation(name="log", **plan)), out)
        except (DataError, ConfigError) as error:
            return str(error), notes
    return contents(out), notes


def by_many(
    source: Path, out: Path, plan: dict[str, Any], n: int, executor: Executor = in_turn
) -> tuple[Any, list[str]]:
    with noted() as notes:
        try:
            prepare_shards(
                source, out, Preparation(name="log", **plan), shards=n, executor=executor
            )
        except (DataError, ConfigError) as error:
            return str(error), notes
    assert not [path for path in out.parent.iterdir() if path.name.startswith(".")]
    return contents(out), notes


def contents(folder: Path) -> dict[str, Any]:
    """Everything in a dataset directory, but for where it came from and its ranges of users."""
    found: dict[str, Any] = {path.name: path.read_bytes() for path in folder.glob("*.parquet")}
    said = describe(folder)
    return found | {key: said[key] for key in said if key not in ("source", "shards")}


@pytest.mark.parametrize("text", [True, False], ids=["text", "integers"])
@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_ranges_put_together_are_the_log_of_one_machine(
    tmp_path: Path, plan: dict[str, Any], text: bool
) -> None:
    frame = a_log(text=text)
    wanted = by_one(frame, tmp_path / "one", plan)
    source = in_files(frame, tmp_path / "log")
    for n in (1, 4):
        found = by_many(source, tmp_path / f"many-{n}", plan, n)
        assert found == wanted
        said = describe(tmp_path / f"many-{n}")["shards"]
        assert len(said["digests"]) == len(said["rows"]) - 1 == len(said["users"]) - 1
        assert len(said["digests"]) == n
        assert said["rows"][-1] == wanted[0]["counts"]["interactions"]
        assert said["users"][-1] == wanted[0]["counts"]["users"]


def test_there_may_be_more_ranges_than_users(tmp_path: Path) -> None:
    frame = a_log(n=60)
    n_users = frame["user"].n_unique()
    wanted = by_one(frame, tmp_path / "one", {"core": 2})
    source = in_files(frame, tmp_path / "log", (0, 30))
    assert by_many(source, tmp_path / "many", {"core": 2}, 1000) == wanted
    said = describe(tmp_path / "many")["shards"]
    assert len(said["digests"]) == n_users
    assert max(np.diff(said["users"])) == 1


def test_tables_of_several_row_groups_are_the_same(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    n = 2 * ROW_GROUP + 1000
    frame = pl.DataFrame(
        {
            "user": rng.permutation(n) // 3 * 2,
            "item": rng.integers(0, 99, n),
            "time": rng.integers(0, 9, n),
        }
    ).with_columns(pl.format("u{}", "user").alias("user"))
    plan = {"split": "time", "time_unit": "s"}
    wanted = by_one(frame, tmp_path / "one", plan)
    source = in_files(frame, tmp_path / "log", (0, 100_000))
    assert by_many(source, tmp_path / "many", plan, 5) == wanted


def small_logs() -> st.SearchStrategy[tuple[pl.DataFrame, list[int], int]]:
    """Logs of few users and items, with ties; where files end, and how many ranges there are."""
    rows = st.tuples(st.integers(0, 6), st.integers(0, 4), st.integers(1, 3), st.integers(0, 5))

    def made(rows: list[tuple[int, ...]], cuts: list[int], n: int, kind: str) -> Any:
        frame = pl.DataFrame(rows, schema=["user", "item", "rating", "time"], orient="row")
        if kind == "text":
            frame = frame.with_columns(
                pl.col("user").cast(pl.String), pl.format("ü{}", "item").alias("item")
            )
        elif kind == "untimed":
            frame = frame.drop("time")
        return frame, sorted(min(cut, frame.height) for cut in cuts), n

    some = st.lists(rows, min_size=1, max_size=40), st.lists(st.integers(0, 40), max_size=3)
    return st.builds(
        made, *some, st.integers(1, 9), st.sampled_from(["integers", "text", "untimed"])
    )


@settings(max_examples=25, deadline=None)
@given(small_logs(), st.sampled_from([*PLANS]))
def test_any_log_in_any_files_is_that_of_one_machine(
    log: tuple[pl.DataFrame, list[int], int], name: str
) -> None:
    frame, cuts, n = log
    plan = PLANS[name] | {"time_unit": "s"}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        wanted, notes = by_one(frame, root / "one", plan)
        found, others = by_many(in_files(frame, root / "log", [0, *cuts]), root / "many", plan, n)
    if isinstance(wanted, str):
        assert isinstance(found, str)  # perhaps for another reason, where there are several
    else:
        assert (found, others) == (wanted, notes)


def test_one_file_is_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = a_log()
    frame.write_parquet(tmp_path / "log.parquet", row_group_size=30)
    wanted = by_one(tmp_path / "log.parquet", tmp_path / "one", {})
    monkeypatch.setattr(pieces, "row_ranges", partial(pieces.row_ranges, at_once=70))
    seen: list[Job] = []

    def counted(work: Work, jobs: Sequence[Job]) -> Finished:
        seen.extend(jobs)
        return in_turn(work, jobs)

    assert by_many(tmp_path / "log.parquet", tmp_path / "many", {}, 4, counted) == wanted
    assert sum(isinstance(job, pieces.ReadPiece) for job in seen) == 7
    assert describe(tmp_path / "many")["source"] == describe(tmp_path / "one")["source"]


def test_a_user_with_most_rows_and_ids_of_one_file_alone(tmp_path: Path) -> None:
    giant = pl.DataFrame(
        {"user": ["g"] * 300, "item": [f"{n % 50}" for n in range(300)], "time": range(300)}
    )
    others = pl.DataFrame({"user": ["a", "z", "z"], "item": ["only", "1", "2"], "time": [1, 2, 3]})
    frame = pl.concat([giant, others])
    wanted = by_one(frame, tmp_path / "one", {})
    source = in_files(frame, tmp_path / "log", (0, 100, 300))
    assert by_many(source, tmp_path / "many", {}, 8) == wanted
    rows = describe(tmp_path / "many")["shards"]["rows"]
    assert rows == [0, 1, 301, 303]


def test_columns_may_stand_in_another_order_and_in_another_width(tmp_path: Path) -> None:
    frame = a_log(text=False)
    wanted = by_one(frame, tmp_path / "one", {})
    (tmp_path / "log").mkdir()
    frame[:99].write_parquet(tmp_path / "log" / "0.parquet")
    other = frame[99:].select(reversed(frame.columns)).cast({"item": pl.Int16, "rating": pl.Int8})
    other.write_parquet(tmp_path / "log" / "1.parquet")
    (tmp_path / "log" / "_SUCCESS").touch()
    (tmp_path / "log" / ".hidden").mkdir()
    (tmp_path / "log" / ".hidden" / "x.parquet").touch()
    assert by_many(tmp_path / "log", tmp_path / "many", {}, 3) == wanted


def test_features_are_joined(tmp_path: Path) -> None:
    frame = a_log()
    users = pl.DataFrame({"id": [f"u{n}" for n in range(60)], "age": range(60)})
    items = pl.DataFrame({"id": [f"é{n}" for n in range(60)], "kind": ["x", "y"] * 30})
    users.write_parquet(tmp_path / "users.parquet")
    items.write_csv(tmp_path / "items.csv")
    files = {"user_features": tmp_path / "users.parquet", "item_features": tmp_path / "items.csv"}
    source = in_files(frame, tmp_path / "log")
    for name in ("leave-last-two", "both"):
        wanted = by_one(frame, tmp_path / f"one-{name}", PLANS[name] | files)
        assert by_many(source, tmp_path / f"many-{name}", PLANS[name] | files, 3) == wanted
        assert load_split(tmp_path / f"many-{name}").interactions.user_features is not None


@pytest.mark.parametrize("ending", ["csv", "tsv", "ndjson", "csv.gz"])
def test_text_files_are_read_too(tmp_path: Path, ending: str) -> None:
    frame = a_log(text=False).select("user", "item", "time")
    frame = frame.with_columns(pl.col("user").cast(pl.String).str.replace("^4", "04"))
    path = tmp_path / f"log.{ending}"
    if ending == "ndjson":
        frame.write_ndjson(path)
    else:
        frame.write_csv(
            path,
            separator="\t" if ending == "tsv" else ",",
            compression="gzip" if "gz" in ending else "uncompressed",
        )
    wanted = by_one(path, tmp_path / "one", {})
    assert by_many(path, tmp_path / "many", {}, 3) == wanted
    assert wanted[0]["filter"]


def test_ids_of_files_without_types_are_text_if_one_is(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "a.csv").write_text("user,item\n10,1\n9,2\n10,2\n")
    (tmp_path / "log" / "b.csv").write_text("user,item\nx,1\n9,3\n")
    (tmp_path / "log" / "c.csv").write_text("user,item\n")
    both = pl.DataFrame({"user": ["10", "9", "10", "x", "9"], "item": [1, 2, 2, 1, 3]})
    wanted = by_one(both, tmp_path / "one", {})
    assert by_many(tmp_path / "log", tmp_path / "many", {}, 3) == wanted


class Stop:
    """An executor that is interrupted after so many jobs of all lists."""

    def __init__(self, after: int) -> None:
        self.left, self.keys = after, list[str]()

    def __call__(self, work: Work, jobs: Sequence[Job]) -> Finished:
        for job, result in in_turn(work, jobs):
            if not self.left:
                raise KeyboardInterrupt
            self.left -= 1
            self.keys.append(job.key)
            yield job, result


def test_interrupted_anywhere_it_goes_on_and_does_nothing_twice(tmp_path: Path) -> None:
    source, plan = in_files(a_log(), tmp_path / "log"), PLANS["both"]
    whole_run = Stop(10_000)
    wanted = by_many(source, tmp_path / "one", plan, 2, whole_run)
    keys = whole_run.keys
    assert len(keys) == len(set(keys)) > 15
    for after in range(0, len(keys), 2):
        out, first, second = tmp_path / f"many-{after}", Stop(after), Stop(10_000)
        with pytest.raises(KeyboardInterrupt):
            by_many(source, out, plan, 2, first)
        assert not out.exists()
        assert by_many(source, out, plan, 2, second) == wanted
        assert [*first.keys, *second.keys] == keys


def test_a_killed_worker_is_one_sentence_and_the_work_goes_on(tmp_path: Path) -> None:
    source, out = in_files(a_log(), tmp_path / "log"), tmp_path / "many"

    def deadly(work: Work, jobs: Sequence[Job]) -> Finished:
        is_cut = jobs[0].label.startswith("cut")
        return in_processes(2)(End(), jobs) if is_cut else in_turn(work, jobs)

    with pytest.raises(CounterplayError, match=r"ended from outside.*same command again"):
        by_many(source, out, {}, 3, deadly)
    with pytest.raises(ConfigError, match=r"shards: began with 3, asked for 4.*remove"):
        prepare_shards(source, out, Preparation(name="log"), shards=4)
    wanted = by_one(a_log(), tmp_path / "one", {})
    assert by_many(source, out, {}, 3) == wanted


def test_processes_give_the_same(tmp_path: Path) -> None:
    source = in_files(a_log(), tmp_path / "log")
    wanted = by_many(source, tmp_path / "one", PLANS["both"], 5)
    with processes(2) as executor:
        assert by_many(source, tmp_path / "two", PLANS["both"], 5, executor) == wanted


def test_ray_gives_the_same(tmp_path: Path) -> None:
    ray = pytest.importorskip("ray")
    from counterplay.data.jobs import on_ray

    source = in_files(a_log(), tmp_path / "log")
    wanted = by_many(source, tmp_path / "one", PLANS["both"], 5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = by_many(source, tmp_path / "two", PLANS["both"], 5, on_ray())
        ray.shutdown()
    assert found == wanted


@pytest.mark.parametrize("name", ["rows", "users", "items", "sample", "cut", "shard", "part"])
def test_a_damaged_file_of_a_job_is_noticed(tmp_path: Path, name: str) -> None:
    source, out = in_files(a_log(), tmp_path / "log"), tmp_path / "many"
    damaged: list[Path] = []

    def damaging(work: Work, jobs: Sequence[Job]) -> Finished:
        for path in sorted((tmp_path / ".many.work").glob(f"{name}-0*.arrow"))[: not damaged]:
            content = bytearray(path.read_bytes())
            content[len(content) // 2] ^= 1
            path.write_bytes(content)
            damaged.append(path)
        return in_turn(work, jobs)

    found, _ = by_many(source, out, PLANS["paper"], 3, damaging)
    assert "must be as it was written; found it changed or damaged; remove" in found
    assert not out.exists()


def test_nobody_else_works_at_it_meanwhile(tmp_path: Path) -> None:
    source, out = in_files(a_log(), tmp_path / "log"), tmp_path / "many"
    said = []

    def curious(work: Work, jobs: Sequence[Job]) -> Finished:
        with pytest.raises(ConfigError, match="one process at a time") as refused:
            prepare_shards(source, out, Preparation(name="log"), shards=3)
        said.append(refused)
        return in_turn(work, jobs)

    by_many(source, out, {}, 3, curious)
    assert said


def test_jobs_that_are_left_beside_a_finished_dataset_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, out = in_files(a_log(), tmp_path / "log"), tmp_path / "many"
    with monkeypatch.context() as patch:
        patch.setattr("counterplay.data.sharded.shutil", SimpleNamespace(rmtree=lambda _: None))
        prepare_shards(source, out, Preparation(name="log", split="none"), shards=2)
    assert (tmp_path / ".many.work" / "done.json").exists()
    found, _ = by_many(source, out, {"split": "none"}, 2)
    assert "something at" in found
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log", "many"]


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ({"order": "file"}, "--order file"),
        ({"impressions": Path("shown.csv")}, "--impressions"),
        ({"format": "coat"}, "Coat"),
        ({"format": "abc"}, "abc"),
        ({"window": "1h"}, "window=1h"),
        ({"users_above": 5, "users_below": 6}, "users_below"),
        ({"core": 0}, "k must be 1"),
        ({"split": "leave-last-two", "seed": 3}, "seed=3"),
        ({"split": "time", "test": 2.0}, "2"),
        ({"split": "time", "time": "-"}, "needs times"),
        ({"time": "-", "split": "leave-last-two"}, "needs to know"),
        ({"rating": "-", "threshold": 3}, "needs ratings"),
        ({"rating": None, "threshold": 9}, "highest to be 5"),
        ({"core": 300}, "at least two users"),
        ({"duplicates": "error"}, "must occur once"),
        ({"duplicates": "first", "time": "-"}, "told by time"),
        ({"user": "nobody"}, "nobody"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(
    tmp_path: Path, plan: dict[str, Any], said: str
) -> None:
    found, _ = by_many(in_files(a_log(), tmp_path / "log"), tmp_path / "many", plan, 3)
    assert said in found
    assert not (tmp_path / "many").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"clicked": True}, "impressions"),
        ({"random": False, "clicked": True}, "impressions"),
        ({"rank": 3}, "--position 'rank'"),
        ({"item": ["x", "y"]}, "lists"),
    ],
)
def test_files_that_only_the_whole_log_could_explain_are_refused(
    tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    frame = pl.DataFrame({"user": ["a", "b"], "item": ["x", "y"]})
    changed = frame.with_columns(**{name: pl.lit(value) for name, value in change.items()})
    found, _ = by_many(in_files(changed, tmp_path / "log", (0,)), tmp_path / "many", {}, 3)
    assert said in found


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"user": [1, 2], "item": ["x", "y"], "time": [1, 2]}, "ids of users must be all integers"),
        ({"user": ["a"], "item": ["x"]}, "the same columns"),
        ({"user_id": ["a"], "item": ["x"], "time": [5]}, "the same columns"),
        ({"user": ["a"], "item": ["x"], "time": [1_500_000_000_000]}, "--time-unit"),
        ({"user": ["a"], "item": ["x"], "time": ["2020-01-01"]}, "the same times"),
        ({"user": ["a", None], "item": ["x", "y"], "time": [5, 6]}, "other.parquet"),
    ],
)
def test_files_must_be_alike(tmp_path: Path, other: dict[str, Any], said: str) -> None:
    source = in_files(
        pl.DataFrame({"user": ["a", "b"], "item": ["x", "y"], "time": [1, 2]}),
        tmp_path / "log",
        (0,),
    )
    pl.DataFrame(other).write_parquet(source / "other.parquet")
    found, _ = by_many(source, tmp_path / "many", {}, 3)
    assert said in found
    assert len(found.splitlines()) == 1


def test_limits_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = in_files(a_log(), tmp_path / "log")
    monkeypatch.setattr(whole, "MOST_PAIRS", 5)
    assert "at most 5; found" in by_many(source, tmp_path / "one", {"split": "random"}, 3)[0]
    monkeypatch.setattr(sharded_stages, "LARGEST", 50)
    assert "raise --shards" in by_many(source, tmp_path / "two", {}, 3)[0]
    with pytest.raises(ConfigError, match="1 or more; found 0"):
        prepare_shards(source, tmp_path / "three", Preparation(), shards=0)
    assert "must not lie in" in by_many(source, source / "data", {}, 3)[0]
    (tmp_path / "none").mkdir()
    assert "found none" in by_many(tmp_path / "none", tmp_path / "four", {}, 3)[0]


def test_a_lost_row_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = in_files(a_log(), tmp_path / "log")
    monkeypatch.setattr(
        shards_module, "canonical_order", lambda columns, *_: np.arange(len(columns["user"]) - 1)
    )
    with pytest.raises(CounterplayError, match="no rows may be lost; found 400 rows"):
        prepare_shards(source, tmp_path / "many", Preparation(), shards=3)


def test_a_file_that_changes_meanwhile_is_refused(tmp_path: Path) -> None:
    source = in_files(a_log(), tmp_path / "log")

    def changing(work: Work, jobs: Sequence[Job]) -> Finished:
        a_log(seed=1).write_parquet(source / "part-0.parquet")
        return in_turn(work, jobs)

    assert "changed since" in by_many(source, tmp_path / "many", {}, 3, changing)[0]
    assert "interactions.parquet" in by_many(source, tmp_path / "many", {}, 3)[0]  # as it is now


def test_digests_of_ranges_are_those_of_their_rows(tmp_path: Path) -> None:
    import hashlib

    by_many(in_files(a_log(), tmp_path / "log"), tmp_path / "many", {}, 4)
    split, said = load_split(tmp_path / "many"), describe(tmp_path / "many")["shards"]
    columns = [*split.interactions.columns(), ("part", split.part)]
    for rows, users, wanted in zip(
        pairwise(said["rows"]), pairwise(said["users"]), said["digests"], strict=True
    ):
        digest = hashlib.sha256()
        for name, column in columns:
            some = np.ascontiguousarray(column[slice(*rows)])
            digest.update(f"{name}:{some.dtype.str}:{len(some)};".encode())
            digest.update(some.data)
        assert f"sha256:{digest.hexdigest()}" == wanted
        own = split.interactions.user[slice(*rows)]
        assert users[0] <= own.min() <= own.max() < users[1]
    assert load(tmp_path / "many") == split.interactions
