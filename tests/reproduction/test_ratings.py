"""Learners of ratings: equal trials, the right truth, gains that are paired, and the page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from counterplay.errors import ConfigError
from reproduction import ratings, ratings_fit, ratings_settings
from reproduction.datasets import Place
from reproduction.learners_settings import LearnersSettings
from reproduction.ratings_fit import COAT, LEARNERS, learnt, ratings_of, trials_of
from reproduction.ratings_settings import RatingsTuning, tuned


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A small Coat: item 0 is liked by all; half of the pairs were chosen, the rest is random."""
    rng, folder = np.random.default_rng(0), tmp_path / "data" / "coat"
    folder.mkdir(parents=True)
    liked = np.where(np.arange(12) == 0, 5, 1 + np.arange(12) % 4)
    rating = np.tile(liked, (20, 1))
    chosen = rng.random(rating.shape) < 0.5
    for name, part in (("train", chosen), ("test", ~chosen)):
        np.savetxt(folder / f"{name}.ascii", np.where(part, rating, 0), fmt="%d")
    np.savetxt(folder / "propensities.ascii", rng.uniform(0.2, 0.8, rating.shape))
    monkeypatch.setattr(ratings_fit, "EPOCHS", 40)
    monkeypatch.setattr(ratings_fit, "PATIENCE", 3)
    ratings_of.cache_clear()
    return Place(tmp_path / "data", tmp_path / "out")


@pytest.mark.parametrize("name", LEARNERS)
def test_every_learner_has_as_many_different_trials_within_its_ranges(name: str) -> None:
    trials = trials_of(name, 6)
    assert len({str(each) for each in trials}) == 6
    for settings in trials:
        for key, (low, high) in LEARNERS[name].ranges.items():
            assert low <= settings[key] <= high


@pytest.mark.parametrize("name", LEARNERS)
def test_every_learner_is_judged_by_the_ratings_of_random_items(place: Place, name: str) -> None:
    found = tuned(RatingsTuning(learner=name, n_trials=2, seeds=(100,)), place)
    assert len(found["trials"]) == 2
    values = [each["validation"] for each in found["trials"]]
    assert found["chosen"] == found["trials"][int(np.argmax(values))]["settings"]
    assert 0 < found["trials"][0]["truth"] < 15


def test_who_knows_propensities_has_them_and_others_do_not(place: Place) -> None:
    known, other = (ratings_of(3, knows, place).split for knows in (True, False))
    table = np.loadtxt(place.data / "coat" / "propensities.ascii")
    assert other.train.propensity is None
    assert known.train.propensity is not None
    pairs = known.train.user, known.train.item
    np.testing.assert_allclose(known.train.propensity, table[pairs])
    np.testing.assert_array_equal(known.part, other.part)


def test_a_learner_that_fits_is_near_the_truth(place: Place) -> None:
    settings = {"training.rate": 0.05, "training.l2": 1e-3, "candidate.dim": 4}
    found = learnt("erm", settings, 0, place)
    random = ratings_of(0, False, place).random
    assert random.rating is not None
    assert found["truth"] < np.var(random.rating)


def test_reported_seeds_wait_for_frozen_settings(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = LearnersSettings(frozen=False, n_seeds={}, chosen={})
    monkeypatch.setattr(ratings, "settings", lambda: asked)
    with pytest.raises(ConfigError, match="frozen"):
        ratings.run(place)
    assert min(ratings_settings.SEEDS) > max(ratings_settings.settings().n_seeds[COAT], 0)


def test_gains_are_paired_and_smaller_errors_are_gains() -> None:
    def result(name: str, seed: int, truth: float) -> dict[str, Any]:
        ess = None if name == "erm" else 0.5
        return {"learner": name, "seed": seed, "truth": truth, "ess": ess, "seconds": 1.0}

    plain = [1.0, 1.1, 1.2]
    found = [result("erm", seed, value) for seed, value in enumerate(plain)]
    for name in LEARNERS:
        if name != "erm":
            factor = 0.9 if name == "ips" else 1.2
            found += [result(name, s, factor * v) for s, v in enumerate(plain)]
    lines = ratings.summarised(found)
    assert lines["ips"]["gain"]["value"] == pytest.approx(10)
    assert lines["ps"]["gain"]["high"] == pytest.approx(-20)
    text = ratings.page(lines)
    assert "beyond chance: `ips` (+10.0 % [+10.0, +10.0]). Above it: `ps`" in text
    assert "| ips | ratings, propensities | 0.990 | +10.0 % [+10.0, +10.0] | 50% | 1 |" in text
    assert len(ratings.rows(lines)) == len(LEARNERS) - 1
