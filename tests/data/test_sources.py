"""Where logs are: folders, patterns, lists, archives, addresses, and tables of other libraries."""

from __future__ import annotations

import bz2
import functools
import http.server
import io
import lzma
import sys
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fsspec
import numpy as np
import polars as pl
import pytest
import scipy.sparse

import counterplay as cp

FRAME = pl.DataFrame({"user": [1, 2, 3, 1], "item": ["a", "b", "a", "c"], "time": [10, 20, 30, 40]})
EXPECTED = cp.read(FRAME)
CSV = FRAME.write_csv().encode()


def parquet(frame: pl.DataFrame) -> bytes:
    file = io.BytesIO()
    frame.write_parquet(file)
    return file.getvalue()


def fill(folder: Path, **files: bytes) -> Path:
    for name, content in files.items():
        path = folder / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    for place in range(2):
        half = FRAME[2 * place : 2 * place + 2]
        fill(tmp_path / "flat", **{f"{place}_dot_parquet": parquet(half)})
        fill(tmp_path / "texts", **{f"{place}_dot_csv": half.write_csv().encode()})
        day = f"date=2024-01-0{place + 1}__p_dot_parquet"
        fill(tmp_path / "hive", **{day: parquet(half.drop("time"))})
    (tmp_path / "flat/_SUCCESS").write_bytes(b"")
    (tmp_path / "flat/.0.parquet.crc").write_bytes(b"crc")
    return tmp_path


def test_a_folder_a_pattern_and_a_list_are_one_log(
    parts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cp.read(parts / "flat") == EXPECTED
    assert cp.read(parts / "texts") == EXPECTED
    assert cp.read(str(parts / "texts/*.csv")) == EXPECTED
    assert cp.read([parts / "texts/0.csv", str(parts / "texts/1.csv")]) == EXPECTED
    monkeypatch.chdir(parts)
    assert cp.read("flat").name == "flat"
    assert cp.read("texts/*.csv").name == "texts"
    calls: list[tuple[int, int | None]] = []
    cp.read("texts", progress=lambda *call: calls.append(call))
    assert calls == [(2, 4), (4, 4)]


def test_folders_may_say_values_of_columns(parts: Path) -> None:
    log = cp.read(parts / "hive")
    days = [str(time)[:10] for time in log.to_frame()["time"]]
    assert days == ["2024-01-01", "2024-01-02", "2024-01-01", "2024-01-02"]
    assert log.reading is not None
    assert log.reading.facts == {"format": "parquet", "files": "2"}


def test_files_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    def refused(folder: str, **files: bytes) -> str:
        with pytest.raises(cp.DataError) as caught:
            cp.read(fill(tmp_path / folder, **files))
        return str(caught.value)

    other = FRAME.rename({"user": "uid"}).write_csv().encode()
    assert "must have one format" in refused("a", x_dot_csv=CSV, y_dot_parquet=parquet(FRAME))
    assert "user in 'uid'" in refused("b", x_dot_csv=CSV, y_dot_csv=other)
    assert "y.csv', the table must have" in refused("c", x_dot_csv=CSV, y_dot_csv=b"a,b\nx,y\n")
    text = parquet(FRAME.with_columns(pl.col("user").cast(pl.String)))
    fewer = parquet(FRAME.drop("time"))
    for name, file in (("d", text), ("e", fewer)):
        said = refused(name, x_dot_parquet=parquet(FRAME), y_dot_parquet=file)
        assert "must have the same columns" in said
    assert "found none" in refused("f", notes_dot_md=b"# nothing")
    with pytest.raises(cp.DataError, match="a pattern must fit a file"):
        cp.read(str(tmp_path / "*.tsv"))


def test_archives_and_other_compressions(tmp_path: Path) -> None:
    fill(tmp_path, a_dot_csv_dot_bz2=bz2.compress(CSV), b_dot_csv_dot_xz=lzma.compress(CSV))
    with zipfile.ZipFile(tmp_path / "c.zip", "w") as archive:
        archive.writestr("inside/log.csv", CSV)
        archive.writestr("__MACOSX/inside/._log.csv", b"x")
    for name in ("a.csv.bz2", "b.csv.xz", "c.zip"):
        assert cp.read(tmp_path / name) == EXPECTED, name
    for name, members in (("two.zip", ("a.csv", "b.csv")), ("book.zip", ("[Content_Types].xml",))):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            for member in members:
                archive.writestr(member, CSV)
    with pytest.raises(cp.DataError, match="must hold one file of a log; found 2"):
        cp.read(tmp_path / "two.zip")
    with pytest.raises(cp.DataError, match="found an Excel workbook; save the sheet as CSV"):
        cp.read(tmp_path / "book.zip")
    (tmp_path / "no.zip").write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(cp.DataError, match="must be a whole zip archive"):
        cp.read(tmp_path / "no.zip")


@pytest.mark.parametrize("content", [CSV, parquet(FRAME), FRAME.write_ndjson().encode()])
def test_a_name_that_says_no_format_leaves_it_to_the_contents(
    content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "export").write_bytes(content)
    assert cp.read(tmp_path / "export") == EXPECTED
    buffer = io.BytesIO(content)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=buffer, isatty=lambda: False))
    log = cp.read("-")
    assert log == EXPECTED
    assert log.name == "stdin"


