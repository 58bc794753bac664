from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import counterplay as cp
from counterplay.data.splits import TEST, TRAIN, VALIDATION
from counterplay.metrics.recommendations import top_k
from counterplay.simulation import writing
from counterplay.simulation.factors import Factors
from counterplay.simulation.logs import DAY, START
from counterplay.simulation.online import OnlineTest
from counterplay.simulation.policies import Scored
from counterplay.simulation.store import load_world
from counterplay.simulation.synthetic import Synthetic
from counterplay.simulation.values import true_values
from counterplay.simulation.world import World
from counterplay.simulation.writing import split_by_rounds, split_of, write_world

RATES = 1.0, 0.3, 0.5
LOOK = OnlineTest(n_days=3, k=(3, 5), seed=4, time=0.0)


def small(**settings: object) -> World:
    plain = {"n_users": 50, "n_items": 40, "n_shown": 8, "mean_relevance": 0.5}
    return Synthetic.model_validate(plain | settings).world()


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.mark.parametrize("with_truth", [False, True])
def test_a_world_and_its_log_come_back(with_truth: bool, tmp_path: Path) -> None:
    world = small(seed=2)
    split = write_world(world, tmp_path / "world", rates=RATES, with_truth=with_truth)
    log, loaded = (
        world.log(RATES, with_truth=with_truth),
        cp.data.load_split(tmp_path / "world" / "log"),
    )
    assert loaded.fingerprint == split.fingerprint
    assert loaded.interactions.fingerprint == split.interactions.fingerprint == log.fingerprint
    assert load_world(tmp_path / "world").log((0.5,)).fingerprint == world.log((0.5,)).fingerprint
    assert (loaded.interactions.propensity is not None) == with_truth
    assert sorted(split.counts.values()) == sorted(np.bincount(split.part).tolist())


def test_the_same_world_is_the_same_bytes(tmp_path: Path) -> None:
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        write_world(small(seed=seed), tmp_path / name, rates=RATES)
    a, b, c = (contents(tmp_path / name) for name in "abc")
    assert a == b
    assert a["log/interactions.parquet"] != c["log/interactions.parquet"]


@pytest.mark.parametrize(
    ("rates", "text"),
    [
        ((), "the rates of 3 rounds or more"),
        ((1.0, 0.5), r"the rates of 3 rounds or more.*found \[1.0, 0.5\]; change"),
        ((1.0, 0.5, 0.0), "each above 0 and at most 1"),
        ((1.0, 2.0, 0.5), "each above 0 and at most 1"),
        ((1.0, 0.5, float("nan")), "each above 0 and at most 1"),
    ],
)
def test_wrong_rates_leave_nothing_behind(
    rates: tuple[float, ...], text: str, tmp_path: Path
) -> None:
    with pytest.raises(cp.ConfigError, match=text):
        write_world(small(), tmp_path / "world", rates=rates)
    assert list(tmp_path.iterdir()) == []


def test_only_a_world_is_replaced(tmp_path: Path) -> None:
    target = tmp_path / "world"
    write_world(small(), target, rates=RATES)
    before = contents(target)
    with pytest.raises(cp.ConfigError, match="must be a new or empty folder"):
        write_world(small(seed=1), target, rates=RATES)
    (target / "notes.txt").write_text("mine")
    with pytest.raises(cp.ConfigError, match="written by this command"):
        write_world(small(seed=1), target, rates=RATES, overwrite=True)
    (target / "notes.txt").unlink()
    assert contents(target) == before
    write_world(small(seed=1), target, rates=RATES, overwrite=True)
    assert load_world(target).seed == 1
    assert [path.name for path in tmp_path.iterdir()] == ["world"]


