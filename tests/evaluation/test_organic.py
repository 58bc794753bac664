"""Clicks that were not shown are learnt from and not evaluated by."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

import counterplay as cp
from counterplay.data.impressions import without_organic
from counterplay.data.splits import Split
from counterplay.errors import CounterplayWarning, DataError
from counterplay.evaluation.stage import Evaluation, Stage
from counterplay.runs.config import run_config
from counterplay.study.config import StudyConfig

FAST = ["method=erm", "candidate.name=gmf", "candidate.dim=4", "training.epochs=2"]
USUAL = ("standard", "popularity", "logged", "dials", "robust")
HOW = Evaluation(estimators=USUAL, metrics=("hit",), k=(5,), n_resamples=200)


def split_of(*, all_shown: bool = False) -> Split:
    rng = np.random.default_rng(3)
    n = 1500
    user = rng.integers(0, 30, n) + 30 * (np.arange(n) >= 1200)
    log = cp.read(
        {
            "user": user,
            "item": (rng.beta(1, 3, n) * 40).astype(int),
            "time": np.arange(n),
            "propensity": rng.uniform(0.1, 1, n),
            "exposed": (rng.random(n) < 0.8) | all_shown,
        }
    )
    return cp.data.split_by_time(log, fractions=(0.2, 0.2))


def test_held_out_organic_clicks_are_no_targets(tmp_path: Path) -> None:
    split = split_of()
    assert split.test.exposed is not None
    assert split.validation.exposed is not None
    shown, n = split.test.exposed, len(split.test)
    with pytest.warns(CounterplayWarning, match=f"left out {n - shown.sum()} of {n} held-out"):
        stage = Stage(split, HOW, explicit=False)
    assert np.array_equal(stage.targets.pair, split.test.pair[shown])
    assert len(stage.seen) == (split.part < 2).sum()  # nothing of them is ranked again
    assert len(without_organic(split.validation)) == split.validation.exposed.sum()
    cp.data.save(split, tmp_path / "data")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CounterplayWarning)
        cp.train(tmp_path / "data", tmp_path / "gmf", run_config(None, FAST))
        pop = run_config(None, [*FAST, "candidate.name=pop"])
        cp.train(tmp_path / "data", tmp_path / "pop", pop)
        found = cp.compare([tmp_path / "gmf", tmp_path / "pop"], tmp_path / "data", HOW)
    assert {each.n for each in found.estimates} == {shown.sum()}
    assert found.cold is not None
    cold = ~np.isin(split.test.user, split.train.user)[shown]
    assert found.cold.rows == cold.sum() > 0
    assert any("organic" in note for note in found.notes)


def test_rows_that_were_all_shown_are_left_as_they_are() -> None:
    split = split_of(all_shown=True)
    assert without_organic(split.test, tell=True) is split.test


def test_an_evaluation_by_organic_clicks_alone_is_refused() -> None:
    split = split_of()
    log = split.interactions
    hidden = cp.data.split_by_time(
        cp.read(log.to_frame().with_columns(exposed=split.part == 0)), fractions=(0.2, 0.2)
    )
    n = len(hidden.test)
    found = rf"found {n}, all of them organic .* --exposed -"
    with pytest.raises(DataError, match=found):
        Stage(hidden, HOW, explicit=False)
    with pytest.raises(DataError, match=found):  # before anything is trained
        StudyConfig().check(hidden, world=False)
