from __future__ import annotations

import os
import re
import shutil
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

import counterplay as cp
from counterplay.data import publishing
from counterplay.data.locks import locked
from counterplay.data.publishing import (
    Replaceable,
    check_free,
    check_output,
    new_directory,
    new_file,
    working_directory,
)

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


def write_half(target: Path, *, replacing: Replaceable | None = None) -> None:
    with new_directory(target, replacing=replacing) as folder:
        (folder / "a").write_text("half")
        raise RuntimeError


def test_a_failure_leaves_what_was_there_and_nothing_else(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError):
        write_half(tmp_path / "target")
    assert list(tmp_path.iterdir()) == []
    write(tmp_path / "target", "one")
    with pytest.raises(RuntimeError):
        write_half(tmp_path / "target", replacing=ONLY_A)
    assert contents(tmp_path / "target") == {"a": "one"}
    assert len(list(tmp_path.iterdir())) == 1


def without_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing, "_exchanged", lambda *_: False)


def test_a_failing_rename_puts_back_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_exchange(monkeypatch)
    write(tmp_path / "target", "one")
    rename, n_calls = Path.rename, 0

    def failing(self: Path, target: Path) -> Path:
        nonlocal n_calls
        n_calls += 1
        if n_calls == 3:  # refused as not empty; the old one moved away; the new one put there
            raise OSError("no")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(OSError, match="no"):
        write(tmp_path / "target", "two", overwrite=True)
    assert contents(tmp_path / "target") == {"a": "one"}
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("can_exchange", [True, False])
def test_what_is_there_is_replaced_only_when_told(
    can_exchange: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not can_exchange:
        without_exchange(monkeypatch)
    write(tmp_path / "target", "one")
    with pytest.raises(cp.ConfigError, match="found something at"):
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
    with pytest.raises(cp.ConfigError, match="that was written by this command"):
        write(tmp_path / "other", "two", overwrite=True)
    assert contents(tmp_path / "other") == {"precious": "keep", "a": "mine"}
    (tmp_path / "file").write_text("keep")
    with pytest.raises(cp.ConfigError):
        write(tmp_path / "file", "two", overwrite=True)
    assert (tmp_path / "file").read_text() == "keep"


def test_the_folder_one_stands_in_is_never_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(cp.ConfigError, match="current working directory"):
        write(Path(), "one")
    assert tmp_path.exists()


@pytest.mark.parametrize(
    ("replacing", "theirs", "expected"),
    [
        (None, ["a"], "found something at"),
        (ONLY_A, ["a", "precious"], "that was written by this command"),
        (None, [], "found something at"),
    ],
    ids=["a folder", "a folder with more in it", "a file"],
)
def test_what_appears_meanwhile_stays(
    replacing: Replaceable | None, theirs: list[str], expected: str, tmp_path: Path
) -> None:
    target = tmp_path / "target"

    def appearing() -> None:
        with new_directory(target, replacing=replacing) as folder:
            (folder / "a").write_text("mine")
            target.mkdir() if theirs else target.write_text("theirs")
            for name in theirs:
                (target / name).write_text("theirs")

    with pytest.raises(cp.ConfigError, match=expected):
        appearing()
    found = contents(target) if theirs else target.read_text()
    assert found == (dict.fromkeys(theirs, "theirs") if theirs else "theirs")
    assert names(tmp_path) == ["target"]


def test_what_was_added_just_before_the_exchange_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "target", "one")
    exchange, first = publishing._exchanged, True

    def late(one: Path, other: Path) -> bool:
        nonlocal first
        if first:
            (other / "precious").write_text("keep")
        first = False
        return exchange(one, other)

    monkeypatch.setattr(publishing, "_exchanged", late)
    with pytest.raises(cp.ConfigError, match="that was written by this command"):
        write(tmp_path / "target", "two", overwrite=True)
    assert contents(tmp_path / "target") == {"a": "one", "precious": "keep"}
    assert names(tmp_path) == ["target"]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_whoever_may_read_the_folder_may_read_its_files(tmp_path: Path) -> None:
    def narrow(path: Path, text: str) -> None:
        path.unlink(missing_ok=True)
        path.touch(0o600)
        path.write_text(text)

    before = os.umask(0o022)
    try:
        with new_directory(tmp_path / "folder") as folder:
            narrow(folder / "a", "x")
        with new_file(tmp_path / "file") as path:
            narrow(path, "x")
    finally:
        os.umask(before)
    modes = [path.stat().st_mode & 0o777 for path in (tmp_path / "folder/a", tmp_path / "file")]
    assert modes == [0o644, 0o644]


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "file"

    def failing() -> None:
        with new_file(path) as beside:
            beside.write_text("half")
            assert not path.exists() or path.read_text() == "one"
            raise RuntimeError

    for _ in range(2):
        with pytest.raises(RuntimeError):
            failing()
        with new_file(path) as beside:
            beside.write_text("one")
    assert contents(tmp_path) == {"file": "one"}


