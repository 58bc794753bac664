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
