"""A world directory with a log to train on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from counterplay.data.directory import save
from counterplay.data.impressions import taken_apart
from counterplay.data.publishing import new_directory
from counterplay.data.splits import Split
from counterplay.errors import DataError
from counterplay.simulation.logs import DAY, RATES, START, check_random_share, check_rates
from counterplay.simulation.store import FILES, source_of, world_writer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from counterplay.data.interactions import Interactions
    from counterplay.simulation.policies import Policy
    from counterplay.simulation.world import World


def write_world(
    world: World,
    out: str | Path,
    *,
    rates: Sequence[float] = RATES,
    impressions: bool = False,
    random_share: float = 0.0,
    with_truth: bool = False,
    overwrite: bool = False,
) -> Split:
    """Write a world and a log of it, ready to train on, as `out` and `out/log`.

    Args:
        world: What to write.
        out: A new folder.
        rates: Of the log's rounds, at least three: the last is the test, the one before validation.
        impressions: Write what was shown and not clicked, too.
        random_share: Share of what is shown that is random; see `World.log`.
        with_truth: Add list position, exposure and true propensity to the log.
        overwrite: Replace a world that is there.
    """
    check_rates(rates, at_least=3)
    check_random_share(random_share, impressions)
    write = world_writer(world)
    with new_directory(Path(out), replacing=FILES if overwrite else None) as folder:
        write(folder)
        split = split_of(
            world,
            rates,
            impressions=impressions,
            random_share=random_share,
            with_truth=with_truth,
            source=source_of(folder),
        )
        save(split, folder / "log")
    return split


def split_of(
    world: World,
    rates: Sequence[float] = RATES,
    *,
    sample: int = 0,
    impressions: bool = False,
    random_share: float = 0.0,
    policies: Sequence[Policy] | None = None,
    with_truth: bool = False,
    source: str = "simulated",
) -> Split:
    """Draw a log of a world and split it by rounds, as `write_world` does, without a disk.

    Example:
        >>> from counterplay.simulation.synthetic import Synthetic
        >>> world = Synthetic(n_users=50, n_items=40, n_shown=8, mean_relevance=0.5).world()
        >>> split = split_of(world, (1.0, 0.5, 0.5), impressions=True)
        >>> len(split.unclicked) > len(split.interactions)
        True
    """
    check_rates(rates, at_least=3)
    log = world.log(
        rates,
        sample=sample,
        impressions=impressions,
        random_share=random_share,
        policies=policies,
        with_truth=with_truth,
    )
    return split_by_rounds(replace(log, source=source), len(rates))


def split_by_rounds(log: Interactions, n_rounds: int) -> Split:
    """Split a world's log: its last round is the test, the one before validation.

    What is clicked is not shown again, so no pair of one part is in another. Of impressions, those
    without a click are in the part of their round, and random rows stand beside it.
    """
    if log.clicked is not None:
        log = replace(log, exposed=None)  # of a world it says what was examined, not what was shown
    log, unclicked, random = taken_apart(log, compact=False)
    part = _part_of(log, n_rounds)
    for number, name in ((1, "validation"), (2, "test")):
        if not (part == number).any():
            raise DataError(
                f"the {name} round must have clicks; found none in the log of {log.name!r}; raise "
                "its rate"
            )
    split = Split(log, part, "rounds", random=random)
    if unclicked is None:
        return split
    rows = replace(unclicked, clicked=None)
    return replace(split, unclicked=rows, unclicked_part=_part_of(rows, n_rounds))


def _part_of(log: Interactions, n_rounds: int) -> NDArray[np.int8]:
    """Return the part of each row by its round."""
    assert log.time is not None
    rounds = (log.time - START) // DAY
    return (rounds >= n_rounds - 2).astype(np.int8) + (rounds >= n_rounds - 1).astype(np.int8)
