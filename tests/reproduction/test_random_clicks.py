"""Candidates judged as clicks, against rows of random items."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import counterplay as cp
from counterplay.evaluation.settings import Evaluation, OpponentSettings
from reproduction import random_clicks, trial_candidates
from reproduction.datasets import Place
from reproduction.random_clicks import _clearly_wrong, judge_by_random_clicks, page


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two trained candidates, of two epochs."""
    trained = {name: trial_candidates.TRAINED[name] for name in ("pop", "gmf")}
    monkeypatch.setattr(trial_candidates, "TRAINED", trained)
    monkeypatch.setattr(trial_candidates, "_MOST_EPOCHS", 2)
    monkeypatch.setattr(random_clicks, "_NAMES", tuple(trained))
    short = partial(Evaluation, opponent=OpponentSettings(epochs=3), n_resamples=200)
    monkeypatch.setattr(random_clicks, "Evaluation", short)


def logs() -> tuple[cp.Interactions, cp.Interactions]:
    """Give clicks, and rows of random items of which some are clicked."""
    world = cp.simulation.Synthetic(n_users=80, n_items=60, n_shown=15, mean_relevance=0.4).world()
    log = world.log((1.0,))
    rng = np.random.default_rng(0)
    pairs = rng.permutation(log.n_users * log.n_items)[:600].astype(np.int32)
    user, item = np.divmod(np.sort(pairs), log.n_items)
    rows = log.take(np.zeros(len(user), np.int64))
    random = replace(rows, user=user, item=item, clicked=rng.random(len(user)) < 0.4)
    return log, random


@pytest.mark.usefixtures("small")
@pytest.mark.filterwarnings("ignore::counterplay.CounterplayWarning")
def test_the_truth_is_of_the_clicked_random_rows_that_nobody_had_seen() -> None:
    log, random = logs()
    found = judge_by_random_clicks(log, random, seed=1)
    assert found["candidates"] == ["pop", "gmf", "als", "ease", "knn"]
    rows = found["rows"]
    assert rows["train"] + rows["validation"] + rows["test"] == len(log)
    assert list(found["judged"]) == list(random_clicks.ESTIMATORS)
    assert random.clicked is not None
    assert 0 < rows["random"] < int(random.clicked.sum())
    # The same random rows, none of them clicked by chance alone: the truth follows them.
    other = replace(random, clicked=~random.clicked)
    again = judge_by_random_clicks(log, other, seed=1)
    assert again["judged"] == found["judged"]  # random rows decide nothing but the truth
    assert again["truth"]["values"] != found["truth"]["values"]


@pytest.mark.usefixtures("small")
def test_each_split_is_judged_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen, random = logs()
    judged = []

    def noted(*given: Any, seed: int) -> dict[str, Any]:
        assert given[1].clicked.any()
        assert given[0].rating is None
        judged.append(seed)
        return record(seed)

    assert random.clicked is not None
    stars = np.where(random.clicked, 5.0, 2.0).astype(np.float32)
    split = type("Split", (), {})()
    split.train = replace(chosen, rating=np.full(len(chosen), 4.0, np.float32))
    split.test = replace(random, rating=stars, clicked=None)
    monkeypatch.setattr(random_clicks, "read_coat", lambda _: split)
    monkeypatch.setattr(random_clicks, "public_folder", lambda *_: tmp_path)
    monkeypatch.setattr(random_clicks, "judge_by_random_clicks", noted)
    place = Place(tmp_path, tmp_path / "out")
    found = random_clicks.run(place)
    assert judged == list(range(10))
    random_clicks.run(place)
    assert len(judged) == 10
    lines = {each["estimator"]: each for each in found["estimators"]}
    assert lines["standard"]["wrong"] == 0
    assert lines["popularity"]["wrong"] == 1
    assert "10 of 10" in found["pages"]["random-clicks.md"]
    assert len(found["rows"]) == len(random_clicks.ESTIMATORS)


def record(seed: int) -> dict[str, Any]:
    """Give a split where popularity has the order wrong, and the others decide rightly."""
    right = {"values": [0.1, 0.3], "low": [0, 0.2], "high": [0.2, 0.4],
             "leads": [[0, -0.3], [0.1, 0]]}  # fmt: skip
    wrong = right | {"values": [0.3, 0.1], "leads": [[0, 0.1], [-0.3, 0]]}
    judged = {name: wrong if name == "popularity" else right for name in random_clicks.ESTIMATORS}
    rows = {"train": 5, "validation": 1, "test": 2, "random": 7 + seed}
    return {"candidates": ["a", "b"], "rows": rows, "truth": right, "judged": judged}


def test_clear_contradictions_are_counted_by_hand() -> None:
    results = [record(0), record(1)]
    assert _clearly_wrong("popularity", results) == (2, 2)
    assert _clearly_wrong("standard", results) == (0, 2)
    results[0]["truth"] = results[0]["truth"] | {"leads": [[0, -0.1], [-0.1, 0]]}
    assert _clearly_wrong("popularity", results) == (1, 1)  # the first is not told apart


def test_the_page_names_the_rows_and_the_truth() -> None:
    text = page([], {"pop": 0.05}, {"train": 5, "validation": 1, "test": 2, "random": 7})
    assert "7 high ratings" in text
    assert "pop 5.0" in text
