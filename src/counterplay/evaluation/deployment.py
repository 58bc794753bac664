"""Candidates deployed in the world that a log was drawn from: an online test, and the truth."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from counterplay.evaluation.records import Number, OfMetric, Record, Text
from counterplay.simulation.logs import DAY, START
from counterplay.simulation.online import OnlineTest, online_test
from counterplay.simulation.values import demand, true_values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from counterplay.evaluation.propensities import Contestant
    from counterplay.evaluation.stage import Stage


class Measure(OfMetric):
    """What an online test measured."""

    value: float
    low: float
    high: float
    n: int
    variance: float
    level: float


class _Arm(Record):
    arm: Text


class Arm(_Arm):
    """An arm of an online test."""

    n_users: int
    n_sessions: int
    measures: tuple[Measure, ...]


class Change(OfMetric, _Arm):
    """An arm's value minus the control's."""

    value: float
    low: float
    high: float
    n: int
    p_value: float
    level: float


class Day(_Arm):
    """The difference of CTR after a day; None until there are enough users."""

    day: int
    difference: Number
    low: Number
    high: Number
    p_value: Number
    level: float


class TrueValue(OfMetric, _Arm):
    """What the ranking of an arm is truly worth."""

    value: float


class OnlineRecord(Record):
    """An online test in a world: online.json, and what online writes."""

    world: Text
    config: OnlineTest
    control: Text
    arms: tuple[Arm, ...]
    changes: tuple[Change, ...]
    daily: tuple[Day, ...]
    truth: tuple[TrueValue, ...]


def deployed(
    stage: Stage,
    contestants: Sequence[Contestant],
    config: OnlineTest | None = None,
    *,
    metrics: Sequence[str] = ("hit", "ndcg"),
    k: Sequence[int] = (),
) -> OnlineRecord:
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
    truth = [
        {"arm": name, "metric": metric, "k": k, "value": value}
        for name, scores in arms.items()
        if not config.temperature  # lists that are drawn are worth something else
        for (metric, k), value in true_values(
            place, scores, stage.seen, metrics=metrics, k=cutoffs, total=total, time=config.time
        ).items()
        if metric != "ctr"  # online it has the bias of places
    ]
    found = online_test(place, arms, stage.seen, config, total=total).to_dict()
    return OnlineRecord.model_validate(found | {"truth": truth})
