"""Online tests on a world: candidates are deployed to users, and clicks are counted.

Every user belongs to one arm for the whole test, and the arms are measured by what their users
clicked (`counterplay.simulation.arms`). Lists do not change by what is clicked during the test:
`seen` is what the users had clicked before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from counterplay.errors import ConfigError, DataError
from counterplay.metrics.recommendations import top_k
from counterplay.simulation.arms import OnlineResult, change, measured, ratios
from counterplay.simulation.chance import normal
from counterplay.simulation.logs import check_log
from counterplay.simulation.sequential import always_valid
from counterplay.simulation.values import demand

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from counterplay.data.interactions import Interactions
    from counterplay.metrics.scoring import Scores
    from counterplay.simulation.factors import Indices, Numbers
    from counterplay.simulation.world import World

_AT_ONCE = 1 << 20  # positions that are processed at a time
_FEW = 30  # users of an arm: with fewer, an estimated variance says too little for a look


class OnlineTest(BaseModel):
    """How an online test is run.

    Attributes:
        n_days: Number of days.
        sessions_a_day: Mean number of sessions per user and day (Poisson).
        k: Cutoffs of hit and ndcg, at most the length of the world's lists.
        temperature: 0 shows each user the best items; above 0, each day's list is drawn without
            replacement, with probabilities proportional to `e^(score / temperature)`.
        shares: Share of traffic for each arm, in total 1; equal by default.
        level: Confidence level of the intervals.
        scale: Size of the differences of ctr that the daily looks are made for.
        time: Round in which the test takes place, where tastes drift.
        seed: Random seed; another seed is another test on the same world.
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
    users: Indices | None = None,
    total: Numbers | None = None,
) -> OnlineResult:
    """Deploy each arm to its share of the users, and measure it by their clicks.

    Each session shows a list of the best unseen items; ties are broken at random, once for each
    user. Position p is examined with probability ρ^(p − 1), and what is examined is clicked with
    its relevance on that day: unobserved factors are drawn anew every day, and a user's sessions
    on one day share them.

    Args:
        world: The world.
        arms: Scores that items are ranked by; the first arm is the control.
        seen: What the users have clicked: it is not shown.
        config: How the test is run.
        users: Who takes part; by default all users.
        total: Their demand, if it is known already.
    """
    config = config or OnlineTest()
    users = np.arange(world.n_users) if users is None else np.asarray(users)
    shares = _checked(world, tuple(arms), seen, config, users, total)
    # Drawn for all users, so that nobody's arm or sessions depend on who else takes part.
    rng = world.streams.numpy("online", config.seed, "traffic")
    arm = rng.choice(len(arms), size=world.n_users, p=shares)[users]
    sessions, places, clicks, rates = _Deployment(world, arms, seen, config, users, arm).days()
    total = demand(world, users, seen, time=config.time) if total is None else total
    wanted = sessions * total
    n = np.bincount(arm, (places > 0) & (wanted > 0), len(arms)).astype(int)
    if n.min() < 2:
        raise DataError(
            "every arm must have two users or more who were shown something; found "
            f"{n.min()} in {tuple(arms)[int(n.argmin())]!r}; take more users, days or sessions"
        )
    level, rho, (control, *others) = config.level, world.examination, arms
    found = measured(
        clicks, places, wanted, arm, len(arms), k=config.k, examination=rho, level=level
    )
    measures = dict(zip(arms, found, strict=True))
    changes = {
        name: {
            key: change(own, measures[control][key], level) for key, own in measures[name].items()
        }
        for name in others
    }
    (first, *values), (first_variance, *variances) = rates
    daily = {
        name: always_valid(
            value - first, variance + first_variance, level=level, scale=config.scale
        )
        for name, value, variance in zip(others, values, variances, strict=True)
    }
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
        *(measures, changes, daily),
    )


class _Drawn:
    """Scores plus temperature times Gumbel's noise: their best are a draw from the softmax."""

    def __init__(self, scores: Scores, temperature: float, key: int) -> None:
        self.scores, self.temperature, self.key = scores, temperature, key

    def of(self, users: Indices, items: Indices) -> NDArray[np.floating]:
        return self.scores.of(users, items) + self._noise(users, items)

    def of_all(self, users: Indices) -> NDArray[np.floating]:
        found = self.scores.of_all(users)
        return found + self._noise(users, np.arange(found.shape[1])[None])

    def _noise(self, users: Indices, items: Indices) -> Numbers:
        from scipy.special import log_ndtr

        noise: Numbers = -np.log(-log_ndtr(normal(self.key, users[:, None], items)))
        return self.temperature * noise


