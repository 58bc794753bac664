from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path
from unittest.mock import patch

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import counterplay as cp
from counterplay.data.findings import shortened
from counterplay.data.records import Records, count_lines, count_records
from counterplay.data.scans import Scan, scan_separated

SIGNS = st.lists(st.sampled_from([b"a", b"1", b",", b'"', b"\n", b"\r\n", b",", b"a,a\n"]))


def written(path: Path, content: bytes | str) -> Path:
    data = content if isinstance(content, bytes) else content.encode()
    if path.suffix == ".gz":
        data = gzip.compress(data)
    elif path.suffix == ".zst":
        data = pa.Codec("zstd").compress(data, asbytes=True)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("name", ["shop.csv", "shop.csv.gz", "shop.csv.zst"])
def test_a_stray_quote_loses_no_row(name: str, tmp_path: Path) -> None:
    names = ['TV 24"' if n % 100 == 0 else "radio" for n in range(1, 2001)]
    lines = [f"{n % 50},{n % 70},{names[n - 1]}\n" for n in range(1, 2001)]
    log = cp.read(written(tmp_path / name, "user,item,name\n" + "".join(lines)))
    assert len(log) == 2000
    step = log.steps[0]
    assert (step.kind, step.counts) == ("quotes", {"lines": 20})
    assert "20 of 2,001 lines" in step.text
    assert "the first at line 101: '0,30,TV 24\"'" in step.text


def test_quotes_behind_a_backslash_lose_no_row(tmp_path: Path) -> None:
    lines = [f'"{276725 + n % 90}";"03454{n % 130:04}X";"{n % 11}"\n' for n in range(5000)]
    for n in range(100, 5000, 330):
        lines[n] = f'"{276725 + n % 90}";"\\"03454{n % 130:04}X";"0"\n'
    header = '"User-ID";"ISBN";"Book-Rating"\n'
    path = written(tmp_path / "ratings.csv", header + "".join(lines))
    log = cp.read(path, user="User-ID", item="ISBN", rating="Book-Rating")
    assert len(log) == 5000
    assert log.steps[0].counts == {"lines": 15}
    assert log.users.ids.dtype == pl.Int64
    assert '"034540100X' in log.items.ids.to_list()
    assert all(len(each) <= 11 for each in log.items.ids)
    assert log.rating is not None
    assert log.rating.max() == 10


def test_quoted_fields_may_hold_separators_quotes_and_line_ends(tmp_path: Path) -> None:
    rows = [["u1", "i1", 'a "b", c'], ["u2", "i2", "first\nsecond\r\n\nlast"], ["u3", "i1", ""]]
    text = io.StringIO()
    csv.writer(text).writerows([["user", "item", "name"], *rows])
    path = written(tmp_path / "log.csv", text.getvalue())
    log = cp.read(path)
    assert (len(log), log.steps) == (3, ())
    names = scan_separated(path, ",").collect()["name"]
    assert names.fill_null("").to_list() == [row[2] for row in rows]


NAMES = st.text(st.sampled_from("ab\"';\n é"), max_size=8)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), NAMES), min_size=1, max_size=30))
def test_what_a_proper_writer_wrote_is_read_row_by_row(
    tmp_path: Path, rows: list[tuple[int, int, str]]
) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([("user", "item", "name"), *rows])
    path = written(tmp_path / "log.csv", text.getvalue())
    with patch("counterplay.data.records._BLOCK", 16):
        found = scan_separated(path, ",")
    assert found.steps == ()
    frame = found.collect()
    assert frame["user"].to_list() == [str(user) for user, _, _ in rows]
    assert frame["name"].fill_null("").to_list() == [name for _, _, name in rows]


