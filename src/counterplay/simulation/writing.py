"""A world directory with a log to train on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from counterplay.data.directory import save
from counterplay.data.publishing import new_directory
from counterplay.data.splits import Split
from counterplay.errors import DataError
from counterplay.simulation.logs import DAY, RATES, START, check_rates
from counterplay.simulation.store import FILES, source_of, world_writer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from counterplay.data.interactions import Interactions
    from counterplay.simulation.world import World


def write_world(
    world: World,
    out: str | Path,
    *,
    rates: Sequence[float] = RATES,
    with_truth: bool = False,
    overwrite: bool = False,
) -> Split:
    """Write a world and a log of it, ready to train on, as `out` and `out/log`.

    Args:
        world: What to write.
        out: A new folder.
        rates: Of the log's rounds, at least three: the last is the test, the one before validation.
        with_truth: Add list position, exposure and true propensity to the log.
        overwrite: Replace a world that is there.
    """
    check_rates(rates, at_least=3)
    write = world_writer(world)
    with new_directory(Path(out), replacing=FILES if overwrite else None) as folder:
        write(folder)
        log = replace(world.log(rates, with_truth=with_truth), source=source_of(folder))
        split = split_by_rounds(log, len(rates))
        save(split, folder / "log")
    return split


def split_by_rounds(log: Interactions, n_rounds: int) -> Split:
    """Split a world's log: its last round is the test, the one before validation.

    What is clicked is not shown again, so no pair of one part is in another.
    """
    assert log.time is not None
    rounds = (log.time - START) // DAY
    part = (rounds >= n_rounds - 2).astype(np.int8) + (rounds >= n_rounds - 1).astype(np.int8)
    for number, name in ((1, "validation"), (2, "test")):
        if not (part == number).any():
            raise DataError(
                f"the {name} round must have clicks; found none in the log of {log.name!r}; raise "
                "its rate"
            )
    return Split(log, part, "rounds")
