"""Candidates deployed in the world that a log was drawn from: an online test, and the truth."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from counterplay.evaluation.records import OnlineRecord
from counterplay.simulation.logs import DAY, START
from counterplay.simulation.online import OnlineTest, online_test
from counterplay.simulation.values import demand, true_values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from counterplay.evaluation.propensities import Contestant
    from counterplay.evaluation.stage import Stage


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
