"""The paper's robust estimators, beside those of the library: one opponent each, or one for all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterplay.evaluation.propensities import fitted_propensities, own_propensities
from counterplay.metrics.estimates import weights_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from counterplay.evaluation.propensities import Contestant
    from counterplay.evaluation.stage import Stage

ALONE, SHARED = "robust", "robust-shared"  # as the results call them; SHARED is `opponent` now


def weights_by(
    stage: Stage,
    estimator: str,
    contestant: Contestant,
    rivals: Sequence[Contestant],
    *,
    as_trained: bool = False,
) -> NDArray[np.float64]:
    """Return the weights of the rows by an estimator of the library, or by one of the paper.

    `robust` plays against one candidate alone, or with `as_trained` is the opponent that it was
    trained against; `robust-shared` plays against all of them at once.
    """
    rows = stage.train, stage.seen, stage.targets
    if estimator == ALONE and as_trained:
        q = own_propensities(contestant, *rows)
    elif estimator == ALONE:
        config = stage.config
        q = fitted_propensities("opponent", [contestant], *rows, config.opponent, config.seed)
    else:
        name = "opponent" if estimator == SHARED else estimator
        return stage.weights(name, contestant, rivals)
    return weights_of(q, clip=stage.config.clip)