def test_all_of_it_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []

    def recorded(path: Path) -> None:
        said.append(re.sub(r"\.[0-9a-f]{8}\.", ".x.", str(path.relative_to(tmp_path))))

    monkeypatch.setattr(publishing, "_sync", recorded)
    rename, replace = Path.rename, Path.replace
    for name, function in (("rename", rename), ("replace", replace)):

        def named(self: Path, target: Path, function: Any = function) -> Path:
            said.append("named")
            return Path(function(self, target))

        monkeypatch.setattr(Path, name, named)
    with new_directory(tmp_path / "target") as folder:
        (folder / "deep").mkdir()
        (folder / "deep" / "b").write_text("x")
        (folder / "a").write_text("x")
    beside = ".target.x.part"
    assert said == [f"{beside}/deep/b", f"{beside}/deep", f"{beside}/a", beside, "named", "."]
    said.clear()
    with new_file(tmp_path / "file") as path:
        path.write_text("x")
    assert said == [".file.x.part", "named", "."]
    said.clear()
    with new_directory(tmp_path / "quick", durable=False) as folder:
        (folder / "a").write_text("x")
    assert said == ["named"]


def left_behind(place: Path, name: str) -> list[Path]:
    """What a killed writer of `name` may leave."""
    folder = place / f".{name}.0123abcd.part"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "file").write_text("half")
    file = place / f".{name}.89abcdef.part"
    file.write_text("half")
    lock = place / f".{name}.lock"
    lock.write_text('{"process": 1}')
    return [folder, file, lock]


def test_what_killed_writers_left_is_swept(tmp_path: Path) -> None:
    others = left_behind(tmp_path, "other")
    left_behind(tmp_path, "target")
    write(tmp_path / "target", "one")
    assert names(tmp_path) == sorted(["target", *(path.name for path in others)])
    with new_file(tmp_path / "other") as path:
        path.write_text("x")
    assert names(tmp_path) == ["other", "target"]


def test_what_was_moved_away_is_put_back(tmp_path: Path) -> None:
    write(tmp_path / "target", "one")
    (tmp_path / "target").rename(tmp_path / ".target.previous")
    with pytest.raises(RuntimeError):
        write_half(tmp_path / "target", replacing=ONLY_A)
    assert contents(tmp_path / "target") == {"a": "one"}
    assert names(tmp_path) == ["target"]


def test_a_folder_to_work_in_is_cleared_of_what_was_left(tmp_path: Path) -> None:
    with working_directory(tmp_path / "work") as folder:
        (folder / "deep" / "deeper").mkdir(parents=True)
        for place in (folder, folder / "deep", folder / "deep" / "deeper"):
            (place / "kept").write_text("x")
            (place / ".hidden").write_text("x")
            left_behind(place, "result")
        (folder / "deep" / ".moved.previous").mkdir()
    with working_directory(tmp_path / "work") as folder:
        found = sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))
    assert found == sorted(
        ["deep", "deep/deeper", "deep/moved"]
        + [
            f"{place}{name}"
            for place in ("", "deep/", "deep/deeper/")
            for name in ("kept", ".hidden")
        ]
    )
    assert names(tmp_path) == ["work"]


