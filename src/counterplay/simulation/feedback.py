"""Feedback loops: a recommender is trained on what it showed, shows, and is trained again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit

from counterplay.data.canonical import canonical_order
from counterplay.data.interactions import Interactions, Step
from counterplay.errors import ConfigError, DataError
from counterplay.seeding import Streams
from counterplay.simulation.factors import Factors
from counterplay.simulation.policies import Mixture, Scored, caps_for

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from counterplay.metrics.scoring import Scores
    from counterplay.models.scorer import Scorer
    from counterplay.simulation.policies import Policy
    from counterplay.simulation.world import World

_SAMPLE = 1 << 16  # pairs that scores are standardised by
_PROPOSED = 8.0  # for one that is shown: the more, the more a policy can follow its scores


def feedback_loop(
    world: World,
    n_rounds: int,
    retrain: Callable[[Interactions], Policy],
    *,
    rates: Sequence[float] = (1.0,),
    sample: int = 0,
    with_truth: bool = False,
) -> tuple[Interactions, list[World]]:
    """Log with the present policy, retrain it on all logs so far, and go on so.

    Return all rows, and the worlds: the one that each round was drawn from, and last the one with
    the policy that all of it was trained into.

    Args:
        world: With the first policy.
        n_rounds: How often to log, and retrain.
        retrain: Makes the next policy from all that was clicked so far.
        rates: Of the days of one round, as `World.log` takes them.
        sample: Another number is another course of events.
        with_truth: Whether the rows carry place, exposure flag and true propensity.
    """
    if n_rounds < 1:
        raise ConfigError(
            f"a feedback loop needs at least one round; found {n_rounds}; give n_rounds=1 or more"
        )
    log = world.log(rates, sample=sample, with_truth=with_truth)
    worlds = [world, replace(world, policy=retrain(log))]
    for number in range(1, n_rounds):
        new = worlds[-1].log(
            rates,
            sample=sample,
            first_round=number * len(rates),
            before=log,
            with_truth=with_truth,
        )
        log = _joined(log, new)
        worlds.append(replace(world, policy=retrain(log)))
    step = Step(
        "simulated", f"{n_rounds} rounds of feedback in the world {world.name!r}, sample {sample}"
    )
    return replace(log, steps=(step,)), worlds


def _joined(first: Interactions, second: Interactions) -> Interactions:
    """Return the rows of both, in canonical order."""
    later = dict(second.columns())
    columns: dict[str, Any] = {
        name: np.concatenate([column, later[name]]) for name, column in first.columns()
    }
    order = canonical_order(columns, first.users, first.items)
    if order is not None:
        columns = {name: column[order] for name, column in columns.items()}
    return replace(first, **columns)


def model_policy(
    scores: Factors | Scores,
    train: Interactions,
    *,
    n_shown: float,
    sharpness: float = 2.0,
    exploration: float = 0.1,
    activity: NDArray[np.float64] | None = None,
    seed: int = 0,
) -> Scored | Mixture:
    """Return the policy that shows what a trained recommender scores high.

    A pair is shown with `cap · a_u · σ(sharpness · (s − mean) / sd + offset)`, where the offset
    makes it `n_shown` items a user; mean and deviation are those of a sample of all pairs.

    Args:
        scores: The recommender's.
        train: What it was trained on: whose users and items they are.
        n_shown: Items shown to a user in a round of rate 1, on average, if nothing is unobserved.
        sharpness: How much it follows its scores; 0 shows all alike.
        exploration: Share of a uniform policy, from 0 to 1.
        activity: How much each user is shown, in (0, 1]; by default all the same.
        seed: Of the sample.
    """
    if sharpness < 0 or not 0 <= exploration <= 1:
        raise ConfigError(
            "a policy's sharpness must be 0 or more and its exploration from 0 to 1; found "
            f"{sharpness:g} and {exploration:g}; change them"
        )
    active = np.ones(train.n_users) if activity is None else activity
    even = np.ones(train.n_items)
    mean_active = float(active.mean())
    uniform = Scored(caps_for(even, n_shown, 0.5 * mean_active), active)
    if exploration == 1:
        return uniform
    users, found = _sample(scores, train, seed)
    mean, deviation = float(found.mean()), float(found.std()) or 1.0
    cap = min(1.0, _PROPOSED * n_shown / (mean_active * train.n_items))
    z = sharpness * (found - mean) / deviation
    offset = _offset(z, active[users], n_shown / (train.n_items * cap))
    scale = sharpness / deviation
    follows = Scored(cap * even, active, scores, scale, offset - scale * mean)
    if not exploration:
        return follows
    return Mixture((follows, uniform), (1 - exploration, exploration))


def _sample(
    scores: Factors | Scores, train: Interactions, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the users of a sample of all pairs, and the pairs' scores."""
    rng = Streams(seed).numpy("standardise")
    users = rng.integers(train.n_users, size=_SAMPLE)
    items = rng.integers(train.n_items, size=(_SAMPLE, 1))
    found = np.asarray(scores.of(users, items), dtype=np.float64).ravel()
    if not np.isfinite(found).all():
        raise DataError(
            "a policy needs a score for every pair; found pairs without a finite one; give scores "
            "to all, or show by a policy of your own"
        )
    return users, found


def _offset(z: NDArray[np.float64], active: NDArray[np.float64], wanted: float) -> float:
    """Return the offset at which the mean of `a · σ(z + offset)` is the wanted one."""
    low, high = -100.0 - float(z.max()), 100.0 - float(z.min())
    for _ in range(60):  # halving: the mean grows with the offset
        middle = (low + high) / 2
        mean = float((active * expit(z + middle)).mean())
        low, high = (middle, high) if mean < wanted else (low, middle)
    return high


def factors_of(model: Scorer, log: Interactions) -> Factors:
    """Return the scores of a CF or GMF as factors: such a policy can be saved, and needs no torch.

    Args:
        model: A trained CF or GMF.
        log: What it was trained on.
    """
    import torch

    from counterplay.models.factorization import CF, GMF

    if not isinstance(model, CF | GMF):
        raise ConfigError(
            f"only CF and GMF are products of factors; found {type(model).__name__}; give its "
            "scores to model_policy as they are"
        )
    if (model.n_users, model.n_items) != (log.n_users, log.n_items):
        raise DataError(
            f"a model must be of the log's {log.n_users:,} users and {log.n_items:,} items; found "
            f"one of {model.n_users:,} and {model.n_items:,}; give the log it was trained on"
        )
    everyone = torch.arange(model.n_users, device=model.constant.device)
    with torch.no_grad():
        users = model.eval().user(everyone).double().cpu().numpy()
        items = model.item.table().double().cpu().numpy()
        constant = float(model.constant)
        if isinstance(model, GMF):
            users = users * model.importance.double().cpu().numpy()
            return Factors(users, items, np.zeros(len(users)), np.zeros(len(items)), constant)
    return Factors(users[:, :-1], items[:, :-1], users[:, -1], items[:, -1], constant)
