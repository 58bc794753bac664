"""Online tests on a world: candidates are deployed to users, and clicks are counted.

Every user belongs to one arm for the whole test, and the arms are measured by what their users
clicked (`counterplay.simulation.arms`). Lists do not change by what is clicked during the test:
`seen` is what the users had clicked before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, Field
from scipy.special import log_ndtr

from counterplay.errors import ConfigError, DataError
from counterplay.metrics.recommendations import top_k
from counterplay.simulation.arms import OnlineResult, change, measured, ratios
from counterplay.simulation.chance import normal
from counterplay.simulation.sequential import always_valid
from counterplay.simulation.values import demand

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from counterplay.data.interactions import Interactions
    from counterplay.metrics.scoring import Scores
    from counterplay.simulation.world import World

_AT_ONCE = 1 << 20  # places that are looked at at a time
_FEW = 30  # users of an arm: with fewer, an estimated variance says too little for a look


class OnlineTest(BaseModel):
    """How an online test is run.

    Attributes:
        n_days: Its length.
        sessions_a_day: Of a user, on average; the number is Poisson's.
        k: Cutoffs of hit and ndcg, no longer than the world's lists.
        temperature: 0 shows each user the best items; above, a list a day is drawn without
            replacement, with probabilities that go with `e^(score / temperature)`.
        shares: Of the traffic, one for each arm, 1 in all; by default equal ones.
        level: Of intervals.
        scale: Size of the differences of ctr that the daily looks are made for.
        time: The round at which the test takes place, where tastes drift.
        seed: Another one is another test on the same world.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    n_days: Annotated[int, Field(ge=1)] = 14
    sessions_a_day: Annotated[float, Field(gt=0, le=1000)] = 0.5
    k: Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1)] = (10,)
    temperature: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    shares: tuple[Annotated[float, Field(gt=0, le=1)], ...] | None = None
    level: Annotated[float, Field(gt=0, lt=1)] = 0.95
    scale: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.02
    time: Annotated[float, Field(allow_inf_nan=False)] = 0.0
    seed: Annotated[int, Field(ge=0)] = 0


def online_test(
    world: World,
    arms: Mapping[str, Scores],
    seen: Interactions,
    config: OnlineTest | None = None,
    *,
    users: NDArray[np.integer] | None = None,
    total: NDArray[np.float64] | None = None,
) -> OnlineResult:
    """Deploy each arm to its share of the users, and measure it by their clicks.

    Each session shows a list of the best unseen items; chance orders equal scores, once for each
    user. The place p is examined with probability
    ρ^(p − 1), and what is examined is clicked with its relevance on that day: unobserved factors
    are drawn anew every day, and a user's sessions on one day share them.

    Args:
        world: Where.
        arms: What items are ranked by, by name; the first is the control.
        seen: What the users have clicked: it is not shown.
        config: How.
        users: Who takes part; by default all users.
        total: Their demand, where it is known already.
    """
    config = config or OnlineTest()
    users = np.arange(world.n_users) if users is None else np.asarray(users)
    shares = _checked(world, tuple(arms), seen, config, users, total)
    rng = _stream(world, config, "traffic")
    # Drawn for all users, so that nobody's arm or sessions depend on who else takes part.
    arm = rng.choice(len(arms), size=world.n_users, p=shares)[users]
    fixed = None if config.temperature else _lists(world, arms, seen, config, users, arm, 0)
    sessions = np.zeros(len(users), dtype=np.int64)
    places, length = np.zeros_like(sessions), np.zeros_like(sessions)
    clicks = np.zeros((len(users), world.list_length), dtype=np.int32)
    rates = np.empty((2, len(arms), config.n_days))
    for day in range(config.n_days):
        rng = _stream(world, config, "sessions", day)
        today = rng.poisson(config.sessions_a_day, world.n_users)[users]
        active = np.flatnonzero(today)
        lists = (
            _lists(world, arms, seen, config, users[active], arm[active], day)
            if fixed is None
            else fixed[active]
        )
        clicks[active] += _clicks(world, config, users[active], lists, today[active], day)
        length[active] = (lists >= 0).sum(1)
        sessions += today
        places += today * length
        rates[:, :, day] = ratios(clicks.sum(1), places, arm, len(arms))
        rates[1, np.bincount(arm, places > 0, len(arms)) < _FEW, day] = np.nan
    total = demand(world, users, seen, time=config.time) if total is None else total
    _enough(tuple(arms), arm, places, sessions * total)
    measures = measured(
        clicks,
        places,
        sessions * total,
        arm,
        len(arms),
        k=config.k,
        examination=world.examination,
        level=config.level,
    )
    control, others = measures[0], tuple(arms)[1:]
    return OnlineResult(
        world.name,
        config,
        tuple(arms),
        users,
        arm,
        sessions,
        places,
        clicks,
        total,
        dict(zip(arms, measures, strict=True)),
        {
            name: {key: change(found[key], control[key], config.level) for key in found}
            for name, found in zip(others, measures[1:], strict=True)
        },
        {
            name: always_valid(
                value - rates[0, 0],
                variance + rates[1, 0],
                level=config.level,
                scale=config.scale,
            )
            for name, value, variance in zip(others, rates[0, 1:], rates[1, 1:], strict=True)
        },
    )


