"""Columns at a glance: what it refuses the reader refuses too, in the same words."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import counterplay as cp
from counterplay.data.dialects import Dialect
from counterplay.data.formats import FileFormat
from counterplay.data.headers import check_columns, header_of
from counterplay.data.roles import ABSENT, COLUMNS, IMPRESSION_COLUMNS
from counterplay.errors import ConfigError, DataError

WANTED = dict.fromkeys(COLUMNS) | dict.fromkeys(IMPRESSION_COLUMNS, ABSENT)
PLAIN = "uid,sku,when\n" + "".join(f"u{n},i{n % 7},{9 * 10**8 + n}\n" for n in range(40))
FILES: dict[str, bytes] = {
    "plain.csv": PLAIN.encode(),
    "mark.csv": b"\xef\xbb\xbf" + PLAIN.encode(),
    "packed.csv.gz": gzip.compress(PLAIN.encode()),
    "wide.csv": PLAIN.encode("utf-16"),
    "semicolons.csv": PLAIN.replace(",", ";").encode(),
    "tabs.tsv": PLAIN.replace(",", "\t").encode(),
    "doubled.dat": PLAIN.replace(",", "::").encode(),
    "returns.csv": PLAIN.replace("\n", "\r").encode(),
    "quoted.csv": PLAIN.replace("uid,sku", '"uid","sku"').encode(),
    "single.csv": PLAIN.replace("uid,sku", "'uid','sku'").encode(),
    "title.csv": b"a report of sales\n\n" + PLAIN.encode(),
    "ends.csv": PLAIN.replace("\n", ",\n").encode(),
    "sep.csv": b"sep=;\n" + PLAIN.replace(",", ";").encode(),
    "latin.csv": PLAIN.replace("when", "ann\xe9e").encode("latin-1"),
    "named": PLAIN.encode(),
    "long.csv": PLAIN.encode() + b"u1,i1,900000001\n" * 9000,
}


def refusal(work: Any) -> str | None:
    try:
        work()
    except (DataError, ConfigError) as error:
        return str(error)
    return None


def write(folder: Path, name: str) -> Path:
    path = folder / name
    path.write_bytes(FILES[name])
    return path


@pytest.mark.parametrize("name", FILES)
def test_what_can_be_read_is_not_refused(name: str, tmp_path: Path) -> None:
    path = write(tmp_path, name)
    quote = "'" if name == "single.csv" else None
    check_columns(path, WANTED, Dialect(quote=quote))
    assert len(cp.read(path, quote=quote)) >= 40


@pytest.mark.parametrize("name", FILES)
def test_a_column_that_is_not_there_is_refused_in_the_readers_words(
    name: str, tmp_path: Path
) -> None:
    path = write(tmp_path, name)
    early = refusal(lambda: check_columns(path, WANTED | {"item": "product"}))
    late = refusal(lambda: cp.read(path, item="product"))
    assert late is not None
    if name == "title.csv":  # its reader counts the fields of all records first
        assert "found the columns 'a report of sales'" in str(early)
    else:
        assert early == (None if name == "latin.csv" else late)  # only all of that file tells


def test_columns_of_parquet_are_those_of_its_schema(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    pl.DataFrame({"uid": [1], "sku": [[1, 2]], "when": [3]}).write_parquet(path)
    assert header_of(path) == ["uid", "sku", "when"]
    with pytest.raises(DataError, match="a column 'nobody' for the user"):
        check_columns(path, WANTED | {"user": "nobody"})


def test_columns_without_names_are_numbered(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("".join(f"{n},{n % 5}\n" for n in range(9)))
    check_columns(path, WANTED | {"user": "1", "item": "2"})
    check_columns(path, WANTED, Dialect(header=False))
    with pytest.raises(DataError, match="a column '3' for the item; found the columns '1', '2'"):
        check_columns(path, WANTED | {"user": "1", "item": "3"}, Dialect(header=False))


def test_what_a_glance_cannot_tell_is_left_to_the_reader(tmp_path: Path) -> None:
    (tmp_path / "log.ndjson").write_text('{"uid": 1, "sku": 2}\n')
    (tmp_path / "log.csv.zip").write_bytes(b"PK\x03\x04")
    (tmp_path / "cut.csv.gz").write_bytes(gzip.compress(PLAIN.encode())[:30])
    (tmp_path / "parts").mkdir()
    (tmp_path / "LOG.CSV.ZIP").write_bytes(b"PK\x03\x04")
    for name in ("log.ndjson", "log.csv.zip", "LOG.CSV.ZIP", "cut.csv.gz", "parts", "*.csv"):
        check_columns(tmp_path / name, WANTED | {"user": "nobody"})
    check_columns(write(tmp_path, "plain.csv"), WANTED | {"user": "nobody"}, kind="ml-1m")


def test_a_second_table_may_have_usual_names(tmp_path: Path) -> None:
    path = write(tmp_path, "plain.csv")
    check_columns(path, WANTED | {"item": "product"}, second=True)


ODD: dict[str, tuple[str, dict[str, str]]] = {  # names as only the parser knows them
    "twice": (PLAIN.replace("when", "sku"), {"item": "sku_duplicated_0"}),
    "blank before": (PLAIN.replace("uid", '"uid" '), {"user": '"uid" '}),
    "quotes within": (PLAIN.replace("uid", '"u""id"'), {"user": 'u""id'}),
    "escaped": ('"uid","my \\"sku\\"","when"\n' + PLAIN[13:], {"item": 'my "sku"'}),
    "long": (PLAIN.replace("when", f'"{"n" * 140_000}"'), {"time": "n" * 140_000}),
    "marked twice": (f"\ufeff\ufeff{PLAIN}", {"user": "\ufeffuid"}),
    "far below": ("\n" * 140 + PLAIN, {}),
}


@pytest.mark.parametrize("name", ODD)
def test_names_that_only_the_parser_knows_are_left_to_it(name: str, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    text, said = ODD[name]
    path.write_text(text)
    assert len(cp.read(path, **said)) == 40  # type: ignore[arg-type]
    check_columns(path, WANTED | said)


@pytest.mark.parametrize("text", ["sep=;", "sep=;\n", "\n", "\n \n", "\ufeff"])
def test_a_file_without_a_header_is_left_to_its_reader(text: str, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(text)
    early = refusal(lambda: check_columns(path, WANTED))
    assert early in (None, refusal(lambda: cp.read(path)))


def test_quotes_enclose_names_or_only_the_parser_knows_them(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    for header, names in {
        '"uid",sku,"when"': ["uid", "sku", "when"],
        "uid,sku,": ["uid", "sku", ""],
        'u"i"d,sku,when': None,
        '"ui,d",sku': None,
        "uid,sku,sku": None,
        '5",uid,"sku\n"': None,
    }.items():
        path.write_text(f"{header}\n{PLAIN[13:]}")
        assert header_of(path) == names, header


def test_what_folders_say_of_parquet_is_left_to_its_reader(tmp_path: Path) -> None:
    path = tmp_path / "clicked=1" / "log.parquet"
    path.parent.mkdir()
    rows = {"uid": [1, 2, 1], "sku": [1, 2, 2], "random": [1, 1, 0]}
    pl.DataFrame(rows).write_parquet(path)
    check_columns(path, WANTED | {"clicked": "clicked", "random": "random"})
    assert len(cp.read(path, clicked="clicked", random="random")) == 3


def test_only_a_folder_of_the_files_own_path_says_values(tmp_path: Path) -> None:
    path = tmp_path / "a=b.parquet"
    pl.DataFrame({"uid": [1], "sku": [1]}).write_parquet(path)
    assert header_of(path) == ["uid", "sku"]


def test_standard_input_is_no_file_of_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("-").write_text("a,b\n1,2\n")
    check_columns(Path("-"), WANTED)
    with pytest.raises(DataError, match="a column for the user"):
        check_columns(tmp_path / "-", WANTED)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
@pytest.mark.parametrize("said", [None, "csv"])
def test_a_pipe_with_a_name_is_refused_and_not_waited_for(
    said: FileFormat | None, tmp_path: Path
) -> None:
    path = tmp_path / "log.csv"
    os.mkfifo(path)
    check_columns(path, WANTED)
    with pytest.raises(DataError, match="found a pipe at"):
        cp.read(path, format=said)


def test_packed_files_are_read_whatever_the_case_of_their_ending(tmp_path: Path) -> None:
    path = tmp_path / "LOG.CSV.GZ"
    path.write_bytes(gzip.compress(PLAIN.encode()))
    assert header_of(path) == ["uid", "sku", "when"]
    assert len(cp.read(path)) == 40
