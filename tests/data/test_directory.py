from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given

import counterplay as cp
from counterplay.data.files import digests_of, read_json, sealed, write_json

from .conftest import tables


def full_log() -> cp.Interactions:
    return cp.read(
        {
            "user": ["a", "b", "a", "c"],
            "item": [3, 1, 2, 1],
            "rating": [1.5, 2.0, 3.0, 4.0],
            "time": [4, 3, 2, 1],
            "exposed": [True, True, False, True],
            "propensity": [0.1, 0.2, 0.3, 1.0],
            "position": [1, 2, 3, 1],
        },
        user_features={"id": ["a", "c"], "age": [1.5, 2.5], "city": ["x", "y"]},
        item_features={"id": [1, 2], "tags": [["p"], ["p", "q"]]},
        name="full",
    )


def reseal(folder: Path, **changes: object) -> None:
    """Let dataset.json vouch for the files as they are now: what a digest does not find is left."""
    path = folder / "dataset.json"
    said = read_json(path, "a dataset") | changes
    path.unlink()
    write_json(said | {"files": digests_of(folder)}, path)


def test_a_loaded_log_is_the_saved_one(tmp_path: Path) -> None:
    log = full_log()
    cp.data.save(log, tmp_path / "data")
    loaded = cp.data.load(tmp_path / "data")
    assert loaded == log
    assert (loaded.name, loaded.source, loaded.steps) == (log.name, log.source, log.steps)
    for (name, column), (_, original) in zip(loaded.columns(), log.columns(), strict=True):
        np.testing.assert_array_equal(column, original, err_msg=name)
        assert column.dtype == original.dtype


@given(tables(times=True))
def test_any_log_survives(tmp_path: Path, frame: pl.DataFrame) -> None:
    log = cp.read(frame)
    cp.data.save(log, tmp_path / "data", overwrite=True)
    assert cp.data.load(tmp_path / "data") == log


def test_a_log_of_several_row_groups_survives(tmp_path: Path) -> None:
    log = cp.read({"user": np.arange(600_000) % 999, "item": np.arange(600_000) % 777})
    cp.data.save(log, tmp_path / "data")
    assert pq.read_metadata(tmp_path / "data" / "interactions.parquet").num_row_groups > 1
    assert cp.data.load(tmp_path / "data") == log


def test_other_readers_see_ordinary_parquet(tmp_path: Path) -> None:
    cp.data.save(full_log(), tmp_path / "data")
    table = pq.read_table(tmp_path / "data" / "interactions.parquet")
    assert {field.name: str(field.type) for field in table.schema} == {
        "user": "int32",
        "item": "int32",
        "rating": "float",
        "time": "timestamp[us, tz=UTC]",
        "exposed": "bool",
        "propensity": "double",
        "position": "int16",
    }
    assert table["user"].to_pylist() == [0, 0, 1, 2]
    users = pl.read_parquet(tmp_path / "data" / "users.parquet")
    assert users.rows() == [("a", 1.5, "x"), ("b", None, None), ("c", 2.5, "y")]


@pytest.mark.parametrize(
    "layout",
    [
        {"compression": "none", "use_dictionary": False},  # as earlier versions wrote them
        {"data_page_size": 1},
        {"row_group_size": 2},
        {"data_page_version": "2.0", "compression": "none"},
        {"use_dictionary": False, "use_byte_stream_split": ["user", "item", "rating"]},
    ],
)
def test_files_rewritten_by_others_still_load(layout: dict[str, object], tmp_path: Path) -> None:
    log = full_log()
    cp.data.save(log, tmp_path / "data")
    path = tmp_path / "data" / "interactions.parquet"
    pq.write_table(pq.read_table(path), path, **layout)
    reseal(tmp_path / "data")
    assert cp.data.load(tmp_path / "data") == log


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("time", pa.timestamp("ms", "UTC")),
        ("time", pa.timestamp("ns", "UTC")),
        ("rating", pa.float64()),
        ("user", pa.float32()),
        ("item", pa.int64()),
    ],
)
def test_columns_of_another_type_are_never_misread(
    name: str, dtype: pa.DataType, tmp_path: Path
) -> None:
    log = full_log()
    cp.data.save(log, tmp_path / "data")
    path = tmp_path / "data" / "interactions.parquet"
    table = pq.read_table(path)
    fields = [
        pa.field(each.name, dtype if each.name == name else each.type, nullable=False)
        for each in table.schema
    ]
    pq.write_table(table.cast(pa.schema(fields)), path, compression="none", use_dictionary=False)
    reseal(tmp_path / "data")
    assert cp.data.load(tmp_path / "data") == log