EITHER = Replaceable({"a"}, {"a", "b"})
NEW = {"a": "new", "b": "new"}


def write_new(target: Path) -> None:
    with new_directory(target, replacing=EITHER) as folder:
        for name, text in NEW.items():
            (folder / name).write_text(text)


def killed_at(step: int, target: Path, *, exchange: bool) -> bool:
    """Write in a process that dies before the step, counted from 1; tell whether it came so far."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside threads
        child = os.fork()
    if child:
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert code in (0, 9)
        return code == 9
    try:
        done = 0

        def counted(function: Any) -> Any:
            def run(*arguments: Any, **options: Any) -> Any:
                nonlocal done
                result = None
                for act in (False, True, False):  # before it, it, after it
                    if act:
                        result = function(*arguments, **options)
                    elif (done := done + 1) == step:
                        os._exit(9)
                return result

            return run

        for name in ("rename", "mkdir", "unlink", "rmdir", "open", "chmod"):
            setattr(os, name, counted(getattr(os, name)))
        publishing._sync = counted(lambda _: None)
        publishing._exchanged = counted(publishing._exchanged) if exchange else lambda *_: False
        write_new(target)
        os._exit(0)
    finally:
        os._exit(1)


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork")
@pytest.mark.parametrize("exchange", [True, False])
@pytest.mark.parametrize("old", [True, False])
def test_killed_at_any_step_there_is_the_old_or_the_new_one(
    old: bool, exchange: bool, tmp_path: Path
) -> None:
    target = tmp_path / "target"
    whole = [{"a": "old"}, NEW] if old else [NEW]
    absent = []
    for step in range(1, 200):
        shutil.rmtree(tmp_path)
        tmp_path.mkdir()
        if old:
            write(target, "old")
        killed = killed_at(step, target, exchange=exchange)
        absent.append(not target.exists())
        assert absent[-1] or contents(target) in whole
        if not killed:
            break
        with pytest.raises(RuntimeError):  # one that begins and fails leaves what there was
            write_half(target, replacing=EITHER)
        assert (not old and not target.exists()) or contents(target) in whole
        write_new(target)
        assert contents(target) == NEW
        assert names(tmp_path) == ["target"]
    assert not killed
    assert step > 20
    if old:  # without an exchange there is a moment between two renames
        assert any(absent) == (not exchange)


def test_a_folder_with_nothing_but_what_was_left_is_as_good_as_empty(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    left_behind(tmp_path / "work", "result")
    publishing.check_free(tmp_path / "work")
    with working_directory(tmp_path / "work") as folder:
        assert names(folder) == []
        (folder / "result").write_text("x")
    with pytest.raises(cp.ConfigError, match="found something at"):
        publishing.check_free(tmp_path / "work")


def test_a_folder_to_work_in_that_stays_empty_goes_again(tmp_path: Path) -> None:
    def failing() -> None:
        with working_directory(tmp_path / "deep" / "work"):
            raise RuntimeError

    with pytest.raises(RuntimeError):
        failing()
    assert names(tmp_path / "deep") == []
    (tmp_path / "deep" / "work").mkdir()
    with pytest.raises(RuntimeError):
        failing()
    assert names(tmp_path / "deep") == ["work"]  # it was there before


def test_a_refusal_sweeps_what_was_left_after_publishing(tmp_path: Path) -> None:
    target = tmp_path / "target"
    write(target, "one")
    left_behind(tmp_path, "target")
    with pytest.raises(cp.ConfigError, match="found something at"):
        check_free(target)
    assert names(tmp_path) == ["target"]
    assert contents(target) == {"a": "one"}
    with locked(target):
        with pytest.raises(cp.ConfigError, match="found something at"):
            check_free(target)
        assert names(tmp_path) == [".target.lock", "target"]  # somebody is at work


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no pipes with a name")
def test_what_is_no_file_is_never_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    for refused in (lambda: check_output(pipe), lambda: new_file(pipe).__enter__()):
        with pytest.raises(cp.ConfigError, match="must be a file, or nothing yet"):
            refused()
    assert pipe.is_fifo()
    assert names(tmp_path) == ["pipe.json"]
