"""Rows of some users are theirs, all of theirs, and nothing else is decoded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import counterplay as cp
from counterplay.data import directory, user_rows
from counterplay.data.canonical import ranges
from counterplay.data.features import FeatureTable
from counterplay.data.preparation import Preparation
from counterplay.data.splits import Split
from counterplay.data.user_rows import Checked
from counterplay.errors import DataError

pytestmark = pytest.mark.filterwarnings("ignore::counterplay.CounterplayWarning")
N_USERS, A_GROUP = 40, 16


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Impressions of users of whom one has many, in row groups that cut users."""
    rng, folder = np.random.default_rng(0), tmp_path_factory.mktemp("data") / "data"
    users = np.concatenate([rng.integers(0, N_USERS, 300), np.full(100, 7), np.arange(N_USERS)])
    n = len(users)
    rows = {
        "user": [f"u{each:03d}" for each in users],
        "item": rng.integers(0, 9, n),
        "time": rng.permutation(n),
        "clicked": (rng.random(n) < 0.6) | (np.arange(n) >= n - N_USERS),
    }
    split = cp.prepare(rows, Preparation(split="random"))
    assert isinstance(split, Split)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(directory, "ROW_GROUP", A_GROUP)
        directory.save(split, folder)
    assert pq.ParquetFile(folder / "interactions.parquet").num_row_groups > 10
    return folder


def checked(data: Path) -> Checked:
    split = directory.load_split(data)
    return Checked(data, (split.interactions.fingerprint, split.fingerprint))


@settings(max_examples=30, deadline=None)
@given(st.sets(st.integers(0, N_USERS - 1)), st.booleans())
def test_rows_of_users_are_all_of_theirs(data: Path, chosen: set[int], shown: bool) -> None:
    split, users = directory.load_split(data), np.array(sorted(chosen), dtype=np.int32)
    found = checked(data).rows(users, unclicked=shown)
    whole, own = split.interactions, np.isin(split.interactions.user, users)
    assert np.array_equal(users[found.log.user], whole.user[own])
    assert np.array_equal(found.log.item, whole.item[own])
    assert np.array_equal(found.part, split.part[own])
    assert (found.log.n_users, found.log.n_items) == (len(users), whole.n_items)
    assert np.array_equal(found.train.item, whole.item[own & (split.part == 0)])
    assert len(found.undivided().train) == own.sum()
    assert split.unclicked is not None
    assert split.unclicked_part is not None
    if not shown:
        assert found.unclicked is None
        return
    assert found.unclicked is not None
    assert found.unclicked_part is not None
    own = np.isin(split.unclicked.user, users)
    assert np.array_equal(users[found.unclicked.user], split.unclicked.user[own])
    assert np.array_equal(found.unclicked.item, split.unclicked.item[own])
    assert np.array_equal(found.unclicked_part, split.unclicked_part[own])
    undivided = found.undivided().unclicked_part
    assert undivided is not None
    assert len(undivided) == own.sum()
    assert not undivided.any()


def test_rows_of_others_are_not_decoded(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With damage in all row groups that have none of the users, their rows are the same."""
    users, file = np.array([30, 31], dtype=np.int32), "interactions.parquet"
    expected, place, about = checked(data).rows(users), tmp_path / "data", checked(data)
    place.mkdir()
    for each in data.iterdir():
        (place / each.name).write_bytes(each.read_bytes())
    content, meta = bytearray((data / file).read_bytes()), pq.ParquetFile(data / file).metadata
    n_damaged = 0
    for number in range(meta.num_row_groups):
        group = meta.row_group(number)
        ends = group.column(0).statistics
        if ends.max < users[0] or ends.min > users[-1]:
            for column in (group.column(each) for each in range(meta.num_columns)):
                first = column.dictionary_page_offset or column.data_page_offset
                content[first : first + column.total_compressed_size] = bytes(
                    column.total_compressed_size
                )
            n_damaged += 1
    assert n_damaged >= meta.num_row_groups - 4
    (place / file).write_bytes(content)
    about.folder = place
    with pytest.raises(DataError, match="must be as it was written"):
        about.rows(users)
    monkeypatch.setattr(user_rows, "check_once", lambda *_, **__: None)
    found = about.rows(users)
    assert np.array_equal(found.log.user, expected.log.user)
    assert np.array_equal(found.log.item, expected.log.item)
    with pytest.raises(OSError, match=r"\w"):  # of whatever kind: others cannot be decoded
        about.rows(np.array([0], dtype=np.int32))


def test_nobody_has_all_items_and_what_is_known_of_them(tmp_path: Path) -> None:
    log = cp.read({"user": [3, 3, 5, 5], "item": ["a", "b", "b", "c"], "time": [1, 2, 3, 4]})
    users = FeatureTable(pl.DataFrame({"age": [20.0, 30.0], "kind": ["x", "y"]}))
    items = FeatureTable(pl.DataFrame({"tags": [["n"], ["m", "n"], []]}))
    log = replace(log, user_features=users, item_features=items)
    directory.save(cp.data.split_by_time(log, fractions=(0.2, 0.2)), tmp_path / "data")
    log = checked(tmp_path / "data").nobody()
    assert (len(log), log.n_users, log.n_items) == (0, 0, 3)
    assert log.user_features is not None
    assert log.item_features is not None
    assert (len(log.user_features), log.user_features.numeric) == (0, ["age"])
    assert log.item_features.frame["tags"].to_list() == [["n"], ["m", "n"], []]


def test_other_data_are_refused(data: Path) -> None:
    with pytest.raises(
        DataError, match=r"the data must stay as they are .* found '.*data' changed"
    ):
        Checked(data, ("sha256:a", "sha256:b"))
    split = directory.load_split(data)
    for prints in ((split.interactions.fingerprint, "b"), ("a", split.fingerprint)):
        with pytest.raises(DataError, match="changed"):
            Checked(data, prints)


@pytest.mark.parametrize("name", ["interactions", "split", "unclicked"])
def test_a_damaged_file_is_refused(name: str, data: Path, tmp_path: Path) -> None:
    place, about, users = tmp_path / "data", checked(data), np.array([3], dtype=np.int32)
    place.mkdir()
    for each in data.iterdir():
        (place / each.name).write_bytes(each.read_bytes())
    content = bytearray((place / f"{name}.parquet").read_bytes())
    content[len(content) // 2] ^= 1
    (place / f"{name}.parquet").write_bytes(content)
    about.folder = place
    with pytest.raises(DataError, match=rf"{name}\.parquet' must be as it was written"):
        about.rows(users, unclicked=True)


def test_long_tables_have_row_groups_of_one_size(data: Path) -> None:
    for name in ("interactions", "split", "unclicked"):
        meta = pq.ParquetFile(data / f"{name}.parquet").metadata
        sizes = [meta.row_group(number).num_rows for number in range(meta.num_row_groups)]
        assert len(sizes) > 3
        assert set(sizes[:-1]) == {A_GROUP}


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 4))))
def test_ranges_follow_each_other(pairs: list[tuple[int, int]]) -> None:
    begins = np.array([begin for begin, _ in pairs], dtype=np.int64)
    ends = begins + np.array([n for _, n in pairs], dtype=np.int64)
    expected = [each for begin, n in pairs for each in range(begin, begin + n)]
    assert ranges(begins, ends).tolist() == expected
