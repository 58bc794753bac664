"""The game's gradients on tiny problems, and what it becomes at its ends.

Its steps are checked in test_steps.py.
"""

from __future__ import annotations

import pytest
import torch

import counterplay as cp
from counterplay.learning.config import Game, LinkSettings, Training, Weighted
from counterplay.learning.losses import LOSSES, LossName
from counterplay.learning.methods.acl import acl
from counterplay.learning.methods.erm import erm
from counterplay.learning.methods.ps import ps
from counterplay.learning.weighting import Groups, weighted_loss
from counterplay.models.link import Link
from counterplay.models.registry import build

from .conftest import Checkerboard

# a few steps of tiny models: g has hardly moved
pytestmark = pytest.mark.filterwarnings("ignore:the opponent has no effect")


@pytest.mark.parametrize("loss", ["logistic", "exponential", "squared"])
@pytest.mark.parametrize("groups", [(), (3,), (1, 2)])
@pytest.mark.parametrize("monotone", [False, True])
def test_gradients_equal_finite_differences(loss: LossName, groups: Groups, monotone: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    y = torch.tensor([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]], dtype=torch.float64)
    f, g = (
        torch.randn(2, 3, generator=generator, dtype=torch.float64, requires_grad=True)
        for _ in range(2)
    )
    link = Link(monotone=monotone, floor=1e-3, initial=(0.1, 0.7, 0.3)).double()
    delta = LOSSES[loss]

    def objective(f: torch.Tensor, g: torch.Tensor, *_: torch.Tensor) -> torch.Tensor:
        worst = weighted_loss(delta(y, f), link, g, y, groups)[0]
        return worst - 0.7 * delta(y, g).mean()

    assert torch.autograd.gradcheck(objective, (f, g, *link.parameters()))


def test_no_players_step_moves_the_other(checkerboard: Checkerboard) -> None:
    """With a rate too small to matter for one, only the other moves."""
    log = checkerboard.log
    for still, rates in (("exposure", (0.01, 1e-30)), ("candidate", (1e-30, 0.01))):
        players = {
            name: build("gmf", log, dim=4, generator=torch.Generator().manual_seed(seed))
            for seed, name in enumerate(("candidate", "exposure"))
        }
        before = {name: player.state_dict()["item.own"].clone() for name, player in players.items()}
        config = Game(epochs=1, batch_size=64, rate=rates[0], exposure_rate=rates[1])
        acl(players["candidate"], players["exposure"], log, config)
        moved = {
            name
            for name, player in players.items()
            if not torch.equal(before[name], player.state_dict()["item.own"])
        }
        assert moved == {"candidate", "exposure"} - {still}


def test_a_link_pinned_at_one_is_plain_learning(checkerboard: Checkerboard) -> None:
    """With an intercept of 80 every propensity is 1 in float32: the game is ERM."""
    log = checkerboard.log
    shared = {"epochs": 4, "batch_size": 64}

    def fresh(seed: int) -> object:
        return build("gmf", log, dim=4, generator=torch.Generator().manual_seed(seed))

    plain = erm(fresh(0), log, Training.model_validate(shared))  # type: ignore[arg-type]
    config = Game.model_validate(
        shared | {"link": LinkSettings(learn=False, with_outcome=False, intercept=80.0)}
    )
    with pytest.warns(
        cp.CounterplayWarning, match="the opponent has no effect; this is plain learning"
    ):
        game = acl(fresh(0), fresh(1), log, config)  # type: ignore[arg-type]
    for key, value in plain.candidate.state_dict().items():
        assert torch.equal(value, game.candidate.state_dict()[key]), key


def test_a_strong_regularizer_and_a_frozen_link_tend_to_propensity_scoring(
    checkerboard: Checkerboard,
) -> None:
    """As α grows, g does what it would do alone; the candidate meets the same weights as in PS."""
    log = checkerboard.log
    shared = {"epochs": 40, "batch_size": 64, "rate": 0.02, "link": LinkSettings(learn=False)}

    def fresh(seed: int) -> object:
        return build("gmf", log, dim=4, generator=torch.Generator().manual_seed(seed))

    reference = ps(fresh(0), fresh(1), log, Weighted.model_validate(shared))  # type: ignore[arg-type]
    assert reference.exposure is not None
    distances = []
    for alpha in (0.01, 100.0):
        game = acl(
            fresh(0),  # type: ignore[arg-type]
            fresh(1),  # type: ignore[arg-type]
            log,
            Game.model_validate(shared | {"alpha": alpha, "exposure_rate": 0.02}),
        )
        assert game.exposure is not None
        users = torch.arange(log.n_users)
        with torch.no_grad():
            ours, theirs = (
                torch.sigmoid(each.score_all(users)) for each in (game.exposure, reference.exposure)
            )
        distances.append(float((ours - theirs).abs().mean()))
    assert distances[1] < 0.5 * distances[0]
    assert distances[1] < 0.05
