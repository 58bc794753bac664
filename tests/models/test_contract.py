"""What every model must do; a new model is one more name in `NAMES`."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor

import counterplay as cp
from counterplay.models.factorization import GMF
from counterplay.models.registry import ModelName, build
from counterplay.models.scorer import History, Scorer
from counterplay.models.table import ScoreTable

from .conftest import NAMES, item_level, make_model, whole_table

Query = tuple[Tensor, Tensor, History]


MODELS: dict[str, Callable[[], Scorer]] = {
    f"{name} {features}": partial(make_model, name, features=features)
    for name in NAMES
    for features in (False, True)
} | {"item level": item_level, "table": whole_table}


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> Scorer:
    return MODELS[request.param]().eval()


def test_logits_have_the_shape_of_the_items(model: Scorer, query: Query) -> None:
    users, items, history = query
    logits = model(users, items, history)
    assert logits.shape == items.shape
    assert bool(torch.isfinite(logits).all())


def test_a_batch_equals_one_by_one(model: Scorer, query: Query) -> None:
    users, items, history = query
    together = model(users, items, history)
    for row in range(len(users)):
        alone = model(
            users[row : row + 1], items[row : row + 1], History.of(history.items[row : row + 1])
        )
        torch.testing.assert_close(alone[0], together[row])


def test_scoring_all_items_equals_scoring_each(model: Scorer, query: Query) -> None:
    users, _, history = query
    everything = torch.arange(model.n_items).expand(len(users), -1)
    torch.testing.assert_close(model.score_all(users, history), model(users, everything, history))


def test_a_copy_and_a_loaded_state_score_the_same(model: Scorer, query: Query) -> None:
    other = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(1)
    other.load_state_dict(model.state_dict())
    assert torch.equal(other(*query), model(*query))


def test_unknown_ids_get_a_finite_score_in_scoring(model: Scorer, query: Query) -> None:
    users, items, history = query
    if isinstance(model, ScoreTable):
        return  # what is not given has no score
    strange_items = torch.full_like(items, -1)
    for strange in (
        model(torch.full_like(users, -1), items, history),
        model(users, strange_items, history),
    ):
        assert bool(torch.isfinite(strange).all())
    assert torch.equal(*model(users, strange_items, history)[:, :2].T.unbind(0))


@pytest.mark.parametrize("features", [False, True])
@pytest.mark.parametrize("name", [name for name in NAMES if name != "pop"])
def test_every_parameter_gets_a_gradient(name: ModelName, features: bool) -> None:
    model = make_model(name, features=features).train()
    users, items = torch.arange(12), torch.arange(9).expand(12, -1)
    windows = torch.stack([torch.arange(6).roll(shift) for shift in range(12)])
    windows[0] = 9
    model(users, items, History.of(windows)).square().sum().backward()
    without = [key for key, value in model.named_parameters() if value.grad is None]
    still = [
        key
        for key, value in model.named_parameters()
        if value.grad is not None and not bool(value.grad.any())
    ]
    assert (without, still) == ([], [])


@pytest.mark.parametrize("name", NAMES)
def test_the_stream_decides_the_initial_values(name: ModelName, query: Query) -> None:
    first, again, other = (make_model(name, seed=seed).eval()(*query) for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert torch.equal(first, other) == (name == "pop")


@pytest.mark.parametrize("name", [name for name in NAMES if name != "pop"])
def test_items_without_training_are_what_their_features_say(name: ModelName) -> None:
    features = {"id": [0, 1, 2], "kind": ["a", "b", "b"], "price": [1.0, 2.0, 2.0]}
    log = cp.read({"user": [0, 1], "item": [0, 1]}, item_features=features, include_unseen=True)
    model = build(name, log, dim=4, generator=torch.Generator().manual_seed(0)).eval()
    history = History.of(torch.tensor([[3, 0, 1]]))
    scores = model(torch.tensor([1]), torch.tensor([[0, 1, 2]]), history)[0].tolist()
    assert scores[1] == pytest.approx(scores[2], abs=1e-6)
    assert scores[0] != pytest.approx(scores[1], abs=1e-6)


@pytest.mark.parametrize("sparse", [False, True])
def test_features_say_the_same_of_few_ids_and_of_all(sparse: bool) -> None:
    """Many ids are looked up in the whole table, few are computed one by one; gradients agree."""
    found = []
    for repeats in (1, 40):
        model = make_model("gmf", features=True).train()
        assert isinstance(model, GMF)
        model.item.sparse = sparse
        items = torch.tensor([[0, 2, 1]]).repeat(repeats, 1)
        scores = model(torch.zeros(repeats, dtype=torch.int64), items)
        scores.mean(0).sum().backward()
        assert model.item.features is not None
        held = [model.item.own, *model.item.features.parameters()]
        gradients = [each.grad.to_dense() for each in held if each.grad is not None]
        found.append([scores[0].detach(), *gradients])
    assert len(found[0]) == 4  # scores, and gradients of vectors, of tokens and of numbers
    for few, many in zip(*found, strict=True):
        torch.testing.assert_close(few, many)
