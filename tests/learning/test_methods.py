"""What every method must do with every model: learn the checkerboard, the same way twice."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch

import counterplay as cp
from counterplay.learning.config import Game, LinkSettings, Training, Weighted
from counterplay.learning.methods.acl import acl
from counterplay.learning.methods.erm import erm
from counterplay.learning.methods.ps import ps
from counterplay.learning.records import Epoch, Fit
from counterplay.models.given import GivenExposure
from counterplay.models.registry import ModelName, build
from counterplay.models.scorer import Scorer

from .conftest import Checkerboard

NAMES: tuple[ModelName, ...] = ("cf", "gmf", "mlp", "ncf", "attn")
# a few steps of tiny models: g has hardly moved
pytestmark = pytest.mark.filterwarnings("ignore:the (opponent has|weights have) no effect")
SHARED = {"epochs": 25, "batch_size": 64, "rate": 0.03, "n_negatives": 4}


def model(name: ModelName, log: cp.Interactions, seed: int = 0) -> Scorer:
    generator = torch.Generator().manual_seed(seed)
    return build(name, log, dim=4, length=9, dropout=0.1, generator=generator)


def learn(
    method: str,
    name: ModelName,
    log: cp.Interactions,
    opponent: ModelName | None = None,
    **options: object,
) -> Fit:
    candidate, exposure = model(name, log), model(opponent or name, log, seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cp.CounterplayWarning)
        if method == "erm":
            return erm(candidate, log, Training.model_validate(SHARED | options))
        if method == "ps":
            return ps(candidate, exposure, log, Weighted.model_validate(SHARED | options))
        return acl(candidate, exposure, log, Game.model_validate(SHARED | options))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("method", ["erm", "ps", "acl"])
def test_the_withheld_item_ranks_first(
    method: str, name: ModelName, checkerboard: Checkerboard
) -> None:
    fit = learn(method, name, checkerboard.log)
    assert (checkerboard.ranks(fit.candidate) == 0).mean() == 1.0


@pytest.mark.parametrize(
    ("method", "name", "opponent"),
    [("acl", "gmf", "attn"), ("acl", "attn", "gmf"), ("ps", "attn", "pop"), ("ps", "gmf", "attn")],
)
def test_any_pair_of_models_can_play(
    method: str, name: ModelName, opponent: ModelName, checkerboard: Checkerboard
) -> None:
    fit = learn(method, name, checkerboard.log, opponent, epochs=2)
    assert fit.epochs[-1].propensity is not None


@pytest.mark.parametrize("method", ["erm", "ps", "acl"])
@pytest.mark.parametrize("name", ["gmf", "attn"])
def test_the_same_seed_gives_the_same_bytes(
    method: str, name: ModelName, checkerboard: Checkerboard
) -> None:
    first, again = (learn(method, name, checkerboard.log, epochs=3) for _ in range(2))
    for key, value in first.candidate.state_dict().items():
        assert torch.equal(value, again.candidate.state_dict()[key]), key
    other = learn(method, name, checkerboard.log, epochs=3, seed=5)
    assert any(
        not torch.equal(value, other.candidate.state_dict()[key])
        for key, value in first.candidate.state_dict().items()
    )


def test_propensities_of_one_are_plain_learning_bit_for_bit(checkerboard: Checkerboard) -> None:
    log = checkerboard.log
    certain = GivenExposure(log.n_users, log.n_items, lambda _, items: torch.ones(items.shape))
    for recipe in ("paper", "stable"):
        options = SHARED | {"epochs": 5, "recipe": recipe, "link": LinkSettings(learn=False)}
        with pytest.warns(
            cp.CounterplayWarning, match="the weights have no effect; this is plain learning"
        ):
            weighted = ps(model("gmf", log), certain, log, Weighted.model_validate(options))
        plain = erm(model("gmf", log), log, Training.model_validate(SHARED | {"epochs": 5}))
        for key, value in plain.candidate.state_dict().items():
            assert torch.equal(value, weighted.candidate.state_dict()[key]), (recipe, key)


def test_a_link_pinned_at_one_is_plain_learning(checkerboard: Checkerboard) -> None:
    """With an intercept of 80 every propensity is 1 in float32: the game is ERM."""
    plain = learn("erm", "gmf", checkerboard.log, epochs=4)
    link = LinkSettings(learn=False, with_outcome=False, intercept=80.0)
    game = learn("acl", "gmf", checkerboard.log, epochs=4, link=link)
    for key, value in plain.candidate.state_dict().items():
        assert torch.equal(value, game.candidate.state_dict()[key]), key


@pytest.mark.parametrize("recipe", ["paper", "stable"])
@pytest.mark.parametrize("method", ["ps", "acl"])
@pytest.mark.parametrize("observed_only", [False, True])
def test_a_link_is_learnt_where_some_propensities_are_one(
    method: str, recipe: str, observed_only: bool, checkerboard: Checkerboard
) -> None:
    """Certainty is no infinite score: 0 · ∞ in the slope of β1 would be no number."""
    log = checkerboard.log

    def propensity(_: torch.Tensor, items: torch.Tensor) -> torch.Tensor:
        return torch.where(items % 2 == 0, 1.0, 0.2)

    given = GivenExposure(log.n_users, log.n_items, propensity, observed_only=observed_only)
    options = SHARED | {"epochs": 3, "recipe": recipe}
    if method == "ps":
        fit = ps(model("gmf", log), given, log, Weighted.model_validate(options))
    else:
        fit = acl(model("gmf", log), given, log, Game.model_validate(options))
    assert fit.link is not None
    assert all(np.isfinite(fit.link.beta))
    assert fit.link.beta[1] != 1
    assert fit.epochs[0].propensity is not None
    assert fit.epochs[0].propensity[2] == pytest.approx(1)


@pytest.mark.parametrize("method", ["erm", "ps", "acl"])
def test_ratings_are_predicted(method: str, ratings: cp.Interactions) -> None:
    fit = learn(method, "cf", ratings, loss="squared", epochs=30, rate=0.08)
    users = torch.from_numpy(np.array(ratings.user))
    items = torch.from_numpy(np.array(ratings.item))[:, None]
    with torch.no_grad():
        predicted = fit.candidate(users, items)[:, 0].numpy()
    assert ratings.rating is not None
    assert np.sqrt(((predicted - ratings.rating) ** 2).mean()) < 0.4 < ratings.rating.std()


def test_lazy_and_dense_steps_reach_the_same_quality(checkerboard: Checkerboard) -> None:
    for optimizer in ("lazy", "dense"):
        for l2 in (0.0, 0.001):
            fit = learn("erm", "gmf", checkerboard.log, optimizer=optimizer, l2=l2)
            assert (checkerboard.ranks(fit.candidate) == 0).all()


def test_mixed_precision_learns_too(checkerboard: Checkerboard) -> None:
    fit = learn("acl", "gmf", checkerboard.log, precision="bfloat16")
    assert (checkerboard.ranks(fit.candidate) == 0).all()


def test_validation_keeps_the_best_state_of_all_players_and_stops(
    checkerboard: Checkerboard,
) -> None:
    log = checkerboard.log
    values = iter([0.1, 0.0, 0.5, 0.0, 0.4, 0.0, 0.3, 0.0, 0.2, 0.0])
    states: list[dict[str, torch.Tensor]] = []
    exposure = model("gmf", log, seed=1)

    def validate(judged: Scorer) -> float:
        return next(values)

    def note(epoch: Epoch) -> None:
        states.append({key: value.clone() for key, value in exposure.state_dict().items()})

    config = Game.model_validate(SHARED | {"patience": 3})
    fit = acl(model("gmf", log), exposure, log, config, validate=validate, callbacks=[note])
    assert (fit.best_epoch, len(fit.epochs)) == (1, 5)
    assert "no better validation value for 3 epochs" in fit.stopped
    assert torch.equal(exposure.state_dict()["item.own"], states[1]["item.own"])


def test_the_objective_that_stands_still_ends_the_game(checkerboard: Checkerboard) -> None:
    fit = learn(
        "acl",
        "gmf",
        checkerboard.log,
        epochs=40,
        rate=1e-9,
        exposure_rate=1e-9,
        n_negatives=64,
        stop_by="objective",
    )
    assert fit.stopped == "the objective stood still"
    assert len(fit.epochs) == 10


def test_divergence_is_an_error_that_says_what_to_change(checkerboard: Checkerboard) -> None:
    with pytest.raises(cp.DivergedError, match="lower the rates"):
        learn("erm", "gmf", checkerboard.log, loss="exponential", rate=1e6)


def test_explicit_logs_without_negatives_work(ratings: cp.Interactions) -> None:
    fit = learn("acl", "cf", ratings, loss="squared", n_negatives=0, epochs=2)
    assert fit.epochs[-1].exposure_loss is not None
    implicit = replace(ratings, rating=None)
    assert learn("erm", "cf", implicit, epochs=1).epochs[0].candidate_loss is not None


def test_what_judges_ratings_does_not_choose_the_exposure_model(ratings: cp.Interactions) -> None:
    candidate, exposure = (cp.models.build("cf", ratings, dim=2) for _ in range(2))
    judged: list[bool] = []

    def validate(model: cp.Scorer) -> float:
        judged.append(model is exposure)
        return 0.0

    first, second = cp.learning.Training(epochs=4), cp.learning.Weighted(epochs=2, loss="squared")
    cp.learning.ps(candidate, exposure, ratings, second, exposure_config=first, validate=validate)
    assert judged == [False] * 2  # the candidate alone: the other predicts no ratings