def test_a_line_end_in_quotes_is_none_where_every_line_is_whole(tmp_path: Path) -> None:
    path = written(tmp_path / "log.csv", 'user,item,size\n1,2,"\n3,4,5\n6,7,"\n8,9,1\n')
    log = cp.read(path)
    assert len(log) == 4
    assert log.steps[0].counts == {"lines": 2}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (
            "user,item,name\n1,2,x\n3,4\n5,6,y\n7\n",
            "must have 3 fields; found 2 of 5 records with more or fewer, "
            "the first at line 3 with 2: '3,4'; correct or remove",
        ),
        ("user,item\n1,2\n1,2,3\n", "found 1 of 3 records with more or fewer, the first at line 3"),
        ("user,item\n1,2\n\n3,4\n", "the first at line 3 with 1: ''"),
        ("user,item\n1,2\n  \n", "the first at line 3 with 1: '  '"),
        ('user,item\n1,2\n"a,b",3\n4,5"\n6\n', "lines with other quotes, the first at line 4"),
        ('user,item\n"a,1\nb,2\n"c,d",3\n', "with other quotes, the first at line 2: '\"a,1'"),
        ('user,item\n"a",1\n"b,c",2\n"d,1\n', "lines with other quotes, the first at line 4"),
        (
            'user,item\n"x\ny",1\n"z",2,3\n',
            "1 of 3 records with more or fewer, the first at line 4 with 3",
        ),
    ],
)
@pytest.mark.parametrize("block", [3, 1 << 20])
def test_rows_that_would_be_lost_or_cut_are_refused(
    content: str, expected: str, block: int, tmp_path: Path
) -> None:
    path = written(tmp_path / "log.csv", content)
    with patch("counterplay.data.records._BLOCK", block), pytest.raises(cp.DataError) as caught:
        cp.read(path)
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_feature_tables_are_counted_too(tmp_path: Path) -> None:
    frame = {"user": ["a", "b"], "item": ["1", "2"]}
    path = written(tmp_path / "items.csv", 'id,name\n1,TV 24"\n2,radio\n3,TV 32"\n')
    log = cp.read(frame, item_features=path)
    assert log.item_features is not None
    assert log.item_features.frame["name"].to_list() == ['TV 24"', "radio"]
    assert log.steps[0].text.startswith("item features: took the quotes as they stand in 2 of 4")
    ragged = written(tmp_path / "ragged.csv", "id,name\n1,x\n2\n")
    with pytest.raises(cp.DataError, match="1 of 3 records with more or fewer"):
        cp.read(frame, item_features=ragged)


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_repeated_headers_are_left_out_and_counted(ending: str, tmp_path: Path) -> None:
    lines = ["user,item,note", "1,2,a", "user,item,note", "user,item,note", "superuser,item,note"]
    path = written(tmp_path / "log.csv", ending.join([*lines, "3,4,b", "user,item,note"]))
    for block in (20, 1 << 20):
        with patch("counterplay.data.records._BLOCK", block):
            log = cp.read(path)
        assert log.users.ids.to_list() == ["1", "3", "superuser"]
        assert log.steps[0].counts == {"lines": 3}
        assert "3 lines that repeat the header, the first at line 3: 'user,item,note'" in str(
            log.steps[0]
        )


def test_empty_fields_at_the_end_are_rows(tmp_path: Path) -> None:
    path = written(tmp_path / "log.csv", "user,item\n1,2\n3,4\n,\n\n\n")
    with pytest.raises(cp.DataError, match="found 1 of 3 rows where column 'user' breaks that"):
        cp.read(path)


def test_a_single_column_may_have_empty_fields(tmp_path: Path) -> None:
    path = written(tmp_path / "ids.csv", "id\na\n\nb\n\n")
    assert scan_separated(path, ",").collect()["id"].to_list() == ["a", None, "b"]


def test_a_parser_that_loses_rows_is_found_out(tmp_path: Path) -> None:
    path = written(tmp_path / "log.csv", "user,item\n1,2\n3,4\n")
    rows = pl.LazyFrame({"user": ["1"], "item": ["2"]})
    for n_rows in (0, 2):
        with pytest.raises(cp.DataError, match=f"found {n_rows} records but 1 rows"):
            Scan(rows, path, n_rows).collect()


