"""Parts of worlds that several tests are made of, and how their logs are counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

import counterplay as cp
from counterplay.simulation.factors import Factors
from counterplay.simulation.world import World


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


def counts(log: cp.Interactions, which: NDArray[np.bool_] | None = None) -> NDArray[np.int64]:
    """Return how often each pair occurs, `[n_users, n_items]`."""
    pair = log.pair if which is None else log.pair[which]
    return np.bincount(pair, minlength=log.n_users * log.n_items).reshape(log.n_users, -1)


def agree(found: NDArray[Any], p: NDArray[np.float64], n: int) -> bool:
    """Tell whether all are as often as `n` tries with `p` may give: two tails of 1e-4, shared."""
    tail = np.minimum(binom.cdf(found, n, p), binom.sf(found - 1, n, p))
    return bool((2 * tail * tail.size > 1e-4).all())


def broken(good: World, method: str, answer: Callable[..., Any]) -> World:
    """Return the world with another method."""
    kind = type("Broken", (World,), {method: answer})
    found: World = kind(**{each: getattr(good, each) for each in World.__dataclass_fields__})
    return found
