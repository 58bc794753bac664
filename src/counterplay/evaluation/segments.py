"""The metric that decides by segment of the audience: values with intervals, and paired leads.

A segment's value is Σ v/q / Σ 1/q over its rows, by the estimator that the verdict follows and by
the standard one, where q = 1; of the worst case it is the mean over the box, between the ends. All
spreads are over users (`counterplay.metrics.dials`). The lead of the first candidate over its
nearest rival is paired row by row, and judged two-sided for all segments of an estimator at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from counterplay.evaluation.audience_records import Segment, SegmentLead, Segments, SegmentValue
from counterplay.evaluation.estimators import ESTIMATORS, trusted
from counterplay.evaluation.impressions import range_of
from counterplay.evaluation.levels import levels, usable
from counterplay.evaluation.worst_case import ROBUST
from counterplay.metrics.click_model import Exposures
from counterplay.metrics.dials import Box, Surface, surface
from counterplay.metrics.estimation import finite
from counterplay.metrics.formulas import row_metrics

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from counterplay.evaluation.levels import Level
    from counterplay.evaluation.propensities import Contestant
    from counterplay.evaluation.records import Key
    from counterplay.evaluation.stage import Stage

STANDARD = "standard"
_ALIKE = 1e-8  # an interval that is no wider is rounding
_AS_THEY_ARE = Box(((1.0, 0.0),), (1.0, 0.0))  # of exposures whose popularity is log q


@dataclass(frozen=True, slots=True)
class Followed:
    """What the verdict follows: an estimator, whom it puts first, and the nearest rival."""

    estimator: str
    key: Key
    first: str
    second: str | None = None


def segments(stage: Stage, contestants: Sequence[Contestant], follows: Followed) -> Segments | None:
    """Return the metric that decides, segment by segment; None where no row has a value."""
    names = dict.fromkeys((_with_rows(follows.estimator, stage), STANDARD))
    rows = {name: _Rows(stage, contestants, name, follows.key) for name in names}
    counted = [each for each in levels(stage.train) if rows[next(iter(names))].of(each).any()]
    n_leads = len(counted) if follows.second is not None else 0
    found = []
    for level in counted:
        surfaces = {name: each.surface(level) for name, each in rows.items()}
        first = next(over for over in surfaces.values() if over is not None)
        found.append(
            Segment(
                of=level.of,
                label=level.label,
                n=first.n,
                n_users=first.n_users,
                values=tuple(
                    chain.from_iterable(
                        _values(name, over, follows.key, stage.config.level)
                        for name, over in surfaces.items()
                        if over is not None
                    )
                ),
                leads=tuple(
                    _lead(name, over, follows, stage.config.level, 2 * n_leads)
                    for name, over in surfaces.items()
                    if over is not None and n_leads
                ),
            )
        )
    log = stage.train
    tables = {"user": log.user_features, "item": log.item_features}
    return Segments(
        metric=follows.key[0],
        k=follows.key[1],
        level=stage.config.level,
        estimator=next(iter(names)),
        first=follows.first,
        second=follows.second,
        n_leads=n_leads,
        segments=tuple(found),
        left_out=tuple(
            f"{role} feature {why}"
            for role, table in tables.items()
            if table is not None
            for why in usable(table)[1]
        ),
    )


def _with_rows(estimator: str, stage: Stage) -> str:
    """Return the estimator, or where it values no single rows the next one that does."""
    order = [estimator, *(name for name in trusted() if name in stage.estimators), STANDARD]
    return next(
        name for name in order if name == ROBUST or ESTIMATORS[name].propensities is not None
    )


class _Rows:
    """The rows of an estimator, what each candidate makes of them, and their exposures."""

    def __init__(
        self, stage: Stage, contestants: Sequence[Contestant], estimator: str, key: Key
    ) -> None:
        self._stage = stage if estimator == ROBUST else stage.of(estimator)
        self._values = {each.name: self._stage.values(each)[key] for each in contestants}
        self._refits: NDArray[np.float64] | None = None
        if estimator == ROBUST:
            case = stage.worst_case(contestants)
            self._exposures, self._box = case.exposures, case.box
            return
        weights = self._stage.weights(estimator, contestants[0], contestants)
        n = len(weights)
        self._exposures = Exposures(-np.log(weights), np.zeros(n), (0.0,), np.zeros((1, n)))
        self._box, self._refits = _AS_THEY_ARE, stage.refits(estimator, contestants)

    def of(self, level: Level) -> NDArray[np.bool_]:
        """Return which rows are in a segment."""
        ids = self._stage.targets.user if level.role == "user" else self._stage.targets.item
        found: NDArray[np.bool_] = level.flags[ids]
        return found

    def surface(self, level: Level) -> Surface | None:
        """Return the candidates' values on a segment; None where it has no row."""
        rows = np.flatnonzero(self.of(level))
        if not len(rows):
            return None
        values = {name: each[rows] for name, each in self._values.items()}
        exposures = self._exposures.take(rows)
        over = surface(values, exposures, self._stage.targets.user[rows], self._box)
        if self._refits is None:
            return over
        refits = self._refits[:, rows]  # what other fits would say adds to the spread
        moved = (refits @ np.stack(list(values.values()), axis=1)) / refits.sum(1, keepdims=True)
        extra = np.atleast_2d(np.cov(moved, rowvar=False, bias=True))
        return replace(over, covariances=over.covariances + extra)


def _values(estimator: str, over: Surface, key: Key, level: float) -> list[SegmentValue]:
    means = over.mean()
    return [
        SegmentValue(
            candidate=name,
            estimator=estimator,
            value=_rounded(means[name]),
            **dict(zip(("low", "high"), _ends(over, name, key, level), strict=True)),
        )
        for name in over.names
    ]


def _ends(over: Surface, name: str, key: Key, level: float) -> tuple[float | None, float | None]:
    """Return the ends of a value, within its metric's range; none where all rows are alike."""
    low, high = over.ends(name, level=level)
    if not np.isfinite(high - low) or high - low < _ALIKE:
        return None, None
    if key[0] in row_metrics():
        low, high = np.clip((low, high), *range_of(*key)).tolist()
    return _rounded(low), _rounded(high)


def _rounded(value: float) -> float:
    """Return a value without what is rounding alone: 0 is not a little below 0."""
    return round(value, 12) + 0.0


def _lead(
    estimator: str, over: Surface, follows: Followed, level: float, n_tests: int
) -> SegmentLead:
    """Return first minus second, with ends that hold for all segments at once."""
    first, second = follows.first, follows.second
    assert second is not None
    means = over.mean()
    low = over.lead(first, second, level=level, n_tests=n_tests)
    high = -over.lead(second, first, level=level, n_tests=n_tests)
    return SegmentLead(
        estimator=estimator,
        value=_rounded(means[first] - means[second]),
        low=finite(low),
        high=finite(high),
        decided=bool(low > 0 or high < 0),
    )