def test_lines_of_json_are_counted(tmp_path: Path) -> None:
    lines = '{"user":1,"item":2}\n\n{"user":3,"item":4}\r\n  \n{"user":5,"item":6}\n\n'
    for name in ("log.ndjson", "log.ndjson.gz"):
        for block in (4, 1 << 20):
            with patch("counterplay.data.records._BLOCK", block):
                assert count_lines(written(tmp_path / name, lines)) == 3
        assert len(cp.read(tmp_path / name)) == 3


def test_what_is_shown_is_short() -> None:
    assert shortened("a\n'") == '"a\\n\'"'
    assert len(shortened("x" * 13_000_000)) < 80


def twin(text: str, n_fields: int) -> Records | None:
    """Read a file sign by sign: None for a refusal, the steps left out."""
    lines = text.replace("\r\n", "\n").strip("\r\n").split("\n")
    by_lines = all(line.count(",") == n_fields - 1 for line in lines)
    records, is_quoted, inside, begins, n = [], True, False, True, 1
    text = "\n".join(lines) + "\n"
    for place, sign in enumerate(text):
        if sign == '"' and inside:
            inside = False
            is_quoted &= text[place + 1] in ',\n"'
        elif sign == '"':
            inside = True
            is_quoted &= begins or text[place - 1] == '"'
        elif sign == "," and not inside:
            n += 1
        elif sign == "\n" and not inside:
            records.append(n)
            n = 1
        begins = not inside and sign in ",\n"
    by_quotes = is_quoted and not inside and all(n == n_fields for n in records)
    if not (by_quotes or by_lines):
        return None
    as_lines = not by_quotes or (by_lines and len(records) < len(lines) and n_fields > 1)
    return Records(len(lines) if as_lines else len(records), not as_lines)


@given(SIGNS, st.integers(1, 3), st.sampled_from([1, 5, 1 << 20]))
def test_counts_equal_brute_force(
    tmp_path: Path, signs: list[bytes], n_fields: int, block: int
) -> None:
    content = b"".join(signs)
    path = written(tmp_path / "log.csv", content)
    if not content.strip(b"\r\n"):
        return
    expected = twin(content.decode(), n_fields)
    with patch("counterplay.data.records._BLOCK", block):
        try:
            found = count_records(path, ",", n_fields=n_fields, header=False)
        except cp.DataError as error:
            assert expected is None
            assert "\n" not in str(error)
        else:
            assert expected is not None
            assert (found.n_rows, found.quoted) == (expected.n_rows, expected.quoted)


def test_whole_lines_within_a_long_quoted_field_are_no_records(tmp_path: Path) -> None:
    inner = "a,b,c\n" * 50
    path = written(tmp_path / "log.csv", f'user,item,name\n1,2,"x\n{inner}y"\n3,4,z\n')
    for block in (12, 1 << 20):
        with patch("counterplay.data.records._BLOCK", block):
            found = count_records(path, ",")
        assert (found.n_rows, found.quoted, found.steps) == (2, True, ())


def test_a_return_ends_a_quoted_field_only_before_a_line_end(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(b'user,item,name\r\n1,2,"lamp, green"\r\n3,4,radio\r\n')
    assert count_records(path, ",").n_rows == 2
    path.write_bytes(b'user,item,name\r\n1,2,"lamp, green"\r \n3,4,radio\r\n')
    with pytest.raises(cp.DataError, match="must enclose whole fields"):
        count_records(path, ",")


@pytest.mark.parametrize("again", ['"user","item"', "User,Item", "user, item", "\ufeffuser,item"])
def test_a_header_that_is_repeated_in_another_way_is_left_out(again: str, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(f"user,item\n1,2\n{again}\n3,4\n", encoding="utf-8")
    log = cp.read(path)
    assert (log.users.ids.to_list(), len(log)) == ([1, 3], 2)
    assert [step.kind for step in log.steps] == ["headers"]
    assert "left out 1 lines that repeat the header, the first at line 3" in str(log.steps[0])
