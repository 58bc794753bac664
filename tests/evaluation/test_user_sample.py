from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import counterplay as cp
from counterplay.data.splits import TEST
from counterplay.evaluation.policies import shown_rows
from counterplay.evaluation.stage import Evaluation, Stage
from counterplay.evaluation.user_sample import UserSample
from counterplay.runs.candidates import evaluate_scores

HOW: dict[str, Any] = {
    "estimators": ("standard",),
    "metrics": ("hit",),
    "k": (3,),
    "n_resamples": 200,
}


def make_split(seed: int = 0) -> cp.Split:
    rng = np.random.default_rng(seed)
    log = cp.read({"user": rng.integers(0, 200, 3000), "item": rng.integers(0, 12, 3000)})
    return cp.data.split_at_random(log, rng, fractions=(0.1, 0.3))


def scores_of(log: cp.Interactions) -> pl.DataFrame:
    user, item = np.divmod(np.arange(log.n_users * log.n_items), log.n_items)
    score = np.random.default_rng(9).random(len(user))
    ids = {"user": log.users.ids.to_numpy()[user], "item": log.items.ids.to_numpy()[item]}
    return pl.DataFrame(ids | {"score": score})


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sample") / "data"
    cp.data.save(make_split(), folder)
    return folder


def test_a_sample_has_so_many_users_with_all_their_rows() -> None:
    split = make_split()
    found = Stage(split, Evaluation(users=50, seed=3), explicit=False)
    users = np.unique(found.targets.user)
    assert len(users) == 50
    expected = split.test.take(np.isin(split.test.user, users))
    assert found.targets.pair.tolist() == expected.pair.tolist()
    again = Stage(split, Evaluation(users=50, seed=3), explicit=False)
    other = Stage(split, Evaluation(users=50, seed=4), explicit=False)
    assert np.unique(again.targets.user).tolist() == users.tolist()
    assert np.unique(other.targets.user).tolist() != users.tolist()
    assert found.sample is not None
    assert found.sample.record.to_dict() == {"n": 50, "of": len(np.unique(split.test.user))}


def test_larger_samples_hold_the_smaller_ones() -> None:
    """So that whoever takes more users has ranked some of them already."""
    split = make_split()
    few, more = (UserSample.of_part(split, TEST, n, 0) for n in (20, 70))
    assert few is not None
    assert more is not None
    assert not (few.drawn & ~more.drawn).any()


def test_every_user_is_as_likely() -> None:
    """Of 400 samples of a quarter; each share within 4.5 standard errors, 1 in 1,000 alarms."""
    split = make_split()
    there = np.unique(split.test.user)
    drawn = np.zeros(split.interactions.n_users)
    for seed in range(400):
        sample = UserSample.of_part(split, TEST, len(there) // 4, seed)
        assert sample is not None
        drawn += sample.drawn
    share, expected = drawn[there] / 400, (len(there) // 4) / len(there)
    assert np.abs(share - expected).max() < 4.5 * np.sqrt(expected * (1 - expected) / 400)
    assert drawn.sum() == drawn[there].sum()


def test_the_interval_of_a_sample_holds_the_value_of_all(data: Path) -> None:
    """Of 40 samples, at 95 %: fewer than 33 would be one chance in 1,000."""
    frame = scores_of(cp.data.load(data))
    whole = evaluate_scores(frame, data, Evaluation(**HOW))
    assert whole.sample is None
    assert "sample" not in whole.to_dict()
    held, widths = 0, []
    for seed in range(40):
        found = evaluate_scores(frame, data, Evaluation(**HOW, users=60, seed=seed))
        (one,) = found.estimates
        assert one.low is not None
        assert one.high is not None
        held += one.low <= whole.estimates[0].value <= one.high
        widths.append(one.high - one.low)
    assert held >= 33
    (all_of_them,) = whole.estimates
    assert all_of_them.low is not None
    assert all_of_them.high is not None
    assert np.mean(widths) > 1.4 * (all_of_them.high - all_of_them.low)


def test_more_users_than_there_are_is_everybody(data: Path) -> None:
    frame = scores_of(cp.data.load(data))
    whole = evaluate_scores(frame, data, Evaluation(**HOW))
    found = evaluate_scores(frame, data, Evaluation(**HOW, users=10**6))
    assert found.estimates == whole.estimates
    assert found.sample is not None
    assert found.sample.n == found.sample.of


def test_scores_are_needed_of_the_sample_alone(data: Path) -> None:
    split, config = cp.data.load_split(data), Evaluation(**HOW, users=30)
    stage = Stage(split, config, explicit=False)
    frame = scores_of(split.interactions)
    drawn = split.interactions.users.decode(np.unique(stage.targets.user)).to_list()
    some = frame.filter(pl.col("user").is_in(drawn))
    assert evaluate_scores(some, data, config).estimates[0].n == len(stage.targets)
    with pytest.raises(cp.DataError, match="found none for"):
        evaluate_scores(some, data, Evaluation(**HOW))


@pytest.mark.filterwarnings("ignore::counterplay.CounterplayWarning")
def test_users_without_clicks_are_drawn_where_they_were_shown_something() -> None:
    rng, n = np.random.default_rng(0), 2000
    user = rng.integers(0, 50, n)
    rows = {
        "user": user,
        "item": rng.integers(0, 20, n),
        "clicked": (user < 10) & (rng.random(n) < 0.5),
        "time": np.arange(n),
        "propensity": np.full(n, 0.05),
    }
    split = cp.prepare(
        pl.DataFrame(rows), cp.data.Preparation(split="time", clicked="clicked", test=0.4)
    )
    assert isinstance(split, cp.Split)
    stage = Stage(split, Evaluation(users=30), explicit=False)
    assert stage.sample is not None
    assert stage.sample.of == 50
    assert 0 < len(np.unique(stage.targets.user)) < 10
    shown = shown_rows(split, Evaluation(users=30), None)
    assert shown.impressions is not None
    assert len(np.unique(shown.impressions.user)) == 30
    sample = UserSample(np.zeros(50, np.bool_), 1, 50)  # of somebody who clicked nothing
    with pytest.raises(cp.DataError, match=r"found none of .* with 1 of 50 users; draw more users"):
        sample.rows(split.test)


def test_random_rows_alone_have_no_sample(data: Path) -> None:
    split = cp.data.load_split(data)
    random = split.test
    with pytest.raises(cp.ConfigError, match="found random rows alone, which all count"):
        shown_rows(split, Evaluation(users=3), random)


def test_a_sample_of_nobody_is_refused() -> None:
    with pytest.raises(ValueError, match="users"):
        Evaluation(users=0)