class _Drawn:
    """Scores plus temperature times Gumbel's noise: their best are a draw from the softmax."""

    def __init__(self, scores: Scores, temperature: float, key: int) -> None:
        self.scores = scores
        self.temperature = temperature
        self.key = key

    def of(self, users: NDArray[np.integer], items: NDArray[np.integer]) -> NDArray[np.floating]:
        return self.scores.of(users, items) + self._noise(users, items)

    def of_all(self, users: NDArray[np.integer]) -> NDArray[np.floating]:
        found = self.scores.of_all(users)
        return found + self._noise(users, np.arange(found.shape[1])[None])

    def _noise(self, users: NDArray[np.integer], items: NDArray[np.integer]) -> NDArray[np.float64]:
        noise: NDArray[np.float64] = -np.log(-log_ndtr(normal(self.key, users[:, None], items)))
        return self.temperature * noise


def _stream(world: World, config: OnlineTest, *name: str | int) -> np.random.Generator:
    return world.streams.numpy("online", config.seed, *name)


def _lists(
    world: World,
    arms: Mapping[str, Scores],
    seen: Interactions,
    config: OnlineTest,
    users: NDArray[np.integer],
    arm: NDArray[np.int64],
    day: int,
) -> NDArray[np.int32]:
    """Return what each user is shown on a day, `[B, list_length]`; −1 where there is nothing."""
    lists = np.full((len(users), world.list_length), -1, dtype=np.int32)
    key = int(_stream(world, config, "lists", day).integers(2**63))

    def at_random(some: NDArray[np.integer]) -> NDArray[np.float64]:
        return normal(key, some[:, None], np.arange(world.n_items)[None])

    for number, scores in enumerate(arms.values()):
        own = np.flatnonzero(arm == number)
        drawn = _Drawn(scores, config.temperature, key) if config.temperature else scores
        lists[own] = top_k(drawn, users[own], seen, world.list_length, ties=at_random)[0]
    return lists


def _clicks(
    world: World,
    config: OnlineTest,
    users: NDArray[np.integer],
    lists: NDArray[np.int32],
    sessions: NDArray[np.int64],
    day: int,
) -> NDArray[np.int32]:
    """Return the clicks of a day's sessions at each place, `[B, list_length]`."""
    clicks = np.empty(lists.shape, dtype=np.int32)
    rng = _stream(world, config, "clicks", day)
    examined = world.examination ** np.arange(world.list_length)
    occasion = "online", config.seed, day
    size = max(1, _AT_ONCE // world.list_length)
    for begin in range(0, len(users), size):  # parts follow each other in the stream
        part = slice(begin, begin + size)
        items = lists[part]
        chance = examined * world.relevance(
            users[part], np.maximum(items, 0), time=config.time, occasion=occasion
        )
        clicks[part] = rng.binomial(sessions[part, None], np.where(items < 0, 0.0, chance))
    return clicks


def _checked(
    world: World,
    arms: tuple[str, ...],
    seen: Interactions,
    config: OnlineTest,
    users: NDArray[np.integer],
    total: NDArray[np.float64] | None,
) -> NDArray[np.float64]:
    """Refuse what cannot be tested; return the arms' shares."""
    if not arms:
        raise ConfigError("an online test must have an arm; found none; give at least the control")
    shares = np.array(config.shares or [1 / len(arms)] * len(arms))
    if len(shares) != len(arms) or abs(shares.sum() - 1) > 1e-6:
        raise ConfigError(
            "the shares of traffic must be one for each arm and 1 in all; found "
            f"{shares.tolist()} for {len(arms)} arms; change them"
        )
    if max(config.k) > world.list_length:
        raise ConfigError(
            f"a cutoff must be within the {world.list_length} places of the world's lists; found "
            f"k={max(config.k)}; lower it, or make the lists longer"
        )
    if (seen.n_users, seen.n_items) != (world.n_users, world.n_items):
        raise DataError(
            f"what is seen must be of the world's {world.n_users:,} users and {world.n_items:,} "
            f"items; found {seen.n_users:,} and {seen.n_items:,}; take a log of this world"
        )
    whole = users.ndim == 1 and users.dtype.kind in "iu" and len(users) > 0
    if (
        not whole
        or users.min() < 0
        or users.max() >= world.n_users
        or len(np.unique(users)) < len(users)
    ):
        raise DataError(
            f"who takes part must be different users, numbers from 0 to {world.n_users - 1:,}; "
            f"found {users.size:,} of another kind; give each number once"
        )
    if total is not None and total.shape != users.shape:
        raise DataError(
            f"the demand must be known of all {len(users):,} users or of none; found "
            f"{total.shape} numbers; give one for each"
        )
    fractions: NDArray[np.float64] = shares / shares.sum()
    return fractions


def _enough(
    arms: tuple[str, ...],
    arm: NDArray[np.int64],
    places: NDArray[np.int64],
    wanted: NDArray[np.float64],
) -> None:
    n = np.bincount(arm, (places > 0) & (wanted > 0), len(arms)).astype(int)
    if n.min() < 2:
        raise DataError(
            "every arm must have two users or more who were shown something; found "
            f"{n.min()} in {arms[int(n.argmin())]!r}; take more users, days or sessions"
        )
