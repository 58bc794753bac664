"""Open Bandit Pipeline's values of a policy, by five estimators on the rows that are given."""

from __future__ import annotations

import json
import sys

import numpy as np
from obp.ope import (
    DirectMethod,
    DoublyRobust,
    InverseProbabilityWeighting,
    ReplayMethod,
    SelfNormalizedInverseProbabilityWeighting,
)

given = np.load(sys.argv[1])
n = len(given["reward"])


def of_rows(table: np.ndarray) -> np.ndarray:
    """Return a table `[n_positions, n_actions]` as obp wants it, `[n, n_actions, n_positions]`."""
    return np.broadcast_to(table.T, (n, *table.T.shape)).copy()


logged = {"reward": given["reward"], "action": given["action"], "position": given["position"]}
weighted = logged | {"pscore": given["propensity"], "action_dist": of_rows(given["policy"])}
places = given["policy"].shape[0]
# A row of the model is that of its own position, and obp looks at no other.
model = np.repeat(given["predicted"][:, :, None], places, axis=2)
kinds = {
    "ips": InverseProbabilityWeighting(),
    "snips": SelfNormalizedInverseProbabilityWeighting(),
    "dm": DirectMethod(),
    "dr": DoublyRobust(),
}
found = {
    name: kind.estimate_policy_value(**weighted, estimated_rewards_by_reg_model=model)
    for name, kind in kinds.items()
}
found["replay"] = ReplayMethod().estimate_policy_value(**logged, action_dist=of_rows(given["best"]))
print(json.dumps({name: float(value) for name, value in found.items()}))
