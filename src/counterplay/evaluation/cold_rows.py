"""Rows of users without training rows, evaluated apart from the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from counterplay.data.splits import PARTS
from counterplay.evaluation.records import ColdRows, Group, GroupEstimate
from counterplay.metrics.estimates import estimates

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from counterplay.evaluation.propensities import Contestant
    from counterplay.evaluation.stage import Stage


def apart(stage: Stage, contestants: Sequence[Contestant]) -> ColdRows | None:
    """Return estimates of rows whose users have training rows, and of the others; None if none.

    Every row counts as it is, as in the standard estimator.
    """
    config = stage.config
    cold = stage.split.cold(PARTS.index(config.part))
    if not cold.any():
        return None
    groups: list[tuple[Group, NDArray[np.bool_]]] = [("warm", ~cold), ("cold", cold)]
    found: list[GroupEstimate] = []
    for contestant in contestants:
        for name, rows in groups:
            if not rows.any():
                continue
            values = {key: each[rows] for key, each in stage.values(contestant).items()}
            _, clusters = np.unique(stage.targets.user[rows], return_inverse=True)
            estimated = estimates(
                values,
                np.ones(int(rows.sum())),
                clusters,
                stage.streams.numpy("bootstrap", name),
                estimator="standard",
                protocol=stage.protocol,
                level=config.level,
                n_resamples=config.n_resamples,
            )
            found += [
                GroupEstimate(candidate=contestant.name, rows=name, **each.to_dict())
                for each in estimated
            ]
    return ColdRows(rows=int(cold.sum()), share=float(cold.mean()), estimates=tuple(found))
