from __future__ import annotations

import errno
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

import counterplay as cp
from counterplay.data import locks
from counterplay.data.locks import lock_of, locked

SOURCE = str(Path(locks.__file__).parents[2])
HOLDER = """
import sys
from pathlib import Path
from counterplay.data.locks import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def holder(target: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(target)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": SOURCE},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def take(target: Path) -> None:
    with locked(target):
        pass


def test_there_is_one_writer_at_a_time_and_it_is_named(tmp_path: Path) -> None:
    target = tmp_path / "target"
    with holder(target) as process:
        with pytest.raises(cp.ConfigError, match="by one process at a time") as caught:
            take(target)
        assert f"found process {process.pid} on {platform.node()}, since 20" in str(caught.value)
        assert f"at work on '{target}'" in str(caught.value)
        take(tmp_path / "other")
        assert process.stdin is not None
        process.stdin.close()
        process.wait()
    take(target)
    assert list(tmp_path.iterdir()) == []


def test_the_lock_of_a_killed_process_is_taken_over(tmp_path: Path) -> None:
    target = tmp_path / "target"
    with holder(target) as process:
        process.kill()
        process.wait()
        assert process.stdin is not None
        process.stdin.close()
    assert lock_of(target).exists()
    with locked(target):
        assert f'"process": {os.getpid()}' in lock_of(target).read_text()
    assert list(tmp_path.iterdir()) == []


def test_a_process_does_not_write_the_same_twice_at_once(tmp_path: Path) -> None:
    with locked(tmp_path / "target"), pytest.raises(cp.ConfigError, match=f"process {os.getpid()}"):
        take(tmp_path / "target")
    assert list(tmp_path.iterdir()) == []


def test_a_lock_that_was_removed_meanwhile_is_not_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between opening the file and locking it, its last holder may have removed it."""
    target, take_it, n_taken = tmp_path / "target", locks._taken, 0

    def late(file: int) -> bool:
        nonlocal n_taken
        n_taken += 1
        if n_taken == 1:
            lock_of(target).unlink()
        return take_it(file)

    monkeypatch.setattr(locks, "_taken", late)
    with locked(target):
        assert lock_of(target).exists()
        with pytest.raises(cp.ConfigError):
            take(target)
    assert n_taken == 3


@pytest.mark.parametrize("said", ["", "{", "[]", '{"process": 1}'])
def test_a_holder_that_has_not_said_who_it_is(said: str, tmp_path: Path) -> None:
    with locked(tmp_path / "target"):
        lock_of(tmp_path / "target").write_text(said)
        with pytest.raises(cp.ConfigError, match="found another process at work"):
            take(tmp_path / "target")


def test_where_there_are_no_locks_one_writes_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", none)
    take(tmp_path / "target")
    assert list(tmp_path.iterdir()) == []


def test_an_error_within_frees_the_lock(tmp_path: Path) -> None:
    def failing() -> None:
        with locked(tmp_path / "target"):
            raise RuntimeError

    for _ in range(2):
        with pytest.raises(RuntimeError):
            failing()
    assert list(tmp_path.iterdir()) == []