def test_a_terminal_is_no_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True))
    with pytest.raises(cp.DataError, match="standard input must have a log"):
        cp.read("-")


def test_copies_go_when_the_log_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "log.csv").write_bytes(FRAME.write_csv().encode("utf-16"))
    assert cp.read(tmp_path / "log.csv") == EXPECTED
    assert [path.name for path in tmp_path.iterdir()] == ["log.csv"]


@pytest.fixture
def memory() -> Iterator[Any]:
    system = fsspec.filesystem("memory")
    system.pipe("/bucket/log.csv", CSV)
    for place in range(2):
        half = FRAME[2 * place : 2 * place + 2].drop("time")
        system.pipe(f"/bucket/hive/date=2024-01-0{place + 1}/p.parquet", parquet(half))
    system.pipe("/bucket/hive/_SUCCESS", b"")
    yield system
    system.store.clear()


def test_addresses_of_stores(memory: Any, parts: Path) -> None:
    assert cp.read("memory://bucket/log.csv") == EXPECTED
    assert cp.read("memory://bucket/*.csv") == EXPECTED
    assert cp.read("memory://bucket/hive") == cp.read(parts / "hive")
    assert cp.read("memory://bucket/hive").name == "hive"
    with pytest.raises(cp.DataError, match=r"found nothing at 'memory://bucket/none\.csv'"):
        cp.read("memory://bucket/none.csv")
    with pytest.raises(cp.DataError, match="Protocol not known"):
        cp.read("nowhere://bucket/log.csv")


def test_a_store_without_its_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(cp.ConfigError, match=r"install counterplay\[cloud\]"):
        cp.read("s3://bucket/log.csv")


