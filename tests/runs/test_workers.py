"""Who waits for whom, and what is said of who is gone; the store stands for the network."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from torch.distributed import HashStore  # type: ignore[attr-defined] # it is public

from counterplay.errors import ConfigError, DataError, LostWorkerError
from counterplay.groups import PLACES, TIMEOUT
from counterplay.runs import signs, workers
from counterplay.runs.workers import Workers


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signs, "BEAT", 0.05)
    monkeypatch.setattr(signs, "STILL", 0.5)
    monkeypatch.setenv("MASTER_ADDR", "10.0.0.1")


@pytest.fixture
def both(quick: None) -> Iterator[tuple[Workers, Workers]]:
    store = HashStore()
    first, second = (Workers(rank, 2, store, 1.0) for rank in range(2))
    yield first, second
    for each in (first, second):
        each.signs._ended.set()


def test_others_wait_for_the_first_one_as_long_as_it_lives(both: tuple[Workers, Workers]) -> None:
    """Its work takes twice as long as workers wait for one that is silent."""
    first, second = both
    done: list[float] = []

    def work() -> None:
        time.sleep(2)
        done.append(time.monotonic())

    helper = threading.Thread(target=first.first, args=(work,))
    helper.start()
    second.first(lambda: pytest.fail("only the first one works"))
    assert done
    assert time.monotonic() >= done[0]
    helper.join()


def test_a_silent_first_worker_is_named(both: tuple[Workers, Workers]) -> None:
    first, second = both
    first.signs._ended.set()  # it shows no sign of life from now on
    with pytest.raises(LostWorkerError, match=r"worker 0 on .* gone without a word.*--resume"):
        second.first(lambda: None)


def test_the_last_words_of_a_worker_are_told(both: tuple[Workers, Workers]) -> None:
    first, second = both
    first.signs.failed(OSError("a file cannot be\nread"))
    with pytest.raises(LostWorkerError, match=r"worker 0 on .* stopped: a file cannot be read"):
        second.first(lambda: None)


def test_what_one_worker_refuses_all_refuse(both: tuple[Workers, Workers]) -> None:
    first, second = both
    second.signs.failed(DataError("a row must be a row; found none; give one"))
    with (
        pytest.raises(DataError, match=r"^a row must be a row; found none; give one$"),
        first._exchange(),
    ):
        raise RuntimeError("Connection closed by peer")
    assert first._store.check(["heard/0"])


def test_the_first_worker_waits_until_its_refusal_is_heard(both: tuple[Workers, Workers]) -> None:
    first, second = both
    leaving = threading.Thread(target=first.signs.failed, args=(ConfigError("no"),))
    leaving.start()
    with pytest.raises(ConfigError, match=r"^no$"):
        second.first(lambda: None)
    leaving.join()
    assert first.signs._ended.is_set()


def test_the_first_worker_leaves_after_the_others(
    both: tuple[Workers, Workers], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store goes with it, and what others still have to read there."""
    monkeypatch.setattr(signs, "STILL", 60.0)
    first, second = both
    leaving = threading.Thread(target=first.signs.left)
    leaving.start()
    leaving.join(0.2)
    assert leaving.is_alive()
    assert not first.signs._ended.is_set()
    second.signs.left()
    leaving.join()
    assert first.signs._ended.is_set()


def test_a_store_that_never_answers_holds_nobody(quick: None) -> None:
    class Silent:
        def set(self, *_: Any) -> None:
            pass

        def check(self, _: list[str]) -> bool:
            time.sleep(60)
            return False

    lonely = Workers(1, 2, Silent(), 0.5)
    with pytest.raises(LostWorkerError, match=r"worker 0 on 10\.0\.0\.1 out of reach of worker 1"):
        lonely.first(lambda: None)
    lonely.signs._ended.set()


def test_workers_do_not_meet_at_a_first_one_that_stands_still(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its host takes the connection and never answers, as of a process that was stopped."""
    with socket.socket() as host:
        host.bind(("127.0.0.1", 0))
        host.listen()
        places = ("1", "2", "127.0.0.1", str(host.getsockname()[1]))
        for name, value in zip((*PLACES, TIMEOUT), (*places, "0.5"), strict=True):
            monkeypatch.setenv(name, value)
        begin = time.monotonic()
        with pytest.raises(LostWorkerError, match=r"meet within 0\.5 .*0 does not answer"):
            workers._joined()
        assert time.monotonic() - begin < 30
