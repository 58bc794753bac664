"""Estimators as the log knows more: one small world, and what is made of its record."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from counterplay.errors import CounterplayWarning
from reproduction import exposure_candidates, exposure_evaluation, trial_worlds
from reproduction.datasets import Place
from reproduction.exposure_evaluation import MECHANISMS, STEPS, judge_world
from reproduction.exposure_evaluation_summary import (
    GOALS,
    YARDSTICK,
    page,
    rows,
    summarised,
    world_scores,
)
from reproduction.trial_worlds import trial_world

SMALL = {"n_users": 200, "n_items": 100, "n_shown": 16.0, "mean_relevance": 0.3}
NAMES = [f"{step}: {name}" for step, names in STEPS.items() for name in names]


@pytest.fixture(scope="module")
def world() -> dict[str, Any]:
    """Give what was found in a small world."""
    with pytest.MonkeyPatch.context() as patched, warnings.catch_warnings():
        warnings.simplefilter("ignore", CounterplayWarning)
        patched.setattr(exposure_candidates, "EPOCHS", 2)
        patched.setattr(exposure_evaluation, "RANDOM_SHARE", 0.08)
        patched.setattr(exposure_evaluation, "MORE_RANDOM", 0.5)
        patched.setattr(trial_worlds, "SIZE", SMALL)
        return {"seconds": 1.0, **judge_world(trial_world("history", 3), 3)}


def test_every_step_says_something_of_every_candidate(world: dict[str, Any]) -> None:
    assert list(world["judged"]) == NAMES
    assert world["candidates"] == ["pop", "cf4", "cf16", "shown", "als", "ease", "knn"]
    for said in world["judged"].values():
        values, low, high = (np.array(said[name]) for name in ("values", "low", "high"))
        assert ((low <= values) & (values <= high)).all()
        leads = np.array(said["leads"])
        assert (leads + leads.T <= 1e-9).all()  # at most one of a pair leads
    assert world["judged"]["clicks: robust"] != world["judged"]["+ random rows: robust"]
    assert world["judged"]["clicks: dials"] != world["judged"]["+ random rows: dials"]


def test_positions_count_where_enough_random_rows_are_clicked(world: dict[str, Any]) -> None:
    alone, few, many = (
        world["judged"][f"{step}: impressions"]
        for step in STEPS
        if step.startswith("+ impressions")
    )
    assert 0 < world["rows"]["clicked at random"] < 200
    assert alone == few
    assert alone != many


def test_errors_by_hand_and_what_seeds_have_in_common() -> None:
    """Two seeds: one estimator is off by the same twice, the other once up and once down."""

    def said(values: list[float]) -> dict[str, Any]:
        at = np.array(values)
        leads = np.array([[0.0, 0.1], [-0.3, 0.0]])
        ends = {"low": (at - 0.05).tolist(), "high": (at + 0.05).tolist()}
        return {"values": values, "leads": leads.tolist(), **ends}

    def made(sign: int) -> dict[str, Any]:
        judged = {
            YARDSTICK: said([0.4, 0.5]),
            GOALS[0]: said([0.2 + 0.1 * sign, 0.3 + 0.1 * sign]),
            GOALS[1]: said([0.3, 0.2]),
        }
        counts = dict.fromkeys(("train", "test", "impressions", "random", "clicked at random"), 5)
        return {
            "mechanism": "history", "candidates": ["a", "b"], "truth": [0.2, 0.3],
            "judged": judged, "rows": counts,
        }  # fmt: skip

    found = summarised([made(1), made(-1)])
    robust, up_and_down, turned = found["overall"]
    assert [each["error"] for each in found["overall"]] == pytest.approx([0.2, 0.1, 0.1])
    assert [each["bias"] for each in found["overall"]] == pytest.approx([0.2, 0.0, 0.0])
    assert [each["systematic"] for each in found["overall"]] == pytest.approx([1.0, 0.0, 1.0])
    assert robust["coverage_without"] == 1  # its ends are wide enough, but in the wrong place
    assert up_and_down["coverage_without"] == 0
    assert (turned["order"]["value"], turned["regret"]["value"]) == pytest.approx((-1.0, 1 / 3))
    assert (robust["decided"], robust["wrong"], robust["coverage"]) == (1.0, 1.0, 0.0)
    assert robust["half_width"] == pytest.approx(0.05)
    assert up_and_down["against"]["error"]["value"] == pytest.approx(-0.1)
    assert found["between"]["order"]["value"] == pytest.approx(-2.0)
    assert world_scores(made(1))[GOALS[1]]["held"] == 0
    first, second = rows(found)
    assert first["met"] is None  # reached, but not of all worlds that were planned
    assert second["met"] is False


def test_worlds_are_judged_once_and_told_on_a_page(
    world: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged = []

    def noted(made: Any, seed: int) -> dict[str, Any]:
        judged.append((made.name, seed))
        return world

    monkeypatch.setattr(exposure_evaluation, "judge_world", noted)
    monkeypatch.setattr(exposure_evaluation, "SEEDS", range(2))
    monkeypatch.setattr(exposure_evaluation, "OTHER_SEEDS", (100,))
    monkeypatch.setattr(exposure_candidates, "EPOCHS", 1)
    monkeypatch.setattr(trial_worlds, "SIZE", SMALL)
    place = Place(tmp_path, tmp_path)
    exposure_evaluation.run(place)
    found = exposure_evaluation.run(place)
    assert len(judged) == 2 * len(MECHANISMS)
    text = found["pages"]["exposure-evaluation.md"]
    assert "Run: 2 seeds, 12 worlds" in text
    assert all(f"## {name}" in text for name in MECHANISMS)
    assert all(text.count(f"| {name} |") >= 7 for name in NAMES)
    assert page(found["summary"], 0.01, ["| why |"], "said so").count("said so") == 1
    biases = {each["mechanism"]: each["bias"].values() for each in found["causes"]}
    assert set(biases) == set(MECHANISMS)
    fitted, examined, shown, logged = biases["position-bias"]
    assert fitted > examined  # clicks far down a list weigh more, and candidates put them lower
    assert shown > logged
    assert f"| position-bias | {100 * fitted:+.2f} | {100 * examined:+.2f} |" in text
