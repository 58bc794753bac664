"""What an online test counted in its arms, and what follows from it.

Users are the units: clicks, positions shown and demand are added up by user, and a metric is a
ratio of sums over users, R = Σ T_u / Σ B_u.

    ctr      T = clicks                                        B = positions shown
    hit@k    T = Σ over clicks of gain(place) / ρ^(place − 1)   B = sessions · Σ_i r(u, i)

and ndcg@k likewise. Dividing by how often a position is examined removes the position bias, so
hit@k and ndcg@k estimate V of `counterplay.simulation.values`, as the offline estimators do; ctr is
what a dashboard would show, with the bias.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.display import Convertible, Shown, named
from counterplay.metrics.estimation import finite
from counterplay.simulation.values import gains

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from counterplay.simulation.factors import Indices, Numbers
    from counterplay.simulation.online import OnlineTest
    from counterplay.simulation.sequential import AlwaysValid

METRICS = ("hit", "ndcg")
Metric = tuple[str, int]  # with its k; that of ctr is the length of a list
_DAILY = ("difference", "low", "high", "p_value")
_CHANGED = {"value": "difference", "low": "difference_low", "high": "difference_high"}


@dataclass(frozen=True, slots=True)
class Measure:
    """A value in `[low, high]`, over `n` users; `variance / n` is its own variance."""

    value: float
    low: float
    high: float
    n: int
    variance: float


@dataclass(frozen=True, slots=True)
class Change:
    """An arm's value minus the control's, over the `n` users of both.

    The p-value is that of the two-sided z-test, of this difference alone.
    """

    value: float
    low: float
    high: float
    n: int
    p_value: float


@dataclass(frozen=True, eq=False, repr=False)
class OnlineResult(Shown, Convertible):
    """What an online test counted, by user, and what follows from it, by arm."""

    world: str
    config: OnlineTest
    arms: tuple[str, ...]  # the first is the control
    users: Indices  # who took part, [n]
    arm: NDArray[np.int64]  # the number of each user's arm
    sessions: NDArray[np.int64]
    places: NDArray[np.int64]  # positions in all lists that a user was shown
    clicks: NDArray[np.int32]  # at each position, [n, list_length]
    demand: Numbers  # clicks that a user would give on all unseen items
    measures: dict[str, dict[Metric, Measure]]
    changes: dict[str, dict[Metric, Change]]  # of all arms but the control
    daily: dict[str, AlwaysValid]  # difference of ctr, known once both arms have had 30 users

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON; where nothing is known they are None."""
        level = {"level": self.config.level}
        n_sessions = np.bincount(self.arm, self.sessions, len(self.arms)).astype(int).tolist()
        n_users = np.bincount(self.arm, minlength=len(self.arms)).tolist()
        return {
            "world": self.world,
            "config": self.config.model_dump(mode="json"),
            "control": self.arms[0],
            "arms": [
                {
                    "arm": name,
                    "n_users": n_users[number],
                    "n_sessions": n_sessions[number],
                    "measures": [
                        {"metric": metric, "k": k} | asdict(found) | level
                        for (metric, k), found in self.measures[name].items()
                    ],
                }
                for number, name in enumerate(self.arms)
            ],
            "changes": [
                {"arm": name, "metric": metric, "k": k} | asdict(found) | level
                for name, changes in self.changes.items()
                for (metric, k), found in changes.items()
            ],
            "daily": [
                {"arm": name, "day": day}
                | {key: finite(float(getattr(found, key)[day - 1])) for key in _DAILY}
                | level
                for name, found in self.daily.items()
                for day in range(1, self.config.n_days + 1)
            ],
        }

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row for each arm and metric, with its difference to the control."""
        return [
            {
                "arm": name,
                "n_sessions": int(self.sessions[self.arm == number].sum()),
                "metric": metric,
                "k": k,
                **asdict(found),
                "level": self.config.level,
                **{
                    _CHANGED.get(key, key): getattr(
                        self.changes.get(name, {}).get((metric, k)), key, None
                    )
                    for key in ("value", "low", "high", "p_value")
                },
            }
            for number, name in enumerate(self.arms)
            for (metric, k), found in self.measures[name].items()
        ]

    def _title(self) -> str:
        return (
            f"of {', '.join(map(repr, self.arms))} in {self.world!r}: {self.config.n_days} days, "
            f"{len(self.users):,} users, {int(self.sessions.sum()):,} sessions"
        )

    def _columns(self) -> dict[str, list[object]]:
        rows = self.to_rows()
        return {
            "arm": [row["arm"] for row in rows],
            "metric": [named(row["metric"], row["k"]) for row in rows],
        } | {
            name.replace("_", " "): [row[name] for row in rows]
            for name in ("value", "low", "high", *_CHANGED.values(), "p_value")
        }


def ratios(
    top: NDArray[np.number], bottom: NDArray[np.number], arm: Indices, n_arms: int
) -> tuple[Numbers, Numbers]:
    """Return each arm's ratio of sums over users and its variance, both `[n_arms]`.

        R = Σ_u T_u / Σ_u B_u        V = n / (n − 1) · Σ_u (T_u − R · B_u)² / (Σ_u B_u)²

    NaN where there is nothing to divide by; n counts users with B_u ≠ 0.

    Example:
        >>> ratios(np.array([1, 0, 2]), np.array([2, 2, 2]), np.array([0, 0, 0]), 1)
        (array([0.5]), array([0.08333333]))
    """
    below = np.bincount(arm, bottom, n_arms)
    n = np.bincount(arm, bottom != 0, n_arms)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.bincount(arm, top, n_arms) / below
        squares = np.bincount(arm, (top - ratio[arm] * bottom) ** 2, n_arms)
        variance = np.where(n > 1, n / (n - 1) * squares / below**2, np.nan)
    return ratio, variance


def measured(
    clicks: NDArray[np.integer],
    places: Indices,
    wanted: Numbers,
    arm: Indices,
    n_arms: int,
    *,
    k: Sequence[int],
    examination: float,
    level: float,
) -> list[dict[Metric, Measure]]:
    """Return the measures of each arm: ctr, and hit and ndcg without the position bias.

    `wanted` are the clicks that users would have given on all unseen items in their sessions.
    """
    from scipy.special import ndtri

    length = clicks.shape[1]
    n = np.bincount(arm, minlength=n_arms)
    fair = examination ** -np.arange(float(length))
    found = {("ctr", length): ratios(clicks.sum(1), places, arm, n_arms)}
    for metric in METRICS:
        for cut in k:
            worth = clicks @ (gains(metric, cut, length) * fair)
            found[metric, cut] = ratios(worth, wanted, arm, n_arms)
    measures: list[dict[Metric, Measure]] = [{} for _ in range(n_arms)]
    for key, (value, variance) in found.items():
        half = float(ndtri((1 + level) / 2)) * np.sqrt(variance)
        table = np.stack([value, value - half, value + half, n, n * variance], 1).tolist()
        for own, (middle, low, high, n_users, spread) in zip(measures, table, strict=True):
            own[key] = Measure(middle, low, high, int(n_users), spread)
    return measures


def change(found: Measure, control: Measure, level: float) -> Change:
    """Return the difference of two arms, which share no users.

    Example:
        >>> better, control = Measure(0.3, 0.2, 0.4, 100, 0.5), Measure(0.1, 0.0, 0.2, 100, 0.5)
        >>> round(change(better, control, 0.95).p_value, 4)
        0.0455
    """
    from scipy.special import ndtr, ndtri

    value = found.value - control.value
    error = (found.variance / found.n + control.variance / control.n) ** 0.5
    half = float(ndtri((1 + level) / 2)) * error
    p_value = 1.0 if not value else float(2 * ndtr(-abs(value) / error)) if error else 0.0
    return Change(value, value - half, value + half, found.n + control.n, p_value)
