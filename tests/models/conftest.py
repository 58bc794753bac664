"""A log with features, and every model made for it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import counterplay as cp
from counterplay.models.popularity import ItemLevel
from counterplay.models.registry import ModelName, build
from counterplay.models.scorer import History, Scorer
from counterplay.models.table import ScoreTable

NAMES: tuple[ModelName, ...] = ("pop", "cf", "gmf", "mlp", "ncf", "attn")
LENGTH = 6
torch.set_num_threads(1)  # the models are tiny, and tests run side by side


def make_log(*, features: bool) -> cp.Interactions:
    rng = np.random.default_rng(0)
    n_users, n_items = 12, 9
    rows = {"user": np.arange(60) % n_users, "item": rng.integers(0, n_items, 60)}
    rows["item"][:n_items] = np.arange(n_items)
    tables = {
        "user_features": {"id": range(n_users), "age": rng.normal(size=n_users)},
        "item_features": {
            "id": range(n_items),
            "brand": [None, *"abcabcab"],
            "tags": [[], ["x"], ["x", "y"], ["z"], [], ["y"], ["z", "x"], ["y"], ["x"]],
            "price": [None, *map(float, range(8))],
        },
    }
    return cp.read(rows, **(tables if features else {}))  # type: ignore[arg-type]


def make_model(name: ModelName, *, features: bool = False, seed: int = 0) -> Scorer:
    generator = torch.Generator().manual_seed(seed)
    log = make_log(features=features)
    return build(name, log, dim=8, length=LENGTH, heads=2, dropout=0.3, generator=generator)


def item_level() -> ItemLevel:
    model = ItemLevel(12, 9)
    with torch.no_grad():
        model.bias.copy_(torch.arange(9.0)[:, None] / 4)
        model.constant.fill_(-1)
    return model


def whole_table() -> ScoreTable:
    pairs = np.arange(12 * 9)
    return ScoreTable(12, 9, pairs, np.sin(pairs).astype(np.float32))


@pytest.fixture
def query() -> tuple[torch.Tensor, torch.Tensor, History]:
    """Five users, four items each, histories of different lengths (9 is padding)."""
    generator = torch.Generator().manual_seed(1)
    users = torch.tensor([0, 3, 11, 3, 7])
    items = torch.randint(0, 9, (5, 4), generator=generator)
    windows = torch.randint(0, 9, (5, LENGTH), generator=generator)
    for row, n_padding in enumerate((0, 2, 5, 6, 1)):
        windows[row, :n_padding] = 9
    return users, items, History.of(windows)
