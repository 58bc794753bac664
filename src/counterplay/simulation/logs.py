"""Draw a world's log, in parts of its users: time and memory grow with the rows alone."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.data.canonical import canonical_order
from counterplay.data.interactions import Interactions, Step
from counterplay.errors import ConfigError, DataError
from counterplay.simulation.rounds import distinct, probability, random_rows, shown_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from counterplay.simulation.factors import Numbers
    from counterplay.simulation.policies import Policy
    from counterplay.simulation.rounds import Columns
    from counterplay.simulation.world import World

RATES = (1.0, 0.1, 0.1)  # training, validation and test
DAY = 86_400_000_000  # microseconds
START = int(dt.datetime(2020, 1, 1, tzinfo=dt.UTC).timestamp()) * 1_000_000
_AT_ONCE = 1 << 20  # pairs that are proposed at a time, about
_MOST_RANDOM = 0.9  # of what is shown


def draw(
    world: World,
    rates: Sequence[float],
    sample: int,
    first_round: int,
    before: Sequence[Interactions],
    impressions: bool,
    random_share: float,
    with_truth: bool,
) -> Interactions:
    """Draw the rows of `World.log`, all by the world's own policy."""
    check_rates(rates)
    check_random_share(random_share, impressions)
    for log in before:
        check_log(world, log, "the log before")
    size = max(1, int(_AT_ONCE // max(1.0, float(world.policy.caps.sum()))))  # part of the streams
    names = _names(world, impressions, random_share, with_truth)
    parts: list[Columns] = []
    for begin in range(0, world.n_users, size):
        users = np.arange(begin, min(begin + size, world.n_users))
        known, at_random = _clicked(before, users)
        rounds = []
        for number, rate in enumerate(rates, first_round):
            occasion = "log", sample, number
            rng = world.streams.numpy(*occasion, begin)
            rows = _timed(shown_rows(world, users, rate, known, rng, occasion), number, rng)
            clicked = rows["clicked"]
            rounds.append(rows if impressions else _chosen(rows, clicked))
            known_before, known = known, distinct(known, rows["pair"][clicked])
            if random_share:
                away = distinct(known_before, at_random)
                occasion = "random", sample, number
                rng = world.streams.numpy(*occasion, begin)
                p = probability(random_share, len(clicked), len(users) * world.n_items - len(away))
                rows = _timed(random_rows(world, users, p, away, rng, occasion), number, rng)
                at_random = distinct(at_random, rows["pair"][rows["clicked"]])
                rounds.append(rows)
        part = {name: np.concatenate([rows[name] for rows in rounds]) for name in rounds[0]}
        part["user"] = (part["pair"] // world.n_items).astype(np.int32)
        part["item"] = (part["pair"] % world.n_items).astype(np.int32)
        drawn = {name: part[name] for name in names}
        order = canonical_order(drawn, world.users, world.items)
        parts.append(drawn if order is None else _chosen(drawn, order))
    columns: dict[str, Any] = {
        name: np.concatenate([part.pop(name) for part in parts]) for name in names
    }
    if not len(columns["user"]):
        raise DataError(
            "a world's log must have rows; found none; show more, or raise the rates of its rounds"
        )
    step = Step("simulated", f"{len(rates)} rounds of the world {world.name!r}, sample {sample}")
    return Interactions(
        world.users, world.items, **columns, name=world.name, source="simulated", steps=(step,)
    )


def draw_in_turn(
    world: World,
    policies: Sequence[Policy],
    rates: Sequence[float],
    sample: int,
    first_round: int,
    before: Sequence[Interactions],
    **options: Any,
) -> Interactions:
    """Draw each round by its own policy; `options` are those of `draw`."""
    check_rates(rates)
    if len(policies) != len(rates):
        raise ConfigError(
            f"policies in turn must be as many as rounds, {len(rates)}; found {len(policies)}; "
            "give one for each rate"
        )
    logs: list[Interactions] = []
    for number, (policy, rate) in enumerate(zip(policies, rates, strict=True), first_round):
        turn = replace(world, policy=policy)
        logs.append(draw(turn, (rate,), sample, number, (*before, *logs), **options))
    text = f"{len(rates)} rounds of the world {world.name!r} by policies in turn, sample {sample}"
    return replace(joined(logs), steps=(Step("simulated", text),))


def joined(logs: Sequence[Interactions]) -> Interactions:
    """Return the rows of logs of one world, with the same columns, in canonical order."""
    all_columns = [dict(log.columns()) for log in logs]
    columns: dict[str, Any] = {
        name: np.concatenate([each[name] for each in all_columns]) for name in all_columns[0]
    }
    order = canonical_order(columns, logs[0].users, logs[0].items)
    return replace(logs[0], **(columns if order is None else _chosen(columns, order)))


def _names(
    world: World, impressions: bool, random_share: float, with_truth: bool
) -> tuple[str, ...]:
    """Return the names of a log's columns."""
    wanted = {
        "exposed": with_truth,
        "position": with_truth or (impressions and world.examination < 1),
        "propensity": with_truth,
        "random": random_share > 0,
        "clicked": impressions,
    }
    return "user", "item", "time", *(name for name, is_wanted in wanted.items() if is_wanted)


def check_rates(rates: Sequence[float], *, at_least: int = 1) -> None:
    """Refuse too few rates, and rates that are no shares."""
    if len(rates) < at_least or not all(0 < rate <= 1 for rate in rates):
        raise ConfigError(
            f"a log needs the rates of {at_least} rounds or more, each above 0 and at most 1; "
            f"found {list(rates)}; change them"
        )


def check_random_share(random_share: float, impressions: bool) -> None:
    """Refuse a share of random rows that is none, and random rows without impressions."""
    if not 0 <= random_share <= _MOST_RANDOM:
        raise ConfigError(
            f"the share of random rows must be from 0 to {_MOST_RANDOM}; found {random_share:g}; "
            "change it"
        )
    if random_share and not impressions:
        raise ConfigError(
            f"random rows are impressions; found a random share of {random_share:g} in a log of "
            "clicks alone; ask for impressions too, or set the share to 0"
        )


def check_log(world: World, log: Interactions, name: str) -> None:
    """Refuse a log with other users or items than the world's; `name` says what it is for."""
    if (log.n_users, log.n_items) != (world.n_users, world.n_items):
        raise DataError(
            f"{name} must have the world's {world.n_users:,} users and {world.n_items:,} items; "
            f"found {log.n_users:,} and {log.n_items:,}; take a log of this world, not compacted"
        )


def oracle_propensities(
    world: World,
    log: Interactions,
    *,
    sample: int = 0,
    policies: Sequence[Policy] | None = None,
) -> Numbers:
    """Return the true propensities of a log's rows in rounds of rate 1, each on its occasion.

    `policies` are those of rounds 0, 1, … where they were drawn in turn.
    """
    check_log(world, log, "the oracle's log")
    if log.time is None:
        raise DataError("the oracle's log must have times; found none; take a log of this world")
    rounds = (log.time - START) // DAY
    found = np.empty(len(log))
    for number in np.unique(rounds):
        rows = rounds == number
        turn = world if policies is None else replace(world, policy=policies[number])
        found[rows] = turn.propensity(
            log.user[rows], log.item[rows, None], occasion=("log", sample, int(number))
        )[:, 0]
    return found


def _clicked(
    before: Sequence[Interactions], users: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the pairs that these users have clicked: what the policy showed, and random rows."""
    nothing = np.empty(0, dtype=np.int64)
    by_policy, at_random = [nothing], [nothing]
    for log in before:
        rows = slice(log.offsets[users[0]], log.offsets[users[-1] + 1])
        pairs = log.user[rows].astype(np.int64) * log.n_items + log.item[rows]
        clicked, random = (
            np.full(len(pairs), default) if column is None else column[rows]
            for column, default in ((log.clicked, True), (log.random, False))
        )
        by_policy.append(pairs[clicked & ~random])
        at_random.append(pairs[clicked & random])
    return distinct(*by_policy), distinct(*at_random)


def _timed(rows: Columns, number: int, rng: np.random.Generator) -> Columns:
    """Return rows with their times, anywhere in the day of the round."""
    moments = number + rng.random(len(rows["pair"]))
    return rows | {"time": START + (moments * DAY).astype(np.int64)}


def _chosen(rows: Columns, which: NDArray[Any]) -> Columns:
    return {name: values[which] for name, values in rows.items()}
