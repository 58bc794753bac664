"""How far long work has come, told to whoever shows it, and how long the whole still takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

Steps = Callable[[str, int, int | None], None]  # what is being done, how much of it, of how much


class Stages(Protocol):
    """Takes steps of several stages, with what is counted in each: rows, epochs, users."""

    def __call__(self, text: str, done: int, total: int | None, unit: str = "", /) -> None:
        """Take note; a total of None is unknown."""


class Work(NamedTuple):
    """A stage of planned work."""

    kind: str  #: Stages of a kind go equally fast, and end equally early: training, evaluating.
    cost: float  #: How much it is, in any measure that all stages share.


class Forecast:
    """Says how long planned stages still take, by the pace of those that are done.

    A stage that has not begun is expected to go as fast as others of its kind have gone, and to
    end as early; where there are none, as fast as everything so far. Stages come in any order, one
    after another, and what was not planned counts as nothing.

    Args:
        plan: The stages, by name.
        clock: Seconds, from any moment on.
    """

    def __init__(
        self, plan: Mapping[str, Work], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._plan, self._clock = dict(plan), clock
        self._share: dict[str, float] = {}  # of each stage that has begun
        self._seconds: dict[str, float] = {}
        self._current, self._last = "", clock()

    def at(self, stage: str, share: float) -> float | None:
        """Take note of how far a stage is, from 0 to 1; return the seconds that are left in all.

        None where nothing has been done that tells.
        """
        now = self._clock()
        if self._current in self._plan:
            self._seconds[self._current] += now - self._last
        self._current, self._last = stage, now
        if stage in self._plan:
            self._seconds.setdefault(stage, 0.0)
            self._share[stage] = max(share, self._share.get(stage, 0.0))
        return self.left()

    def left(self) -> float | None:
        """Return the seconds that are left in all, if anything tells."""
        paces = {kind: self._pace(kind) for kind in {work.kind for work in self._plan.values()}}
        usual = self._pace(None)
        if usual is None:
            return None
        left = 0.0
        for name, work in self._plan.items():
            pace = paces[work.kind]
            pace = usual if pace is None else pace
            if name not in self._share:
                left += work.cost * self._ends_at(work.kind) * pace
            elif name == self._current:
                left += work.cost * (1 - self._share[name]) * pace
        return left

    def _pace(self, kind: str | None) -> float | None:
        """Return the seconds of a unit of cost, of a kind or of all; None if none was done."""
        begun = [name for name in self._share if kind in (None, self._plan[name].kind)]
        cost = sum(self._plan[name].cost * self._share[name] for name in begun)
        return sum(self._seconds[name] for name in begun) / cost if cost else None

    def _ends_at(self, kind: str) -> float:
        """Return which share of what was planned is done on average when a stage ends."""
        ended = [
            self._plan[name].cost * share
            for name, share in self._share.items()
            if self._plan[name].kind == kind and name != self._current
        ]
        planned = [
            self._plan[name].cost
            for name in self._share
            if self._plan[name].kind == kind and name != self._current
        ]
        return sum(ended) / sum(planned) if sum(planned) and sum(ended) else 1.0
