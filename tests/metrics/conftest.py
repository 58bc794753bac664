"""Logs given by their pairs, scores given as a matrix, and both drawn together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray

import counterplay as cp
from counterplay.metrics.ranks import _BYTES_A_SCORE
from counterplay.models.registry import ModelName

torch.set_num_threads(1)  # the models are tiny, and tests run side by side

Pairs = list[tuple[int, int]]

MODELS: tuple[ModelName, ...] = ("pop", "cf", "gmf", "mlp", "ncf", "attn")
MODELS_TO_WRITE_OVER = [
    "pop",
    *MODELS[1:],
]


def log_of(pairs: Iterable[tuple[int, int]], n_users: int, n_items: int) -> cp.Interactions:
    """Return a log of (user, item) pairs whose ids are their indices."""
    rows = sorted(pairs, key=lambda pair: pair[0])
    user, item = np.array(rows, dtype=np.int32).reshape(-1, 2).T
    users, items = (cp.data.Vocabulary.of(np.arange(n)) for n in (n_users, n_items))
    return cp.Interactions(users, items, user, item)


def items_of(log: cp.Interactions, user: int) -> set[int]:
    return set(log.item[log.user == user].tolist())


def memory_for(n_users: int, n_scores: int) -> int:
    """Return the bytes that hold the scores of so many users at a time, and no more."""
    return n_users * n_scores * _BYTES_A_SCORE


class MatrixScores:
    """Scores `[n_users, n_items]` that are all there; notes how many users are asked for."""

    def __init__(self, matrix: ArrayLike) -> None:
        self.matrix = np.array(matrix, dtype=np.float32)
        self.asked: list[int] = []

    def of(self, users: NDArray[np.integer], items: NDArray[np.integer]) -> NDArray[np.float32]:
        self.asked.append(len(users))
        found: NDArray[np.float32] = self.matrix[users[:, None], items]
        return found

    def of_all(self, users: NDArray[np.integer]) -> NDArray[np.float32]:
        self.asked.append(len(users))
        found: NDArray[np.float32] = self.matrix[users]
        return found


@dataclass(frozen=True)
class Case:
    """Scores of few values, so that many tie; what was seen; and targets, perhaps seen too."""

    matrix: list[list[float]]
    seen: Pairs
    targets: Pairs

    @property
    def n_items(self) -> int:
        return len(self.matrix[0])

    def log(self, pairs: Pairs) -> cp.Interactions:
        return log_of(pairs, len(self.matrix), self.n_items)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    n_users, n_items = draw(st.integers(1, 6)), draw(st.integers(1, 8))
    score = st.sampled_from([-np.inf, -1.0, -0.0, 0.0, 0.5, np.inf])
    row = st.lists(score, min_size=n_items, max_size=n_items)
    pair = st.tuples(st.integers(0, n_users - 1), st.integers(0, n_items - 1))
    return Case(
        draw(st.lists(row, min_size=n_users, max_size=n_users)),
        draw(st.lists(pair, max_size=20)),
        draw(st.lists(pair, max_size=12)),
    )
