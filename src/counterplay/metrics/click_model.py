"""The stacked click model T(u, i): how much more a user clicks an item than users at large do.

A conditional logistic regression of held-out clicks, each against random unseen items of its user:

    P(i is clicked, of a click and its random items) ∝ exp(w₀ · log(c_i + 1) + w · x(u, i))
    x_k(u, i) = −log(rank_k(u, i) + 5) + log(n_items / 2)        one feature a candidate k
    T(u, i)   = w · x(u, i) − log Σ_u a_u exp(w · x(u, i))       so that Σ_u a_u e^T = 1
    A_λ(i)    = log Σ_u a_u exp((1 − λ) · T(u, i))               a_u ∝ clicks of u

c_i are the training clicks of an item. The sums over users are those of `item_sums`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from counterplay.errors import ConfigError, DataError, TooFewError
from counterplay.metrics.item_sums import (
    SUMMED,
    ItemSums,
    candidate_ranks,
    item_sums,
    rank_features,
)
from counterplay.metrics.ranks import MEMORY, sampled_candidates

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from counterplay.data.interactions import Interactions
    from counterplay.metrics.scoring import Scores

    Floats = NDArray[np.float64]

N_NEGATIVES = 20
RIDGE = 5.0  # of the candidates' coefficients: ½ · ridge · w² is taken off the log-likelihood
_COMPARED = 1 << 31  # scores that are compared to rank the rows of a fit, a candidate, about
_FITTED = 2_000, 20_000  # rows of a fit, if there are more: at least and at most
_STEPS = 100  # of Newton's method; it takes about six


@dataclass(frozen=True, slots=True, eq=False)
class Exposures:
    """What the propensities of rows are made of, whatever the dials.

    Attributes:
        popularity: log(c_i + 1), `[n]`.
        taste: T(u, i), `[n]`.
        lambdas: The personal shares that A_λ is known for.
        shifts: A_λ(i), `[L, n]`.
        error: Root mean square over rows of the standard error of log q that a sample of users
            causes, at the λ where it is largest.
    """

    popularity: Floats
    taste: Floats
    lambdas: tuple[float, ...]
    shifts: Floats
    error: float = 0.0

    def __len__(self) -> int:
        return len(self.taste)

    def take(self, rows: NDArray[np.integer]) -> Exposures:
        """Return those of some rows, or of all in another order."""
        popularity, taste = self.popularity[rows], self.taste[rows]
        return Exposures(popularity, taste, self.lambdas, self.shifts[:, rows], self.error)

    def shift(self, lam: float) -> Floats:
        """Return A_λ of each row, `[n]`."""
        near = np.isclose(self.lambdas, lam, rtol=0, atol=1e-9)
        if not near.any():
            known = ", ".join(f"{each:g}" for each in self.lambdas)
            raise ConfigError(
                f"the click model must be fitted for every λ that is asked for; found λ {lam:g} "
                f"and a model for {known}; name it when the model is fitted"
            )
        found: Floats = self.shifts[int(near.argmax())]
        return found

    def log_propensities(self, gamma: float, lam: float) -> Floats:
        """Return `log q = γ · log(c_i + 1) + λ · T + A_λ(i)`, up to a constant, `[n]`."""
        return gamma * self.popularity + lam * self.taste + self.shift(lam)


@dataclass(frozen=True, slots=True, eq=False)
class ClickModel:
    """T and A_λ for any pair of a user and an item.

    Attributes:
        coefficients: w₀ and w of each fit, `[n_folds, 1 + K]`.
        sums: Of each fit.
        fold: Which fit serves a user: the one without their rows, `[n_users]`.
        log_events: log(c_i + 1), `[n_items]`.
        n_rows: Rows that were fitted, all folds together.
        n_left_out: Rows that were not, because nearly all items are seen by their users.
        n_negatives: Random items a row.
    """

    coefficients: Floats
    sums: tuple[ItemSums, ...]
    fold: NDArray[np.int64]
    log_events: Floats
    n_rows: int
    n_left_out: int
    n_negatives: int

    @classmethod
    def impersonal(cls, train: Interactions, n_candidates: int, lambdas: Sequence[float]) -> Self:
        """Return the model to which nothing is personal: T is 0."""
        shares = (0.0, *(each for each in lambdas if each != 0))
        nothing = np.zeros((len(shares), train.n_items))
        events = np.bincount(train.item, minlength=train.n_items)
        return cls(
            np.zeros((1, 1 + n_candidates)),
            (ItemSums(shares, nothing, nothing, 0),),
            np.zeros(train.n_users, dtype=np.int64),
            np.log(events + 1.0),
            n_rows=0,
            n_left_out=0,
            n_negatives=0,
        )

    def at(
        self, users: NDArray[np.integer], items: NDArray[np.integer], ranks: NDArray[np.floating]
    ) -> Exposures:
        """Return what the propensities of pairs are made of.

        Args:
            users: Of the pairs, `[n]`.
            items: Of the pairs, `[n]`.
            ranks: Of the item among what the user has not seen, by each candidate, `[n, K]`.
        """
        if ranks.shape != (len(users), self.coefficients.shape[1] - 1):
            raise DataError(
                "each pair must have a rank by every candidate that the click model was fitted "
                f"with, {self.coefficients.shape[1] - 1} in all; found ranks of shape "
                f"{ranks.shape} for {len(users):,} pairs; rank all candidates on the same rows"
            )
        fold = self.fold[users]
        features = rank_features(ranks, len(self.log_events))
        raw = (features * self.coefficients[fold, 1:]).sum(axis=1)
        centre = np.stack([each.logs[0] for each in self.sums])[fold, items]
        shifts = np.stack([each.shifts for each in self.sums])[fold, :, items].T
        errors = np.stack([each.errors for each in self.sums])[fold, :, items]
        error = float(np.sqrt((errors**2).mean(axis=0).max())) if len(users) else 0.0
        lambdas = self.sums[0].lambdas
        return Exposures(self.log_events[items], raw - centre, lambdas, shifts, error)


def fit_click_model(
    rows: Interactions,
    candidates: Sequence[Scores],
    *,
    train: Interactions,
    seen: Interactions,
    lambdas: Sequence[float],
    rng: np.random.Generator,
    n_folds: int = 1,
    n_negatives: int = N_NEGATIVES,
    summed: int = SUMMED,
    memory: int = MEMORY,
) -> ClickModel:
    """Fit T, and add up over users what it is centred by.

    Args:
        rows: Held-out clicks to learn from: validation rows, not the rows that are weighted.
        candidates: Whose ranks are the features: the personalised ones.
        train: What users had done before `rows`; its clicks are c_i.
        seen: What they had done before the rows that are weighted.
        lambdas: Personal shares that will be asked for.
        rng: Of the random items, the folds and the samples.
        n_folds: 1 fits all rows at once. With 2 or more, each user is served by a fit without
            their rows: for where the rows that are weighted are all there are.
        n_negatives: Random unseen items a row.
        summed: Pairs of users and items in the sums over users, about.
        memory: Bytes at a time.
    """
    features, users, left_out = _choices(rows, candidates, train, rng, n_negatives, memory)
    ridge = np.array([0.0] + [RIDGE] * len(candidates))
    fold = np.zeros(train.n_users, dtype=np.int64)
    if n_folds > 1:
        there = np.unique(users)
        if len(there) < n_folds:
            raise TooFewError(
                f"cross-fitting needs a user or more in each of {n_folds} folds; found "
                f"{len(there)} users; give validation rows, or take fewer folds"
            )
        fold[rng.permutation(there)] = np.arange(len(there)) % n_folds
    coefficients = np.stack(
        [
            conditional_logit(features[(fold[users] != each) | (n_folds == 1)], ridge)
            for each in range(n_folds)
        ]
    )
    sums = tuple(
        item_sums(each[1:], candidates, seen, lambdas, rng, summed=summed, memory=memory)
        for each in coefficients
    )
    events = np.bincount(train.item, minlength=train.n_items)
    return ClickModel(
        coefficients, sums, fold, np.log(events + 1.0), len(users), left_out, n_negatives
    )


def _choices(
    rows: Interactions,
    candidates: Sequence[Scores],
    train: Interactions,
    rng: np.random.Generator,
    n_negatives: int,
    memory: int,
) -> tuple[Floats, NDArray[np.int32], int]:
    """Return the features of clicks and of their random items `[n, 1 + n_negatives, 1 + K]`.

    With them come the users `[n]`, and how many rows leave their users too few unseen items.
    """
    at_most = np.clip(_COMPARED // (train.n_items * (1 + n_negatives)), *_FITTED)
    taken = np.bincount(train.user, minlength=train.n_users)
    taken += np.bincount(rows.user, minlength=train.n_users)
    able = np.flatnonzero(train.n_items - taken[rows.user] >= n_negatives)
    if not len(able):
        raise TooFewError(
            f"a click model needs clicks of users who leave {n_negatives} items unseen; found none "
            f"among {len(rows):,} rows; give more validation rows, or fewer n_negatives"
        )
    users, sizes = np.unique(rows.user[able], return_counts=True)
    order = rng.permutation(len(users))
    chosen = users[order[: max(1, int((sizes[order].cumsum() <= at_most).sum()))]]
    kept = able[np.isin(rows.user[able], chosen)]  # with all their rows, so that none is drawn
    clicks = type(rows)(rows.users, rows.items, rows.user[kept], rows.item[kept])
    items = sampled_candidates(train, clicks, n_negatives, rng)
    pairs = type(rows)(
        rows.users, rows.items, np.repeat(clicks.user, items.shape[1]), items.ravel()
    )
    features = np.empty((*items.shape, 1 + len(candidates)))
    events = np.bincount(train.item, minlength=train.n_items)
    features[..., 0] = np.log(events[items] + 1.0)
    ranks = candidate_ranks(candidates, pairs, train, memory=memory)
    features[..., 1:] = rank_features(ranks, train.n_items).reshape(*items.shape, -1)
    return features, clicks.user, len(rows) - len(able)


def conditional_logit(features: Floats, ridge: Floats) -> Floats:
    """Return the coefficients under which the first of each row's choices is likeliest, `[P]`.

    The maximum of `Σ_n log softmax(features_n · w)[0] − ½ Σ ridge · w²`, by Newton's method.

    Args:
        features: Of the choices, the one that was made first, `[n, J, P]`.
        ridge: Of each coefficient, `[P]`.
    """
    from scipy.special import softmax

    relative = features - features[:, :1]  # the choice that was made has the score 0
    found = np.zeros(features.shape[2])
    best = _log_likelihood(relative, found, ridge)
    for _ in range(_STEPS):
        shares = softmax(relative @ found, axis=1)
        mean = np.einsum("nj,njp->np", shares, relative)
        gradient = -mean.sum(axis=0) - ridge * found
        spread = np.einsum("nj,njp,njq->pq", shares, relative, relative, optimize=True)
        curvature = spread - mean.T @ mean + np.diag(ridge)
        step = np.linalg.pinv(curvature, hermitian=True) @ gradient
        if float(gradient @ step) <= 1e-18 * len(features):
            break
        while (ahead := _log_likelihood(relative, found + step, ridge)) < best - 1e-9 * abs(best):
            step = step / 2
        found, best = found + step, ahead
    return found


def _log_likelihood(relative: Floats, coefficients: Floats, ridge: Floats) -> float:
    from scipy.special import logsumexp

    scores = relative @ coefficients
    penalty = float(ridge @ coefficients**2) / 2
    return -float(logsumexp(scores, axis=1).sum()) - penalty