def test_a_world_is_written_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_world(small(), tmp_path / "world", rates=RATES)
    before = contents(tmp_path)

    def break_off(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(writing, "save", break_off)  # of the log, when the world is there already
    for name in ("world", "new"):
        with pytest.raises(OSError, match="disk full"):
            write_world(small(seed=1), tmp_path / name, rates=RATES, overwrite=True)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("with_truth", [False, True])
def test_all_that_was_shown_is_in_the_split_once(with_truth: bool, tmp_path: Path) -> None:
    world, options = small(seed=3), {"impressions": True, "with_truth": with_truth}
    write_world(world, tmp_path / "world", rates=RATES, random_share=0.2, **options)
    split = cp.data.load_split(tmp_path / "world" / "log")
    log = world.log(RATES, random_share=0.2, **options)  # type: ignore[arg-type]
    assert log.time is not None
    assert log.random is not None
    assert log.clicked is not None
    assert split.unclicked is not None
    assert split.unclicked_part is not None
    assert split.random is not None
    truth = ["propensity"] if with_truth else []
    for rows, chosen, names in (
        (split.interactions, log.clicked & ~log.random, [*truth, "position"]),
        (split.unclicked, ~log.clicked & ~log.random, [*truth, "position"]),
        (split.random, log.random, [*truth, "position", "clicked"]),
    ):
        assert [name for name, _ in rows.columns()] == ["user", "item", "time", *names]
        assert 0 < len(rows) == chosen.sum()
        for name, column in rows.columns():
            assert column.tobytes() == getattr(log, name)[chosen].tobytes()
        assert (len(rows.users), len(rows.items)) == (world.n_users, world.n_items)
    assert split.unclicked.time is not None
    rounds = (split.unclicked.time - START) // DAY
    np.testing.assert_array_equal(split.unclicked_part, rounds)
    clicks = world.log(RATES, with_truth=with_truth)
    for name, column in clicks.columns():  # what was examined is the world's to know
        kept = getattr(split.interactions, name)
        assert kept is None if name == "exposed" else column.tobytes() == kept.tobytes()
    told = {step.kind: step.counts for step in split.interactions.steps}
    assert told["random"] == {"rows": len(split.random)}
    assert told["unclicked"] == {"rows": len(split.unclicked)}


def test_a_split_without_a_disk_is_the_one_on_it(tmp_path: Path) -> None:
    for number, options in enumerate(({}, {"impressions": True, "random_share": 0.1})):
        found = split_of(small(), RATES, **options)  # type: ignore[arg-type]
        write_world(small(), tmp_path / str(number), rates=RATES, **options)  # type: ignore[arg-type]
        stored = cp.data.load_split(tmp_path / str(number) / "log")
        assert found.interactions == stored.interactions
        assert found.fingerprint == stored.fingerprint
        assert found.random == stored.random
    assert split_of(small(), RATES, sample=1).interactions != found.interactions
    with pytest.raises(cp.ConfigError, match="the rates of 3 rounds or more"):
        split_of(small(), (1.0, 0.5))


def test_random_rows_without_impressions_leave_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(cp.ConfigError, match="random rows are impressions"):
        write_world(small(), tmp_path / "world", rates=RATES, random_share=0.1)
    assert list(tmp_path.iterdir()) == []


# split_by_rounds


@given(st.lists(st.tuples(st.integers(0, 4), st.floats(0, 0.999)), min_size=1, max_size=30))
def test_parts_are_rounds(rows: list[tuple[int, float]]) -> None:
    rounds = [0, *(number for number, _ in rows), 5, 6]  # the first and the last two are there
    shares = [0.0, *(share for _, share in rows), 0.5, 0.999]
    time = [
        START + int((number + share) * DAY) for number, share in zip(rounds, shares, strict=True)
    ]
    user, item = np.arange(len(rounds)) % 2, np.arange(len(rounds))
    log = cp.read({"user": user, "item": item, "time": time}, time_unit="us")
    split = split_by_rounds(log, 7)
    assert split.kind == "rounds"
    assert log.time is not None
    for place, moment in enumerate(log.time.tolist()):
        days = (moment - START) / DAY
        expected = TEST if days >= 6 else VALIDATION if days >= 5 else TRAIN
        assert split.part[place] == expected


def test_a_last_round_without_clicks_is_no_other_round(tmp_path: Path) -> None:
    with pytest.raises(cp.DataError, match="round"):
        write_world(small(), tmp_path / "world", rates=(1.0, 1.0, 0.3, 1e-9))


def test_random_rows_tell_what_a_ranking_is_worth() -> None:
    """Within 4 standard errors over users, in spite of confounding and position bias.

    Clicks of the policy's test rows say something else: the ranking follows what is shown.
    """
    world = small(n_users=1500, n_items=50, n_shown=10, confounding=0.8, noise=1.0, sharpness=3.0)
    split = split_of(world, (1.0, 0.5, 0.5), impressions=True, random_share=0.6)
    users, seen = np.arange(world.n_users), split.train
    assert isinstance(world.policy, Scored)
    scores = world.policy.scores
    assert isinstance(scores, Factors)
    truth = true_values(world, scores, seen, k=(5,))["hit", 5]
    listed = np.zeros((world.n_users, world.n_items), dtype=np.bool_)
    np.put_along_axis(listed, top_k(scores, users, seen, 5)[0].astype(np.int64), True, axis=1)

    def far(rows: cp.Interactions) -> float:
        rows = rows.take(~np.isin(rows.pair, seen.distinct_pairs))
        misses = listed[rows.user, rows.item] - truth
        by_user = np.bincount(rows.user, misses, minlength=world.n_users)
        return float(by_user.sum() / np.sqrt((by_user**2).sum()))

    assert split.random is not None
    assert split.random.clicked is not None
    assert split.random.clicked.sum() > 5000
    assert abs(far(split.random.take(split.random.clicked))) < 4
    assert far(split.test) > 8
