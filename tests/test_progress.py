"""How long planned work still takes, by a clock that the tests turn themselves."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterplay.progress import Forecast, Work


class Clock:
    """Shows the time that it was set to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_the_whole_is_what_is_left_of_all_stages() -> None:
    clock = Clock()
    plan = {"a": Work("training", 10.0), "b": Work("training", 30.0), "c": Work("ranking", 20.0)}
    forecast = Forecast(plan, clock)
    assert forecast.at("reading", 0.0) is None  # nothing tells
    assert forecast.at("a", 0.0) is None
    clock.now += 2  # a fifth of a in 2 seconds: a unit of cost takes one
    assert forecast.at("a", 0.2) == pytest.approx(8 + 30 + 20)
    clock.now += 8
    assert forecast.at("a", 1.0) == pytest.approx(30 + 20)
    assert forecast.at("b", 0.0) == pytest.approx(30 + 20)
    clock.now += 30
    forecast.at("b", 1.0)
    assert forecast.at("c", 0.0) == pytest.approx(20)
    clock.now += 10  # ranking takes as long as it takes, whatever training took
    assert forecast.at("c", 0.25) == pytest.approx(30)


def test_stages_that_ended_early_let_others_of_their_kind_end_as_early() -> None:
    clock = Clock()
    plan = {"a": Work("training", 100.0), "b": Work("training", 100.0), "c": Work("ranking", 50.0)}
    forecast = Forecast(plan, clock)
    forecast.at("a", 0.0)
    clock.now += 30
    forecast.at("a", 0.3)  # and then patience ended it
    assert forecast.at("evaluating: robust", 0.0) == pytest.approx(30 + 50)
    clock.now += 1000  # of what was not planned, which says nothing of the others
    assert forecast.at("b", 0.0) == pytest.approx(100 + 50)


def test_a_stage_takes_until_the_next_begins_and_never_goes_back() -> None:
    clock = Clock()
    forecast = Forecast({"a": Work("training", 100.0), "b": Work("training", 100.0)}, clock)
    forecast.at("a", 0.0)
    clock.now += 40
    assert forecast.at("a", 0.5) == pytest.approx(40 + 80)
    assert forecast.at("a", 0.2) == pytest.approx(40 + 80)  # what is told again changes nothing
    clock.now += 10
    assert forecast.at("reading", 0.0) == pytest.approx(50)  # half of b, in as many seconds


def test_what_was_there_already_does_not_let_others_end_at_once() -> None:
    clock = Clock()
    plan = {name: Work("training", 10.0) for name in ("skipped", "a", "b")}
    forecast = Forecast(plan, clock)
    forecast.at("skipped", 0.0)
    forecast.at("a", 0.0)
    clock.now += 5
    assert forecast.at("a", 0.5) == pytest.approx(5 + 10)


def test_how_early_stages_end_is_no_matter_of_another_kind() -> None:
    clock = Clock()
    plan = {name: Work("training", 10.0) for name in ("a", "b", "c")}
    forecast = Forecast({"ranking": Work("ranking", 10.0), **plan}, clock)
    for name, share in (("ranking", 0.5), ("a", 1.0)):
        forecast.at(name, 0.0)
        clock.now += 10 * share
        forecast.at(name, share)
    assert forecast.at("b", 0.0) == pytest.approx(10 + 10)


@given(
    costs=st.lists(st.integers(1, 50), min_size=1, max_size=5),
    seconds=st.floats(0.01, 100.0),
    steps=st.integers(1, 7),
)
def test_at_a_steady_pace_what_is_left_falls_by_what_passes(
    costs: list[int], seconds: float, steps: int
) -> None:
    clock = Clock()
    plan = {str(n): Work("training", float(cost)) for n, cost in enumerate(costs)}
    forecast, total = Forecast(plan, clock), sum(costs) * seconds
    for name, work in plan.items():
        forecast.at(name, 0.0)
        for step in range(1, steps + 1):
            clock.now += work.cost * seconds / steps
            left = forecast.at(name, step / steps)
            assert left == pytest.approx(100.0 + total - clock.now, rel=1e-6, abs=1e-6 * total)
    assert forecast.left() == 0
