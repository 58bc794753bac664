"""Feedback loops: a recommender is trained on what it showed, shows, and is trained again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit

from counterplay.data.interactions import Step
from counterplay.errors import ConfigError, DataError
from counterplay.seeding import Streams
from counterplay.simulation.chance import bisected
from counterplay.simulation.factors import Factors
from counterplay.simulation.logs import joined
from counterplay.simulation.policies import Mixture, Scored, caps_for

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from counterplay.data.interactions import Interactions
    from counterplay.metrics.scoring import Scores
    from counterplay.models.scorer import Scorer
    from counterplay.simulation.factors import Numbers
    from counterplay.simulation.policies import Policy
    from counterplay.simulation.world import World

_SAMPLE = 1 << 16  # pairs that scores are standardised by
_PROPOSED = 8.0  # pairs per shown pair: the more, the more a policy can follow its scores


def feedback_loop(
    world: World,
    n_rounds: int,
    retrain: Callable[[Interactions], Policy],
    *,
    rates: Sequence[float] = (1.0,),
    sample: int = 0,
    with_truth: bool = False,
) -> tuple[Interactions, list[World]]:
    """Log with the current policy, retrain it on all logs so far, and repeat.

    Return all rows, and the worlds: the one that each round was drawn from, and last the one with
    the policy that was trained on all rows.

    Args:
        world: With the first policy.
        n_rounds: Number of rounds of logging and retraining.
        retrain: Makes the next policy from all clicks so far.
        rates: Of the days of one round, as `World.log` takes them.
        sample: Another number is another course of events.
        with_truth: Add list position, exposure and true propensity to the rows.
    """
    if n_rounds < 1:
        raise ConfigError(
            f"a feedback loop needs at least one round; found {n_rounds}; give n_rounds=1 or more"
        )
    log: Interactions | None = None
    worlds = [world]
    for number in range(n_rounds):
        new = worlds[-1].log(
            rates,
            sample=sample,
            first_round=number * len(rates),
            before=log,
            with_truth=with_truth,
        )
        log = new if log is None else joined((log, new))
        worlds.append(replace(world, policy=retrain(log)))
    assert log is not None
    step = Step(
        "simulated", f"{n_rounds} rounds of feedback in the world {world.name!r}, sample {sample}"
    )
    return replace(log, steps=(step,)), worlds


def model_policy(
    scores: Factors | Scores,
    train: Interactions,
    *,
    n_shown: float,
    sharpness: float = 2.0,
    exploration: float = 0.1,
) -> Scored | Mixture:
    """Return the policy that shows what a trained recommender scores high.

    A pair is shown with `cap · σ(sharpness · (s − mean) / sd + offset)`, where the offset
    makes it `n_shown` items per user; mean and sd are those of a sample of all pairs.

    Args:
        scores: The recommender's.
        train: The log it was trained on, for its users and items.
        n_shown: Mean number of items shown per user in a round of rate 1, without unobserved
            factors.
        sharpness: How closely the policy follows the scores; 0 shows all items alike.
        exploration: Share of a uniform policy, from 0 to 1.
    """
    if sharpness < 0 or not 0 <= exploration <= 1:
        raise ConfigError(
            "a policy's sharpness must be 0 or more and its exploration from 0 to 1; found "
            f"{sharpness:g} and {exploration:g}; change them"
        )
    active, even = np.ones(train.n_users), np.ones(train.n_items)
    uniform = Scored(caps_for(even, n_shown, 0.5), active)
    if exploration == 1:
        return uniform
    found = _sample(scores, train)
    mean, deviation = float(found.mean()), float(found.std()) or 1.0
    cap = min(1.0, _PROPOSED * n_shown / train.n_items)
    z, wanted = sharpness * (found - mean) / deviation, n_shown / (train.n_items * cap)
    _, offset = bisected(
        lambda middle: float(expit(z + middle).mean()) < wanted,
        -100.0 - float(z.max()),
        100.0 - float(z.min()),
        60,
    )
    scale = sharpness / deviation
    follows = Scored(cap * even, active, scores, scale, offset - scale * mean)
    if not exploration:
        return follows
    return Mixture((follows, uniform), (1 - exploration, exploration))


def _sample(scores: Factors | Scores, train: Interactions) -> Numbers:
    """Return the scores of a sample of all pairs."""
    rng = Streams(0).numpy("standardise")
    users = rng.integers(train.n_users, size=_SAMPLE)
    items = rng.integers(train.n_items, size=(_SAMPLE, 1))
    found = np.asarray(scores.of(users, items), dtype=np.float64).ravel()
    if not np.isfinite(found).all():
        raise DataError(
            "a policy needs a score for every pair; found pairs without a finite one; score them "
            "all, or write a policy of your own"
        )
    return found


def factors_of(model: Scorer, log: Interactions) -> Factors:
    """Return the scores of a CF or GMF, trained on `log`, as factors.

    A policy with such scores can be saved, and needs no torch.
    """
    import torch

    from counterplay.models.factorization import CF, GMF

    if not isinstance(model, CF | GMF):
        raise ConfigError(
            f"only CF and GMF are products of factors; found {type(model).__name__}; pass its "
            "scores to model_policy instead"
        )
    if (model.n_users, model.n_items) != (log.n_users, log.n_items):
        raise DataError(
            f"a model must have the log's {log.n_users:,} users and {log.n_items:,} items; found "
            f"{model.n_users:,} and {model.n_items:,}; give the log it was trained on"
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
