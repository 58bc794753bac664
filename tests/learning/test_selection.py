from __future__ import annotations

from dataclasses import replace

import pytest

import counterplay as cp
from counterplay.learning.config import Game, Training, Weighted
from counterplay.learning.methods.acl import acl
from counterplay.learning.methods.erm import erm

from .conftest import Checkerboard

EPOCHS = 3


@pytest.mark.filterwarnings("ignore::counterplay.CounterplayWarning")
@pytest.mark.parametrize(("method", "frozen"), [("ps", True), ("acl", False)])
def test_an_exposure_model_that_does_not_change_is_judged_once(
    method: str, frozen: bool, checkerboard: Checkerboard
) -> None:
    log = checkerboard.log
    candidate = cp.models.build("gmf", log, dim=2)
    exposure = cp.models.build("pop" if frozen else "gmf", log, dim=2)
    judged: list[bool] = []

    def validate(model: cp.Scorer) -> float:
        judged.append(model is exposure)
        return float(len(judged))

    if frozen:
        fit = cp.learning.ps(candidate, exposure, log, Weighted(epochs=EPOCHS), validate=validate)
    else:
        fit = cp.learning.acl(candidate, exposure, log, Game(epochs=EPOCHS), validate=validate)
    assert sum(judged) == (1 if frozen else EPOCHS)
    assert sum(not each for each in judged) == EPOCHS
    values = [epoch.exposure_validation for epoch in fit.epochs]
    assert values == ([2.0] * EPOCHS if frozen else [2.0, 4.0, 6.0])


@pytest.mark.filterwarnings("ignore::counterplay.CounterplayWarning")
def test_an_exposure_model_is_not_judged_by_ratings(ratings: cp.Interactions) -> None:
    config = Game(epochs=EPOCHS, loss="squared")
    candidate, exposure = (cp.models.build("cf", ratings, dim=2) for _ in range(2))
    judged: list[bool] = []

    def validate(model: cp.Scorer) -> float:
        judged.append(model is exposure)
        return 0.0

    fit = cp.learning.acl(candidate, exposure, ratings, config, validate=validate)
    assert judged == [False] * EPOCHS
    assert fit.epochs[-1].exposure_validation is None
    clicks = replace(ratings, rating=None)
    fit = cp.learning.acl(candidate, exposure, clicks, Game(epochs=1), validate=validate)
    assert fit.epochs[-1].exposure_validation == 0.0


def test_of_equal_values_the_first_epoch_is_kept() -> None:
    log = cp.read({"user": [0, 0, 1, 1], "item": [0, 1, 1, 2]})
    values = iter([0.5, 0.7, 0.7, 0.6])
    found = erm(
        cp.models.build("gmf", log, dim=2), log, Training(epochs=4), validate=lambda _: next(values)
    )
    assert found.best_epoch == 1


@pytest.mark.filterwarnings("ignore:the opponent has no effect")
def test_epochs_of_the_opponent_alone_do_not_count_as_standing_still() -> None:
    """With rates next to 0 the objective never moves: ten epochs after the warm-up it stops."""
    log = cp.read({"user": [0, 0, 1, 1], "item": [0, 1, 1, 2]})
    players = [cp.models.build("gmf", log, dim=2) for _ in range(2)]
    config = Game(
        epochs=30, warmup=5, rate=1e-12, exposure_rate=1e-12, stop_by="objective", n_negatives=0
    )
    found = acl(players[0], players[1], log, config)
    assert (len(found.epochs), found.stopped) == (15, "the objective stood still")
