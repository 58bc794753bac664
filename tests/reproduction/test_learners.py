"""Learners on trial: equal trials, choices by validation, gains and siblings that are right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from counterplay.errors import ConfigError
from counterplay.tuning.space import searched
from reproduction import learners, learners_fit, learners_settings, trial_worlds
from reproduction.datasets import Place
from reproduction.learners_fit import COAT, LEARNERS, LESS_L2, PLACES, setting_of, trials_of
from reproduction.learners_settings import LearnersSettings, LearnerTuning, tuned
from reproduction.learners_summary import better, page, rows, summarised

SMALL = {"n_users": 60, "n_items": 50, "n_shown": 10.0, "mean_relevance": 0.4}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setattr(trial_worlds, "SIZE", SMALL)
    monkeypatch.setattr(learners_fit, "PATIENCE", 1)
    setting_of.cache_clear()
    return Place(tmp_path / "data", tmp_path / "out")


@pytest.mark.parametrize("name", LEARNERS)
def test_every_learner_has_as_many_different_trials_within_what_is_searched(
    place: Place, name: str
) -> None:
    here = setting_of("history", 100, place)
    trials = trials_of(name, here, 6)
    assert len({str(sorted(each.items())) for each in trials}) == 6
    learner = LEARNERS[name]
    ranges = searched(learner.tuning(100), learner.method)
    for settings in trials:
        assert settings.keys() == ranges.keys() | learner.fixed.keys()
        for key, ends in ranges.items():
            value = settings[key]
            assert value in ends if isinstance(value, str) else ends[0] <= value <= ends[-1]


@pytest.mark.parametrize("name", LEARNERS)
def test_every_learner_learns_in_a_world(place: Place, name: str) -> None:
    job = LearnerTuning(mechanism="history", learner=name, n_trials=2, seeds=(100,))
    found = tuned(job, place)
    values = [each["validation"] for each in found["trials"]]
    assert len(values) == 2
    assert found["chosen"] == found["trials"][int(np.argmax(values))]["settings"]
    assert 0 < max(each["truth"] for each in found["trials"]) <= 100


def test_reported_seeds_wait_for_frozen_settings(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = LearnersSettings(frozen=False, n_seeds={}, chosen={})
    monkeypatch.setattr(learners, "settings", lambda: asked)
    with pytest.raises(ConfigError, match="frozen"):
        learners.run(place)


def test_settings_are_chosen_on_seeds_that_are_not_reported() -> None:
    reported = learners_settings.settings().n_seeds.values()
    assert min(learners_settings.SEEDS) > max(reported)
    needy = [name for name, each in LEARNERS.items() if each.needs]
    asked = [(job.mechanism, job.learner) for job in learners_settings.jobs()]
    assert not set(asked) & {(COAT, name) for name in needy}
    assert len(asked) == len(set(asked)) == len(PLACES) * len(LEARNERS) - len(needy)


def _result(learner: str, seed: int, truth: float, ess: float | None = None) -> dict[str, Any]:
    return {
        "mechanism": "history", "learner": learner, "seed": seed, "truth": truth, "ess": ess,
        "seconds": 1.0,
    }  # fmt: skip


def test_plain_learning_is_asked_for_with_the_settings_of_every_weighted_learner(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chosen: dict[str, dict[str, Any]] = {
        "erm": {"training.rate": 0.1, "training.l2": 1.0},
        "ps": {"training.rate": 0.2, "training.l2": 2.0, "exposure.name": "pop"},
        "acl, paper": {"training.rate": 0.3, "training.l2": 4.0, "training.alpha": 1.0},
        "ease": {"candidate.ridge": 1.0},
    }
    asked = LearnersSettings(frozen=True, n_seeds={"history": 2}, chosen={"history": chosen})
    monkeypatch.setattr(learners, "settings", lambda: asked)
    found = [(name, job.learner, job.seed, job.chosen) for name, job in learners.without_weights()]
    assert found == [
        (name, "erm", seed, {"training.rate": rate, "training.l2": pytest.approx(l2)})
        for name, rate, l2 in (("ps", 0.2, 2.0), ("acl, paper", 0.3, 4.0), (LESS_L2, 0.3, 2.8))
        for seed in (0, 1)
    ]


def test_what_weights_do_is_beside_plain_learning_with_their_settings() -> None:
    names = ("erm", "ps", "acl, paper")
    found = [
        _result(name, s, 4.0 + s, None if name == "erm" else 0.5)
        for name in names
        for s in (0, 1, 2)
    ]
    plain = [("ps", _result("erm", s, value)) for s, value in enumerate((2.0, 2.5, 3.1))]
    plain += [("acl, paper", _result("erm", s, 8.0 + 2 * s)) for s in (0, 1)]
    plain += [(LESS_L2, _result("erm", s, 16.0 + 4 * s)) for s in (0, 1)]
    (cell,) = summarised(found, plain)
    shares = 100 * (np.array([4, 5, 6]) / np.array([2, 2.5, 3.1]) - 1)
    test = ttest_1samp(shares, 0).confidence_interval(1 - 0.05 / 3)
    gain = cell["weights"]["ps"]
    assert gain["value"] == pytest.approx(shares.mean())
    assert (gain["low"], gain["high"]) == pytest.approx((test.low, test.high))
    assert cell["weights"]["acl, paper"]["value"] == pytest.approx(-50)
    assert cell["weights"][LESS_L2]["value"] == pytest.approx(-75)
    assert better([cell], "ps") == ([], [])
    assert better([cell], "ps", "weights") == (["history"], [])
    text = page([cell], "")
    assert "beside plain learning at the same rate and ℓ2: better `ps` (1)" in text
    assert f"| ps | +{gain['value']:.1f} %" in text


def test_gains_are_paired_corrected_and_of_common_seeds() -> None:
    erm, ps, game = [4.0, 5.0, 6.0], [4.4, 5.6, 6.5], [3.9, 4.9, 5.9]
    found = [_result("erm", seed, value) for seed, value in enumerate(erm)]
    found += [_result("ps", seed, value, 0.5) for seed, value in enumerate(ps)]
    found += [_result("acl, paper", seed, value, 0.999) for seed, value in enumerate(game)]
    found.append(_result("erm", 3, 1.0))  # the others do not have it yet
    cells = summarised(found)
    assert cells[0]["seeds"] == [0, 1, 2]
    shares = 100 * (np.array(ps) / np.array(erm) - 1)
    test = ttest_1samp(shares, 0).confidence_interval(1 - 0.05 / 2)
    gain = cells[0]["gain"]["ps"]
    assert gain["value"] == pytest.approx(shares.mean())
    assert (gain["low"], gain["high"]) == pytest.approx((test.low, test.high))
    assert cells[0]["sibling"]["acl, paper"]["sibling"] == "ps"
    assert cells[0]["sibling"]["acl, paper"]["value"] < 0
    assert better(cells, "acl, paper") == ([], ["history"])
    text = page(cells, "")
    assert "collapsed" in text
    assert text.count("collapsed)") == 1
    assert {row["ours"] for row in rows(cells)} == {
        f"{gain['value']:+.1f} %", f"{cells[0]['gain']['acl, paper']['value']:+.1f} %"
    }  # fmt: skip
