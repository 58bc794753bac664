from __future__ import annotations

import json
import warnings
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
    cp.save(log, tmp_path / "data")
    loaded = cp.load(tmp_path / "data")
    assert loaded == log
    assert (loaded.name, loaded.source, loaded.steps) == (log.name, log.source, log.steps)
    for (name, column), (_, original) in zip(loaded.columns(), log.columns(), strict=True):
        np.testing.assert_array_equal(column, original, err_msg=name)
        assert column.dtype == original.dtype


@given(tables(times=True))
def test_any_log_survives(tmp_path: Path, frame: pl.DataFrame) -> None:
    log = cp.read(frame)
    cp.save(log, tmp_path / "data", overwrite=True)
    assert cp.load(tmp_path / "data") == log


def test_a_log_of_several_row_groups_survives(tmp_path: Path) -> None:
    log = cp.read({"user": np.arange(600_000) % 999, "item": np.arange(600_000) % 777})
    cp.save(log, tmp_path / "data")
    assert pq.read_metadata(tmp_path / "data" / "interactions.parquet").num_row_groups > 1
    assert cp.load(tmp_path / "data") == log


def test_other_readers_see_ordinary_parquet(tmp_path: Path) -> None:
    cp.save(full_log(), tmp_path / "data")
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
    cp.save(log, tmp_path / "data")
    path = tmp_path / "data" / "interactions.parquet"
    pq.write_table(pq.read_table(path), path, **layout)
    reseal(tmp_path / "data")
    assert cp.load(tmp_path / "data") == log


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
    cp.save(log, tmp_path / "data")
    path = tmp_path / "data" / "interactions.parquet"
    table = pq.read_table(path)
    fields = [
        pa.field(each.name, dtype if each.name == name else each.type, nullable=False)
        for each in table.schema
    ]
    pq.write_table(table.cast(pa.schema(fields)), path, compression="none", use_dictionary=False)
    reseal(tmp_path / "data")
    assert cp.load(tmp_path / "data") == log


def test_nulls_are_refused(tmp_path: Path) -> None:
    cp.save(full_log(), tmp_path / "data")
    path = tmp_path / "data" / "interactions.parquet"
    frame = pl.read_parquet(path).with_columns(user=pl.Series([0, None, 1, 2], dtype=pl.Int32))
    frame.write_parquet(path)
    reseal(tmp_path / "data")
    with pytest.raises(cp.DataError, match="1 nulls in column 'user'"):
        cp.load(tmp_path / "data")


def test_missing_columns_and_broken_entries_are_refused(tmp_path: Path) -> None:
    cp.save(full_log(), tmp_path / "data")
    for broken in (None, [{"x": 1}]):
        reseal(tmp_path / "data", filter=broken)
        with pytest.raises(cp.DataError, match="must be as it was written"):
            cp.load(tmp_path / "data")
    reseal(tmp_path / "data", filter=[])
    pl.read_parquet(tmp_path / "data" / "interactions.parquet").drop("user").write_parquet(
        tmp_path / "data" / "interactions.parquet"
    )
    reseal(tmp_path / "data")
    with pytest.raises(cp.DataError, match="no columns user and item"):
        cp.load(tmp_path / "data")


def test_a_split_that_was_tampered_with_is_refused(tmp_path: Path) -> None:
    split = cp.split_at_random(full_log(), np.random.default_rng(0), fractions=(0.25, 0.25))
    cp.save(split, tmp_path / "data")
    path = tmp_path / "data" / "split.parquet"
    other = np.roll(split.part, 1)
    pl.DataFrame({"part": other}).write_parquet(path)
    with pytest.raises(cp.DataError, match=r"split.parquet' must be as it was written; found it"):
        cp.load_split(tmp_path / "data")
    reseal(tmp_path / "data")
    with pytest.raises(cp.DataError, match="does not match its fingerprint"):
        cp.load_split(tmp_path / "data")
    pl.DataFrame({"other": other}).write_parquet(path)
    reseal(tmp_path / "data")
    with pytest.raises(cp.DataError, match="a split that cannot be read"):
        cp.load_split(tmp_path / "data")


def test_only_a_dataset_directory_is_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "dataset.json").write_text("{}")
    (folder / "precious").write_text("keep")
    with pytest.raises(cp.ConfigError):
        cp.save(full_log(), folder, overwrite=True)
    assert (folder / "precious").read_text() == "keep"


def test_a_link_to_a_folder_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    for _ in range(2):
        cp.save(full_log(), tmp_path / "link", overwrite=True)
    assert (tmp_path / "link").is_symlink()
    assert cp.load(tmp_path / "real") == full_log()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "real"]


def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(cp.ConfigError, match="a folder that can be written to"):
        cp.save(full_log(), tmp_path / "file" / "data")


