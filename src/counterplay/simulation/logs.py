"""Draw a world's log, in parts of its users: time and memory grow with the rows alone."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.data.canonical import canonical_order
from counterplay.data.interactions import Interactions, Step
from counterplay.errors import ConfigError, DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from counterplay.simulation.factors import Numbers
    from counterplay.simulation.world import World

    Columns = dict[str, NDArray[Any]]

RATES = (1.0, 0.1, 0.1)  # training, validation and test
DAY = 86_400_000_000  # microseconds
START = int(dt.datetime(2020, 1, 1, tzinfo=dt.UTC).timestamp()) * 1_000_000
_AT_ONCE = 1 << 20  # pairs that are proposed at a time, about
_LIKELY = 0.25  # items proposed to more than this share are drawn user by user


def draw(
    world: World,
    rates: Sequence[float],
    sample: int,
    first_round: int,
    before: Interactions | None,
    impressions: bool,
    with_truth: bool,
) -> Interactions:
    """Draw the rows of `World.log`."""
    check_rates(rates)
    if before is not None:
        check_log(world, before, "the log before")
    caps = world.policy.caps
    size = max(1, int(_AT_ONCE // max(1.0, float(caps.sum()))))  # the world's: part of its streams
    parts: list[Columns] = []
    for begin in range(0, world.n_users, size):
        users = np.arange(begin, min(begin + size, world.n_users))
        known = np.empty(0, dtype=np.int64) if before is None else _clicked(before, users)
        rounds = []
        for number, rate in enumerate(rates, first_round):
            occasion = "log", sample, number
            rng = world.streams.numpy(*occasion, begin)
            rows = _round(world, users, caps * rate, known, rng, occasion)
            clicked = rows["click"]
            known = _distinct(known, rows["pair"][clicked])
            rows["time"] = START + ((number + rng.random(len(clicked))) * DAY).astype(np.int64)
            rounds.append(rows if impressions else _chosen(rows, clicked))
        part = {name: np.concatenate([rows[name] for rows in rounds]) for name in rounds[0]}
        drawn = {
            "user": (part["pair"] // world.n_items).astype(np.int32),
            "item": (part["pair"] % world.n_items).astype(np.int32),
            "time": part["time"],
        }
        if impressions:
            drawn["rating"] = part["click"].astype(np.float32)
        if with_truth or impressions:
            drawn |= {name: part[name] for name in ("exposed", "position", "propensity")}
        order = canonical_order(drawn, world.users, world.items)
        parts.append(drawn if order is None else _chosen(drawn, order))
    columns: dict[str, Any] = {
        name: np.concatenate([part.pop(name) for part in parts]) for name in list(parts[0])
    }
    if not len(columns["user"]):
        raise DataError(
            "a world's log must have rows; found none; show more, or raise the rates of its rounds"
        )
    step = Step("simulated", f"{len(rates)} rounds of the world {world.name!r}, sample {sample}")
    return Interactions(
        world.users, world.items, **columns, name=world.name, source="simulated", steps=(step,)
    )


def check_rates(rates: Sequence[float], *, at_least: int = 1) -> None:
    """Refuse too few rates, and rates that are no shares."""
    if len(rates) < at_least or not all(0 < rate <= 1 for rate in rates):
        raise ConfigError(
            f"a log needs the rates of {at_least} rounds or more, each above 0 and at most 1; "
            f"found {list(rates)}; change them"
        )


def check_log(world: World, log: Interactions, name: str) -> None:
    """Refuse a log with other users or items than the world's; `name` says what it is for."""
    if (log.n_users, log.n_items) != (world.n_users, world.n_items):
        raise DataError(
            f"{name} must have the world's {world.n_users:,} users and {world.n_items:,} items; "
            f"found {log.n_users:,} and {log.n_items:,}; take a log of this world, not compacted"
        )