@pytest.fixture
def site(parts: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    handler = functools.partial(Quiet, directory=str(parts))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


def test_addresses_of_the_web(site: str, parts: Path) -> None:
    (parts / "log.csv").write_bytes(CSV)
    (parts / "log.parquet").write_bytes(parquet(FRAME))
    assert cp.read(f"{site}/log.csv") == EXPECTED
    assert cp.read(f"{site}/log.csv?version=3").name == "log"
    assert cp.read(f"{site}/log.parquet") == EXPECTED
    assert cp.read([f"{site}/texts/0.csv", f"{site}/texts/1.csv"]) == EXPECTED
    with pytest.raises(cp.DataError, match="found nothing at"):
        cp.read(f"{site}/none.csv")


class Table:
    """A table of another library: it has names, and says how it becomes a known one."""

    def __init__(self, method: str, made: Any) -> None:
        self.columns = FRAME.columns
        setattr(self, method, lambda: made)


@pytest.mark.parametrize(
    ("method", "made"),
    [
        ("to_arrow", FRAME.to_arrow()),  # Ray by its blocks, DuckDB, Ibis
        ("toArrow", FRAME.to_arrow()),  # Spark 4
        ("toPandas", FRAME.to_pandas()),  # Spark 3
        ("to_pandas", FRAME.to_pandas()),  # Ray, Modin
        ("to_polars", FRAME),  # Hugging Face
    ],
)
def test_tables_of_other_libraries(method: str, made: Any) -> None:
    assert cp.read(Table(method, made)) == EXPECTED


def test_lists_of_dicts_and_sparse_matrices() -> None:
    assert cp.read(FRAME.to_dicts()) == EXPECTED
    ragged = [{"user": 1, "item": 2}, {"user": 2, "item": 3, "rating": None}]
    assert len(cp.read(ragged, rating="-")) == 2
    matrix = scipy.sparse.csr_matrix((np.array([5.0, 3.0, 4.0]), ([0, 1, 2], [1, 0, 1])))
    by_hand = cp.read({"user": [0, 1, 2], "item": [1, 0, 1], "rating": [5.0, 3.0, 4.0]})
    assert cp.read(matrix) == by_hand
    assert cp.read(scipy.sparse.coo_array(matrix)) == by_hand
    for wrong in ([], [(1, 2)], [{"user": 1}, 3]):
        with pytest.raises(cp.ConfigError, match="a list must hold paths or rows as dicts"):
            cp.read(wrong)
    with pytest.raises(cp.ConfigError, match="found object"):
        cp.read(object())


def test_ids_in_names_of_folders_stay_apart(tmp_path: Path) -> None:
    names = ("1", "01", "001", "1e0")
    for name in names:
        fill(tmp_path, **{f"user={name}__p_dot_parquet": parquet(FRAME.drop("user"))})
    log = cp.read(tmp_path)
    assert sorted(log.users.ids) == sorted(names)
    assert len(log) == 4 * len(FRAME)


def test_whole_numbers_in_names_of_folders_are_integers(tmp_path: Path) -> None:
    for user in (1, 20):
        fill(tmp_path, **{f"user={user}__p_dot_parquet": parquet(FRAME.drop("user"))})
    assert sorted(cp.read(tmp_path).users.ids) == [1, 20]


def test_a_column_of_the_files_is_not_replaced_by_the_name_of_a_folder(tmp_path: Path) -> None:
    fill(tmp_path, **{"item=7__p_dot_parquet": parquet(FRAME)})
    log = cp.read(tmp_path)
    assert sorted(log.items.ids) == ["a", "b", "c"]
    assert any("took 'item' from the files" in step.text for step in log.steps)


def test_texts_in_folders_of_values_say_that_these_are_not_read(tmp_path: Path) -> None:
    fill(tmp_path, **{"date=2024-01-01__p_dot_csv": CSV})
    assert any("folders say 'date'" in step.text for step in cp.read(tmp_path).steps)


def test_parquet_files_with_other_columns_are_refused(tmp_path: Path) -> None:
    rated = FRAME.with_columns(rating=pl.lit(3))
    fill(tmp_path, a_dot_parquet=parquet(FRAME), b_dot_parquet=parquet(rated))
    with pytest.raises(cp.DataError, match=r"same columns; found .* rating in 'rating'.* in '.*b"):
        cp.read(tmp_path)


def test_files_of_a_folder_that_are_left_out_are_counted(tmp_path: Path) -> None:
    fill(tmp_path, a_dot_csv=CSV, b_dot_txt=CSV, c_dot_tmp=CSV)
    texts = [step.text for step in cp.read(tmp_path).steps]
    assert any("left out 2 files" in text and "'b.txt'" in text for text in texts)


def test_a_file_that_is_named_twice_is_refused(tmp_path: Path) -> None:
    fill(tmp_path, a_dot_csv=CSV)
    with pytest.raises(cp.DataError, match="named once"):
        cp.read([tmp_path / "a.csv", tmp_path / "*.csv"])


def test_archives_of_one_name_are_all_read(tmp_path: Path) -> None:
    for place in range(2):
        half = FRAME[2 * place : 2 * place + 2].write_csv().encode()
        fill(tmp_path, **{f"{place}__log_dot_csv_dot_bz2": bz2.compress(half)})
    log = cp.read(tmp_path)
    assert sorted(log.to_frame()["time"].to_list()) == sorted(EXPECTED.to_frame()["time"].to_list())


@pytest.mark.parametrize("pack", [bz2.compress, lzma.compress])
def test_an_archive_that_is_cut_is_refused(pack: Any, tmp_path: Path) -> None:
    ending = {bz2.compress: "bz2", lzma.compress: "xz"}[pack]
    path = tmp_path / f"log.csv.{ending}"
    path.write_bytes(pack(CSV)[:-20])
    with pytest.raises(cp.DataError, match="must be a whole"):
        cp.read(path)


def test_nothing_at_standard_input_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    empty = SimpleNamespace(buffer=io.BytesIO(), isatty=lambda: False)
    monkeypatch.setattr(sys, "stdin", empty)
    with pytest.raises(cp.DataError, match="standard input must have a log; found nothing"):
        cp.read("-")