def test_a_split_is_stored_with_the_data(tmp_path: Path) -> None:
    split = cp.split_at_random(full_log(), np.random.default_rng(0), fractions=(0.25, 0.25))
    cp.save(split, tmp_path / "data")
    loaded = cp.load_split(tmp_path / "data")
    assert loaded.interactions == split.interactions
    assert (loaded.part == split.part).all()
    assert (loaded.kind, loaded.counts) == (split.kind, split.counts)


def test_the_description_has_what_others_rely_on(tmp_path: Path) -> None:
    cp.save(full_log(), tmp_path / "data")
    description = json.loads((tmp_path / "data" / "dataset.json").read_text())
    assert description["name"] == "full"
    assert description["counts"] == {"users": 3, "items": 3, "interactions": 4}
    assert description["split"] is None
    assert description["fingerprint"] == full_log().fingerprint
    assert [step["kind"] for step in description["filter"]] == []


def test_saving_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        cp.save(full_log(), tmp_path / name)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes(), path.name


def test_a_loaded_log_can_be_worked_with_and_saved_over(tmp_path: Path) -> None:
    cp.save(full_log(), tmp_path / "data")
    loaded = cp.load(tmp_path / "data")
    cp.save(loaded, tmp_path / "data", overwrite=True)
    assert cp.load(tmp_path / "data") == full_log()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cp.CounterplayWarning)
        assert cp.leave_last_two_out(loaded).counts == {"train": 4, "validation": 0, "test": 0}


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
    cp.save(full_log(), tmp_path / "data")
    path = tmp_path / "data" / name
    path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises(cp.DataError, match=expected) as caught:
        cp.load(tmp_path / "data")
    assert "\n" not in str(caught.value)


def test_changed_contents_do_not_match_the_fingerprint(tmp_path: Path) -> None:
    cp.save(full_log(), tmp_path / "data")
    path = tmp_path / "data" / "interactions.parquet"
    frame = pl.read_parquet(path)
    frame.with_columns(rating=pl.lit(1.0).cast(pl.Float32)).write_parquet(path)
    with pytest.raises(cp.DataError, match="found it changed or damaged; prepare it again"):
        cp.load(tmp_path / "data")
    reseal(tmp_path / "data")
    with pytest.raises(cp.DataError, match="do not match its fingerprint"):
        cp.load(tmp_path / "data")


def test_wrong_counts_are_noticed_at_once(tmp_path: Path) -> None:
    cp.save(full_log(), tmp_path / "data")
    path = tmp_path / "data" / "interactions.parquet"
    pl.read_parquet(path).head(3).write_parquet(path)
    reseal(tmp_path / "data")
    with pytest.raises(cp.DataError, match="where it announces"):
        cp.load(tmp_path / "data")


def test_another_format_and_a_missing_split_are_named(tmp_path: Path) -> None:
    cp.save(full_log(), tmp_path / "data")
    with pytest.raises(cp.DataError, match="a stored split is needed"):
        cp.load_split(tmp_path / "data")
    reseal(tmp_path / "data", format=99)
    with pytest.raises(cp.DataError, match="must be in format 2; found format 99"):
        cp.load(tmp_path / "data")


def test_a_flipped_bit_of_any_file_is_one_sentence(tmp_path: Path) -> None:
    """Before anything parses it: some of these would end the process."""
    split = cp.split_at_random(full_log(), np.random.default_rng(0), fractions=(0.25, 0.25))
    cp.save(split, tmp_path / "data")
    rng = np.random.default_rng(1)
    for path in sorted((tmp_path / "data").iterdir()):
        content = path.read_bytes()
        for place in rng.integers(0, len(content), 40):
            damaged = bytearray(content)
            damaged[place] ^= 1 << rng.integers(8)
            path.write_bytes(damaged)
            with pytest.raises(cp.DataError, match=f"{path.name}' must be") as caught:
                cp.load_split(tmp_path / "data")
            assert "\n" not in str(caught.value)
        path.write_bytes(content)
    assert (cp.load_split(tmp_path / "data").part == split.part).all()


def test_blank_bytes_within_a_column_are_noticed(tmp_path: Path) -> None:
    log = cp.read({"user": np.arange(50_000) % 999, "item": np.arange(50_000) % 777})
    cp.save(log, tmp_path / "data")
    path = tmp_path / "data" / "interactions.parquet"
    content = bytearray(path.read_bytes())
    begin, end = len(content) // 3, len(content) // 2
    content[begin:end] = bytes(end - begin)
    path.write_bytes(content)
    with pytest.raises(cp.DataError, match=r"interactions.parquet' must be as it was written"):
        cp.load(tmp_path / "data")
