from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import counterplay as cp
from counterplay.data.histories import Histories
from counterplay.evaluation import propensities
from counterplay.evaluation.propensities import (
    Contestant,
    fitted_propensities,
    own_propensities,
    popularity,
)
from counterplay.evaluation.settings import OpponentSettings
from counterplay.learning.config import Training
from counterplay.learning.methods.erm import erm
from counterplay.metrics.scoring import ModelScores
from counterplay.models.factorization import GMF
from counterplay.models.link import Link
from counterplay.models.neural import MLP
from counterplay.models.popularity import ItemLevel
from counterplay.models.registry import ModelName, ModelSettings, build
from counterplay.models.scorer import History, Scorer
from counterplay.models.table import Calibrated

pytestmark = [  # few epochs
    pytest.mark.filterwarnings("ignore:.*the opponent was still moving"),
    pytest.mark.filterwarnings("ignore:.*the opponent has no effect"),
]

QUICK = OpponentSettings(epochs=2, batch_size=64)


Kind = Literal["propensity", "opponent"]
KINDS: tuple[Kind, ...] = ("propensity", "opponent")


@dataclass(frozen=True)
class Stand:
    """Training rows, all that came before the test, and the test rows."""

    train: cp.Interactions
    seen: cp.Interactions
    targets: cp.Interactions

    def model(self, name: ModelName = "gmf", seed: int = 0) -> Scorer:
        generator = torch.Generator().manual_seed(seed)
        model = build(name, self.train, dim=4, length=5, generator=generator).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(3)  # so that propensities spread
        return model

    def contestant(
        self, method: str = "given", *, seed: int = 0, exposure: ModelName = "gmf"
    ) -> Contestant:
        candidate = self.model(seed=seed)
        link = Link(floor=0.02, monotone=True, initial=(0.4, 1.5, -0.6))
        brought = self.model(exposure, seed=seed + 10)
        scores = ModelScores(candidate, self.seen)
        return Contestant(f"{method}{seed}", scores, candidate, brought, link, method)

    def fitted(
        self,
        kind: Literal["propensity", "opponent"],
        *rivals: Contestant,
        settings: OpponentSettings = QUICK,
        targets: cp.Interactions | None = None,
    ) -> NDArray[np.float64]:
        rows = self.train, self.seen, targets or self.targets
        return fitted_propensities(kind, rivals, *rows, settings, seed=0)

    def own(self, contestant: Contestant) -> NDArray[np.float64]:
        return own_propensities(contestant, self.train, self.seen, self.targets)


@pytest.fixture(scope="module")
def ratings_stand(dataset: Path) -> Stand:
    split = cp.data.load_split(dataset)
    return Stand(split.train, split.interactions.take(split.part < 2), split.test)


@pytest.fixture(scope="module")
def stand(ratings_stand: Stand) -> Stand:
    return replace(ratings_stand, train=replace(ratings_stand.train, rating=None))


def own(contestant: Contestant, stand: Stand, outcomes: NDArray[np.floating]) -> list[float]:
    """Return σ(β0 + β1·g + β2·y) of a contestant's own opponent, row by row."""
    assert contestant.exposure is not None
    assert contestant.link is not None
    b0, b1, b2 = contestant.link.beta
    found = []
    for user, item, outcome in zip(
        stand.targets.user, stand.targets.item, outcomes.tolist(), strict=True
    ):
        with torch.no_grad():
            g = float(contestant.exposure(torch.tensor([user]), torch.tensor([[item]])))
        found.append(max(1 / (1 + np.exp(-(b0 + b1 * g + b2 * outcome))), contestant.link.floor))
    return found


def test_popularity_is_the_share_of_the_most_popular_item_not_below_the_floor() -> None:
    rows = {"user": [0, 1, 2, 3, 0, 1, 0], "item": [0, 0, 0, 0, 1, 1, 2]}
    train = cp.read(rows)
    targets = train.take(train.user == 0)
    for exponent, floor, by_item in ((1.0, 0.3, [1, 0.5, 0.3]), (2.0, 0.01, [1, 0.25, 0.0625])):
        found = popularity(train, targets, exponent, floor)
        assert found.tolist() == [by_item[item] for item in targets.item]
    assert popularity(train, targets, 0.0, 0.01).tolist() == [1, 1, 1]


