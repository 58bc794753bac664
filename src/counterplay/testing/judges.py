"""What every estimator and every world must do."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch

from counterplay.data.splits import split_at_random
from counterplay.evaluation.propensities import Contestant
from counterplay.evaluation.settings import OpponentSettings
from counterplay.evaluation.stage import Evaluation, Stage
from counterplay.metrics.ranks import hide
from counterplay.metrics.scoring import ModelScores
from counterplay.models.registry import build
from counterplay.simulation.checks import check_world
from counterplay.simulation.logs import DAY, START
from counterplay.simulation.store import load_world, save_world
from counterplay.simulation.synthetic import Synthetic
from counterplay.simulation.writing import split_of
from counterplay.testing.notes import without_notes

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from counterplay.evaluation.estimators import Estimator
    from counterplay.simulation.world import World

Z = 4.0  # standard errors; a false alarm is 1 in 16,000


class EstimatorContract:
    """What every estimator that gives propensities must do. A subclass has `estimator`."""

    estimator: ClassVar[Estimator]

    def world(self) -> World:
        """Return the world that the log is drawn from; it states propensities."""
        return Synthetic(n_users=60, n_items=30, n_shown=6, skew=0.5).world()

    def _stage(self, *, with_truth: bool = True) -> tuple[Stage, list[Contestant]]:
        world = self.world()
        if self.estimator.needs == "impressions":
            split = split_of(world, (1.0, 0.5, 1.0), impressions=True)
        else:
            log, rng = world.log(with_truth=with_truth), np.random.default_rng(0)
            split = split_at_random(log, rng, fractions=(0.2, 0.2))
        config = Evaluation(opponent=OpponentSettings(epochs=2), estimators=("standard",))
        stage = Stage(split, config, explicit=False, world=world if with_truth else None)
        contestants = []
        for seed, name in enumerate(("one", "two")):
            generator = torch.Generator().manual_seed(seed)
            model = build("gmf", stage.train, dim=4, generator=generator).eval()
            contestants.append(Contestant(name, ModelScores(model, stage.seen), model))
        return stage, contestants

    def _propensities(self) -> list[NDArray[np.float64]]:
        stage, contestants = self._stage()
        assert self.estimator.propensities is not None, "a worst case has no propensities"
        with without_notes():
            return [self.estimator.propensities(stage, each, contestants) for each in contestants]

    def test_propensities_are_probabilities_of_the_rows(self) -> None:
        stage, _ = self._stage()
        for found in self._propensities():
            assert found.shape == (len(stage.targets),)
            assert ((found > 0) & (found <= 1)).all()

    def test_the_same_seed_gives_the_same_bytes(self) -> None:
        for first, again in zip(self._propensities(), self._propensities(), strict=True):
            assert first.tobytes() == again.tobytes()

    def test_what_is_shared_is_the_same_for_all_candidates(self) -> None:
        first, second = self._propensities()
        assert not self.estimator.shared or np.array_equal(first, second)

    def test_it_says_what_it_needs(self) -> None:
        stage, _ = self._stage(with_truth=False)
        bare = replace(stage.targets, propensity=None)
        assert self.estimator.applies(bare, world=False) == (self.estimator.needs is None)

    def test_it_says_what_it_assumes(self) -> None:
        assert self.estimator.title[:1].isupper()
        assert self.estimator.assumes.endswith(".")


class WorldContract:
    """What every world must do. A subclass has `make`: about 60 users and 30 items."""

    rates: ClassVar[tuple[float, ...]] = (1.0, 0.7)

    def make(self) -> World:
        """Return the world."""
        raise NotImplementedError

    def test_checks_find_nothing(self) -> None:
        """The probability of a false alarm is 1e-6."""
        assert [finding for finding in check_world(self.make()) if not finding.ok] == []

    def test_weighted_clicks_add_up_to_the_demand(self) -> None:
        """And to the demand for items of a list."""
        for errors in errors_of_the_oracle(self.make(), 200, self.rates):
            assert abs(standard_errors_from_0(errors)) < Z

    def test_impressions_hold_the_clicks_and_random_rows_change_none(self) -> None:
        world = self.make()
        clicks = world.log(self.rates, with_truth=True)
        for share in (0.0, 0.3):
            shown = world.log(self.rates, impressions=True, random_share=share, with_truth=True)
            assert shown.clicked is not None
            chosen = shown.clicked if shown.random is None else shown.clicked & ~shown.random
            assert (shown.random is not None) == (share > 0)
            assert 0 < chosen.sum() < len(shown)
            for name, column in clicks.columns():
                assert getattr(shown, name)[chosen].tobytes() == column.tobytes()

    def test_weighted_random_clicks_add_up_to_the_demand(self) -> None:
        """Of the first round, where nothing is clicked yet."""
        world, errors = self.make(), []
        demand = world.relevance(np.arange(world.n_users)).sum()
        for sample in range(100):
            log = world.log(
                self.rates[:1], sample=sample, impressions=True, random_share=0.5, with_truth=True
            )
            assert log.clicked is not None
            assert log.random is not None
            assert log.propensity is not None
            errors.append((1 / log.propensity[log.clicked & log.random]).sum() - demand)
        assert abs(standard_errors_from_0(np.array(errors))) < Z

    def test_a_saved_world_draws_the_same_bytes(self, tmp_path: Path) -> None:
        world = self.make()
        save_world(world, tmp_path / "world")
        loaded = load_world(tmp_path / "world")
        drawn, again = (each.log(sample=1, with_truth=True) for each in (world, loaded))
        assert drawn.fingerprint == again.fingerprint


def errors_of_the_oracle(
    world: World, n_samples: int, rates: tuple[float, ...] = (1.0, 0.7), *, marginal: bool = False
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return `Σ v/q over the clicks of a round − Σ r·v over pairs not clicked before`, by sample.

    v is 1, and then whether the item is in a fixed list of ten that each user has. With `marginal`
    q is the propensity without the occasion, as a click model has it.
    """
    users = np.arange(world.n_users)
    listed = np.zeros((world.n_users, world.n_items))
    best = np.random.default_rng(0).random(listed.shape).argsort(1)[:, :10]
    np.put_along_axis(listed, best, 1.0, axis=1)
    relevance = world.relevance(users, time=len(rates) - 1.0)
    stated = rates[-1] * world.propensity(users)
    errors = np.empty((n_samples, 2))
    for sample in range(n_samples):
        log = world.log(rates, sample=sample, with_truth=True)
        assert log.time is not None
        is_last = log.time >= START + (len(rates) - 1) * DAY
        earlier, clicks = log.take(~is_last), log.take(is_last)
        unseen = hide(relevance.copy(), users, earlier)
        assert clicks.propensity is not None
        pairs = clicks.user, clicks.item
        weights = 1 / (stated[pairs] if marginal else clicks.propensity)
        errors[sample] = (
            weights.sum() - np.nansum(unseen),
            (weights * listed[pairs]).sum() - np.nansum(unseen * listed),
        )
    return errors[:, 0], errors[:, 1]


def standard_errors_from_0(errors: NDArray[np.float64]) -> float:
    """Return how many standard errors the mean is from 0."""
    return float(errors.mean() / (errors.std(ddof=1) / len(errors) ** 0.5))
