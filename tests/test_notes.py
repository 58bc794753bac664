from __future__ import annotations

import warnings

import pytest

import counterplay as cp
from counterplay.notes import noted, tell


def test_reservations_are_collected_once_and_other_warnings_go_on() -> None:
    collected: list[str] = []

    def work() -> None:
        with noted() as notes:
            for text in ("one", "two", "one"):
                warnings.warn(text, cp.CounterplayWarning, stacklevel=1)
            warnings.warn("other", RuntimeWarning, stacklevel=1)
        collected.extend(notes)

    with pytest.warns(RuntimeWarning, match="other") as others:
        work()
    assert collected == ["one", "two"]
    assert len(others) == 1


def test_what_was_noted_is_told() -> None:
    with pytest.warns(cp.CounterplayWarning) as told:
        tell(["one", "two", "one"])
    assert [str(each.message) for each in told] == ["one", "two"]