def test_a_split_that_was_tampered_with_is_refused(tmp_path: Path) -> None:
    split = cp.data.split_at_random(full_log(), np.random.default_rng(0), fractions=(0.25, 0.25))
    cp.data.save(split, tmp_path / "data")
    path = tmp_path / "data" / "split.parquet"
    other = np.roll(split.part, 1)
    pl.DataFrame({"part": other}).write_parquet(path)
    with pytest.raises(cp.DataError, match=r"split.parquet' must be as it was written; found it"):
        cp.data.load_split(tmp_path / "data")
    reseal(tmp_path / "data")
    with pytest.raises(cp.DataError, match="does not match its fingerprint"):
        cp.data.load_split(tmp_path / "data")
    pl.DataFrame({"other": other}).write_parquet(path)
    reseal(tmp_path / "data")
    with pytest.raises(cp.DataError, match="a split that cannot be read"):
        cp.data.load_split(tmp_path / "data")


def test_only_a_dataset_directory_is_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "dataset.json").write_text("{}")
    (folder / "precious").write_text("keep")
    with pytest.raises(cp.ConfigError):
        cp.data.save(full_log(), folder, overwrite=True)
    assert (folder / "precious").read_text() == "keep"


def test_a_link_to_a_folder_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    for _ in range(2):
        cp.data.save(full_log(), tmp_path / "link", overwrite=True)
    assert (tmp_path / "link").is_symlink()
    assert cp.data.load(tmp_path / "real") == full_log()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "real"]


def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(cp.ConfigError, match="a folder that can be written to"):
        cp.data.save(full_log(), tmp_path / "file" / "data")


def test_a_split_is_stored_with_the_data(tmp_path: Path) -> None:
    split = cp.data.split_at_random(full_log(), np.random.default_rng(0), fractions=(0.25, 0.25))
    cp.data.save(split, tmp_path / "data")
    loaded = cp.data.load_split(tmp_path / "data")
    assert loaded.interactions == split.interactions
    assert (loaded.part == split.part).all()
    assert (loaded.kind, loaded.counts) == (split.kind, split.counts)


def test_the_description_has_what_others_rely_on(tmp_path: Path) -> None:
    cp.data.save(full_log(), tmp_path / "data")
    description = json.loads((tmp_path / "data" / "dataset.json").read_text())
    assert description["name"] == "full"
    assert description["counts"] == {"users": 3, "items": 3, "interactions": 4}
    assert description["split"] is None
    assert description["fingerprint"] == full_log().fingerprint
    assert [step["kind"] for step in description["filter"]] == []


def test_saving_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        cp.data.save(full_log(), tmp_path / name)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes(), path.name


