"""One round of a log: what the policy shows to some users, random rows, and what comes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from counterplay.simulation.factors import Numbers
    from counterplay.simulation.world import Occasion, World

    Columns = dict[str, NDArray[Any]]
    Whole = NDArray[np.int64]

_LIKELY = 0.25  # items proposed to more than this share are drawn user by user


def shown_rows(
    world: World,
    users: Whole,
    rate: float,
    known: Whole,
    rng: np.random.Generator,
    occasion: Occasion,
) -> Columns:
    """Draw what the policy shows: pairs that are not known, in places by their prominence."""
    caps = world.policy.caps * rate
    user, item = _proposed_to(users, caps, known, rng)
    accepted = world.accepted(user, item[:, None], occasion=occasion)[:, 0]
    is_shown = np.flatnonzero(rng.random(len(user)) < accepted)
    user, item, accepted = user[is_shown], item[is_shown], accepted[is_shown]
    position = np.ones(len(user), dtype=np.int16)
    if world.examination < 1:
        further = np.clip(1 - world.policy.prominence(user, item[:, None])[:, 0], 0, 1)
        position += rng.binomial(world.list_length - 1, further).astype(np.int16)
    rows = _responses(world, user, item, position, caps[item] * accepted, rng, occasion)
    return rows | {"random": np.zeros(len(user), dtype=np.bool_)}


def random_rows(
    world: World,
    users: Whole,
    p: float,
    known: Whole,
    rng: np.random.Generator,
    occasion: Occasion,
) -> Columns:
    """Draw each pair that is not known with probability `p`; all places of a list are as likely."""
    user, item = _proposed_to(users, np.full(world.n_items, p), known, rng)
    position = np.ones(len(user), dtype=np.int16)
    if world.examination < 1:
        position += rng.integers(world.list_length, size=len(user), dtype=np.int16)
    rows = _responses(world, user, item, position, np.full(len(user), p), rng, occasion)
    return rows | {"random": np.ones(len(user), dtype=np.bool_)}


def probability(random_share: float, n_shown: int, n_pairs: int) -> float:
    """Return the probability of a pair that makes random rows that share of all rows, about."""
    return min(1.0, random_share / (1 - random_share) * n_shown / max(n_pairs, 1))


def _responses(
    world: World,
    user: Whole,
    item: Whole,
    position: NDArray[np.int16],
    shown: Numbers,
    rng: np.random.Generator,
    occasion: Occasion,
) -> Columns:
    """Return what is examined and clicked of rows that were shown with probability `shown`."""
    propensity, examined = shown, np.ones(len(user), dtype=np.bool_)
    if world.examination < 1:
        seen = (world.examination ** np.arange(world.list_length))[position - 1]
        propensity = shown * seen
        examined = rng.random(len(user)) < seen
    asked = np.flatnonzero(examined)
    time = float(occasion[-1])
    relevance = world.relevance(user[asked], item[asked, None], time=time, occasion=occasion)[:, 0]
    clicked = np.zeros(len(user), dtype=np.bool_)
    clicked[asked] = rng.random(len(asked)) < relevance
    return {
        "pair": user * world.n_items + item,
        "clicked": clicked,
        "exposed": examined,
        "position": position,
        "propensity": propensity,
    }


def _proposed_to(
    users: Whole, caps: Numbers, known: Whole, rng: np.random.Generator
) -> tuple[Whole, Whole]:
    """Propose pairs of these users that are not known."""
    place, item = proposed(caps, len(users), rng)
    user = users[place]
    if not len(known):
        return user, item
    pair = user * len(caps) + item
    new = known[np.minimum(np.searchsorted(known, pair), len(known) - 1)] != pair
    return user[new], item[new]


def proposed(caps: Numbers, n_users: int, rng: np.random.Generator) -> tuple[Whole, Whole]:
    """Draw every pair independently with its item's cap as the probability.

    For likely items all users are asked. The others get Poisson(−log(1 − cap) · n_users) draws of
    a user, and each pair counts once: so rare items cost no more than the pairs they are in.
    """
    n_items = len(caps)
    likely = np.flatnonzero(caps > _LIKELY)
    asked, column = np.nonzero(rng.random((n_users, len(likely))) < caps[likely])
    draws = rng.poisson(-np.log1p(-np.where(caps > _LIKELY, 0.0, caps)) * n_users)
    items = np.repeat(np.arange(n_items), draws)
    pairs = distinct(rng.integers(n_users, size=len(items)) * n_items + items)
    user = pairs // n_items
    return (
        np.concatenate([asked, user]),
        np.concatenate([likely[column], pairs - user * n_items]),
    )


def distinct(*numbers: Whole) -> Whole:
    """Return all numbers once, in order; sorting is several times faster than `np.unique`."""
    ordered = np.sort(np.concatenate(numbers))
    return ordered[np.diff(ordered, prepend=-1) > 0]
