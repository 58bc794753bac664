"""Text files as people have them: how they are written is found out, or asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import counterplay as cp
from counterplay.data.dialects import Dialect

ROWS = (
    ("1", "a", "4.5", "900000100"),
    ("2", "b", "3.0", "900000200"),
    ("2", "a", "1.5", "900000300"),
)
NAMES = ("user", "item", "rating", "time")
EXPECTED = cp.read(
    {
        "user": [1, 2, 2],
        "item": ["a", "b", "a"],
        "rating": [4.5, 3.0, 1.5],
        "time": [900000100, 900000200, 900000300],
    }
)


def written(separator: str = ",", end: str = "\n", header: bool = True) -> str:
    rows = (NAMES, *ROWS) if header else ROWS
    return "".join(separator.join(row) + end for row in rows)


def read(folder: Path, content: str | bytes, name: str = "log.csv", **options: Any) -> Any:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return cp.read(path, **options)


def kinds(log: cp.Interactions) -> list[str]:
    return [step.kind for step in log.steps]


@pytest.mark.parametrize("separator", [",", ";", "\t", "|", " ", "::"])
def test_the_separator_is_found_or_said(separator: str, tmp_path: Path) -> None:
    content = written(separator)
    assert read(tmp_path, content) == EXPECTED
    assert read(tmp_path, content, "log.txt", separator=separator) == EXPECTED


def test_a_separator_may_be_said_by_name(tmp_path: Path) -> None:
    assert read(tmp_path, written("^"), separator="^") == EXPECTED
    assert read(tmp_path, written("\t"), separator="tab") == EXPECTED
    assert read(tmp_path, written("\t"), separator="\\t") == EXPECTED


@pytest.mark.parametrize(
    ("content", "options"),
    [
        ("sep=;\r\n" + written(";", "\r\n"), {}),
        ("SEP=|\n" + written("|"), {}),
        ("Orders;;;\n;;;\n" + written(";"), {}),
        ("A title\nand another\n\n" + written(), {}),
        (written(end="\r"), {}),
        (written().replace("100\n", "100\r\n").replace("200\n", "200\r"), {}),
        (written().replace("\n", ",\n"), {}),
        (written().replace("\n", ",\n").replace(",\n", "\n", 1), {}),
        (written().replace("time\n", "time,\n"), {}),
        (written(header=False), {"header": False}),
        ("\n\n" + written(header=False), {"header": False}),
        ("'user','item','rating','time'\n'1','a','4.5','900000100'\n'2','b','3.0','900000200'\n"
         "'2','a','1.5','900000300'\n", {}),
    ],
)  # fmt: skip
def test_one_log_written_in_many_ways(
    content: str, options: dict[str, Any], tmp_path: Path
) -> None:
    assert read(tmp_path, content, **options) == EXPECTED


def test_what_was_left_out_or_changed_is_a_step(tmp_path: Path) -> None:
    titled = read(tmp_path, "Orders;;;\n;;;\n" + written(";"))
    assert [str(step) for step in titled.steps] == [
        "headers: left out 2 lines before the header, the first is 'Orders;;;'"
    ]
    assert titled.steps[0].counts == {"lines": 2}
    assert kinds(read(tmp_path, written(end="\r"))) == ["lines"]
    trailing = written().replace("\n", ",\n").replace(",\n", "\n", 1)
    assert kinds(read(tmp_path, trailing)) == ["separator"]
    assert kinds(read(tmp_path, written())) == []


def test_an_empty_last_field_is_not_taken_for_a_separator(tmp_path: Path) -> None:
    log = read(tmp_path, "user,item,note\n1,a,x,\n2,b,,\n3,a,y,\n")
    assert len(log) == 3
    with pytest.raises(cp.DataError, match="must have 3 fields"):
        read(tmp_path, "user,item,note\n1,a,x,\n2,b,\n3,a,y,\n")


def test_a_first_row_of_data_is_never_lost(tmp_path: Path) -> None:
    with pytest.raises(cp.DataError, match=r"'1,a,4.5,900000100', which looks like .*--no-header"):
        read(tmp_path, written(header=False))
    with pytest.raises(cp.DataError, match="looks like data"):
        read(tmp_path, "alice,book\nbob,film\nalice,film\n")  # a name that comes again
    log = read(tmp_path, written(header=False), header=False)
    assert log == EXPECTED
    text = "the file has no header: took user from 1, item from 2, rating from 3, time from 4"
    assert text in str(log.steps[0])


def test_columns_without_names_are_numbered_from_1(tmp_path: Path) -> None:
    content = "a,1\na,2\nb,2\n"
    log = read(tmp_path, content, header=False, user="2", item="1")
    assert log.users.ids.to_list() == [1, 2]
    assert log.items.ids.to_list() == ["a", "b"]
    assert read(tmp_path, content, user="2", item="1") == log  # numbers say that there are none
    with pytest.raises(cp.DataError, match="a column '3' for the user"):
        read(tmp_path, content, header=False, user="3", item="1")


def test_a_header_is_not_taken_for_data(tmp_path: Path) -> None:
    with pytest.raises(cp.ConfigError, match="leave header=False out"):
        read(tmp_path, written(), header=False)
    named = "1,2\n5,a\n6,b\n"
    assert len(read(tmp_path, named, header=True, user="1", item="2")) == 2


@pytest.mark.parametrize(
    ("name", "encoding"),
    [("latin-1", "latin-1"), ("cp1252", "cp1252"), ("utf-16", "utf-16"), ("utf-16-le", "utf-16-le"),
     ("utf-16-be", "utf-16-be"), ("utf-8-sig", "utf-8")],
)  # fmt: skip
def test_encodings_that_are_certain_are_found(name: str, encoding: str, tmp_path: Path) -> None:
    text = "user,item\nJürgen,café\nZoë,Größe\nJürgen,Größe\n"
    if name == "cp1252":
        text = text.replace("Zoë", "“Zoë” – 5 €")
    log = read(tmp_path, text.encode(name))
    assert "Jürgen" in log.users.ids.to_list()
    assert log.items.ids.to_list() == ["Größe", "café"]
    assert log.reading.facts["encoding"] == encoding
    assert kinds(log).count("encoding") == (encoding != "utf-8")
    assert read(tmp_path, text.encode(name), encoding=name) == log


@pytest.mark.parametrize(
    ("encoding", "word"),
    [("cp1251", "Привет"), ("gb18030", "你好世界"), ("shift_jis", "アイウ"), ("cp1250", "żółw"),
     ("koi8-r", "Привет")],
)  # fmt: skip
def test_encodings_that_are_not_certain_are_asked_for(
    encoding: str, word: str, tmp_path: Path
) -> None:
    content = f"user,item\n1,{word}\n2,x\n".encode(encoding)
    with pytest.raises(cp.DataError, match=r"its encoding must be said.*--encoding") as caught:
        read(tmp_path, content)
    if encoding != "koi8-r":
        assert f"'1,{word}' in {encoding}" in str(caught.value)
    assert word in read(tmp_path, content, encoding=encoding).items.ids.to_list()


def test_a_wrong_encoding_is_refused(tmp_path: Path) -> None:
    content = "user,item\n1,Größe\n2,x\n".encode("latin-1")
    with pytest.raises(cp.DataError, match="must be in utf-8; found other bytes at line 2"):
        read(tmp_path, content, encoding="utf-8")
    with pytest.raises(cp.DataError, match="must be text in ascii; found the bytes f6"):
        read(tmp_path, content, encoding="ascii")


def test_bytes_far_down_are_noticed(tmp_path: Path) -> None:
    rows = "".join(f"{number},{number % 7},plain\n" for number in range(200_000))
    content = f"user,item,note\n{rows}200000,1,Größe\n".encode("latin-1")
    log = read(tmp_path, content)
    assert len(log) == 200_001
    assert "the first at line 200,002: '200000,1,Größe'" in str(log.steps[0])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"separator": "ab"}, "a separator must be one sign"),
        ({"separator": "\n"}, "a separator must be one sign"),
        ({"quote": "ab"}, "a quote must be one sign"),
        ({"encoding": "klingon"}, "an encoding must be a known one"),
        ({"encoding": "base64"}, "an encoding must be a known one"),
        ({"decimal": "x"}, "decimal must be one of"),
        ({"date_format": "day"}, "a date format must be as in"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(cp.ConfigError, match=said):
        read(tmp_path, written(), **options)


def test_quotes_may_be_signs_like_others(tmp_path: Path) -> None:
    content = 'user,item\n1,"a"\n2,b\n'
    assert read(tmp_path, content).items.ids.to_list() == ["a", "b"]
    assert read(tmp_path, content, quote="none").items.ids.to_list() == ['"a"', "b"]
    single = "user,item\n1,'a, or b'\n2,'c'\n"
    assert read(tmp_path, single, quote="'").items.ids.to_list() == ["a, or b", "c"]


def test_apostrophes_are_no_quotes(tmp_path: Path) -> None:
    log = read(tmp_path, "user,item\nO'Brien,a\nD'Arcy,b\n'tHart,a\n")
    assert log.users.ids.to_list() == ["'tHart", "D'Arcy", "O'Brien"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"user,item,user\n1,2,3\n4,5,6\n", "found 'user' 2 times"),
        (b"user,item\n----,----\n1,a\n2,b\n", "must be data; found '----,----'; remove that"),
        (b"<!DOCTYPE html>\n<html>\n", "found a web page"),
        (b"user,item\n1.23457E+12,a\n1.23458E+12,b\n", "not rounded by a spreadsheet"),
        (b"user,item,date\n1,a,2010\n2,b,2011\n", "which may be years; say so with --date-format"),
        (b"user,item,date\n1,a,40513.35\n2,b,40514.5\n", "may be days of a spreadsheet"),
        ("user,item\n1,é\n2,ö\n".encode() + b"3,\xfc\n", "found 2 lines in UTF-8 and 1 in another"),
    ],
)
def test_what_would_be_wrong_without_a_word_is_refused(
    content: bytes, said: str, tmp_path: Path
) -> None:
    with pytest.raises(cp.DataError) as caught:
        read(tmp_path, content)
    assert said in str(caught.value)
    assert str(caught.value).count("; ") >= 2


def test_a_workbook_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(cp.DataError, match="whose sheet can be saved as CSV"):
        read(tmp_path, b"PK\x03\x04", "log.xlsx")


@pytest.mark.parametrize("n", [20_000, 300_000])
def test_a_matrix_or_a_file_without_line_ends_is_refused_at_once(n: int, tmp_path: Path) -> None:
    wide = "user,item," + ",".join(f"c{number}" for number in range(n)) + "\n1,2\n"
    with pytest.raises(cp.DataError, match=f"found {n + 2:,} in the first line"):
        read(tmp_path, wide)


def test_empty_columns_at_the_ends_are_left_out(tmp_path: Path) -> None:
    padded = written().replace("\n", "," * 50_000 + "\n")
    assert read(tmp_path, padded) == EXPECTED


@pytest.mark.parametrize(
    ("ratings", "expected"),
    [
        (["3,5", "4", "2,25"], [3.5, 4.0, 2.25]),
        (["1,234.5", "7", "12"], [1234.5, 7.0, 12.0]),
        (["1.234,5", "7", "12"], [1234.5, 7.0, 12.0]),
        (["1,234,567", "7", "12"], [1234567.0, 7.0, 12.0]),
        (["1 234,5", "7", "-2,5"], [1234.5, 7.0, -2.5]),
        (["1'234.5", "7", "12"], [1234.5, 7.0, 12.0]),
    ],
)
def test_decimals_and_thousands_are_told_apart(ratings: list[str], expected: list[float]) -> None:
    log = cp.read({"user": [1, 2, 3], "item": [1, 2, 1], "rating": ratings})
    assert log.rating is not None
    assert log.rating.tolist() == expected
    assert kinds(log) == ["numbers"]


def test_a_number_that_may_be_two_is_asked_about() -> None:
    columns = {"user": [1, 2], "item": [1, 2], "rating": ["1,234", "5"]}
    with pytest.raises(cp.DataError, match=r"'1,234' .* which is 1234 or 1.234; .*--decimal"):
        cp.read(columns)
    for decimal, first in ((".", 1234.0), (",", pytest.approx(1.234))):
        log = cp.read(columns, decimal=decimal)  # type: ignore[arg-type]
        assert log.rating is not None
        assert log.rating[0] == first
    mixed = {"user": [1, 2], "item": [1, 2], "rating": ["1.5", "1,5"]}
    with pytest.raises(cp.DataError, match="finite numbers; found 1 of 2 rows"):
        cp.read(mixed)


def test_rows_without_ids_are_dropped_if_told_to(tmp_path: Path) -> None:
    content = "CustomerID,StockCode\n1,a\n,b\n2,c\nNULL,d\n3, \n2,a\n"
    with pytest.raises(cp.DataError, match="--drop-missing"):
        read(tmp_path, content)
    log = read(tmp_path, content, drop_missing=True)
    assert len(log) == 3
    assert log.steps[0].counts == {"rows": 3}
    assert str(log.steps[0]) == "missing: left out 3 of 6 rows without a user or an item"
    nothing = "user,item\n,b\nNULL,d\n"
    with pytest.raises(cp.DataError, match=r"found 2 in .*, all of them without a user"):
        read(tmp_path, nothing, drop_missing=True)
    bad = "user,item,rating\n,b,1\n1,d,x\n2,d,1\n"
    with pytest.raises(cp.DataError, match="at row 1, counted without the 1 rows that were left"):
        read(tmp_path, bad, drop_missing=True)
    floats = cp.read({"user": [1.0, float("nan"), 2.0], "item": [1, 2, 3]}, drop_missing=True)
    assert len(floats) == 2


@pytest.mark.parametrize(
    "names",
    ["session_id itemid", "User-ID ISBN Book-Rating", "CustomerID StockCode InvoiceDate",
     "Customer ID,StockCode", "visitorid itemid timestamp",
     "reviewerID asin overall unixReviewTime",
     "user_id parent_asin rating timestamp", "user_id business_id stars", "customer_id article_id"],
)  # fmt: skip
def test_usual_names_of_public_files_are_known(names: str) -> None:
    columns = names.split("," if "," in names else " ")
    log = cp.read({name: [1, 2, 3] for name in columns})
    assert len(list(log.columns())) == len(columns)


def test_a_user_is_looked_for_before_a_session() -> None:
    log = cp.read({"session_id": [1, 2], "user_id": [8, 9], "item": [1, 2]})
    assert log.users.ids.to_list() == [8, 9]


@given(
    rows=st.lists(
        st.tuples(st.integers(0, 99), st.sampled_from(["Zoë", "a b", "x,y", 'TV 5"', "it's", "7"])),
        min_size=2,
        max_size=20,
    ).filter(lambda rows: len({u for u, _ in rows}) > 1 and len({i for _, i in rows}) > 1),
    separator=st.sampled_from([",", ";", "\t", "|"]),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
)
def test_any_separator_line_end_and_encoding_gives_the_same_log(
    rows: list[tuple[int, str]],
    separator: str,
    end: str,
    encoding: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    quoted = [(user, '"' + item.replace('"', '""') + '"') for user, item in rows]
    text = f"user{separator}item{end}" + "".join(f"{u}{separator}{i}{end}" for u, i in quoted)
    path = tmp_path_factory.mktemp("any") / "log.csv"
    path.write_bytes(text.encode(encoding))
    assert cp.read(path) == cp.read({"user": [u for u, _ in rows], "item": [i for _, i in rows]})


def test_a_dialect_is_checked_once() -> None:
    said = Dialect(separator="semicolon", quote="single", encoding="latin1").checked()
    assert said == Dialect(separator=";", quote="'", encoding="latin-1")
    assert said.checked() == said
