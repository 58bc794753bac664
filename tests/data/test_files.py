from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import counterplay as cp
from counterplay.data import files
from counterplay.data.files import (
    check_digest,
    difference,
    digest_of,
    digests_of,
    read_json,
    sealed,
    write_json,
)

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text('aé😀<"\n'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab😀"), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text("aé😀"), PLAIN, max_size=3))
def test_plain_values_are_read_as_they_were_written(
    tmp_path: Path, values: dict[str, object]
) -> None:
    write_json(values, tmp_path / "values.json")
    assert read_json(tmp_path / "values.json", "plain values") == values
    assert (tmp_path / "values.json").read_bytes().endswith(b"}\n")
    assert [each.name for each in tmp_path.iterdir()] == ["values.json"]


def test_json_is_written_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "values.json"
    write_json({"a": 1}, path)
    with pytest.raises(TypeError):
        write_json({"a": object()}, path)
    write = Path.write_bytes

    def failing(self: Path, content: bytes) -> int:
        write(self, content[:3])
        raise OSError("the disk is full")

    monkeypatch.setattr(Path, "write_bytes", failing)
    with pytest.raises(OSError, match="full"):
        write_json({"a": 2}, path)
    assert read_json(path, "plain values") == {"a": 1}
    assert [each.name for each in tmp_path.iterdir()] == ["values.json"]


@pytest.mark.parametrize(
    ("contents", "found"),
    [
        (None, "nothing there"),
        (b"[1, 2]", "something else"),
        (b"{", "Expecting property name"),
        (b"\xff\xfe", "'utf-8' codec can't decode"),
    ],
)
def test_what_is_no_such_file_is_one_sentence(
    contents: bytes | None, found: str, tmp_path: Path
) -> None:
    path = tmp_path / "plan.json"
    if contents is not None:
        path.write_bytes(contents)
    with pytest.raises(
        cp.DataError, match=rf"plan.json' must be a plan; found {found}.*; write it"
    ):
        read_json(path, "a plan", remedy="write it again")


@pytest.mark.parametrize("indent", [2, None])
def test_no_flipped_bit_is_accepted(indent: int | None, tmp_path: Path) -> None:
    path = tmp_path / "values.json"
    write_json({"a": 1e-05, "b": ["é\x1b", 1], "c": {"d": None, "n": 10}}, path, indent=indent)
    content = path.read_bytes()
    for place in range(len(content)):
        for bit in range(8):
            damaged = bytearray(content)
            damaged[place] ^= 1 << bit
            path.write_bytes(damaged)
            for may_lack_seal in (False, True):
                with pytest.raises(cp.DataError, match=r"values.json' must be"):
                    read_json(path, "plain values", may_lack_seal=may_lack_seal)


@given(st.data())
def test_no_part_that_is_cut_off_or_blank_is_accepted(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "values.json"
    content = sealed({"a": [1, 2], "name": "x"})
    begin = data.draw(st.integers(0, len(content) - 1))
    end = data.draw(st.integers(begin + 1, len(content)))
    filler = data.draw(st.sampled_from([b"", b"\0", b" "])) * (end - begin)
    if content[begin:end] == filler:
        return
    path.write_bytes(content[:begin] + filler + content[end:])
    with pytest.raises(cp.DataError, match=r"values.json' must be"):
        read_json(path, "plain values")


def test_results_of_before_there_were_seals_are_read_where_that_is_allowed(tmp_path: Path) -> None:
    path = tmp_path / "old.json"
    path.write_text('{"job": 1}\n')
    assert read_json(path, "a result", may_lack_seal=True) == {"job": 1}
    with pytest.raises(
        cp.DataError,
        match="as it was written; found it changed or damaged, or of an earlier version; run",
    ):
        read_json(path, "a result", remedy="run it again")


def test_another_format_is_named_whether_it_has_a_seal_or_not(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    for content in (b'{"format": 1}', sealed({"format": 1})):
        path.write_bytes(content)
        with pytest.raises(
            cp.DataError, match="in format 2; found format 1; make it again with this"
        ):
            read_json(path, "a plan", remedy="make it again", format=2)
    path.write_bytes(sealed({"format": 2}).replace(b"2,", b"1,"))
    with pytest.raises(cp.DataError, match="changed or damaged"):
        read_json(path, "a plan", format=2)


def test_json_too_deep_to_read_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "deep.json"
    path.write_text("[" * 100_000 + "]" * 100_000)
    with pytest.raises(cp.DataError, match="found values within values, too deep to read"):
        read_json(path, "a plan")


def test_paths_of_any_bytes_survive(tmp_path: Path) -> None:
    write_json({"path": "a\udcffb"}, tmp_path / "x.json")
    assert read_json(tmp_path / "x.json", "a plan") == {"path": "a\udcffb"}


def test_a_file_must_have_its_digest(tmp_path: Path) -> None:
    path = tmp_path / "table"
    path.write_bytes(b"abc")
    digests = digests_of(tmp_path)
    assert digests == {"table": digest_of(path)}
    assert digest_of(path).startswith("sha256:ba7816bf")
    check_digest(path, digests, remedy="")
    for wrong, found in ((b"abd", "it changed or damaged"), (None, "nothing there")):
        path.unlink() if wrong is None else path.write_bytes(wrong)
        with pytest.raises(
            cp.DataError, match=f"table' must be as it was written; found {found}; do"
        ):
            check_digest(path, digests, remedy="do it again")
    path.write_bytes(b"abc")
    with pytest.raises(cp.DataError, match="as it was written"):
        check_digest(path, {}, remedy="do it again")


def test_a_file_is_compared_again_where_it_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, read, own = tmp_path / "rows", list[Path](), files.digest_of

    def digest_of(path: Path) -> str:
        read.append(path)
        return own(path)

    path.write_bytes(b"as it was")
    digests = {"rows": own(path)}
    monkeypatch.setattr(files, "digest_of", digest_of)
    for _ in range(3):
        files.check_once(path, digests, remedy="write it again")
    assert read == [path]
    path.write_bytes(b"as it is")
    for _ in range(2):
        with pytest.raises(cp.DataError, match=r"must be as it was written; .*; write it again"):
            files.check_once(path, digests, remedy="write it again")
    assert len(read) == 3
    path.unlink()
    with pytest.raises(cp.DataError, match="found nothing there; write it again"):
        files.check_once(path, digests, remedy="write it again")


@pytest.mark.parametrize("way", ["in place", "as another file", "of another size"])
def test_however_a_file_has_changed_it_is_compared_again(way: str, tmp_path: Path) -> None:
    path, other = tmp_path / "rows", tmp_path / "other"
    path.write_bytes(b"as it was")
    digests, was = {"rows": files.digest_of(path)}, path.stat()
    files.check_once(path, digests, remedy="write it again")
    if way == "in place":  # of the same size, at another time
        path.write_bytes(b"as it IS!")
        os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns + 1))
    elif way == "as another file":  # of the same size and time
        other.write_bytes(b"as it IS!")
        os.utime(other, ns=(was.st_atime_ns, was.st_mtime_ns))
        other.replace(path)
    else:  # at the same time
        path.write_bytes(b"as it is now")
        os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))
    with pytest.raises(cp.DataError, match="must be as it was written"):
        files.check_once(path, digests, remedy="write it again")


@pytest.mark.parametrize(
    ("began", "asked", "expected"),
    [
        ({}, {}, None),
        ({"a": {"b": 1, "c": [1]}}, {"a": {"c": [1], "b": 1}}, None),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}, "a.c: began with 2, asked for 3"),
        ({"a": 1}, {"a": 1, "b": "é"}, 'b: began with none, asked for "é"'),
        ({"a": {}}, {"a": {"b": 1}}, "a: began with {}, asked for none"),
        ({"a": True}, {"a": None}, "a: began with true, asked for null"),
    ],
)
def test_what_differs_is_named(
    began: dict[str, object], asked: dict[str, object], expected: str | None
) -> None:
    assert difference(began, asked) == expected
