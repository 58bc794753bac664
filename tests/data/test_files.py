from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterplay import ConfigError, DataError
from counterplay.data.files import Replaceable, new_directory, read_json, write_json

ONLY_A = Replaceable({"a"}, {"a"})


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def write(target: Path, text: str, *, overwrite: bool = False) -> None:
    with new_directory(target, replacing=ONLY_A if overwrite else None) as folder:
        (folder / "a").write_text(text)


def test_a_new_directory_appears_whole(tmp_path: Path) -> None:
    write(tmp_path / "deep" / "target", "one")
    assert contents(tmp_path / "deep" / "target") == {"a": "one"}
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["target"]


def write_half(target: Path, *, overwrite: bool = False) -> None:
    with new_directory(target, replacing=ONLY_A if overwrite else None) as folder:
        (folder / "a").write_text("half")
        raise RuntimeError


def test_a_failure_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError):
        write_half(tmp_path / "target")
    assert list(tmp_path.iterdir()) == []


def test_a_failure_keeps_what_was_there(tmp_path: Path) -> None:
    write(tmp_path / "target", "one")
    with pytest.raises(RuntimeError):
        write_half(tmp_path / "target", overwrite=True)
    assert contents(tmp_path / "target") == {"a": "one"}
    assert len(list(tmp_path.iterdir())) == 1


def test_a_failing_rename_puts_back_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "target", "one")
    rename = Path.rename

    def failing(self: Path, target: Path) -> Path:
        if Path(target).name == "target" and not self.name.endswith(".previous"):
            raise OSError("no")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(OSError, match="no"):
        write(tmp_path / "target", "two", overwrite=True)
    assert contents(tmp_path / "target") == {"a": "one"}
    assert len(list(tmp_path.iterdir())) == 1


def test_what_is_there_is_replaced_only_when_told(tmp_path: Path) -> None:
    write(tmp_path / "target", "one")
    with pytest.raises(ConfigError, match="found something at"):
        write(tmp_path / "target", "two")
    write(tmp_path / "target", "two", overwrite=True)
    assert contents(tmp_path / "target") == {"a": "two"}
    assert len(list(tmp_path.iterdir())) == 1


def test_an_empty_folder_may_be_filled_and_other_things_are_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    write(tmp_path / "empty", "one")
    assert contents(tmp_path / "empty") == {"a": "one"}
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "precious").write_text("keep")
    (tmp_path / "other" / "a").write_text("mine")
    with pytest.raises(ConfigError, match="that was written by this command"):
        write(tmp_path / "other", "two", overwrite=True)
    assert contents(tmp_path / "other") == {"precious": "keep", "a": "mine"}
    (tmp_path / "file").write_text("keep")
    with pytest.raises(ConfigError):
        write(tmp_path / "file", "two", overwrite=True)
    assert (tmp_path / "file").read_text() == "keep"


def test_the_folder_one_stands_in_is_never_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="the folder that one stands in"):
        write(Path(), "one")
    assert tmp_path.exists()


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text('aé😀<"\n'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab😀"), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text("aé😀"), PLAIN, max_size=3))
def test_plain_values_are_read_as_they_were_written(tmp_path: Path, values: object) -> None:
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
    write = Path.write_text

    def failing(self: Path, text: str, **options: str) -> int:
        write(self, text[:3], **options)
        raise OSError("the disk is full")

    monkeypatch.setattr(Path, "write_text", failing)
    with pytest.raises(OSError, match="full"):
        write_json({"a": 2}, path)
    assert json.loads(path.read_text()) == {"a": 1}
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
    with pytest.raises(DataError, match=rf"plan.json' must be a plan; found {found}.*; write it"):
        read_json(path, "a plan", remedy="write it again")