def test_a_loaded_log_can_be_worked_with_and_saved_over(tmp_path: Path) -> None:
    cp.data.save(full_log(), tmp_path / "data")
    loaded = cp.data.load(tmp_path / "data")
    cp.data.save(loaded, tmp_path / "data", overwrite=True)
    assert cp.data.load(tmp_path / "data") == full_log()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cp.CounterplayWarning)
        assert cp.data.leave_last_two_out(loaded).counts == {"train": 4, "validation": 0, "test": 0}


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("dataset.json", None, "readable dataset.json"),
        ("dataset.json", b"{", "must be of a dataset directory; found Expecting"),
        ("dataset.json", b"[" * 100_000, "too deep to read"),
        ("dataset.json", b"{}", "must be in format 2; found format None"),
        ("dataset.json", b'{"format": 1}', "found format 1; prepare it again with this version"),
        ("dataset.json", b'{"format": 2}', "found it changed or damaged, or of an ea"),
        ("dataset.json", sealed({"format": 2}), "without all of its entries"),
        ("interactions.parquet", None, "must be as it was written"),
        ("interactions.parquet", b"PAR1", "must be as it was written"),
        ("users.parquet", b"", "must be as it was written"),
    ],
)
def test_damaged_directories_are_refused(
    name: str, content: bytes | None, expected: str, tmp_path: Path
) -> None:
    cp.data.save(full_log(), tmp_path / "data")
    path = tmp_path / "data" / name
    path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises(cp.DataError, match=expected) as caught:
        cp.data.load(tmp_path / "data")
    assert "\n" not in str(caught.value)


def test_a_flipped_bit_of_any_file_is_one_sentence(tmp_path: Path) -> None:
    """Before anything parses it: some of these would end the process."""
    split = cp.data.split_at_random(full_log(), np.random.default_rng(0), fractions=(0.25, 0.25))
    cp.data.save(split, tmp_path / "data")
    rng = np.random.default_rng(1)
    for path in sorted((tmp_path / "data").iterdir()):
        content = path.read_bytes()
        for place in rng.integers(0, len(content), 40):
            damaged = bytearray(content)
            damaged[place] ^= 1 << rng.integers(8)
            path.write_bytes(damaged)
            with pytest.raises(cp.DataError, match=f"{path.name}' must be") as caught:
                cp.data.load_split(tmp_path / "data")
            assert "\n" not in str(caught.value)
        path.write_bytes(content)
    assert (cp.data.load_split(tmp_path / "data").part == split.part).all()


Edit = Callable[[pl.DataFrame], pl.DataFrame]
EDITS: dict[str, tuple[Edit, str]] = {
    "nulls": (
        lambda rows: rows.with_columns(user=pl.Series([0, None, 1, 2], dtype=pl.Int32)),
        "1 nulls in column 'user'",
    ),
    "no column": (lambda rows: rows.drop("user"), "no columns user and item"),
    "fewer rows": (lambda rows: rows.head(3), "where it announces"),
    "other values": (
        lambda rows: rows.with_columns(rating=pl.lit(1.0).cast(pl.Float32)),
        "do not match its fingerprint",
    ),
}


@pytest.mark.parametrize("name", EDITS)
def test_other_rows_are_refused_with_their_digests_and_without(name: str, tmp_path: Path) -> None:
    cp.data.save(full_log(), tmp_path / "data")
    path = tmp_path / "data" / "interactions.parquet"
    edit, expected = EDITS[name]
    edit(pl.read_parquet(path)).write_parquet(path)
    with pytest.raises(cp.DataError, match="found it changed or damaged; prepare it again"):
        cp.data.load(tmp_path / "data")
    reseal(tmp_path / "data")
    with pytest.raises(cp.DataError, match=expected):
        cp.data.load(tmp_path / "data")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"filter": None}, "must be as it was written"),
        ({"filter": [{"x": 1}]}, "must be as it was written"),
        ({"format": 99}, "must be in format 2; found format 99"),
        ({}, "a stored split is needed"),
    ],
)
def test_broken_entries_and_a_missing_split_are_refused(
    changes: dict[str, object], expected: str, tmp_path: Path
) -> None:
    cp.data.save(full_log(), tmp_path / "data")
    reseal(tmp_path / "data", **changes)
    with pytest.raises(cp.DataError, match=expected):
        cp.data.load_split(tmp_path / "data")
