from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import counterplay as cp
from counterplay.metrics.scoring import ModelScores, TableScores
from counterplay.models.registry import ModelName, build
from counterplay.models.scorer import History, Scorer

from .conftest import MODELS, MODELS_TO_WRITE_OVER, log_of

LENGTH = 4
SEEN = [(0, 3), (0, 1), (0, 4), (0, 1), (0, 5), (0, 9), (1, 2), (2, 0), (2, 8)]  # none of user 3


def seen_log() -> cp.Interactions:
    return log_of(SEEN, 4, 11)


def make_model(name: ModelName) -> Scorer:
    generator = torch.Generator().manual_seed(0)
    return build(name, seen_log(), dim=8, length=LENGTH, generator=generator).eval()


@pytest.mark.parametrize("name", MODELS)
def test_scores_of_items_are_those_of_all_items_gathered(name: ModelName) -> None:
    scores, rng = ModelScores(make_model(name), seen_log()), np.random.default_rng(0)
    users, items = np.array([3, 0, 0, 2, 1]), rng.integers(0, 11, (5, 6))
    found, everything = scores.of(users, items), scores.of_all(users)
    assert found.dtype == everything.dtype == np.float32
    assert everything.shape == (5, 11)
    expected = [[everything[row, item] for item in items[row]] for row in range(5)]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert np.unique(found).size > 1


@pytest.mark.parametrize("name", MODELS_TO_WRITE_OVER)
def test_what_is_returned_may_be_written_over(name: ModelName) -> None:
    scores, users = ModelScores(make_model(name), seen_log()), np.array([1, 0])
    before = scores.of_all(users).copy()
    for asked in (users, users[:1]):
        scores.of_all(asked)[:] = np.nan
        assert scores.of_all(users).tolist() == before.tolist()


def window(user: int) -> list[int]:
    """Return a user's last items, padded on the left with the number of items."""
    items = [item for who, item in SEEN if who == user][-LENGTH:]
    return [11] * (LENGTH - len(items)) + items


def test_histories_are_what_was_seen() -> None:
    model, users = make_model("attn"), np.array([2, 0, 3, 1])
    assert [window(0), window(3)] == [[4, 1, 5, 9], [11] * 4]
    history = History.of(torch.tensor([window(user) for user in users]))
    with torch.no_grad():
        expected = model.score_all(torch.from_numpy(users), history).numpy()
    found = ModelScores(model, seen_log()).of_all(users)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_only_models_with_histories_mind_what_was_seen(name: ModelName) -> None:
    model, users = make_model(name), np.array([0, 1])
    other = log_of([(0, 3), (0, 1), (0, 9), (0, 5), (1, 2)], 4, 11)  # user 0 in another order
    one, two = (ModelScores(model, seen).of_all(users) for seen in (seen_log(), other))
    same = (one == two).all(axis=1)
    assert same.tolist() == ([False, True] if name == "attn" else [True, True])


N_USERS, N_ITEMS = 5, 7
PAIR = st.tuples(st.integers(0, N_USERS - 1), st.integers(0, N_ITEMS - 1))
SCORE = st.floats(width=32, allow_nan=False)
GIVEN = st.dictionaries(PAIR, SCORE, min_size=1, max_size=N_USERS * N_ITEMS)


def table_of(given_scores: dict[tuple[int, int], float]) -> TableScores:
    user, item = np.array(list(given_scores), dtype=np.int32).reshape(-1, 2).T
    return TableScores(user, item, np.array(list(given_scores.values()), dtype=float), N_ITEMS)


@given(GIVEN, st.lists(st.integers(0, N_USERS - 1), max_size=8), st.integers(0, 99))
def test_a_table_equals_a_dictionary(
    pairs: dict[tuple[int, int], float], users: list[int], seed: int
) -> None:
    items = np.random.default_rng(seed).integers(0, N_ITEMS, (len(users), 3))
    found = table_of(pairs).of(np.array(users, dtype=np.int32), items)
    assert found.dtype == np.float64
    assert found.tolist() == [
        [pairs.get((user, item), -np.inf) for item in row]
        for user, row in zip(users, items.tolist(), strict=True)
    ]


@given(GIVEN, st.lists(st.integers(0, N_USERS - 1), max_size=8))
def test_a_table_of_all_items_equals_a_dictionary(
    pairs: dict[tuple[int, int], float], users: list[int]
) -> None:
    found = table_of(pairs).of_all(np.array(users, dtype=np.int32))
    assert found.dtype == np.float64
    assert found.shape == (len(users), N_ITEMS)
    assert found.tolist() == [
        [pairs.get((user, item), -np.inf) for item in range(N_ITEMS)] for user in users
    ]


def test_a_large_table_does_not_overflow() -> None:
    """The last pair of 3 million users and 1,000 items is past 2^31."""
    last = np.array([2_999_999], dtype=np.int32)
    scores = TableScores(last, np.array([999], np.int32), np.array([0.5]), 1000)
    assert scores.of(last, np.array([[999, 998]], np.int32)).tolist() == [[0.5, -np.inf]]
    assert scores.of_all(last)[0].argmax() == 999


def test_an_empty_table_has_no_scores() -> None:
    scores = table_of({})
    assert np.isneginf(scores.of_all(np.array([0, 1]))).all()
    assert np.isneginf(scores.of(np.array([0]), np.array([[1, 2]]))).all()


COLD = np.array([3])  # of whom there is no row


@pytest.mark.parametrize("name", ["cf", "gmf", "mlp", "ncf", "attn"])
def test_a_user_without_training_rows_gets_popularity_and_nobody_else_notices(
    name: ModelName,
) -> None:
    model, log = make_model(name), seen_log()
    own, with_fallback = ModelScores(model, log), ModelScores(model, log, train=log)
    pop = ModelScores(build("pop", log), log)
    users = np.array([0, 3, 2, 1])
    items = np.random.default_rng(1).integers(0, 11, (4, 6))
    warm = users != 3
    found, before = with_fallback.of_all(users), own.of_all(users)
    assert found[warm].tobytes() == before[warm].tobytes()
    assert found[1].tolist() == pop.of_all(COLD)[0].tolist() != before[1].tolist()
    found, before = with_fallback.of(users, items), own.of(users, items)
    assert found[warm].tobytes() == before[warm].tobytes()
    assert found[1].tolist() == pop.of(COLD, items[1:2])[0].tolist()


def test_a_row_after_training_tells_a_model_of_histories_alone_something() -> None:
    train, seen = seen_log(), log_of([*SEEN, (3, 7)], 4, 11)
    pop = ModelScores(build("pop", train), train).of_all(COLD)
    cases: list[tuple[ModelName, bool]] = [("gmf", True), ("attn", False)]
    for name, falls_back in cases:
        model = make_model(name)
        found = ModelScores(model, seen, train=train).of_all(COLD)
        own = ModelScores(model, seen).of_all(COLD)
        assert found.tolist() == (pop if falls_back else own).tolist()
