"""A log at a glance: size, density, how activity and popularity are spread, what looks odd."""

from __future__ import annotations

import datetime as dt
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.data.canonical import begins
from counterplay.data.splits import Split
from counterplay.display import RANGE, Convertible, Shown, flat, pairs
from counterplay.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from counterplay.data.interactions import Interactions

QUANTILES = (0.0, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0)
_EARLIEST = int(dt.datetime(1990, 1, 1, tzinfo=dt.UTC).timestamp() * 1e6)


@dataclass(frozen=True, slots=True, repr=False)
class Profile(Shown, Convertible):
    """What `profile` found."""

    name: str  #: The log's name.
    feedback: str  #: "explicit" with ratings, else "implicit".
    n_interactions: int  #: Number of rows.
    n_users: int
    n_items: int
    density: float  #: Distinct pairs over all possible ones.
    user_events: dict[str, float]  #: Quantiles of the events per user.
    item_events: dict[str, float]  #: Quantiles of the events per item.
    popularity_gini: float  #: 0 if all items are equally popular, near 1 if few have everything.
    repeated_share: float  #: Share of rows whose pair occurred in an earlier row.
    rating_range: tuple[float, float, float] | None  #: Lowest, mean and highest rating.
    first_time: str | None  #: Earliest time, ISO 8601, UTC.
    last_time: str | None  #: Latest time.
    n_implausible_times: int | None  #: Rows before 1990 or later than now.
    exposed_share: float | None  #: Share of rows flagged as exposed.
    propensity_range: tuple[float, float, float] | None  #: Lowest, mean and highest propensity.
    features: dict[str, list[str]]  #: Names of user and item features.
    n_organic: int | None = None  #: Clicks that were not exposed, where the log tells.
    position_range: tuple[float, float, float] | None = None  #: Lowest, mean and highest.
    n_impressions: int | None = None  #: Rows that were shown, clicked or not; not the random ones.
    click_rate: float | None = None  #: Share of the impressions that were clicked.
    n_random: int | None = None  #: Random rows.

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return asdict(self)

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one row of flat values."""
        ranges = ("rating_range", "propensity_range", "position_range")
        return [flat(self.to_dict(), dict.fromkeys(ranges, RANGE))]

    def summary(self) -> dict[str, str]:
        """Return what matters in words, by what it is about."""
        rows = {
            "log": f"{self.name}: {self.n_interactions:,} rows, {self.feedback} feedback",
            "users": f"{self.n_users:,}; events each: {_spread(self.user_events)}",
            "items": f"{self.n_items:,}; events each: {_spread(self.item_events)}",
            "density": f"{self.density:.4%}; popularity Gini {self.popularity_gini:.2f}",
            "repeated": f"{self.repeated_share:.1%} of rows repeat a pair of user and item",
        }
        if self.rating_range:
            rows["ratings"] = _in_words(*self.rating_range)
        if self.first_time:
            odd = self.n_implausible_times or 0
            rows["time"] = f"{self.first_time} to {self.last_time}; {odd:,} implausible"
        if self.exposed_share is not None:
            rows["exposed"] = f"{self.exposed_share:.1%} of clicks; {self.n_organic or 0:,} organic"
        if self.n_impressions is not None and self.click_rate is not None:
            rows["impressions"] = f"{self.n_impressions:,}, {self.click_rate:.2%} of them clicked"
        if self.position_range:
            rows["positions"] = _in_words(*self.position_range)
        if self.propensity_range:
            rows["propensity"] = _in_words(*self.propensity_range)
        if self.n_random is not None:
            rows["random rows"] = f"{self.n_random:,}"
        for role, names in self.features.items():
            rows[f"{role} features"] = ", ".join(names)
        return rows

    def _title(self) -> str:
        size = f"{self.n_interactions:,} rows, {self.n_users:,} users, {self.n_items:,} items"
        return f"of {self.name!r}: {size}, {self.feedback} feedback"

    def _columns(self) -> dict[str, list[object]]:
        return pairs(self.summary())


def profile(found: Interactions | Split) -> Profile:
    """Look at a log as a whole, and at the impressions beside its split."""
    split = found if isinstance(found, Split) else None
    log = found.interactions if isinstance(found, Split) else found
    if len(log) == 0:
        raise DataError(
            "a profile needs rows; found an empty log; look at a part of the split that has some"
        )
    pairs, time = log.pair, log.time
    pairs.sort()
    n_distinct = int(begins(pairs).sum())
    by_item = np.bincount(log.item, minlength=log.n_items)
    tables = {"user": log.user_features, "item": log.item_features}
    ranges = {f"{name}_range": _range(getattr(log, name)) for name in ("position", "propensity")}
    return Profile(
        name=log.name,
        feedback="explicit" if log.is_explicit else "implicit",
        n_interactions=len(log),
        n_users=log.n_users,
        n_items=log.n_items,
        density=n_distinct / (log.n_users * log.n_items),
        user_events=_quantiles(np.diff(log.offsets)),
        item_events=_quantiles(by_item),
        popularity_gini=gini(by_item),
        repeated_share=1 - n_distinct / len(log),
        rating_range=_range(log.rating),
        first_time=None if time is None else _iso(int(time.min())),
        last_time=None if time is None else _iso(int(time.max())),
        n_implausible_times=None if time is None else _n_implausible(time),
        exposed_share=None if log.exposed is None else float(log.exposed.mean()),
        features={role: table.frame.columns for role, table in tables.items() if table},
        n_organic=None if log.exposed is None else len(log) - int(log.exposed.sum()),
        **ranges | ({} if split is None else _shown(split)),
    )


def _shown(split: Split) -> dict[str, Any]:
    """Return what is known of the impressions beside a split; ranges are of all that was shown."""
    log, others = split.interactions, split.unclicked
    found: dict[str, Any] = {}
    if split.random is not None:
        found["n_random"] = len(split.random)
    if others is None:
        return found
    clicks = log if log.exposed is None else log.take(log.exposed)
    n_shown = len(clicks) + len(others)
    found |= {"n_impressions": n_shown, "click_rate": len(clicks) / n_shown}
    for name in ("position", "propensity"):
        ranges = [_range(getattr(rows, name)) for rows in (clicks, others) if len(rows)]
        known = [each for each in ranges if each is not None]
        if len(known) == len(ranges):
            lows, means, highs = zip(*known, strict=True)
            sizes = [len(rows) for rows in (clicks, others) if len(rows)]
            found[f"{name}_range"] = min(lows), float(np.average(means, weights=sizes)), max(highs)
    return found


def gini(counts: NDArray[np.integer]) -> float:
    """Return the Gini coefficient: `Σ (2r − n − 1) c_r / (n Σ c)` over ascending counts."""
    n, total = len(counts), int(counts.sum())
    if total == 0:
        return 0.0
    ranks = 2 * np.arange(1, n + 1) - n - 1
    return float(ranks @ np.sort(counts) / (n * total))


def _quantiles(counts: NDArray[np.integer]) -> dict[str, float]:
    values = np.quantile(counts, QUANTILES)
    return {f"{level:.0%}": float(value) for level, value in zip(QUANTILES, values, strict=True)}


def _range(values: NDArray[Any] | None) -> tuple[float, float, float] | None:
    if values is None:
        return None
    return float(values.min()), float(values.mean(dtype=np.float64)), float(values.max())


def _spread(quantiles: dict[str, float]) -> str:
    return ", ".join(f"{level} {value:,.0f}" for level, value in quantiles.items())


def _in_words(low: float, mean: float, high: float) -> str:
    return f"{low:g} to {high:g}, mean {mean:.3g}"


def _n_implausible(time: NDArray[np.int64]) -> int:
    latest = int(dt.datetime.now(dt.UTC).timestamp() * 1e6)
    return int(((time < _EARLIEST) | (time > latest)).sum())


def _iso(microseconds: int) -> str:
    return str(np.datetime64(microseconds, "us").astype("datetime64[s]")) + "Z"
