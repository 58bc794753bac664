"""Scores of three classical recommenders in a few lines of numpy, as if they came from outside.

They hold a table of users × items, which is small here; the library never does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from counterplay.metrics.scoring import TableScores

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from counterplay.data.interactions import Interactions

    Floats = NDArray[np.float64]

_DIM, _ROUNDS, _CONFIDENCE, _SHRINKAGE = 16, 10, 10.0, 5.0
_EASE_SHRINKAGE = 100.0
_NEIGHBOURS = 30


def outside_scores(train: Interactions, rng: np.random.Generator) -> Mapping[str, TableScores]:
    """Return the scores of als, ease and knn, given pair by pair."""
    clicks = _table(train)
    users, items = als_factors(train, rng)
    found = {"als": users @ items.T, "ease": _ease(clicks), "knn": _neighbours(clicks)}
    user, item = (each.ravel() for each in np.indices(clicks.shape))
    return {
        name: TableScores(user, item, scores.ravel(), train.n_items)
        for name, scores in found.items()
    }


def als_factors(train: Interactions, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return user and item factors by alternating least squares, clicks weighing more (Hu 2008)."""
    clicks = _table(train)
    items: Floats = 0.1 * rng.normal(size=(train.n_items, _DIM))
    for _ in range(_ROUNDS):
        users = _solved(clicks, items)
        items = _solved(clicks.T, users)
    return users, items


def _solved(clicks: Floats, others: Floats) -> Floats:
    """Return the factors of the rows that fit clicks `[n, m]` best, given those of the columns."""
    products = (others[:, :, None] * others[:, None, :]).reshape(len(others), -1)
    extra = (_CONFIDENCE * clicks @ products).reshape(len(clicks), _DIM, _DIM)
    left = others.T @ others + _SHRINKAGE * np.eye(_DIM) + extra
    right = (1 + _CONFIDENCE) * clicks @ others
    return np.asarray(np.linalg.solve(left, right[:, :, None])[:, :, 0], np.float64)


def _ease(clicks: Floats) -> Floats:
    """Return the scores of a linear item model without self-similarity (Steck 2019)."""
    inverse = np.linalg.inv(clicks.T @ clicks + _EASE_SHRINKAGE * np.eye(clicks.shape[1]))
    weights = -inverse / np.diag(inverse)
    np.fill_diagonal(weights, 0)
    return np.asarray(clicks @ weights, np.float64)


def _neighbours(clicks: Floats) -> Floats:
    """Return the scores of the nearest items, by the cosine of their users."""
    norms = np.sqrt(clicks.sum(axis=0)) + 1e-9
    alike = (clicks.T @ clicks) / np.outer(norms, norms + 1)
    np.fill_diagonal(alike, 0)
    least = np.sort(alike, axis=1)[:, -_NEIGHBOURS:][:, :1]
    scores: Floats = clicks @ np.where(alike >= least, alike, 0).T
    return scores


def _table(train: Interactions) -> Floats:
    table = np.zeros((train.n_users, train.n_items))
    table[train.user, train.item] = 1.0
    return table