def oracle_propensities(world: World, log: Interactions, *, sample: int = 0) -> Numbers:
    """Return the true propensities of a log's rows in rounds of rate 1, each on its occasion."""
    check_log(world, log, "the oracle's log")
    if log.time is None:
        raise DataError("the oracle's log must have times; found none; take a log of this world")
    rounds = (log.time - START) // DAY
    found = np.empty(len(log))
    for number in np.unique(rounds):
        rows = rounds == number
        found[rows] = world.propensity(
            log.user[rows], log.item[rows, None], occasion=("log", sample, int(number))
        )[:, 0]
    return found


def _round(
    world: World,
    users: NDArray[np.int64],
    caps: Numbers,
    known: NDArray[np.int64],
    rng: np.random.Generator,
    occasion: tuple[str | int, ...],
) -> Columns:
    """Return what is shown to some users in one round, and what comes of it."""
    user, item = proposed(caps, len(users), rng)
    user = users[user]
    pair = user * world.n_items + item
    if len(known):
        place = np.minimum(np.searchsorted(known, pair), len(known) - 1)
        new = known[place] != pair
        user, item, pair = user[new], item[new], pair[new]
    accepted = world.accepted(user, item[:, None], occasion=occasion)[:, 0]
    is_shown = np.flatnonzero(rng.random(len(user)) < accepted)
    user, item, pair, accepted = user[is_shown], item[is_shown], pair[is_shown], accepted[is_shown]
    position = np.ones(len(user), dtype=np.int16)
    propensity = caps[item] * accepted
    examined = np.ones(len(user), dtype=np.bool_)
    if world.examination < 1:
        further = np.clip(1 - world.policy.prominence(user, item[:, None])[:, 0], 0, 1)
        position += rng.binomial(world.list_length - 1, further).astype(np.int16)
        seen = (world.examination ** np.arange(world.list_length))[position - 1]
        propensity *= seen
        examined = rng.random(len(user)) < seen
    asked = np.flatnonzero(examined)
    time = float(occasion[-1])
    relevance = world.relevance(user[asked], item[asked, None], time=time, occasion=occasion)[:, 0]
    click = np.zeros(len(user), dtype=np.bool_)
    click[asked] = rng.random(len(asked)) < relevance
    return {
        "pair": pair,
        "click": click,
        "exposed": examined,
        "position": position,
        "propensity": propensity,
    }


def proposed(
    caps: Numbers, n_users: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Draw every pair independently with its item's cap as the probability.

    For likely items all users are asked. The others get Poisson(−log(1 − cap) · n_users) draws of
    a user, and each pair counts once: so rare items cost no more than the pairs they are in.
    """
    n_items = len(caps)
    likely = np.flatnonzero(caps > _LIKELY)
    asked, column = np.nonzero(rng.random((n_users, len(likely))) < caps[likely])
    draws = rng.poisson(-np.log1p(-np.where(caps > _LIKELY, 0.0, caps)) * n_users)
    items = np.repeat(np.arange(n_items), draws)
    pairs = _distinct(rng.integers(n_users, size=len(items)) * n_items + items)
    user = pairs // n_items
    return (
        np.concatenate([asked, user]),
        np.concatenate([likely[column], pairs - user * n_items]),
    )


def _clicked(before: Interactions, users: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the pairs that these users have clicked; of impressions, not all were."""
    rows = slice(before.offsets[users[0]], before.offsets[users[-1] + 1])
    pairs = before.user[rows].astype(np.int64) * before.n_items + before.item[rows]
    return _distinct(pairs if before.rating is None else pairs[before.rating[rows] > 0])


def _distinct(*numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return all numbers once, in order; sorting is several times faster than `np.unique`."""
    ordered = np.sort(np.concatenate(numbers))
    return ordered[np.diff(ordered, prepend=-1) > 0]


def _chosen(rows: Columns, which: NDArray[Any]) -> Columns:
    return {name: values[which] for name, values in rows.items()}
