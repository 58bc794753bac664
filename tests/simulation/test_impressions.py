"""Good worlds pass (in test_checks and test_contract); each broken one is found by its fault."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import counterplay as cp
from counterplay.simulation.draws import Draws, WorldError
from counterplay.simulation.impressions import impressions, random_rows
from counterplay.simulation.synthetic import Synthetic
from counterplay.simulation.world import World
from tests.simulation.makers import broken

ALPHA = 1e-6
Flags = NDArray[np.bool_]
Log = Callable[..., cp.Interactions]


def good() -> World:
    return Synthetic(n_users=240, n_items=60, n_shown=12, examination=0.7, noise=2.0).world()


def drawn(world: World) -> Draws:
    return Draws(world, np.arange(world.n_users))


def told(world: World, *args: Any, **options: Any) -> cp.Interactions:
    """Log the truth, whether it is asked for or not."""
    return World.log(world, *args, **options | {"with_truth": True})


def placeless(world: World, *args: Any, **options: Any) -> cp.Interactions:
    log = World.log(world, *args, **options)
    return log if options.get("with_truth") else replace(log, position=None)


def twofold(world: World, *args: Any, **options: Any) -> cp.Interactions:
    """Draw clicks and impressions apart."""
    sample = options.get("sample", 0) + 10 * options.get("impressions", False)
    return World.log(world, *args, **options | {"sample": sample})


def meddling(world: World, *args: Any, **options: Any) -> cp.Interactions:
    """Show something else by the policy where there are random rows."""
    sample = options.get("sample", 0) + 10 * bool(options.get("random_share"))
    return World.log(world, *args, **options | {"sample": sample})


def with_random_rows(change: Callable[[World, cp.Interactions, Any], cp.Interactions]) -> Log:
    """Change logs that have random rows."""

    def log(world: World, *args: Any, **options: Any) -> cp.Interactions:
        found = World.log(world, *args, **options)
        return found if found.random is None else change(world, found, found.random)

    return log


def popular(world: World, log: cp.Interactions, random: Flags) -> cp.Interactions:
    """Draw random rows of one half of the items more often, and of the other less."""
    likely = world.policy.caps >= np.median(world.policy.caps)
    moved = random & ~likely[log.item] & (np.arange(len(log)) % 2 == 0)
    items = np.flatnonzero(likely)[np.arange(len(log)) % likely.sum()].astype(np.int32)
    return replace(log, item=np.where(moved, items, log.item))


def unplaced(_: World, log: cp.Interactions, random: Flags) -> cp.Interactions:
    """Say that random rows stood first."""
    return replace(log, position=np.where(random, 1, np.asarray(log.position)).astype(np.int16))


def keen(_: World, log: cp.Interactions, random: Flags) -> cp.Interactions:
    """Click what is random more often."""
    more = random & (np.arange(len(log)) % 4 == 0)
    return replace(log, clicked=np.asarray(log.clicked) | more)


def scarce(_: World, log: cp.Interactions, random: Flags) -> cp.Interactions:
    return log.take(~random | (np.arange(len(log)) % 3 > 0))


def unmarked(_: World, log: cp.Interactions, __: Flags) -> cp.Interactions:
    return replace(log, random=None)


@pytest.mark.parametrize(
    ("log", "text"),
    [
        (told, "only where it is asked for; found .*exposed, propensity"),
        (placeless, "must have positions where .* examination of 0.7; add them"),
        (twofold, "must be the log of clicks, row by row"),
    ],
)
def test_each_fault_of_impressions_is_found(log: Log, text: str) -> None:
    world = broken(good(), "log", log)
    with pytest.raises(WorldError, match=text):
        impressions(world, drawn(world))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (popular, "rows for .* expected in a tenth of the items by popularity"),
        (unplaced, "clicks for .* expected in a"),
        (keen, "clicks for .* expected in a"),
        (scarce, r"found [\d,]+ rows for [\d,.]+ expected \(z"),
        (unmarked, "must have the columns random and clicked; found user"),
    ],
)
def test_each_fault_of_random_rows_is_found(
    change: Callable[[World, cp.Interactions, Any], cp.Interactions], text: str
) -> None:
    world = broken(good(), "log", with_random_rows(change))
    with pytest.raises(WorldError, match=text):
        random_rows(world, drawn(world), ALPHA)


def test_random_rows_that_change_others_are_found() -> None:
    world = broken(good(), "log", meddling)
    with pytest.raises(WorldError, match="must not change what the policy shows"):
        random_rows(world, drawn(world), ALPHA)


def test_what_is_fine_is_told_with_its_counts() -> None:
    world = good()
    draws = drawn(world)
    shown = world.log((draws.rate,), impressions=True, random_share=0.5)
    assert shown.random is not None
    assert f"{len(draws.logs[0]):,} impressions hold the" in impressions(world, draws)
    assert f"{shown.random.sum():,} random rows; the farthest" in random_rows(world, draws, ALPHA)
