from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch

import counterplay as cp
from counterplay.models.fallback import Fallback
from counterplay.models.popularity import ItemLevel
from counterplay.models.registry import ModelName

USER, ITEM = [0, 0, 1, 1, 3], [2, 1, 2, 0, 2]
N_USERS, N_ITEMS = 5, 4  # of users 2 and 4, and of item 3, there is no row
RATING = [5.0, 1.0, 4.0, 2.0, 3.0]


def make_log(*, ratings: bool = False, rows: int = len(USER)) -> cp.Interactions:
    users, items = (cp.data.Vocabulary.of(np.arange(n)) for n in (N_USERS, N_ITEMS))
    user, item = (np.array(each[:rows], dtype=np.int32) for each in (USER, ITEM))
    rating = np.array(RATING[:rows], dtype=np.float32) if ratings else None
    return cp.Interactions(users, items, user, item, rating)


@pytest.mark.parametrize("name", ["cf", "gmf", "mlp", "ncf"])
def test_whom_training_has_no_row_of_falls_back(name: ModelName) -> None:
    log = make_log()
    found = Fallback(cp.models.build(name, log, dim=2), log, log)
    assert found.unknown.tolist() == [False, False, True, False, True, True]


def test_whom_impressions_taught_is_known_except_to_a_model_of_histories() -> None:
    log, taught = make_log(), np.array([False, True, True, False, False])
    factors = Fallback(cp.models.build("gmf", log, dim=2), log, log, taught=taught)
    assert factors.unknown.tolist() == [False, False, False, False, True, True]
    model = cp.models.build("attn", log, dim=2, length=3)
    attention = Fallback(model, log, log, taught=taught)
    assert attention.unknown.tolist() == [False, False, True, False, True, True]


def test_a_model_of_histories_knows_whoever_has_one() -> None:
    train, seen = make_log(rows=2), make_log()
    attention = Fallback(cp.models.build("attn", train, dim=2, length=3), train, seen)
    assert attention.unknown.tolist() == [False, False, True, False, True, True]
    factors = Fallback(cp.models.build("gmf", train, dim=2), train, seen)
    assert factors.unknown.tolist() == [False, True, True, True, True, True]


def test_what_is_the_same_for_everybody_or_given_stays() -> None:
    log = make_log()
    for model in (
        cp.models.build("pop", log),
        ItemLevel(N_USERS, N_ITEMS),
        cp.Scorer(N_USERS, N_ITEMS),
    ):
        assert not Fallback(model, log, log).unknown.any()


def test_who_has_features_is_known_by_them() -> None:
    frame = {"user": USER, "item": ITEM}
    log = cp.read(frame, user_features={"id": [0, 1, 3], "age": [1.0, 2.0, 3.0]})
    assert not Fallback(cp.models.build("gmf", log, dim=2), log, log).unknown.any()
    plain = cp.models.build("gmf", log, dim=2, use_features=False)
    assert Fallback(plain, log, log.take(np.arange(2))).unknown.tolist() == [False] * 3 + [True]


def test_clicks_fall_back_to_popularity() -> None:
    log = make_log()
    found = Fallback(cp.models.build("gmf", log, dim=2), log, log)
    users = torch.tensor([2])
    pop = cp.models.build("pop", log)
    assert found.items[:-1].tolist() == pop.score_all(users)[0].tolist()
    assert found.items[-1] == pop(users, torch.tensor([[-1]]))[0, 0]
    events = Counter(ITEM)
    assert np.argsort(-found.items[:-1], kind="stable").tolist() == sorted(
        range(N_ITEMS), key=lambda item: -events[item]
    )


def test_ratings_fall_back_to_the_mean_of_the_item() -> None:
    log = make_log(ratings=True)
    found = Fallback(cp.models.build("cf", log, dim=2), log, log)
    mean = sum(RATING) / len(RATING)
    expected = []
    for item in range(N_ITEMS):
        own = [rating for each, rating in zip(ITEM, RATING, strict=True) if each == item]
        expected.append((sum(own) + mean) / (len(own) + 1))
    np.testing.assert_allclose(found.items, [*expected, mean], rtol=1e-6)
    assert expected[3] == mean
