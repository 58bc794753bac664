from __future__ import annotations

import gzip
import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import counterplay as cp
from counterplay.data.frames import as_frame

from .conftest import tables

FRAME = pl.DataFrame(
    {
        "user": ["u2", "u1", "u2", "u10"],
        "item": [7, 7, 9, 8],
        "rating": [1.0, 2.5, 3.0, 4.0],
        "time": [40, 30, 20, 10],
    }
)
EXPECTED = cp.read(FRAME)
WRITERS: dict[str, Callable[[Path], object]] = {
    "log.csv": FRAME.write_csv,
    "log.tsv": lambda path: FRAME.write_csv(path, separator="\t"),
    "semicolons.csv": lambda path: FRAME.write_csv(path, separator=";"),
    "log.parquet": FRAME.write_parquet,
    "log.ndjson": FRAME.write_ndjson,
    "log.jsonl": FRAME.write_ndjson,
    "log.csv.gz": lambda path: path.write_bytes(gzip.compress(FRAME.write_csv().encode())),
    "log.ndjson.gz": lambda path: path.write_bytes(gzip.compress(FRAME.write_ndjson().encode())),
    "LOG.CSV": FRAME.write_csv,
    "windows.csv": lambda path: path.write_bytes(
        b"\xef\xbb\xbf" + FRAME.write_csv().replace("\n", "\r\n").encode()
    ),
}


@pytest.mark.parametrize("name", WRITERS)
def test_one_log_in_many_formats(name: str, tmp_path: Path) -> None:
    WRITERS[name](tmp_path / name)
    assert cp.read(tmp_path / name) == EXPECTED


def test_the_format_can_be_given(tmp_path: Path) -> None:
    FRAME.write_csv(tmp_path / "export.dat")
    assert cp.read(str(tmp_path / "export.dat"), format="csv") == EXPECTED


def test_frames_and_arrays_of_all_kinds() -> None:
    assert cp.read(FRAME.lazy()) == EXPECTED
    assert cp.read(FRAME.to_arrow()) == EXPECTED
    assert cp.read(FRAME.to_pandas()) == EXPECTED
    assert cp.read({name: np.array(FRAME[name]) for name in FRAME.columns}) == EXPECTED
    assert cp.read(pa.RecordBatchReader.from_stream(FRAME)) == EXPECTED


def test_numeric_columns_of_frames_are_not_copied() -> None:
    values = np.arange(1000, dtype=np.float64)
    frame = as_frame(pd.DataFrame({"rating": values}, copy=False))
    assert np.shares_memory(frame["rating"].to_numpy(), values)


