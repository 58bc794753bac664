"""Models fitted to impressions: how likely a pair is shown, and how likely clicked if shown.

Both are small regressions on what the candidates say, so that they know whatever a candidate could
be judged wrongly by (`click_model` has the features x of a candidate's ranks):

    log q(u, i)   = log(n_u + 1) + w₀ · log(n_i + 1) + w · x(u, i)     n: impressions of each
    logit r(u, i) = b₀ + b₁ · logit(click rate of i) + v · x(u, i)

q comes from a conditional logistic regression of impressions, each against random unseen items of
its user; it is known up to a factor. r comes from a logistic regression of clicks on impressions.
Each user is served by coefficients from a fit without that user's rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit, logit

from counterplay.data.negatives import NegativeSampler
from counterplay.errors import DataError
from counterplay.metrics.blocks import Elsewhere
from counterplay.metrics.calibration import logistic_regression
from counterplay.metrics.click_model import N_NEGATIVES, RIDGE, conditional_logit
from counterplay.metrics.item_sums import Personal, candidate_ranks, rank_features
from counterplay.metrics.ranks import MEMORY

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from counterplay.data.interactions import Interactions
    from counterplay.metrics.scoring import Scores

    Floats = NDArray[np.float64]

N_FOLDS, N_REFITS = 2, 10
_FITTED = 5_000  # impressions of a fit, about, if there are more
_PRIOR = 5.0  # impressions at the mean click rate that every item has beside its own


@dataclass(frozen=True, slots=True, eq=False)
class ShownModel:
    """The propensities of being shown.

    Attributes:
        coefficients: w₀ and w, `[1 + n_refits, n_folds, 1 + K]`: of the fit, and of fits to
            resampled users, which tell how far its own chance moves an estimate.
        fold: Which fit serves a user, `[n_users]`.
        log_items: log(n_i + 1), `[n_items]`.
        log_users: log(n_u + 1), `[n_users]`.
        n_rows: Impressions that were fitted.
    """

    coefficients: Floats
    fold: NDArray[np.int64]
    log_items: Floats
    log_users: Floats
    n_rows: int

    def log_propensities(
        self, users: NDArray[np.integer], items: NDArray[np.integer], ranks: Floats
    ) -> Floats:
        """Return log q of pairs by each fit, up to a constant, `[1 + n_refits, n]`.

        `ranks` are those of the item among what the user has not seen, by candidate, `[n, K]`.
        """
        features = np.column_stack(
            [self.log_items[items], rank_features(ranks, len(self.log_items))]
        )
        found = np.empty((len(self.coefficients), len(users)))
        for each in range(N_FOLDS):
            mine = self.fold[users] == each
            found[:, mine] = self.coefficients[:, each] @ features[mine].T
        found += self.log_users[users]
        return found


def fit_shown_model(
    rows: Interactions,
    candidates: Sequence[Scores],
    *,
    earlier: Interactions,
    seen: Interactions,
    rng: np.random.Generator,
    n_refits: int = N_REFITS,
    memory: int = MEMORY,
) -> ShownModel:
    """Fit how likely a pair is shown to impressions.

    Args:
        rows: Impressions of the held-out part, of pairs that are not in `seen`.
        candidates: Whose ranks are features: the personalised ones.
        earlier: Impressions before them: n_i.
        seen: Clicks before them: such pairs are neither ranked nor drawn.
        rng: Of random items, folds and resamples.
        n_refits: Fits to resampled users.
        memory: Bytes at a time.
    """
    fold = _folds(rows, rng)
    chosen = _some(rows, rng)
    log_items = np.log(np.bincount(earlier.item, minlength=seen.n_items) + 1.0)
    log_users = np.log(np.bincount(rows.user, minlength=seen.n_users) + 1.0)
    drawn = NegativeSampler(seen).draw(chosen.user, N_NEGATIVES, rng)
    items = np.column_stack([chosen.item, drawn])  # [n, 1 + n_negatives]
    repeated = np.repeat(chosen.user, items.shape[1])
    pairs = type(seen)(seen.users, seen.items, repeated, items.ravel().astype(np.int32))
    ranks = candidate_ranks(candidates, pairs, seen, memory=memory)
    features = np.empty((*items.shape, 1 + len(candidates)))
    features[..., 0] = log_items[items]
    features[..., 1:] = rank_features(ranks, seen.n_items).reshape(*items.shape, -1)
    ridge = np.array([0.0] + [RIDGE] * len(candidates))
    users, user = np.unique(chosen.user, return_inverse=True)
    coefficients = np.empty((1 + n_refits, N_FOLDS, 1 + len(candidates)))
    for number in range(1 + n_refits):
        counts = np.ones(len(users), np.int64) if number == 0 else rng.poisson(1.0, len(users))
        for each in range(N_FOLDS):
            times = np.where(fold[chosen.user] != each, counts[user], 0)
            coefficients[number, each] = conditional_logit(np.repeat(features, times, 0), ridge)
    return ShownModel(coefficients, fold, log_items, log_users, len(chosen))


@dataclass(frozen=True, slots=True, eq=False)
class RelevanceModel:
    """How likely a pair is clicked if it is shown, as scores in (0, 1).

    Attributes:
        coefficients: b₀, b₁ and v, `[n_folds, 2 + K]`.
        fold: Which fit serves a user, `[n_users]`.
        appeal: Logit of each item's click rate, `[n_items]`.
        candidates: Whose ranks are features.
        seen: What is not ranked.
    """

    coefficients: Floats
    fold: NDArray[np.int64]
    appeal: Floats
    candidates: Sequence[Scores]
    seen: Interactions

    def of_all(self, users: NDArray[np.integer]) -> Floats:
        """Return the probabilities of all items, `[B, n_items]`."""
        given = self.coefficients, self.appeal, self.candidates
        return _probabilities(*given, users, self.fold[users], self.seen)

    def of(self, users: NDArray[np.integer], items: NDArray[np.integer]) -> Floats:
        """Return the probabilities of `items` `[B, K]`."""
        return np.take_along_axis(self.of_all(users), items, axis=1)

    def table(self, users: NDArray[np.integer], *, memory: int = MEMORY) -> RelevanceTable:
        """Return the probabilities of all items for some users, ascending, computed once."""
        found = np.empty((len(users), len(self.appeal)), dtype=np.float32)
        size = max(1, memory // (64 * len(self.appeal)))
        cuts = [*range(0, len(users), size), len(users)]
        folds, shared = self.fold[users], (self.coefficients, self.appeal, self.candidates)
        other = next((each for each in self.candidates if isinstance(each, Elsewhere)), None)
        parts = None
        if other is not None:
            parts = other.probabilities(*shared, users, folds, self.seen, cuts)
        if parts is None:
            parts = probabilities(*shared, users, folds, self.seen, cuts)
        for (begin, end), part in zip(pairwise(cuts), parts, strict=True):
            found[begin:end] = part
        return RelevanceTable(users, found)


def probabilities(
    coefficients: Floats,
    appeal: Floats,
    candidates: Sequence[Scores],
    users: NDArray[np.integer],
    folds: NDArray[np.integer],
    seen: Interactions,
    cuts: Sequence[int],
) -> Iterator[NDArray[np.float32]]:
    """Yield what a relevance model says of all items to the users between two cuts.

    For the arguments see `RelevanceModel`; `folds` are those of `users`.
    """
    for begin, end in pairwise(cuts):
        part = slice(begin, end)
        found = _probabilities(coefficients, appeal, candidates, users[part], folds[part], seen)
        yield found.astype(np.float32)


def _probabilities(
    coefficients: Floats,
    appeal: Floats,
    candidates: Sequence[Scores],
    users: NDArray[np.integer],
    folds: NDArray[np.integer],
    seen: Interactions,
) -> Floats:
    found = np.empty((len(users), len(appeal)))
    for each, own in enumerate(coefficients):
        mine = folds == each
        personal = Personal(own[2:], candidates, seen).of_all(users[mine])
        found[mine] = expit(own[0] + own[1] * appeal + personal)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class RelevanceTable:
    """Probabilities of all items for some users, as scores."""

    users: NDArray[np.integer]  #: Ascending, `[U]`.
    values: NDArray[np.float32]  #: `[U, n_items]`.

    def of_all(self, users: NDArray[np.integer]) -> NDArray[np.float32]:
        """Return the probabilities of all items, `[B, n_items]`."""
        return self.values[np.searchsorted(self.users, users)]

    def of(self, users: NDArray[np.integer], items: NDArray[np.integer]) -> NDArray[np.float32]:
        """Return the probabilities of `items` `[B, K]`."""
        found: NDArray[np.float32] = self.values[np.searchsorted(self.users, users)[:, None], items]
        return found


def fit_relevance_model(
    rows: Interactions,
    candidates: Sequence[Scores],
    *,
    earlier: Interactions,
    seen: Interactions,
    rng: np.random.Generator,
    memory: int = MEMORY,
) -> RelevanceModel:
    """Fit how likely a pair is clicked if shown; for the arguments see `fit_shown_model`."""
    assert earlier.clicked is not None
    assert rows.clicked is not None
    shown = np.bincount(earlier.item, minlength=seen.n_items)
    clicks = np.bincount(earlier.item, earlier.clicked, seen.n_items)
    mean = np.clip(clicks.sum() / max(shown.sum(), 1), 1e-6, 1 - 1e-6)
    appeal = logit((clicks + _PRIOR * mean) / (shown + _PRIOR))
    fold, chosen = _folds(rows, rng), _some(rows, rng)
    assert chosen.clicked is not None
    features = rank_features(candidate_ranks(candidates, chosen, seen, memory=memory), seen.n_items)
    design = np.column_stack([np.ones(len(chosen)), appeal[chosen.item], features])
    ridge = np.array([1e-3, 1e-3] + [RIDGE] * len(candidates))
    coefficients = [
        logistic_regression(design[other], chosen.clicked[other], ridge)
        for other in (fold[chosen.user] != each for each in range(N_FOLDS))
    ]
    return RelevanceModel(np.stack(coefficients), fold, appeal, tuple(candidates), seen)


def _folds(rows: Interactions, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return a fold for every user, those with rows spread evenly."""
    there = np.unique(rows.user)
    if len(there) < N_FOLDS:
        raise DataError(
            f"a model of impressions needs {N_FOLDS} users or more with impressions in the part "
            f"that is evaluated; found {len(there)}; take a longer log, or another split"
        )
    fold = np.zeros(rows.n_users, dtype=np.int64)
    fold[rng.permutation(there)] = np.arange(len(there)) % N_FOLDS
    return fold


def _some(rows: Interactions, rng: np.random.Generator) -> Interactions:
    """Return all rows, or a random choice if there are many, in their order."""
    if len(rows) <= _FITTED:
        return rows
    return rows.take(np.sort(rng.choice(len(rows), _FITTED, replace=False)))
