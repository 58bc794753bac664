from __future__ import annotations

import threading

import pytest
import torch

from counterplay.threads import in_threads


def test_parts_come_in_order_whatever_ends_first() -> None:
    second_is_done = threading.Event()

    def work(part: int) -> int:
        if part == 0:
            assert second_is_done.wait(10)
        if part == 1:
            second_is_done.set()
        return part * part

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert list(in_threads(work, range(5), most=2)) == [
            (each, each * each) for each in range(5)
        ]
    finally:
        torch.set_num_threads(before)


def test_each_part_has_one_thread_and_the_caller_keeps_his() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        found = [n for _, n in in_threads(lambda _: torch.get_num_threads(), range(4), most=2)]
        assert found == [1] * 4
        assert torch.get_num_threads() == 2
        later: list[int] = []
        thread = threading.Thread(target=lambda: later.append(torch.get_num_threads()))
        thread.start()
        thread.join()
        assert later == [2]
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("most", [0, 1, 3])
def test_no_more_are_under_way_than_allowed(most: int) -> None:
    lock, now, highest = threading.Lock(), 0, 0

    def work(_: int) -> None:
        nonlocal now, highest
        with lock:
            now += 1
            highest = max(highest, now)
        with lock:
            now -= 1

    assert len(list(in_threads(work, range(20), most))) == 20
    assert highest <= max(most, 1)


def test_what_goes_wrong_in_a_part_is_raised_here() -> None:
    def work(part: int) -> int:
        if part == 1:
            raise ValueError("the second")
        return part

    found = in_threads(work, range(3), most=1)
    assert next(found) == (0, 0)
    with pytest.raises(ValueError, match="the second"):
        next(found)


def test_nobody_has_to_take_all_of_it() -> None:
    found = in_threads(abs, iter(range(1000)), most=2)
    assert next(found) == (0, 0)
    found.close()  # type: ignore[attr-defined]
