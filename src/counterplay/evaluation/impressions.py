"""What impressions say of exposure and relevance, for the rows that an evaluation weighs.

`impressions` weights held-out clicks by propensities that were fitted to the impressions of the
same part, by another half of the users (`counterplay.metrics.shown_model`). `doubly-robust` adds
what a model of clicks among impressions says of all items, corrected by the impressions: it is
right if either model is (`counterplay.metrics.imputed`).

A mean of a metric lies between its values at the last rank and at the first: a hit rate in [0, 1].
What is corrected, or made wider, may leave that range, and is cut off at its ends.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from counterplay.data.impressions import impressions_of
from counterplay.data.splits import TEST, VALIDATION
from counterplay.errors import DataError
from counterplay.evaluation.records import CandidateEstimate, Comparison
from counterplay.metrics.comparison import comparisons_of_sums
from counterplay.metrics.estimation import finite
from counterplay.metrics.imputed import doubly_robust
from counterplay.metrics.intervals import bootstrap, effective_sample_size, interval, top_share
from counterplay.metrics.item_sums import candidate_ranks
from counterplay.metrics.measures import ranking_metrics
from counterplay.metrics.ranks import full_ranks
from counterplay.metrics.shown_model import fit_relevance_model, fit_shown_model
from counterplay.models.examination import examination_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from counterplay.data.interactions import Interactions
    from counterplay.evaluation.propensities import Contestant
    from counterplay.evaluation.records import Key
    from counterplay.evaluation.stage import Stage
    from counterplay.metrics.estimation import Estimate
    from counterplay.metrics.scoring import Scores
    from counterplay.metrics.shown_model import ShownModel

    Floats = NDArray[np.float64]

DOUBLY_ROBUST = "doubly-robust"
_ENOUGH = 200  # clicked random rows that tell how far down a list users look
_SCORES = 1 << 25  # of users times items, whose relevance is added up, at most


@dataclass(frozen=True, slots=True, eq=False)
class ShownCase:
    """What was shown, and the model of it.

    Attributes:
        rows: Impressions of the part that is evaluated, of pairs that were not clicked before.
        earlier: Impressions before that part.
        model: Fitted to `rows`.
        personal: The candidates whose ranks it knows.
        propensities: Of the held-out clicks by each fit, the largest 1, `[1 + n_refits, n]`.
    """

    rows: Interactions
    earlier: Interactions
    model: ShownModel
    personal: tuple[Scores, ...]
    propensities: Floats


def shown_case(stage: Stage, contestants: Sequence[Contestant]) -> ShownCase:
    """Fit how likely pairs are shown, and apply it to the held-out clicks.

    Where random rows have positions, they tell how likely each place is examined, and that is a
    factor of the propensities.
    """
    split, targets, seen = stage.split, stage.targets, stage.seen
    held_out = TEST if stage.config.part == "test" else VALIDATION
    shown = impressions_of(split, held_out)
    if stage.sample is not None:
        shown = stage.sample.rows(shown)
    rows = shown.take(~np.isin(shown.pair, seen.distinct_pairs))
    if not len(rows):
        raise DataError(
            f"the {stage.config.part} part must hold impressions of items that their users had not "
            "clicked before; found none; choose another split, or another estimator"
        )
    earlier = _together([impressions_of(split, part) for part in range(held_out)])
    personal = tuple(each.scores for each in contestants if each.is_personal)
    memory = stage.config.memory
    model = fit_shown_model(
        rows, personal, earlier=earlier, seen=seen, rng=stage.streams.numpy("shown"), memory=memory
    )
    ranks = candidate_ranks(personal, targets, seen, memory=memory)
    logs = model.log_propensities(targets.user, targets.item, ranks)
    if (rho := _examined(stage.random)) is not None and targets.position is not None:
        logs = logs + np.log(rho)[np.clip(targets.position, 1, len(rho)) - 1]
    return ShownCase(rows, earlier, model, personal, np.exp(logs - logs.max(axis=1, keepdims=True)))


def _examined(random: Interactions | None) -> Floats | None:
    """Return how likely each place is examined, where random rows tell, `[n_places]`."""
    if random is None or random.position is None or random.clicked is None:
        return None
    if int(random.clicked.sum()) < _ENOUGH or not (random.position == 1).any():
        return None
    return examination_of(random)


def _together(parts: Sequence[Interactions]) -> Interactions:
    """Return the rows of all parts, one part after the other."""
    first = parts[0]
    user, item, clicked = (
        np.concatenate([np.asarray(getattr(each, name)) for each in parts])
        for name in ("user", "item", "clicked")
    )
    return type(first)(first.users, first.items, user, item, clicked=clicked)


@dataclass(frozen=True, slots=True, eq=False)
class Imputed:
    """Doubly robust sums, a number a user: values are ratios of their totals."""

    numerators: dict[str, dict[Key, Floats]]  # by candidate
    denominators: Floats  # [n_users]
    weights: Floats  # of the impressions


def imputed(stage: Stage, contestants: Sequence[Contestant]) -> Imputed:
    """Add up what the relevance model says of all items, and what impressions say against it."""
    case, config, seen = stage.shown_case(contestants), stage.config, stage.seen
    rows, rng = case.rows, stage.streams.numpy("imputed")
    relevance = fit_relevance_model(
        rows, case.personal, earlier=case.earlier, seen=seen, rng=rng, memory=config.memory
    )
    users = np.unique(rows.user)
    if len(users) > (most := max(2, _SCORES // seen.n_items)):
        users = np.sort(rng.choice(users, most, replace=False))
        rows = rows.take(np.isin(rows.user, users))
    assert rows.clicked is not None
    believed = relevance.table(users, memory=config.memory)
    places = {
        each.name: full_ranks(each.scores, rows, seen, memory=config.memory) for each in contestants
    }
    ranks = np.empty((len(rows), 0))
    if case.personal:
        ranks = np.stack(
            [places[each.name].expected for each in contestants if each.is_personal], 1
        )
    weights = np.exp(-case.model.log_propensities(rows.user, rows.item, ranks)[0])
    n_seen = np.bincount(seen.distinct_pairs // seen.n_items, minlength=seen.n_users)
    weights *= (seen.n_items - n_seen[users]).sum() / weights.sum()  # they stand for all pairs
    found, below = {}, np.empty(0)
    for each in contestants:
        found[each.name], below = doubly_robust(
            each.scores, believed, rows, rows.clicked, seen, places[each.name], weights,
            users=users, names=config.metrics, k=config.k, memory=config.memory,
        )  # fmt: skip
    return Imputed(found, below, weights)


def range_of(metric: str, k: int) -> Floats:
    """Return the least and the greatest value that one target can have, `[2]`."""
    ranks = np.array([np.inf, 1.0])
    found: Floats = ranking_metrics(ranks, np.arange(2), names=[metric], k=[k])[metric, k]
    return found


def in_range(found: Estimate) -> Estimate:
    """Return an estimate that does not leave the range of its metric."""
    numbers = [found.value, found.low, found.high]
    value, low, high = np.clip(numbers, *range_of(found.metric, found.k)).tolist()
    return replace(found, value=value, low=low, high=high)


def imputed_estimates(
    stage: Stage, contestants: Sequence[Contestant]
) -> dict[str, list[CandidateEstimate]]:
    """Return each candidate's doubly robust values, with intervals over users."""
    sums, level = stage.imputed(contestants), stage.config.level
    ess, share = effective_sample_size(sums.weights), top_share(sums.weights)
    found: dict[str, list[CandidateEstimate]] = {}
    for name, numerators in sums.numerators.items():
        above = np.stack(list(numerators.values()), axis=1)
        resamples = bootstrap(
            above, sums.denominators, np.arange(len(above)), stage.streams.numpy("bootstrap"),
            n_resamples=stage.config.n_resamples,
        )  # fmt: skip
        ends = np.stack([range_of(*key) for key in numerators], axis=1)  # [2, n_metrics]
        low, high = np.clip(interval(resamples, level), *ends)
        values = np.clip(above.sum(0) / sums.denominators.sum(), *ends)
        found[name] = [
            CandidateEstimate(
                candidate=name, metric=key[0], k=key[1], estimator=DOUBLY_ROBUST,
                protocol=stage.protocol, value=float(values[place]), low=finite(low[place]),
                high=finite(high[place]), level=level, n=len(sums.weights), ess=ess,
                top_share=share, normalised=True,
            )
            for place, key in enumerate(numerators)
        ]  # fmt: skip
    return found


def imputed_comparisons(stage: Stage, contestants: Sequence[Contestant]) -> list[Comparison]:
    """Return the differences of doubly robust values, judged together metric by metric."""
    sums, config = stage.imputed(contestants), stage.config
    found = []
    for key in next(iter(sums.numerators.values())):
        tops = {name: each[key] for name, each in sums.numerators.items()}
        differences = comparisons_of_sums(
            tops, sums.denominators, stage.streams.numpy("comparison", *key),
            n=len(sums.weights), n_resamples=config.n_resamples, level=config.level,
        )  # fmt: skip
        for (first, second), each in zip(combinations(tops, 2), differences, strict=True):
            found.append(
                Comparison(
                    metric=key[0], k=key[1], estimator=DOUBLY_ROBUST, first=first, second=second,
                    value=each.value, low=finite(each.low), high=finite(each.high),
                    level=each.level, n=each.n, p=each.p_value,
                )
            )  # fmt: skip
    return found
