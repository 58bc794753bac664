"""A model that is made for some users scores them as the whole model does, to the byte."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from torch import nn

import counterplay as cp
from counterplay.data.directory import load_split, save
from counterplay.data.features import FeatureTable
from counterplay.data.user_rows import Checked
from counterplay.errors import ConfigError
from counterplay.metrics.scoring import ModelScores
from counterplay.models.factorization import GMF
from counterplay.models.names import MODELS
from counterplay.models.registry import ModelSettings
from counterplay.models.solved import Solved
from counterplay.models.some_users import ForSome, can_be_made_for_some

pytestmark = pytest.mark.filterwarnings("ignore::counterplay.CounterplayWarning")
N_USERS, N_ITEMS = 50, 20


@pytest.fixture(scope="module", params=["plain", "features"])
def data(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng, n = np.random.default_rng(0), 900
    rows = {
        "user": np.append(rng.integers(0, N_USERS, n), np.arange(N_USERS)),
        "item": np.append(rng.integers(0, N_ITEMS, n), np.arange(N_USERS) % N_ITEMS),
        "time": np.arange(n + N_USERS),
    }
    tables: dict[str, Any] = {}
    for name, count in (("user", N_USERS), ("item", N_ITEMS)):
        frame = pl.DataFrame(
            {
                **{f"number{each}": rng.random(count) for each in range(30)},
                "kind": [None if each % 7 == 0 else f"k{each % 3}" for each in range(count)],
                "tags": [[f"t{tag}" for tag in range(each % 4)] for each in range(count)],
            }
        )
        tables[f"{name}_features"] = FeatureTable(frame)
    log = replace(cp.read(rows), **tables if request.param == "features" else {})
    folder = tmp_path_factory.mktemp("some") / "data"
    save(cp.data.split_by_time(log, fractions=(0.2, 0.2)), folder)
    return folder


@pytest.mark.parametrize("name", MODELS)
def test_some_users_are_scored_as_by_the_whole_model(name: str, data: Path) -> None:
    split, rng = load_split(data), np.random.default_rng(1)
    size = ModelSettings(name=name, dim=16, length=5, neighbours=6, sweeps=2)
    whole = size.build(split.train, torch.Generator().manual_seed(0))
    if isinstance(whole, Solved):
        whole.solve(split.train)
    with torch.no_grad():
        for value in whole.parameters():
            value.add_(torch.from_numpy(rng.normal(0, 0.3, value.shape)).to(value.dtype))
    about = Checked(data, (split.interactions.fingerprint, split.fingerprint))
    made = ForSome(size, about.nobody(), whole.state_dict(), N_USERS)
    seen = split.interactions.take(split.part < 2)
    expected = ModelScores(whole, seen)
    for users in (np.arange(3, 25, 2), np.array([49]), np.arange(N_USERS)):
        rows = about.rows(users)
        model = made.give(users, rows.train)
        assert (model.n_users, model.n_items) == (len(users), N_ITEMS)
        found = ModelScores(model, rows.before(2))
        items = rng.integers(0, N_ITEMS, (40, 6))
        for most in (len(users), 1):  # 40 queries of one user: features are said of one
            asked = rng.integers(0, most, 40)  # more than there are, and fewer than there were
            for mine, others in (
                (found.of_all(asked), expected.of_all(users[asked])),
                (found.of(asked, items), expected.of(users[asked], items)),
                (found.of_block(asked, slice(4, 9)), expected.of_block(users[asked], slice(4, 9))),
            ):
                assert mine.tobytes() == others.tobytes()
    assert model.learns_each_user == whole.learns_each_user


def test_only_rows_of_its_users_are_held(data: Path) -> None:
    split = load_split(data)
    size = ModelSettings(name="ncf", dim=4)
    whole = size.build(split.train, torch.Generator().manual_seed(0))
    about = Checked(data, (split.interactions.fingerprint, split.fingerprint))
    made = ForSome(size, about.nobody(), whole.state_dict(), N_USERS)
    users = np.array([4, 9, 11])
    model = made.give(users, about.rows(users).train)
    held = {name: len(value) for name, value in model.state_dict().items() if "user." in name}
    assert held["user.own"] == held["perceptron.user.own"] == 3
    if "user.features.numbers" in held:
        assert (held["user.features.numbers"], held["user.features.offsets"]) == (3, 4)
        assert held["user.features.tokens"] < 4 * 3
    own = model.get_parameter("user.own").untyped_storage().nbytes()
    assert own < whole.get_parameter("user.own").nbytes / 4  # no view of the whole


def test_a_model_of_ones_own_does_not_inherit_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Own(GMF):
        """Whatever it knows of its users."""

    monkeypatch.setitem(MODELS, "own", Own)
    assert can_be_made_for_some(ModelSettings(name="gmf"))
    assert not can_be_made_for_some(ModelSettings(name="own"))


def test_tables_that_it_cannot_take_rows_of_are_refused(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Own(GMF):
        made_for_some = True

        def __init__(self, n_users: int, n_items: int, **options: Any) -> None:
            super().__init__(n_users, n_items, **options)
            self.habit = nn.Parameter(torch.zeros(n_users, 2))

    monkeypatch.setitem(MODELS, "own", Own)
    size, split = ModelSettings(name="own", dim=4), load_split(data)
    stored = size.build(split.train, None).state_dict()
    about = Checked(data, (split.interactions.fingerprint, split.fingerprint))
    with pytest.raises(ConfigError, match=r"found that own does not \(.*habit.*\); leave made_for"):
        ForSome(size, about.nobody(), stored, N_USERS)