def test_the_classes_of_opponents(stand: Stand) -> None:
    assert isinstance(OpponentSettings().build(stand.train, 0), ItemLevel)
    for kind, dim in (("low-rank", 2), ("low-rank", 5), ("own", 32)):
        settings = OpponentSettings.model_validate({"kind": kind, "dim": min(dim, 5)})
        built = settings.build(stand.train, 0)
        assert isinstance(built, GMF)
        assert built.dim == dim
    first, again, other = (
        OpponentSettings(kind="low-rank").build(stand.train, seed).state_dict()["user.own"]
        for seed in (0, 0, 1)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_the_settings_reach_the_game(stand: Stand) -> None:
    settings = OpponentSettings(
        alpha=0.3, floor=0.2, rate=0.07, epochs=5, n_negatives=3, batch_size=9
    )
    game = settings.game(stand.train, 4)
    assert (game.alpha, game.exposure_rate, game.rate, game.epochs) == (0.3, 0.07, 0.07, 5)
    assert (game.n_negatives, game.batch_size, game.seed) == (3, 9, 4)
    assert (game.link.floor, game.link.with_outcome, game.link.learn) == (0.2, False, False)
    explicit = replace(stand.train, rating=np.ones(len(stand.train), dtype=np.float32))
    assert (game.loss, settings.game(explicit, 4).loss) == ("logistic", "squared")
    assert OpponentSettings().game(stand.train, 0).batch_size == len(stand.train) // 32


def test_propensity_is_a_model_that_was_fitted_alone(stand: Stand) -> None:
    alone = ItemLevel(stand.train.n_users, stand.train.n_items)
    erm(alone, stand.train, Training(epochs=2, batch_size=len(stand.train) // 32, rate=0.02))
    with torch.no_grad():
        expected = torch.sigmoid(alone.score_all(torch.arange(1))[0]).numpy()
    found = stand.fitted("propensity", stand.contestant("erm"))
    np.testing.assert_allclose(found, expected[stand.targets.item], rtol=1e-6)
    assert np.ptp(found) > 0.02


def test_what_a_contestant_was_trained_with_is_taken_where_it_is_asked_for(stand: Stand) -> None:
    contestant = stand.contestant("acl")
    expected = own(contestant, stand, np.ones(len(stand.targets)))
    np.testing.assert_allclose(stand.own(contestant), expected, rtol=1e-5)
    assert max(expected) - min(expected) > 0.05
    with pytest.raises(cp.ConfigError, match="found 'acl0', which has none; leave opponent=own"):
        stand.own(replace(contestant, exposure=None, link=None))


def test_with_ratings_the_link_gets_them_as_training_has_them_standardised(
    ratings_stand: Stand,
) -> None:
    rating, train = ratings_stand.targets.rating, ratings_stand.train.rating
    assert rating is not None
    assert train is not None
    contestant = ratings_stand.contestant("acl")
    expected = own(contestant, ratings_stand, (rating - train.mean()) / train.std())
    np.testing.assert_allclose(ratings_stand.own(contestant), expected, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", ["erm", "ps", "acl"])
def test_what_a_contestant_brings_does_not_matter_where_one_is_fitted(
    kind: Kind, method: str, stand: Stand
) -> None:
    contestant = stand.contestant(method)
    bare = replace(contestant, exposure=None, link=None, method="given")
    found = stand.fitted(kind, contestant)
    assert (found == stand.fitted(kind, bare)).all()
    assert (found != stand.own(contestant)).all()


def test_an_opponent_is_against_all_rivals(stand: Stand) -> None:
    one, same, other = (stand.contestant("erm", seed=seed) for seed in (0, 0, 1))
    alone = stand.fitted("opponent", one)
    both = stand.fitted("opponent", one, other)
    assert (alone == stand.fitted("opponent", one, same)).all()
    assert (alone != both).any()
    np.testing.assert_allclose(both, stand.fitted("opponent", other, one), rtol=1e-4)
    assert (alone != stand.fitted("opponent", other)).any()


def test_an_opponent_reads_no_more_than_came_before_the_test(stand: Stand) -> None:
    contestant = stand.contestant("acl", exposure="attn")
    assert contestant.exposure is not None
    assert contestant.link is not None
    found = stand.own(contestant)
    windows = Histories(stand.seen).last(stand.targets.user, contestant.exposure.history_length)
    with torch.no_grad():
        scores = contestant.exposure(
            torch.from_numpy(np.array(stand.targets.user)),
            torch.from_numpy(np.array(stand.targets.item))[:, None],
            History.of(torch.from_numpy(windows)),
        )
        expected = contestant.link(scores, torch.ones_like(scores))[:, 0].numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    earlier = replace(stand, seen=stand.train)
    assert (found != earlier.own(contestant)).any()  # the last row before it counts


@pytest.mark.parametrize("kind", KINDS)
def test_the_targets_only_say_where_to_read_the_function(kind: Kind, stand: Stand) -> None:
    contestant = stand.contestant("erm")
    some = np.array([1, 3, 5, 20])
    whole = stand.fitted(kind, contestant)
    part = stand.fitted(kind, contestant, targets=stand.targets.take(some))
    np.testing.assert_allclose(part, whole[some], rtol=1e-6)


def test_evaluating_leaves_the_candidate_as_it_was(stand: Stand) -> None:
    contestant = stand.contestant("erm")
    assert contestant.model is not None
    before = copy.deepcopy(contestant.model.state_dict())
    for kind in KINDS:
        stand.fitted(kind, contestant)
    for key, value in contestant.model.state_dict().items():
        assert torch.equal(value, before[key]), key


def test_no_propensity_is_below_the_floor(stand: Stand) -> None:
    settings = OpponentSettings(epochs=6, batch_size=16, rate=0.3, floor=0.3)
    found = stand.fitted("opponent", stand.contestant("erm"), settings=settings)
    assert found.min() == pytest.approx(0.3)
    assert (found >= 0.3).all()
    assert (found <= 1).all()
    assert found.dtype == np.float64


def test_an_opponent_needs_somebody_to_play_against(stand: Stand) -> None:
    unknown = replace(stand.contestant(), name="als", model=None)
    with pytest.raises(cp.DataError, match=r"found none with 'als'; .* leave opponent out"):
        stand.fitted("opponent", unknown)
    assert len(stand.fitted("propensity", unknown)) == len(stand.targets)


def test_an_own_opponent_is_of_the_candidates_class(stand: Stand) -> None:
    settings = OpponentSettings(kind="own")
    assert isinstance(settings.build(stand.train, 0, ModelSettings(name="mlp", dim=4)), MLP)
    for own in (None, ModelSettings(name="pop")):  # nothing to learn there
        found = settings.build(stand.train, 0, own)
        assert isinstance(found, GMF)
        assert found.dim == 32


def test_the_scale_of_a_candidates_scores_does_not_matter(stand: Stand) -> None:
    """An opponent is paid in losses, which would hang on it; ranks do not."""
    plain = stand.contestant()
    assert plain.model is not None
    for slope, intercept in ((0.2, 0.0), (5.0, -4.0), (1.0, 3.0)):
        scaled = replace(plain, model=Calibrated(plain.model, slope, intercept))
        np.testing.assert_allclose(
            stand.fitted("opponent", scaled), stand.fitted("opponent", plain), rtol=1e-3
        )


def test_ratings_are_not_calibrated(ratings_stand: Stand) -> None:
    model = ratings_stand.model("cf")
    game = QUICK.game(ratings_stand.train, 0)
    assert propensities._calibrated(model, ratings_stand.train, game) is model


def test_the_smallest_propensity_is_another_for_ratings(stand: Stand, ratings_stand: Stand) -> None:
    assert QUICK.game(stand.train, 0).link.floor == 0.01
    assert QUICK.game(ratings_stand.train, 0).link.floor == 0.2
    assert OpponentSettings(floor=0.3).game(ratings_stand.train, 0).link.floor == 0.3


def test_an_objective_that_is_only_shaken_does_not_move() -> None:
    """Beyond three standard errors by chance: t with 18 degrees of freedom, 0.8% of the time.

    Of 1,000 draws more than 2% would be so about once in 20,000 times.
    """
    noise = np.random.default_rng(0).normal(scale=0.02, size=(1000, 50))
    assert np.mean([propensities._moves(each.tolist()) for each in noise]) < 0.02
    slope = np.linspace(0, 0.5, 50)
    assert all(propensities._moves((slope + each).tolist()) for each in noise[:20])
    assert propensities._moves([0.0] * 19)  # too few to tell
    assert not propensities._moves(np.linspace(0, 0.004, 50).tolist())  # that is nothing
