from __future__ import annotations

from typing import Any

import pytest

from counterplay.data.readers import read
from counterplay.errors import ConfigError
from counterplay.models.names import MODELS
from counterplay.models.popularity import ItemLevel
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


def test_a_model_of_ones_own_is_entered_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODELS, "mine", ItemLevel)
    assert isinstance(build("mine", make_log(features=False)), ItemLevel)


@pytest.mark.parametrize(
    ("name", "size", "expected"),
    [
        ("gfm", {}, r"one of pop, .*; found 'gfm'; did you mean 'gmf'"),
        ("gmf", {"dim": 0}, "dim must be at least 1; found dim=0"),
        ("gmf", {"dims": 4}, "found 'dims'; did you mean 'dim'"),
    ],
)
def test_what_is_no_model_or_size_is_refused(
    name: str, size: dict[str, Any], expected: str
) -> None:
    with pytest.raises(ConfigError, match=expected):
        build(name, read({"user": [0, 1], "item": [0, 1]}), **size)
