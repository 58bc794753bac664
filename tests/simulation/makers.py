"""Parts of worlds that several tests are made of."""

from __future__ import annotations

from typing import Any

import numpy as np

from counterplay.simulation.factors import Factors


def factors(
    seed: int,
    n_users: int,
    n_items: int,
    dim: int = 2,
    *,
    scale: float = 1.0,
    drift: float = 0.0,
    **given: Any,
) -> Factors:
    """Return standard normal factors and biases, those of users times `scale`; users may drift."""
    rng = np.random.default_rng(seed)
    user, item = scale * rng.normal(size=(n_users, dim)), rng.normal(size=(n_items, dim))
    biases = rng.normal(size=n_users), rng.normal(size=n_items)
    if drift:
        given |= {"toward": rng.normal(size=(n_users, dim)), "turn": drift}
    return Factors(user, item, *biases, **given)
