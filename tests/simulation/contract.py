"""What every world must do.

A new world's test is a few lines:

    def test_my_world(tmp_path: Path) -> None:
        contract.is_what_it_says(my_world())
        contract.oracle_is_unbiased(my_world())
        contract.comes_back(my_world(), tmp_path)

Small worlds, please: about 60 users and 30 items. The limits are z = 4 of the standard error over
some hundred samples with fixed seeds: a false alarm is 1 in 16,000 for each of the few numbers.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from counterplay.data.interactions import Interactions
from counterplay.metrics.ranks import hide
from counterplay.simulation.checks import check_world
from counterplay.simulation.logs import DAY, START
from counterplay.simulation.store import load_world, save_world
from counterplay.simulation.world import World

Numbers = NDArray[np.float64]
RATES = 1.0, 0.7
LIMIT = 4.0


def is_what_it_says(world: World) -> None:
    """check_world finds nothing; false-alarm rate 1e-6."""
    assert [finding for finding in check_world(world) if not finding.ok] == []


def oracle_is_unbiased(world: World, n_samples: int = 200) -> None:
    """Clicks weighted by the logged propensity add up to the demand, and to that for a list."""
    for errors in errors_of_the_oracle(world, n_samples):
        assert abs(z_of(errors)) < LIMIT


def comes_back(world: World, folder: Path) -> World:
    """A saved and loaded world draws the same bytes."""
    save_world(world, folder / "world")
    loaded = load_world(folder / "world")
    drawn, again = (each.log(sample=1, with_truth=True) for each in (world, loaded))
    assert drawn.fingerprint == again.fingerprint
    return loaded


def errors_of_the_oracle(
    world: World, n_samples: int, *, marginal: bool = False
) -> tuple[Numbers, Numbers]:
    """Return `Σ v/q over the clicks of a round − Σ r·v over pairs not clicked before`, by sample.

    v is 1, and then whether the item is in a fixed list of ten that each user has.

    Args:
        world: A small one.
        n_samples: How many logs.
        marginal: Whether q is the propensity without the occasion, as a click model has it.
    """
    users = np.arange(world.n_users)
    listed = np.zeros((world.n_users, world.n_items))
    best = np.random.default_rng(0).random(listed.shape).argsort(1)[:, :10]
    np.put_along_axis(listed, best, 1.0, axis=1)
    relevance = world.relevance(users, time=len(RATES) - 1.0)
    stated = RATES[-1] * world.propensity(users)
    errors = np.empty((n_samples, 2))
    for sample in range(n_samples):
        earlier, clicks = last_round(world.log(RATES, sample=sample, with_truth=True))
        unseen = hide(relevance.copy(), users, earlier)
        assert clicks.propensity is not None
        pairs = clicks.user, clicks.item
        weights = 1 / (stated[pairs] if marginal else clicks.propensity)
        errors[sample] = (
            weights.sum() - np.nansum(unseen),
            (weights * listed[pairs]).sum() - np.nansum(unseen * listed),
        )
    return errors[:, 0], errors[:, 1]


def last_round(log: Interactions) -> tuple[Interactions, Interactions]:
    """Return the rows of the earlier rounds, and those of the last."""
    assert log.time is not None
    is_last = log.time >= START + (len(RATES) - 1) * DAY
    return log.take(~is_last), log.take(is_last)


def z_of(errors: Numbers) -> float:
    """Return how many standard errors the mean is from 0."""
    return float(errors.mean() / (errors.std(ddof=1) / len(errors) ** 0.5))
