"""Random rows in a log are taken out before anything is split, filtered or learnt."""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import counterplay as cp
from counterplay.data import directory, impressions
from counterplay.data.canonical import arranged, slices, user_blocks
from counterplay.data.directory import FILES, load_split, save
from counterplay.data.histories import before_impressions
from counterplay.data.impressions import impressions_of, tells_apart
from counterplay.data.interactions import Interactions
from counterplay.data.preparation import Preparation, prepare
from counterplay.data.readers import read
from counterplay.data.splits import Split, split_at_random
from counterplay.errors import ConfigError, CounterplayWarning, DataError
from counterplay.evaluation.random_rows import random_rows_of
from counterplay.study.config import StudyConfig

N_CLICKS, N_RANDOM, N_SHOWN = 600, 200, 50


def frames() -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return a log of clicks, random rows and rows without a click, and its clicks alone."""
    rng = np.random.default_rng(0)
    n = N_CLICKS + N_RANDOM + N_SHOWN
    random = np.arange(n) < N_RANDOM
    clicked = np.where(random, rng.random(n) < 0.3, np.arange(n) >= N_RANDOM + N_SHOWN)
    user, item = rng.integers(0, 30, n), rng.integers(0, 40, n)
    user[:3] = 77  # of whom nothing else is known
    clicked[:3] = True
    frame = pl.DataFrame(
        {"user": user, "item": item, "time": rng.permutation(n), "random": random, "click": clicked}
    )
    clicks = frame.filter(~pl.col("random") & pl.col("click")).drop("random", "click")
    return frame.sample(fraction=1, shuffle=True, seed=1), clicks


def made(frame: pl.DataFrame, **plan: Any) -> Split:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CounterplayWarning)
        found = prepare(frame, Preparation(**plan))
    assert isinstance(found, Split)
    return found


@pytest.mark.parametrize("plan", [{}, {"duplicates": "first"}, {"core": 3}, {"items_above": 10}])
def test_the_log_is_as_if_they_had_not_been_in_it(plan: dict[str, Any]) -> None:
    whole, clicks = frames()
    found, plain = made(whole, **plan), made(clicks, **plan)
    assert found.interactions.fingerprint == plain.interactions.fingerprint
    assert found.train.fingerprint == plain.train.fingerprint
    assert np.array_equal(found.part, plain.part)
    assert plain.random is None
    assert plain.unclicked is None


def test_every_row_is_accounted_for() -> None:
    whole, _ = frames()
    with pytest.warns(CounterplayWarning, match="left out 3 of 200 random rows: their users"):
        found = prepare(whole, Preparation(split="random"))
    assert isinstance(found, Split)
    assert found.random is not None
    steps = [str(step) for step in found.interactions.steps]
    random = whole.filter("random")
    n_clicks = random["click"].sum()
    assert f"random: took out 200 random rows, {n_clicks} of them clicked, to evaluate by" in steps
    assert "unclicked: put aside 50 impressions that were not clicked" in steps
    assert len(found.interactions) == N_CLICKS
    kept = found.random.to_frame().select("user", "item", "clicked").sort("user", "item", "clicked")
    expected = random.filter(pl.col("user") != 77).select("user", "item", clicked="click")
    assert kept.equals(expected.sort("user", "item", "clicked"))


def test_they_lie_in_the_dataset_directory(tmp_path: Path) -> None:
    split = made(frames()[0])
    save(split, tmp_path / "data")
    found = load_split(tmp_path / "data")
    assert found.random == split.random
    assert FILES.matches(tmp_path / "data")
    save(made(frames()[1]), tmp_path / "plain")
    assert load_split(tmp_path / "plain").random is None
    path = tmp_path / "data" / "random.parquet"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(DataError, match=r"random\.parquet"):
        load_split(tmp_path / "data")
    path.unlink()
    with pytest.raises(DataError, match=r"random\.parquet"):
        load_split(tmp_path / "data")


@pytest.mark.parametrize("kind", ["leave-last-two", "time", "random"])
def test_impressions_without_a_click_are_split_as_clicks_are(kind: str, tmp_path: Path) -> None:
    split = made(frames()[0], split=kind)
    log, rows, parts = split.interactions, split.unclicked, split.unclicked_part
    assert rows is not None
    assert parts is not None
    assert len(rows) == len(parts) == N_SHOWN
    assert {*parts.tolist()} == {0, 1, 2}
    assert log.time is not None
    assert rows.time is not None
    for user, pair, time, part in zip(rows.user, rows.pair, rows.time, parts, strict=True):
        mine = (log.user == user) | (kind == "time")
        first = [log.time[mine & (split.part == each)].min(initial=2**62) for each in (1, 2)]
        if kind == "random":
            assert part in (split.part[log.pair == pair] if (log.pair == pair).any() else parts)
            assert part == parts[rows.pair == pair].min()
        else:
            assert part == sum(time >= moment for moment in first)
    save(split, tmp_path / "data")
    found = load_split(tmp_path / "data")
    assert found.unclicked == rows
    assert found.fingerprint == split.fingerprint
    assert found.fingerprint != made(frames()[1], split=kind).fingerprint


def test_impressions_of_a_part_are_its_clicks_and_the_others_in_order() -> None:
    whole = frames()[0].with_columns(exposed=pl.col("item") % 5 > 0, place=pl.col("item") % 3 + 1)
    split = made(whole, position="place")
    found = impressions_of(split, 0)
    assert found.clicked is not None
    assert found.time is not None
    assert found.exposed is None
    clicks = split.train.to_frame().filter("exposed").drop("exposed")
    assert found.take(found.clicked).to_frame().drop("clicked").equals(clicks)
    assert split.unclicked is not None
    assert (~found.clicked).sum() == np.count_nonzero(split.unclicked_part == 0) > 0
    keys = list(zip(found.user.tolist(), found.time.tolist(), strict=True))
    assert keys == sorted(keys)
    with pytest.raises(DataError, match="found a log of clicks alone"):
        impressions_of(made(frames()[1]), 0)


def test_a_study_evaluates_by_them_and_trains_without(tmp_path: Path) -> None:
    whole, clicks = frames()
    config = StudyConfig.model_validate(
        {
            "candidates": ("pop", "erm"),
            "dim": 4,
            "training": {"epochs": 1},
            "evaluation": {"n_resamples": 200, "metrics": ("hit",)},
        }
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CounterplayWarning)
        study = cp.run(whole, tmp_path / "with", config)
        plain = cp.run(clicks, tmp_path / "without", config)
    dials = study.record.evaluation.dials
    assert dials is not None
    assert dials.random is not None
    assert 20 < dials.random.n_clicks < dials.random.n < N_RANDOM
    assert "randomised" in {each.estimator for each in study.record.evaluation.estimates}
    for one, other in zip(study.record.runs, plain.record.runs, strict=True):
        assert one.dataset.fingerprint == other.dataset.fingerprint
        weights = [
            (each.folder / "runs" / one.name / "model.safetensors").read_bytes()
            for each in (study, plain)
        ]
        assert weights[0] == weights[1]


def test_random_rows_come_from_one_place() -> None:
    split = made(frames()[0])
    rows = {"user": [1, 2], "item": [1, 2], "clicked": [0, 1]}
    with pytest.raises(ConfigError, match="found a column 'random' in the data"):
        random_rows_of(rows, split)
    assert random_rows_of(split.random, split) == split.random == random_rows_of(None, split)


def test_marks_that_are_all_false_leave_clicks() -> None:
    whole, clicks = frames()
    found = made(whole.filter(~pl.col("random")))
    assert found.random is None
    assert found.interactions == made(clicks).interactions


def test_what_was_clicked_must_be_known() -> None:
    whole, clicks = frames()
    with pytest.raises(DataError, match="must say in a column 'clicked'"):
        prepare(whole.drop("click"))
    marked = clicks.with_columns(random=pl.lit("perhaps"), click=1)
    with pytest.raises(DataError, match="marks of random rows must be true or false"):
        prepare(marked)
    left_out = made(marked, random="-")  # then every row is a click
    assert left_out.interactions == made(clicks).interactions


def test_impressions_are_not_split() -> None:
    whole, _ = frames()
    with pytest.raises(ConfigError, match="kept beside a split; found the split none"):
        prepare(whole, Preparation(split="none"))
    log = read(whole, random=None)
    assert log.random is not None
    with pytest.raises(DataError, match="prepare takes them apart"):
        split_at_random(log, np.random.default_rng(0))
    assert read(whole).clicked is None  # only where it is asked for


@pytest.mark.parametrize("kind", ["leave-last-two", "time", "random"])
def test_many_rows_are_worked_on_some_at_a_time(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = made(frames()[0], split=kind)
    for module in (impressions, directory):
        monkeypatch.setattr(module, "slices", partial(slices, at_once=7))
    monkeypatch.setattr(impressions, "user_blocks", partial(user_blocks, at_once=7))
    monkeypatch.setattr(impressions, "arranged", partial(arranged, at_once=7))
    small = made(frames()[0], split=kind)
    assert small.interactions == whole.interactions
    assert small.fingerprint == whole.fingerprint
    assert small.random == whole.random
    save(small, tmp_path / "data")
    assert load_split(tmp_path / "data").fingerprint == whole.fingerprint


def pages() -> Split:
    """Return three pages of four items a user, each with one click and one time."""
    user, page, place = (each.ravel() for each in np.indices((12, 5, 4)))
    frame = pl.DataFrame(
        {"user": user, "item": (user + page * 4 + place) % 23, "time": 100 * page + user}
    )
    return made(frame.with_columns(clicked=(user + page) % 4 == place))


def test_a_page_is_in_one_part_with_its_click() -> None:
    split = pages()
    log, rows = split.interactions, split.unclicked
    assert rows is not None
    assert log.time is not None
    assert rows.time is not None
    part_of = dict(zip(zip(log.user, log.time, strict=True), split.part, strict=True))
    expected = [part_of[pair] for pair in zip(rows.user, rows.time, strict=True)]
    assert split.unclicked_part is not None
    assert split.unclicked_part.tolist() == expected
    assert all(tells_apart(split, part) for part in range(3))
    assert not tells_apart(made(frames()[1]), 2)


def test_what_was_shown_together_has_the_same_history() -> None:
    split = pages()
    log = impressions_of(split, 0)
    assert log.time is not None
    assert log.clicked is not None
    before = before_impressions(log, 3)
    for row in range(len(log)):
        mine = (log.user == log.user[row]) & log.clicked & (log.time < log.time[row])
        window = before.inputs[before.window[row]][: before.place[row] + 1]
        assert window[window < log.n_items].tolist() == log.item[mine].tolist()[-len(window) :]
    untimed = Interactions(log.users, log.items, log.user, log.item, clicked=log.clicked)
    with pytest.raises(DataError, match="impressions without times"):
        before_impressions(untimed, 3)
