"""The paper's opponent and the old system, on trial in the worlds of the trials."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from counterplay.evaluation.settings import Evaluation, OpponentSettings
from reproduction import trial_candidates, trial_worlds, trials, trials_opponent
from reproduction.datasets import Place
from reproduction.trial_worlds import trial_world
from reproduction.trials_opponent import ESTIMATORS, WITH_OLD, against_old, judge_opponent

from .test_trials import SMALL, TRAINED


@pytest.fixture(scope="module")
def world() -> dict[str, Any]:
    """Give what was found in a small world."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(trial_candidates, "TRAINED", TRAINED)
        patched.setattr(trial_candidates, "_MOST_EPOCHS", 2)
        patched.setattr(trial_worlds, "SIZE", SMALL)
        short = partial(Evaluation, opponent=OpponentSettings(epochs=3), n_resamples=200)
        patched.setattr(trials_opponent, "Evaluation", short)
        return judge_opponent(trial_world("history", 3), 3)


pytestmark = pytest.mark.filterwarnings("ignore::counterplay.CounterplayWarning")


def test_the_old_system_is_judged_beside_the_candidates_and_not_among_them(
    world: dict[str, Any],
) -> None:
    assert world["candidates"] == ["pop", "gmf", "als", "ease", "knn", "old system"]
    alone, together = world["candidates_alone"], world["with_old_system"]
    assert list(alone) == list(ESTIMATORS)
    assert list(together) == list(WITH_OLD)
    for name in ("standard", "popularity", "oracle"):  # no other candidate changes these
        np.testing.assert_allclose(together[name]["values"][:-1], alone[name]["values"])
    assert len(alone["robust"]["values"]) == 5
    assert alone["opponent"]["values"] != alone["propensity"]["values"]


def test_decisions_on_the_old_system_are_counted_by_hand() -> None:
    leads = [[0.0, -1.0, -0.1], [-1.0, 0.0, 0.2], [0.1, -0.5, 0.0]]
    judged = {"values": [0, 0, 0], "low": [0, 0, 0], "high": [1, 1, 1], "leads": leads}
    one = {"truth": [0.3, 0.1, 0.2], "with_old_system": {"robust": judged}}
    found = against_old("robust", [one])
    # It is put ahead of the first, which is truly better, and behind the second, truly worse.
    assert found == {
        "estimator": "robust",
        "pairs": 2,
        "ahead": 1,
        "wrongly_ahead": 1,
        "behind": 1,
        "wrongly_behind": 1,
    }
    right = {**one, "truth": [0.1, 0.3, 0.2]}
    both = against_old("robust", [one, right])
    assert (both["ahead"], both["wrongly_ahead"], both["wrongly_behind"]) == (2, 1, 1)


def test_every_world_is_judged_once(
    world: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged = []

    def noted(_: Any, seed: int) -> dict[str, Any]:
        judged.append(seed)
        return world

    monkeypatch.setattr(trials_opponent, "judge_opponent", noted)
    monkeypatch.setattr(trials, "world_of", lambda *_: None)
    place = Place(tmp_path, tmp_path / "out")
    found = trials_opponent.run(place)
    trials_opponent.run(place)
    assert sorted(judged) == [0] * 12 + [1] * 12
    assert [each["estimator"] for each in found["estimators"]] == list(ESTIMATORS)
    assert "24 of the worlds" in found["pages"]["trials-opponent.md"]
