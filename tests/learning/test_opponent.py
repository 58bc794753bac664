"""The worst exposure for candidates that stand still, on a checkerboard."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

import counterplay as cp
from counterplay.learning.batches import PairBatches
from counterplay.learning.config import Game, LinkSettings
from counterplay.learning.methods.opponent import opponent
from counterplay.models.popularity import ItemLevel
from counterplay.models.registry import ModelName, build
from counterplay.models.scorer import History, Scorer
from counterplay.models.table import ScoreTable

from .conftest import Checkerboard, N

# a few steps of tiny models: g has hardly moved
pytestmark = pytest.mark.filterwarnings("ignore:the opponent has no effect")
LINK = LinkSettings(with_outcome=False, floor=0.01, learn=False)
HARD = np.arange(N) % 4 < 2  # two items of each colour in four


def fresh(log: cp.Interactions, name: ModelName = "gmf", seed: int = 0) -> Scorer:
    generator = torch.Generator().manual_seed(seed)
    return build(name, log, dim=4, length=6, dropout=0.5, generator=generator)


def how(**changes: object) -> Game:
    shared = {"epochs": 3, "batch_size": 64, "exposure_rate": 0.05, "link": LINK}
    return Game.model_validate(shared | changes)


def same_state(one: Scorer, other: Scorer) -> bool:
    theirs = other.state_dict()
    return all(torch.equal(value, theirs[key]) for key, value in one.state_dict().items())


def wrong_about(hard: NDArray[np.bool_], log: cp.Interactions) -> ScoreTable:
    """A candidate that is sure and wrong of the hard items, sure and right of the others."""
    pairs = np.arange(log.n_users * log.n_items)
    right = np.where(np.isin(pairs, log.pair), 3.0, -3.0)
    logits = np.where(hard[pairs % log.n_items], -right, right).astype(np.float32)
    return ScoreTable(log.n_users, log.n_items, pairs, logits)


def mean_propensity(exposure: Scorer, items: NDArray[np.bool_]) -> float:
    with torch.no_grad():
        logits = exposure.score_all(torch.arange(1))[0]
    return float(torch.sigmoid(logits)[torch.from_numpy(items)].mean())


@pytest.mark.parametrize("name", ["pop", "gmf", "ncf", "attn"])
def test_g_moves_and_the_candidate_does_not(name: ModelName, checkerboard: Checkerboard) -> None:
    log = checkerboard.log
    candidate, exposure = fresh(log, name), fresh(log, seed=1)
    before, start = copy.deepcopy(candidate), copy.deepcopy(exposure)
    fit = opponent([candidate], exposure, log, how())
    assert same_state(candidate, before)
    assert [key for key, value in candidate.named_parameters() if value.grad is not None] == []
    assert not candidate.training
    assert fit.exposure is exposure
    for key, value in exposure.state_dict().items():
        assert not torch.equal(value, start.state_dict()[key]), key


def test_it_stops_when_the_objective_stands_still(checkerboard: Checkerboard) -> None:
    config = how(epochs=99, exposure_rate=1e-9, n_negatives=0)
    with pytest.warns(
        cp.CounterplayWarning, match="the opponent has no effect; this is plain evaluation"
    ):
        fit = opponent([fresh(checkerboard.log)], ItemLevel(N, N), checkerboard.log, config)
    assert (len(fit.epochs), fit.stopped) == (10, "the objective stood still")


def test_weight_goes_to_the_items_that_the_candidate_gets_wrong(checkerboard: Checkerboard) -> None:
    log = checkerboard.log
    exposures = {}
    for alpha in (0.5, 1e6):
        exposures[alpha] = ItemLevel(N, N)
        opponent([wrong_about(HARD, log)], exposures[alpha], log, how(alpha=alpha, epochs=20))
    hard, easy = (
        {alpha: mean_propensity(each, items) for alpha, each in exposures.items()}
        for items in (HARD, ~HARD)
    )
    assert hard[0.5] < hard[1e6] - 0.05
    assert easy[0.5] > easy[1e6] + 0.05
    assert hard[1e6] == pytest.approx(easy[1e6], abs=0.05)  # the data say nothing of the kind


def test_it_plays_on_given_pairs_and_on_no_others(checkerboard: Checkerboard) -> None:
    log = checkerboard.log
    pairs = np.arange(N * N)
    kept = pairs % N < 8
    batches = PairBatches(
        pairs[kept] // N,
        pairs[kept] % N,
        np.isin(pairs[kept], log.pair),
        batch_size=32,
        n_negatives=2,
    )
    exposure = ItemLevel(N, N)
    opponent([wrong_about(HARD, log)], exposure, log, how(), batches=batches)
    moved = exposure.bias[:, 0] != 0
    assert moved.tolist() == [item < 8 for item in range(N)]


def test_of_rated_items_only_the_observed_one_is_weighted(ratings: cp.Interactions) -> None:
    """With ratings the candidate is asked for the observed item; g sees the sampled ones too."""
    asked = []

    class Watched(ScoreTable):
        def forward(self, users: Tensor, items: Tensor, history: History | None = None) -> Tensor:
            asked.append(items.shape[1])
            return super().forward(users, items, history)

    pairs = np.arange(ratings.n_users * ratings.n_items)
    flat = np.full(len(pairs), 3.0, dtype=np.float32)
    candidate = Watched(ratings.n_users, ratings.n_items, pairs, flat)
    log = ratings.take(ratings.item != 7)  # an item that is sampled, and never rated
    exposure, alone = (ItemLevel(ratings.n_users, ratings.n_items) for _ in range(2))
    fit = opponent([candidate], exposure, log, how(loss="squared", epochs=5))
    opponent([candidate], alone, log, how(loss="squared", alpha=0))
    assert set(asked) == {1}
    assert exposure.bias[7] != 0  # held by the sampled items
    assert (alone.bias != 0)[:, 0].tolist() == [item != 7 for item in range(ratings.n_items)]
    losses = [epoch.exposure_loss for epoch in fit.epochs]
    assert losses[0] is not None
    assert losses[-1] is not None
    assert losses[-1] < losses[0]  # which pairs were rated is what holds g


def test_the_same_seed_gives_the_same_opponent(checkerboard: Checkerboard) -> None:
    log = checkerboard.log
    found = []
    for seed in (0, 0, 1):
        found.append(fresh(log, seed=1))
        opponent([fresh(log)], found[-1], log, how(seed=seed))
    assert same_state(found[0], found[1])
    assert not same_state(found[0], found[2])