def test_text_ids_of_csv_become_integers_only_when_nothing_is_lost(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("user,item\n10,007\n9,7\n")
    log = cp.read(tmp_path / "a.csv")
    assert log.users.ids.to_list() == [9, 10]
    assert log.items.ids.to_list() == ["007", "7"]


def read_csv(path: Path, *lines: str, **options: object) -> cp.Interactions:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return cp.read(path, **options)  # type: ignore[arg-type]


def test_blanks_around_ids_are_taken_off_and_counted(tmp_path: Path) -> None:
    log = read_csv(tmp_path / "a.csv", "user,item", "5,x", " 5,x", "6, y ", "6\t,x", "7,y")
    assert log.users.ids.to_list() == [5, 6, 7]
    assert log.items.ids.to_list() == ["x", "y"]
    assert np.bincount(log.user).tolist() == [2, 2, 1]
    notes = [str(step) for step in log.steps if step.kind == "blanks"]
    assert notes == [
        "blanks: took off the blanks around 2 ids in column 'user', the first at row 2: ' 5'",
        "blanks: took off the blanks around 1 ids in column 'item', the first at row 3: ' y '",
    ]
    typed = cp.read({"user": ["5", " 5"], "item": [1, 2]})
    assert typed.users.ids.to_list() == [" 5", "5"]  # where there are types, ids are as they are


@pytest.mark.parametrize("typed", [False, True])
def test_ids_in_two_unicode_forms_stay_two_and_are_told(typed: bool, tmp_path: Path) -> None:
    users = ["caf\u00e9", "cafe\u0301", "caf\u00e9", "\u00fc", "cafe"]
    table = pl.DataFrame({"user": users, "item": list("abcde")})
    table.write_csv(tmp_path / "log.csv")
    log = cp.read(table if typed else tmp_path / "log.csv")
    assert log.n_users == 4
    (step,) = (each for each in log.steps if each.kind == "forms")
    assert step.counts == {"ids": 2}
    assert r"column 'user' differ" in step.text
    assert r"'cafe\u0301' and 'caf\xe9'" in step.text
    others = ["\u00e9", "\u00fc", "e", "\u2460\u00e9", "1\u00e9"]  # a circled 1 is not a 1
    plain = cp.read({"user": others, "item": list("abcde")})
    assert "forms" not in {each.kind for each in plain.steps}


def test_leading_zeros_that_make_a_column_text_are_told(tmp_path: Path) -> None:
    log = read_csv(tmp_path / "a.csv", "user,item", "5,07", "05,08", "6,09", "007,07")
    assert log.users.ids.to_list() == ["007", "05", "5", "6"]
    assert [str(step) for step in log.steps if step.kind == "zeros"] == [
        "zeros: 2 of 4 ids in column 'user' have leading zeros, a sign or a point, the first "
        "is '007', so all stay text; 2 are the same number as another, such as '05' and '5'",
        "zeros: 3 of 3 ids in column 'item' have leading zeros, a sign or a point, the first "
        "is '07', so all stay text",
    ]
    points = read_csv(tmp_path / "c.csv", "user,item", "1,2", "5.0,4", "5,3")
    assert [str(step) for step in points.steps] == [
        "zeros: 1 of 3 ids in column 'user' have leading zeros, a sign or a point, the first "
        "is '5.0', so all stay text; 2 are the same number as another, such as '5' and '5.0'"
    ]
    plain = read_csv(tmp_path / "b.csv", "user,item", "a,1", "05,0", "6,-3")
    assert plain.steps == ()  # text anyway, and integers


@pytest.mark.parametrize(
    "word",
    ["nan", "NaN", "NULL", "none", "None", "N/A", "NA", " NULL ", r"\N", "(null)", "undefined"],
)
def test_words_for_missing_ids_are_refused(word: str, tmp_path: Path) -> None:
    expected = "found 2 of 4 rows where column 'user' breaks that, the first at row 2 with"
    with pytest.raises(cp.DataError, match=expected) as caught:
        read_csv(tmp_path / "a.csv", "user,item", "a,1", f"{word},2", "b,1", f"{word},1")
    assert "an id that is really written so needs another name" in str(caught.value)
    with pytest.raises(cp.DataError, match=expected):
        cp.read({"user": ["a", word, "b", word], "item": [1, 2, 1, 1]})


@pytest.mark.parametrize("empty", ["", " ", "\t"])
def test_empty_ids_are_refused(empty: str, tmp_path: Path) -> None:
    expected = "every row must have an id; found 1 of 3 rows where column 'item'"
    with pytest.raises(cp.DataError, match=expected):
        read_csv(tmp_path / "a.csv", "user,item", "a,1", f"b,{empty}", "c,2")
    with pytest.raises(cp.DataError, match=expected):
        cp.read({"user": ["a", "b", "c"], "item": ["1", empty, "2"]})


def test_a_number_that_is_none_is_a_missing_id() -> None:
    for ids in (np.array([1.0, np.nan, 2.0]), pd.array([1, None, 2], dtype="Int64")):
        with pytest.raises(cp.DataError, match="every row must have an id; found 1 of 3 rows"):
            cp.read(pd.DataFrame({"user": ids, "item": [1, 2, 3]}))


@pytest.mark.parametrize(
    ("bad", "expected"),
    [
        ("a\nb", r"ids must not hold line breaks or null .* row 2 with 'a\\nb'"),
        ("a\0b", r"ids must not hold line breaks or null .* row 2 with 'a\\x00b'"),
        ("a\rb", "ids must not hold line breaks"),
        ("a\u2028b", "ids must not hold line breaks"),
        ("x" * 1025, r"at most 1,024 bytes long; .* row 2 with 'x{60}…'"),
        ("é" * 513, "at most 1,024 bytes long"),
    ],
)
def test_ids_that_a_broken_table_gives_are_refused(bad: str, expected: str, tmp_path: Path) -> None:
    frame = pl.DataFrame({"user": ["a", bad], "item": [1, 2]})
    frame.write_parquet(tmp_path / "a.parquet")
    for source in (frame, tmp_path / "a.parquet"):
        with pytest.raises(cp.DataError, match=expected):
            cp.read(source)
    assert len(cp.read({"user": ["a", "x" * 1024], "item": [1, 2]})) == 2


@given(tables(times=True))
def test_any_ids_survive_parquet_and_frames(frame: pl.DataFrame) -> None:
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    buffer.seek(0)
    assert cp.read(pl.read_parquet(buffer)) == cp.read(frame)
    assert set(cp.read(frame).users.ids) == set(frame["user"])


BROKEN: dict[str, tuple[bytes, str]] = {
    "gzip.csv": (gzip.compress(b"user,item\n1,2\n"), "compressed with gzip"),
    "short.csv.gz": (gzip.compress(FRAME.write_csv().encode())[:40], "ends too early"),
    "plain.csv.gz": (b"user,item\n1,2\n", "something else"),
    "parquet.csv": (b"PAR1....", "a Parquet file"),
    "csv.parquet": (b"user,item\n1,2\n", "something else"),
    "short.parquet": (b"PAR1 and no more", "not a parquet file"),
    "json.csv": (b'{"user": 1, "item": 2}\n', "JSON objects"),
    "csv.ndjson": (b"user,item\n1,2\n", "lines that are not JSON objects"),
    "short.ndjson": (
        b'{"user": 1, "item": 2}\n{"user": 2, "it',
        "a line that is not a JSON object",
    ),
    "binary.csv": (b"user,item\n\x00\x01\x02", "binary data"),
    "zip.csv": (b"PK\x03\x04....", "a zip archive"),
    "cyrillic.csv": ("user,item\nАня,1\nОля,2\n".encode("cp1251"), "'Аня,1' in cp1251"),
    "empty.csv": (b"", "an empty file"),
    "header.csv": (b"user,item\n", "a log must have rows"),
    "ragged.csv": (b"user,item\n1,2\n1,2,3\n", "the first at line 3 with 3: '1,2,3'"),
    "cut.csv": (b"user,item\n1,2\n2,3\n3", "the first at line 4 with 1: '3'"),
    "quote.csv": (b'user,item\n"a,1\nb,2,3\n', "must enclose whole fields"),
    "unknown.xyz": (b"SQLite format 3\0", "found a SQLite database"),
    "list.json": (b'[{"user": 1, "item": 2}]', "found '[{"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_files_that_are_not_what_they_should_be(name: str, tmp_path: Path) -> None:
    content, expected = BROKEN[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(cp.DataError) as caught:
        cp.read(tmp_path / name)
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)
    assert str(caught.value).count("; ") >= 2  # what must hold; what was found; what to do


def test_absent_files_and_folders(tmp_path: Path) -> None:
    with pytest.raises(cp.DataError, match="found nothing at"):
        cp.read(tmp_path / "absent.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(cp.DataError, match="a folder must hold files of a log; found none"):
        cp.read(tmp_path / "folder.csv")


def test_mixed_ids_in_frames_are_refused() -> None:
    mixed = pd.DataFrame({"user": [1, "a", "b"], "item": [1, 2, 3]})
    expected = "found 2 of 3 rows that are not int, the first at row 2 with 'a' in column 'user'"
    with pytest.raises(cp.DataError, match=expected):
        cp.read(mixed)
    with pytest.raises(cp.DataError, match=expected):
        cp.read({"user": [1, "a", "b"], "item": [1, 2, 3]})


@pytest.mark.parametrize("first", ['{"user": "1", "item": 5}', '{"user": 1, "item": 5}'])
def test_mixed_ids_in_ndjson_are_refused(first: str, tmp_path: Path) -> None:
    rows = [first, '{"user": 1, "item": 6}', '{"user": "x", "item": 7}']
    (tmp_path / "log.ndjson").write_text("\n".join(rows))
    with pytest.raises(cp.DataError, match="all integers or all text"):
        cp.read(tmp_path / "log.ndjson")


def test_columns_of_unequal_length_are_refused() -> None:
    with pytest.raises(cp.DataError, match="of one length"):
        cp.read({"user": [1, 2, 3], "item": [1, 2]})


def test_other_objects_are_refused() -> None:
    with pytest.raises(cp.ConfigError, match="found int"):
        cp.read(5)


def test_progress_tells_rows_and_their_total(tmp_path: Path) -> None:
    FRAME.write_parquet(tmp_path / "log.parquet")
    FRAME.write_csv(tmp_path / "log.csv")
    calls: list[tuple[int, int | None]] = []
    for name in ("log.parquet", "log.csv"):
        cp.read(tmp_path / name, progress=lambda done, total: calls.append((done, total)))
    assert calls == [(4, 4), (4, 4)]


def test_names_with_signs_that_could_match_others_are_taken_literally(tmp_path: Path) -> None:
    for name in ("log[1].csv", "log[1].ndjson", "log[1].parquet", "l*.csv"):
        WRITERS[f"log.{name.rsplit('.', 1)[1]}"](tmp_path / name)
    for name in ("log1.csv", "log1.ndjson", "log1.parquet"):
        other = FRAME.with_columns(item=pl.col("item") + 100)
        getattr(other, f"write_{name.rsplit('.', 1)[1]}")(tmp_path / name)
    for name in ("log[1].csv", "log[1].ndjson", "log[1].parquet", "l*.csv"):
        assert cp.read(tmp_path / name) == EXPECTED, name
    cp.data.save(EXPECTED, tmp_path / "data[1]")
    assert cp.data.load(tmp_path / "data[1]") == EXPECTED


@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_separators_are_told_in_compressed_files_and_beside_quotes(
    separator: str, tmp_path: Path
) -> None:
    renamed = FRAME.rename({"rating": "a,b,c,d,e,f"})
    text = renamed.write_csv(separator=separator).replace("a,b,c,d,e,f", '"a,b,c,d,e,f"')
    (tmp_path / "log.csv.gz").write_bytes(gzip.compress(text.encode()))
    assert cp.read(tmp_path / "log.csv.gz", rating="a,b,c,d,e,f") == EXPECTED


def test_blank_lines_at_the_end_are_no_rows(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(FRAME.write_csv() + "\n\n")
    assert cp.read(tmp_path / "log.csv") == EXPECTED
    (tmp_path / "gap.csv").write_text("user,item\n1,2\n\n3,4\n")
    with pytest.raises(cp.DataError, match="the first at line 3 with 1: ''"):
        cp.read(tmp_path / "gap.csv")


def test_ndjson_is_looked_at_to_the_end(tmp_path: Path) -> None:
    rows = [f'{{"user": "u{n % 9}", "item": {n}}}' for n in range(1500)]
    rows += ['{"user": "x", "item": 1, "rating": 4.5}']
    (tmp_path / "log.ndjson").write_text("\n".join(rows))
    with pytest.raises(cp.DataError, match=r"found 1,500 of 1,501 rows where column 'rating'"):
        cp.read(tmp_path / "log.ndjson")
    whole = [row.replace("}", ', "rating": 3}') for row in rows[:-1]]
    (tmp_path / "log.ndjson").write_text("\n".join([*whole, rows[-1]]))
    assert cp.data.profile(cp.read(tmp_path / "log.ndjson")).rating_range == pytest.approx(
        (3.0, 3.001, 4.5), abs=1e-3
    )


def test_ids_in_nested_objects_do_not_matter(tmp_path: Path) -> None:
    rows = ['{"user": "a", "item": 1, "more": {"user": 5}}', '{"user": "b", "item": 2}']
    (tmp_path / "log.ndjson").write_text("\n".join(rows))
    assert cp.read(tmp_path / "log.ndjson").users.ids.to_list() == ["a", "b"]


@pytest.mark.parametrize("value", ["true", "[1]", '{"a": 1}', "1.5"])
def test_other_values_among_text_ids_are_refused(value: str, tmp_path: Path) -> None:
    rows = ['{"user": "a", "item": 1}', f'{{"user": {value}, "item": 2}}']
    (tmp_path / "log.ndjson").write_text("\n".join(rows))
    with pytest.raises(cp.DataError):
        cp.read(tmp_path / "log.ndjson")


GOOD = {"user": [1, 2], "item": [1, 2]}
STRANGE: dict[str, object] = {
    "huge ids": {**GOOD, "user": [2**70, 1]},
    "wide ids": {**GOOD, "user": pl.Series([2**70, 1], dtype=pl.Int128)},
    "list flags": {**GOOD, "exposed": [[1], [0]]},
    "bytes as flags": {**GOOD, "exposed": [b"1", b"0"]},
    "complex ratings": pd.DataFrame({**GOOD, "rating": [1j, 2j]}),
    "a single number": {**GOOD, "user": np.array(5)},
    "a lone surrogate": {**GOOD, "user": ["\ud800", "a"]},
    "an impossible time": {
        **GOOD,
        "time": pl.Series([2**62, 0]).cast(pl.Datetime("ms")),
    },
    "a lazy frame that fails": pl.LazyFrame(GOOD).select("user", pl.col("none").alias("item")),
    "two columns of one name": pd.DataFrame(
        [[1, 2, 3], [4, 5, 6]], columns=["user", "item", "item"]
    ),
    "the same in Arrow": pa.Table.from_arrays([pa.array([1, 2])] * 3, ["user", "item", "item"]),
}


@pytest.mark.parametrize("name", STRANGE)
def test_strange_frames_end_in_a_data_error(name: str) -> None:
    with pytest.raises(cp.DataError) as caught:
        cp.read(STRANGE[name])
    assert "\n" not in str(caught.value)


def test_columns_without_a_role_do_not_matter() -> None:
    mixed = pd.DataFrame({**GOOD, "notes": ["a", 1], "more": [1, 2]})
    mixed.columns = ["user", "item", "notes", "notes"]
    assert cp.read(mixed) == cp.read(GOOD)
    assert cp.read({**GOOD, "notes": ["a", 1]}) == cp.read(GOOD)


def test_numpy_times_of_any_unit() -> None:
    for unit in ("s", "ms", "us", "ns", "D"):
        time = np.array(["2020-01-01", "2020-01-02"], dtype=f"datetime64[{unit}]")
        log = cp.read({**GOOD, "time": time})
        assert log.time is not None
        assert log.time[0] == 1_577_836_800_000_000


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"duplicates": "bogus"}, "duplicates must be one of all, first, last, error; found"),
        ({"order": "time"}, "order must be one of canonical, file; found 'time'"),
        ({"format": "excel"}, "format must be one of csv, tsv, parquet, ndjson; found 'excel'"),
        ({"time_unit": "m"}, "time_unit must be one of s, ms, us, ns; found 'm'"),
        ({"user": "item"}, "every role must have a column of its own; found 'item' for user"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, str], expected: str) -> None:
    with pytest.raises(cp.ConfigError, match=expected):
        cp.read(GOOD, **options)  # type: ignore[arg-type]


def test_a_path_that_is_no_text_is_refused() -> None:
    for path in ("a\0b.csv", "\udcff.csv"):
        with pytest.raises(cp.DataError):
            cp.read(path)


SEPARATED = (b"user,item,rating,time\n", b"1,2,3,4\n", b"a,b,1.5,2020-01-01\n")
NESTED = (b'{"user":1,"item":"x"}\n', b'{"user":2}\n', b"[1,2]\n", b"{\n")
PIECES = st.lists(
    st.one_of(st.sampled_from((*SEPARATED, *NESTED)), st.binary(max_size=12)), max_size=6
)


@given(PIECES, st.sampled_from(["csv", "tsv", "ndjson", "parquet", "csv.gz"]))
def test_fuzzed_files_end_in_a_log_or_in_a_data_error(
    tmp_path: Path, pieces: list[bytes], ending: str
) -> None:
    path = tmp_path / f"fuzz.{ending}"
    path.write_bytes(b"".join(pieces))
    _read_or_refuse(path)


@given(st.data(), st.sampled_from(["log.parquet", "log.csv", "log.ndjson", "log.csv.gz"]))
def test_damaged_files_end_in_a_log_or_in_a_data_error(
    tmp_path: Path, data: st.DataObject, name: str
) -> None:
    path = tmp_path / name
    WRITERS[name](path)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    _read_or_refuse(path)


def _read_or_refuse(path: Path) -> None:
    try:
        log = cp.read(path)
    except cp.DataError as error:
        assert "\n" not in str(error)
    else:
        assert len(log) > 1