@dataclass(frozen=True, eq=False)
class _Deployment:
    """Arms in a world, and which user has which; `rows` below are places in `users`."""

    world: World
    arms: Mapping[str, Scores]
    seen: Interactions
    config: OnlineTest
    users: Indices
    arm: NDArray[np.int64]

    def days(
        self,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32], Numbers]:
        """Return sessions, positions shown and clicks of users, and ctr and its variance by day."""
        world, config, n_arms = self.world, self.config, len(self.arms)
        everyone = np.arange(len(self.users))
        fixed = None if config.temperature else self._lists(everyone, 0)
        sessions = np.zeros(len(everyone), dtype=np.int64)
        places, length = np.zeros_like(sessions), np.zeros_like(sessions)
        clicks = np.zeros((len(everyone), world.list_length), dtype=np.int32)
        rates = np.empty((2, n_arms, config.n_days))
        for day in range(config.n_days):
            rng = self._stream("sessions", day)
            today = rng.poisson(config.sessions_a_day, world.n_users)[self.users]
            active = np.flatnonzero(today)
            lists = self._lists(active, day) if fixed is None else fixed[active]
            clicks[active] += self._clicks(active, lists, today[active], day)
            length[active] = (lists >= 0).sum(1)
            sessions += today
            places += today * length
            rates[:, :, day] = ratios(clicks.sum(1), places, self.arm, n_arms)
            rates[1, np.bincount(self.arm, places > 0, n_arms) < _FEW, day] = np.nan
        return sessions, places, clicks, rates

    def _stream(self, *name: str | int) -> np.random.Generator:
        return self.world.streams.numpy("online", self.config.seed, *name)

    def _lists(self, rows: NDArray[np.int64], day: int) -> NDArray[np.int32]:
        """Return what each user is shown on a day, `[B, list_length]`; −1 for nothing."""
        users, arm, length = self.users[rows], self.arm[rows], self.world.list_length
        lists = np.full((len(users), length), -1, dtype=np.int32)
        key = int(self._stream("lists", day).integers(2**63))

        def at_random(some: Indices) -> Numbers:
            return normal(key, some[:, None], np.arange(self.world.n_items)[None])

        for number, scores in enumerate(self.arms.values()):
            own = np.flatnonzero(arm == number)
            temperature = self.config.temperature
            drawn = _Drawn(scores, temperature, key) if temperature else scores
            lists[own] = top_k(drawn, users[own], self.seen, length, ties=at_random)[0]
        return lists

    def _clicks(
        self,
        rows: NDArray[np.int64],
        lists: NDArray[np.int32],
        sessions: NDArray[np.int64],
        day: int,
    ) -> NDArray[np.int32]:
        """Return the clicks of a day's sessions at each position, `[B, list_length]`."""
        users, world = self.users[rows], self.world
        clicks = np.empty(lists.shape, dtype=np.int32)
        rng = self._stream("clicks", day)
        examined = world.examination ** np.arange(world.list_length)
        occasion = "online", self.config.seed, day
        size = max(1, _AT_ONCE // world.list_length)
        for begin in range(0, len(users), size):  # parts follow each other in the stream
            part = slice(begin, begin + size)
            items = lists[part]
            chance = examined * world.relevance(
                users[part], np.maximum(items, 0), time=self.config.time, occasion=occasion
            )
            clicks[part] = rng.binomial(sessions[part, None], np.where(items < 0, 0.0, chance))
        return clicks


def _checked(
    world: World,
    arms: tuple[str, ...],
    seen: Interactions,
    config: OnlineTest,
    users: Indices,
    total: Numbers | None,
) -> Numbers:
    """Refuse what cannot be tested; return the arms' shares."""
    if not arms:
        raise ConfigError("an online test must have an arm; found none; give at least the control")
    shares = np.array(config.shares or [1 / len(arms)] * len(arms))
    if len(shares) != len(arms) or abs(shares.sum() - 1) > 1e-6:
        raise ConfigError(
            "the shares of traffic must be one for each arm and in total 1; found "
            f"{shares.tolist()} for {len(arms)} arms; change them"
        )
    if max(config.k) > world.list_length:
        raise ConfigError(
            f"a cutoff must be at most the length of the world's lists, {world.list_length}; found "
            f"k={max(config.k)}; lower it, or make the lists longer"
        )
    check_log(world, seen, "what users have seen")
    whole = users.ndim == 1 and users.dtype.kind in "iu" and len(users) > 0
    if not (whole and users.min() >= 0 and users.max() < world.n_users) or (
        len(np.unique(users)) < len(users)
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
    fractions: Numbers = shares / shares.sum()
    return fractions
