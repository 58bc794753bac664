"""The dials of a world: which shares of its clicks' popularity and personal part are exposure.

The world knows the perfect click model. With p(u, i) = q(u, i) · r(u, i), the clicks of a round:

    c_i     = Σ_u p(u, i)              a_u = Σ_i p(u, i) / Σ p
    T(u, i) = log p(u, i) − log a_u − log c_i            so that Σ_u a_u e^T = 1
    A_λ(i)  = log Σ_u a_u exp((1 − λ) · T(u, i))

A user's activity is in a_u, not in T: clicks that are compared within a user do not show it. The
dials are what endless random rows would say with this click model (`metrics.random_rows`). A model
that is fitted to a log knows T less well, and finds a smaller λ with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from counterplay.metrics.click_model import Exposures
from counterplay.metrics.random_rows import EXPOSURE_ONLY, GAMMA_GRID, fit_dials
from counterplay.seeding import Streams

if TYPE_CHECKING:
    from counterplay.simulation.factors import Indices, Numbers
    from counterplay.simulation.world import World

LAMBDAS = tuple(round(-0.4 + 0.05 * step, 2) for step in range(33))
_SUMMED = 1 << 21  # pairs in the sums over users; of more users a sample is drawn
_FEWEST = 256  # users of a sample
_DRAWN = 1 << 17  # random pairs, about
_AT_ONCE = 1 << 17
_NEVER = 1e-12  # of a user's likeliest click: what is less likely counts as this
_NOBODY = 1e-290  # the same, for a user who is shown nothing


class WorldDials(NamedTuple):
    """Two shares, to 0.05; they are not bounded by 0 and 1.

    Attributes:
        gamma: Of the popularity of items in the clicks, the share that is exposure.
        lam: Of what is personal in the clicks, the share that is exposure.
    """

    gamma: float
    lam: float

    @property
    def text(self) -> str:
        """What they mean, in a sentence."""
        popular, personal = (f"{min(max(each, 0.0), 1.0):.0%}" for each in self)
        told = (
            f"γ {self.gamma:.2f}, λ {self.lam:.2f}: {popular} of the popularity in the clicks is "
            f"exposure, and {personal} of what is personal in them"
        )
        if self.lam > EXPOSURE_ONLY:
            told += "; so clicks show exposure, not taste, and cannot order candidates here"
        return told


def world_dials(world: World) -> WorldDials:
    """Return the dials of a world, from its true propensities and relevances.

    Sums run over all users, or over a random sample where there are many. Under confounding they
    are the dials of mean exposure and mean relevance.

    Example:
        >>> from counterplay.simulation.synthetic import Synthetic
        >>> world_dials(Synthetic(n_users=500, n_items=200, n_shown=24, preset="strong").world())
        WorldDials(gamma=0.6, lam=0.6)
    """
    exposures, relevance = _random_pairs(world)
    # Half of it has the same dials, and may be 1 for every pair.
    found = fit_dials(exposures, relevance / 2, gammas=GAMMA_GRID, lambdas=LAMBDAS, priors=None)
    return WorldDials(found.gamma, found.lam)


def _random_pairs(world: World) -> tuple[Exposures, Numbers]:
    """Return what exposure is made of in pairs drawn at random, and their relevance."""
    rng = Streams(0).numpy("world dials")
    n_users, n_items = world.n_users, world.n_items
    n_summed = min(n_users, max(_SUMMED // n_items, _FEWEST))
    users = np.sort(rng.permutation(n_users)[:n_summed])
    items = _drawn_items(n_summed, n_items, rng)
    relevance, logs = np.empty(items.shape), np.empty(items.shape)
    events, sums = np.zeros(n_items), np.zeros((len(LAMBDAS), n_items))
    size = max(1, _AT_ONCE // n_items)
    for begin in range(0, n_summed, size):
        part = slice(begin, begin + size)
        relevant = world.relevance(users[part])
        clicks = world.propensity(users[part]) * relevant
        least = np.maximum(_NEVER * clicks.max(axis=1, keepdims=True), _NOBODY)
        np.maximum(clicks, least, out=clicks)
        by_user = clicks.sum(axis=1)
        log_shares = np.log(clicks / by_user[:, None])
        events += clicks.sum(axis=0)
        for place, lam in enumerate(LAMBDAS):
            sums[place] += by_user @ np.exp((1 - lam) * log_shares)
        relevance[part] = np.take_along_axis(relevant, items[part], axis=1)
        logs[part] = np.take_along_axis(log_shares, items[part], axis=1)
    total = events.sum()
    log_items = np.log(events / total)
    shifts = np.log(sums / total) - (1 - np.array(LAMBDAS))[:, None] * log_items
    chosen = items.ravel()
    taste = logs.ravel() - log_items[chosen]
    return Exposures(log_items[chosen], taste, LAMBDAS, shifts[:, chosen]), relevance.ravel()


def _drawn_items(n_users: int, n_items: int, rng: np.random.Generator) -> Indices:
    """Return random items for each user, as many for each, `[n_users, K]`."""
    return rng.integers(n_items, size=(n_users, max(1, _DRAWN // n_users)))
