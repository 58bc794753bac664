from __future__ import annotations

import numpy as np
import pytest

import counterplay as cp


def test_rows_whose_mix_collides_go_by_item(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("counterplay.data.canonical._MIX_BITS", 1)
    rng = np.random.default_rng(0)
    rows = {"user": np.repeat([1, 2], 40), "item": np.tile(np.arange(40), 2)}
    log = cp.read(rows)
    for _ in range(5):
        order = rng.permutation(80)
        assert cp.read({name: column[order] for name, column in rows.items()}) == log


def test_ratings_order_tied_rows_of_a_pair_before_other_columns() -> None:
    rows = {"user": [1, 1, 2], "item": [1, 1, 2], "time": [5, 5, 5]}
    log = cp.read(rows | {"rating": [2.0, 1.0, 3.0], "position": [1, 2, 1]})
    assert log.rating is not None
    assert log.rating[:2].tolist() == [1.0, 2.0]
