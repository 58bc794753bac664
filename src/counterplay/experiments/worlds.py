"""World directories with a log to train on, and online tests of runs that were trained on it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.data.publishing import new_directory
from counterplay.data.splits import Split
from counterplay.data.store import save
from counterplay.errors import ConfigError, DataError
from counterplay.simulation.logs import DAY, RATES, START, check_rates
from counterplay.simulation.online import OnlineTest, online_test
from counterplay.simulation.store import FILES, source_of, world_writer
from counterplay.simulation.values import demand, true_values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from counterplay.data.interactions import Interactions
    from counterplay.experiments.propensities import Contestant
    from counterplay.experiments.stage import Stage
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


def online_runs(
    world: str | Path,
    runs: Sequence[str | Path],
    config: OnlineTest | None = None,
    *,
    data: str | Path | None = None,
) -> dict[str, Any]:
    """Deploy runs in a world, the first as the control; return what was measured, and the truth.

    Users are not shown what they clicked in training and validation. Unless the configuration says
    when, the test takes place in the round that offline tests are of.
    """
    # Here, because they load torch, and making a world does without.
    from counterplay.experiments.evaluation import staged
    from counterplay.experiments.stage import Evaluation

    if len({Path(run).resolve() for run in runs}) < len(runs):
        named = ", ".join(str(run) for run in runs)
        raise ConfigError(
            f"the arms of an online test must be different runs; found {named}; name each once"
        )
    source_of(world)  # which refuses what is no world, before anything is loaded
    return deployed(*staged(runs, data or Path(world) / "log", Evaluation(), world=world), config)


def deployed(
    stage: Stage,
    contestants: Sequence[Contestant],
    config: OnlineTest | None = None,
    *,
    metrics: Sequence[str] = ("hit", "ndcg"),
    k: Sequence[int] = (),
) -> dict[str, Any]:
    """Deploy contestants in the stage's world, the first as the control; see `online_runs`.

    The truth is told of `metrics`, at the cutoffs of the test and at `k`.
    """
    config, place, log = config or OnlineTest(), stage.world, stage.split.interactions
    assert place is not None
    cutoffs = tuple(dict.fromkeys((*config.k, *k)))
    if "time" not in config.model_fields_set:
        assert log.time is not None
        config = config.model_copy(update={"time": float((log.time.max() - START) // DAY)})
    arms = {each.name: each.scores for each in contestants}
    total = demand(place, np.arange(place.n_users), stage.seen, time=config.time)
    result = online_test(place, arms, stage.seen, config, total=total).to_dict()
    result["truth"] = [
        {"arm": name, "metric": metric, "k": k, "value": value}
        for name, scores in arms.items()
        if not config.temperature  # lists that are drawn are worth something else
        for (metric, k), value in true_values(
            place, scores, stage.seen, metrics=metrics, k=cutoffs, total=total, time=config.time
        ).items()
        if metric != "ctr"  # online it has the bias of places
    ]
    return result
