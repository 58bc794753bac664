from __future__ import annotations

import pytest

from counterplay.models.registry import ModelName, build

from .conftest import NAMES, make_log


@pytest.mark.parametrize("name", NAMES)
def test_every_name_builds_a_model_of_the_right_size(name: ModelName) -> None:
    log = make_log(features=True)
    model = build(name, log, dim=4)
    assert (model.n_users, model.n_items) == (12, 9)
    plain = build(name, log, dim=4, use_features=False)
    counts = [sum(value.numel() for value in each.parameters()) for each in (model, plain)]
    assert (counts[0] > counts[1]) == (name != "pop")


def test_parameters_are_counted_right() -> None:
    log = make_log(features=False)
    counts = {
        name: sum(value.numel() for value in build(name, log, dim=32).parameters())
        for name in NAMES
    }
    assert counts["pop"] == 0
    assert counts["cf"] == (12 + 9) * 33 + 1
    assert counts["gmf"] == (12 + 9) * 32 + 32 + 1
    assert counts["mlp"] == (12 + 9) * 32 + 2 * 32 * 64 + 64 + 64 * 32 + 32 + 32 * 16 + 16 + 17
    assert counts["ncf"] == (12 + 9) * 32 + 32 + counts["mlp"]
