"""World directories with a log to train on, and online tests of runs that were trained on it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.data.files import new_directory
from counterplay.data.splits import Split
from counterplay.data.store import save
from counterplay.errors import ConfigError
from counterplay.experiments.evaluation import staged
from counterplay.experiments.stage import Evaluation
from counterplay.simulation.logs import DAY, RATES, START
from counterplay.simulation.online import OnlineTest, online_test
from counterplay.simulation.store import FILES, load_world, save_world
from counterplay.simulation.values import demand, true_values

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
        with_truth: Whether the log says place, exposure and true propensity.
        overwrite: Whether a world that is there may be replaced.
    """
    if len(rates) < 3:
        raise ConfigError(
            "a log to train on needs three rounds or more, the last two for validation and test; "
            f"found {len(rates)}; give more rates"
        )
    with new_directory(Path(out), replacing=FILES if overwrite else None) as folder:
        split = split_by_rounds(world.log(rates, with_truth=with_truth))
        save_world(world, folder)
        save(split, folder / "log")
    return split


def split_by_rounds(log: Interactions) -> Split:
    """Split a world's log: its last round is the test, the one before validation.

    What is clicked is not shown again, so no pair of one part is in another.
    """
    assert log.time is not None
    rounds = (log.time - START) // DAY
    last = rounds.max()
    part = (rounds >= last - 1).astype(np.int8) + (rounds == last).astype(np.int8)
    return Split(log, part, "rounds")


def online_runs(
    world: str | Path,
    runs: Sequence[str | Path],
    config: OnlineTest | None = None,
    *,
    data: str | Path | None = None,
) -> dict[str, Any]:
    """Deploy runs in a world, the first as the control; return what was measured, and the truth.

    Users are not shown what they clicked in training and validation.
    """
    config, place = config or OnlineTest(), load_world(world)
    stage, contestants = staged(runs, data or Path(world) / "log", Evaluation(), world=place)
    arms = {each.name: each.scores for each in contestants}
    if len(arms) < len(runs):
        raise ConfigError("the arms of an online test must be different runs; name each once")
    total = demand(place, np.arange(place.n_users), stage.seen, time=config.time)
    result = online_test(place, arms, stage.seen, config, total=total).to_dict()
    result["truth"] = [
        {"arm": name, "metric": metric, "k": k, "value": value}
        for name, scores in arms.items()
        for (metric, k), value in true_values(
            place, scores, stage.seen, k=config.k, total=total, time=config.time
        ).items()
    ]
    return result
