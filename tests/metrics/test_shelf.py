from __future__ import annotations

import numpy as np

from counterplay.metrics.shelf import Shelf
from tests.evaluation.audience import Matrix


def test_closed_items_are_behind_everything_however_they_are_asked_for() -> None:
    scores = np.array([[3.0, 9.0, 1.0], [0.0, -2.0, 5.0]])
    shelf = Shelf(np.array([True, False, True]))
    users, expected = np.arange(2), [[3.0, -np.inf, 1.0], [0.0, -np.inf, 5.0]]
    found = shelf.scores(Matrix(scores))
    np.testing.assert_array_equal(found.of_all(users), expected)
    np.testing.assert_array_equal(found.of(users, np.array([[0, 1, 2]] * 2)), expected)
    np.testing.assert_array_equal(scores[:, 1], [9.0, -2.0])  # of another, and as they were
