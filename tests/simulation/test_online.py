from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chisquare

import counterplay as cp
from counterplay.metrics.recommendations import top_k
from counterplay.metrics.scoring import Scores
from counterplay.settings import configured
from counterplay.simulation import online
from counterplay.simulation.arms import OnlineResult
from counterplay.simulation.factors import Factors
from counterplay.simulation.online import OnlineTest, online_test
from counterplay.simulation.policies import Scored
from counterplay.simulation.synthetic import Synthetic
from counterplay.simulation.values import demand, true_values
from counterplay.simulation.world import World

Z = 3.3  # two-sided false-alarm rate 0.001


class Table:
    """Scores that are given, `[n_users, n_items]`."""

    def __init__(self, scores: NDArray[np.float64]) -> None:
        self.scores = scores

    def of(self, users: NDArray[np.integer], items: NDArray[np.integer]) -> NDArray[np.floating]:
        found: NDArray[np.float64] = self.scores[users[:, None], items]
        return found

    def of_all(self, users: NDArray[np.integer]) -> NDArray[np.floating]:
        found: NDArray[np.float64] = self.scores[users]
        return found


def noise(seed: int, shape: tuple[int, int]) -> Table:
    return Table(np.random.default_rng(seed).normal(size=shape))


def log_of(is_seen: NDArray[np.bool_]) -> cp.Interactions:
    user, item = np.nonzero(is_seen)
    users, items = (cp.data.Vocabulary.of(np.arange(n)) for n in is_seen.shape)
    return cp.Interactions(users, items, user.astype(np.int32), item.astype(np.int32))


def given_world(logits: NDArray[np.float64], **options: Any) -> World:
    """Return a world with these logits of relevance, `[n_users, n_items]`."""
    n_users, n_items = logits.shape
    taste = Factors(logits, np.eye(n_items), np.zeros(n_users), np.zeros(n_items))
    return World(taste, Scored(np.full(n_items, 0.5), np.ones(n_users)), **options)


@cache
def tiny(n_users: int = 200) -> tuple[World, cp.Interactions, NDArray[np.float64]]:
    """Return a world of 50 items, what its users have clicked, and their demand."""
    world = Synthetic(n_users=n_users, n_items=50, n_shown=10, list_length=5, seed=1).world()
    seen = world.log([1.0])
    return world, seen, demand(world, np.arange(n_users), seen)


def bytes_of(result: OnlineResult) -> bytes:
    arrays = (result.users, result.arm, result.sessions, result.places, result.clicks)
    return json.dumps(result.to_dict()).encode() + b"".join(each.tobytes() for each in arrays)


def test_same_tests_reject_at_the_nominal_rate_at_the_end_and_less_while_they_run() -> None:
    world, seen, total = tiny()
    arms, n = {"a": world.taste, "b": world.taste}, 400
    ends, looks = [], []
    for seed in range(n):
        config = OnlineTest(n_days=6, k=(5,), scale=0.05, seed=seed)
        result = online_test(world, arms, seen, config, total=total)
        ends.append([change.p_value for change in result.changes["b"].values()])
        looks.append(result.daily["b"].p_value[-1])
    limits = 0.05 + np.array([-1, 1]) * Z * (0.05 * 0.95 / n) ** 0.5  # 1.4% to 8.6%
    rejected = (np.array(ends) < 0.05).mean(0)
    assert (rejected > limits[0]).all()
    assert (rejected < limits[1]).all()
    assert (np.array(looks) < 0.05).mean() < limits[1]
    assert min(looks) < 1  # there were looks


def test_intervals_cover_the_truth() -> None:
    world, seen, total = tiny(3000)
    scores, rng, n = noise(2, (3000, 50)), np.random.default_rng(3), 200
    truth = true_values(world, scores, seen, k=(3, 5), total=total)
    lists = top_k(scores, np.arange(3000), seen, 5)[0]
    relevance = world.relevance(np.arange(3000), lists)  # by how often each place is examined
    truth["ctr", 5] = float((world.examination ** np.arange(5) * relevance).mean())
    hits = dict.fromkeys(truth, 0)
    for seed in range(n):
        users = rng.choice(3000, 150, replace=False)
        config = OnlineTest(n_days=6, k=(3, 5), seed=seed)
        result = online_test(world, {"a": scores}, seen, config, users=users, total=total[users])
        for key, found in result.measures["a"].items():
            hits[key] += found.low <= truth[key] <= found.high
    for key in (("ctr", 5), ("hit", 3), ("hit", 5), ("ndcg", 3), ("ndcg", 5)):
        # 95% within 2.75 standard deviations: a false alarm in 170 for each of five, all at a
        # fixed seed.
        assert abs(hits[key] / n - 0.95) <= 2.75 * (0.95 * 0.05 / n) ** 0.5, key


def test_hit_and_ndcg_estimate_the_true_values_with_position_bias_and_drift() -> None:
    world = Synthetic(
        n_users=4000, n_items=60, n_shown=12, examination=0.7, drift=0.5, noise=1.0, seed=6
    ).world()
    seen = world.log([1.0])
    arms: dict[str, Scores] = {"taste": world.taste, "noise": noise(7, (4000, 60))}
    config = OnlineTest(k=(1, 10), time=2.0, n_days=20)
    result = online_test(world, arms, seen, config)
    np.testing.assert_array_equal(result.demand, demand(world, np.arange(4000), seen, time=2.0))
    for name, scores in arms.items():
        truth = true_values(world, scores, seen, k=(1, 10), time=2.0)
        elsewhere = true_values(world, scores, seen, k=(1, 10))
        for key in (("hit", 1), ("hit", 10), ("ndcg", 1), ("ndcg", 10)):
            found = result.measures[name][key]
            error = (found.variance / found.n) ** 0.5
            assert abs(found.value - truth[key]) < Z * error
            assert name == "noise" or abs(found.value - elsewhere[key]) > Z * error
        assert result.measures[name]["ctr", 10].value < truth["ctr", 10] / 1.5  # with the bias


def test_ties_are_broken_at_random_and_agree_with_the_true_value() -> None:
    """Two levels of scores; relevance falls with the item's number, so its order would earn more.

    |z| < Z for each of two metrics.
    """
    world = given_world(np.tile(np.linspace(2, -4, 30), (2000, 1)), seed=5)
    seen = world.log([0.2])
    scores = Table(np.tile((np.arange(30) % 2).astype(float), (2000, 1)))
    config = OnlineTest(n_days=10, k=(10,))
    found = online_test(world, {"a": scores}, seen, config).measures["a"]
    truth = true_values(world, scores, seen)
    lists = top_k(scores, np.arange(2000), seen, 10)[0]
    by_number = world.relevance(np.arange(2000), np.maximum(lists, 0)).sum()
    by_number /= demand(world, np.arange(2000), seen).sum()
    for key in (("hit", 10), ("ndcg", 10)):
        error = (found[key].variance / found[key].n) ** 0.5
        assert abs(found[key].value - truth[key]) < Z * error
    assert by_number - truth["hit", 10] > 3 * Z * error


def test_certain_clicks_are_counted_exactly() -> None:
    rng = np.random.default_rng(8)
    liked, is_seen = rng.random((30, 8)) < 0.5, rng.random((30, 8)) < 0.3
    is_seen[0] = [True] * 6 + [False] * 2  # a list of two
    liked[1], is_seen[1] = True, False
    world = given_world(np.where(liked, 800.0, -800.0), list_length=4)
    arms = {name: noise(seed, (30, 8)) for name, seed in (("a", 9), ("b", 10), ("c", 11))}
    config = OnlineTest(k=(2, 4), shares=(0.5, 0.25, 0.25), sessions_a_day=2.0, n_days=3)
    result = online_test(world, arms, log_of(is_seen), config)
    assert result.to_dict()["arms"][0]["n_sessions"] == result.sessions[result.arm == 0].sum()
    for number, (name, scores) in enumerate(arms.items()):
        above: dict[tuple[str, int], float] = dict.fromkeys(result.measures[name], 0.0)
        places = wanted = 0.0
        for user in np.flatnonzero(result.arm == number).tolist():
            unseen = np.flatnonzero(~is_seen[user])
            ranked = unseen[np.argsort(-scores.scores[user, unseen])][:4]
            times = int(result.sessions[user])
            places += times * len(ranked)
            wanted += times * liked[user, unseen].sum()
            for place, item in enumerate(ranked.tolist(), 1):
                click = times * int(liked[user, item])
                assert result.clicks[user, place - 1] == click
                above["ctr", 4] += click
                for k in (2, 4):
                    above["hit", k] += click * (place <= k)
                    above["ndcg", k] += click * (place <= k) / np.log2(1 + place)
            assert not result.clicks[user, len(ranked) :].any()
        for key, found in result.measures[name].items():
            expected = above[key] / (places if key[0] == "ctr" else wanted)
            assert found.value == pytest.approx(expected)
            assert found.n == (result.arm == number).sum()
            if number:
                change, control = result.changes[name][key], result.measures["a"][key]
                assert change.value == pytest.approx(found.value - control.value)
                error = (found.variance / found.n + control.variance / control.n) ** 0.5
                assert change.high - change.low == pytest.approx(2 * 1.959964 * error)
    assert set(result.changes) == set(result.daily) == {"b", "c"}


def test_unobserved_factors_are_the_same_on_a_day_and_others_on_another() -> None:
    # With so much noise everything is certain, until the next day.
    world = given_world(np.zeros((400, 6)), list_length=3, noise=1e6)
    seen, arms = log_of(np.zeros((400, 6), dtype=bool)), {"a": noise(12, (400, 6))}
    day = online_test(world, arms, seen, OnlineTest(n_days=1, sessions_a_day=3.0, k=(3,)))
    some = (day.clicks > 0) & (day.clicks < day.sessions[:, None])
    assert not some.any()
    assert 0.4 < (day.clicks > 0)[day.sessions > 0].mean() < 0.6
    week = online_test(world, arms, seen, OnlineTest(n_days=7, sessions_a_day=3.0, k=(3,)))
    assert ((week.clicks > 0) & (week.clicks < week.sessions[:, None])).mean() > 0.9
    # Other tests meet other factors; both were drawn with the same lists.
    other = online_test(world, arms, seen, OnlineTest(n_days=1, sessions_a_day=3.0, k=(3,), seed=1))
    both = (day.sessions > 0) & (other.sessions > 0)
    agree = ((day.clicks > 0) == (other.clicks > 0))[both].mean()
    assert abs(agree - 0.5) < Z * 0.5 / (3 * both.sum()) ** 0.5


@pytest.mark.parametrize("temperature", [0.0, 0.5])
def test_same_seed_same_bytes_whatever_the_parts(
    temperature: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, seen, _ = tiny()
    arms: dict[str, Scores] = {"a": world.taste, "b": noise(13, (200, 50))}
    config = OnlineTest(temperature=temperature, k=(1, 5), n_days=4, seed=3)
    expected = bytes_of(online_test(world, arms, seen, config))
    monkeypatch.setattr(online, "_AT_ONCE", 35)
    assert bytes_of(online_test(world, arms, seen, config)) == expected
    changed = config.model_copy(update={"seed": 4})
    assert bytes_of(online_test(world, arms, seen, changed)) != expected


def test_each_user_is_in_one_arm_by_its_share_and_whoever_else_takes_part() -> None:
    world = given_world(np.zeros((3000, 4)), list_length=1)
    seen, arms = log_of(np.zeros((3000, 4), dtype=bool)), {"a": noise(0, (3000, 4))}
    arms |= {"b": arms["a"], "c": arms["a"]}
    config = OnlineTest(n_days=2, k=(1,), shares=(0.6, 0.3, 0.1))
    result = online_test(world, arms, seen, config)
    counts = np.bincount(result.arm, minlength=3)
    assert chisquare(counts, 3000 * np.array([0.6, 0.3, 0.1])).pvalue > 0.001
    assert [arm["n_users"] for arm in result.to_dict()["arms"]] == counts.tolist()
    assert result.measures["c"]["ctr", 1].n == counts[2]
    rate = result.sessions.mean()
    assert abs(rate - 2 * 0.5) < Z * (1.0 / 3000) ** 0.5
    users = np.random.default_rng(14).permutation(3000)[:500]
    part = online_test(world, arms, seen, config, users=users)
    np.testing.assert_array_equal(part.arm, result.arm[users])
    np.testing.assert_array_equal(part.sessions, result.sessions[users])
    assert part.clicks.shape == (500, 1)


def test_a_low_temperature_shows_the_best_and_a_high_one_anything() -> None:
    # Only the best item is ever clicked: clicks tell what was shown, and where.
    logits = np.full((500, 5), -800.0)
    logits[:, 2] = 800.0
    is_seen = np.zeros((500, 5), dtype=bool)
    is_seen[:, 4] = True
    world, scores = given_world(logits, list_length=2), Table(np.tile([0.0, 1, 2, -1, 9], (500, 1)))
    shares = []
    for temperature in (1e-9, 0.0, 1.0, 1e6):
        config = OnlineTest(temperature=temperature, k=(2,))
        result = online_test(world, {"a": scores}, log_of(is_seen), config)
        shares.append(result.clicks.sum(0) / result.sessions.sum())
    np.testing.assert_array_equal(shares[0], [1, 0])
    np.testing.assert_array_equal(shares[1], [1, 0])
    # Another list every day: hardly anybody is shown the item always or never.
    days = result.clicks.sum(1)
    assert ((days > 0) & (days < result.sessions)).mean() > 0.8
    # Softmax of the four unseen ones: first as it is, second after one of the others.
    weight = np.exp([0.0, 1, 2, -1])
    first = weight / weight.sum()
    second = sum(first[i] * weight[2] / (weight.sum() - weight[i]) for i in (0, 1, 3))
    # About 500 · 14 · 0.39 lists are drawn, one for a user's sessions of a day: 1.27 a list.
    for found, expected in ((shares[2], (first[2], second)), (shares[3], (0.25, 0.25))):
        for share, chance in zip(found, expected, strict=True):
            assert abs(share - chance) < Z * (chance * (1 - chance) * 1.5 / 3500) ** 0.5


def test_the_daily_record_ends_where_the_test_does() -> None:
    world, seen, total = tiny()
    arms: dict[str, Scores] = {"taste": world.taste, "noise": noise(15, (200, 50))}
    result = online_test(world, arms, seen, OnlineTest(n_days=9, k=(5,)), total=total)
    daily, change = result.daily["noise"], result.changes["noise"]["ctr", 5]
    assert daily.difference.shape == (9,)
    assert daily.difference[-1] == pytest.approx(change.value)
    assert change.high < 0  # noise is worse
    assert daily.p_value[-1] < 0.05
    assert daily.low[-1] < change.low  # looking every day is not for nothing
    assert daily.high[-1] < 0
    rows = result.to_dict()["daily"]
    assert [row["day"] for row in rows] == list(range(1, 10))
    assert rows[-1]["p_value"] == daily.p_value[-1]


def test_there_is_no_look_while_an_arm_has_few_users() -> None:
    world, seen, total = tiny()
    arms: dict[str, Scores] = {"a": world.taste, "b": noise(15, (200, 50))}
    config = OnlineTest(n_days=20, sessions_a_day=0.05, k=(5,))
    result = online_test(world, arms, seen, config, total=total)
    rows = result.to_dict()["daily"]
    assert json.loads(json.dumps(rows, allow_nan=False)) == rows
    assert rows[0]["low"] is rows[0]["high"] is None
    assert rows[0]["p_value"] == 1
    assert rows[-1]["low"] is not None
    assert rows[-1]["high"] is not None


@pytest.mark.parametrize(
    ("options", "more", "words"),
    [
        ({"k": (5, 6)}, {}, "k=6"),
        ({"shares": (0.5, 0.4)}, {}, "in total 1"),
        ({"shares": (1.0,)}, {}, "for 2 arms"),
        ({}, {"users": np.array([1, 1])}, "each number once"),
        ({}, {"users": np.array([200])}, "from 0 to 199"),
        ({}, {"users": np.array([0.5])}, "from 0 to 199"),
        ({}, {"users": np.array([], dtype=np.int64)}, "found 0"),
        ({}, {"users": np.array([3, 4])}, "two users"),
        ({}, {"total": np.ones(3)}, "200 users"),
        ({"sessions_a_day": 1e-9}, {}, "two users"),
        ({}, {"arms": {}}, "at least the control"),
        ({}, {"seen": log_of(np.zeros((2, 50), dtype=bool))}, "found 2 and 50"),
    ],
)
def test_what_cannot_be_tested_is_refused_in_one_sentence(
    options: dict[str, Any], more: dict[str, Any], words: str
) -> None:
    world, seen, _ = tiny()
    asked: dict[str, Any] = {"arms": {"a": world.taste, "b": world.taste}, "seen": seen} | more
    chosen: dict[str, Any] = {"k": (5,), "n_days": 2} | options
    config = OnlineTest(**chosen)
    with pytest.raises((cp.ConfigError, cp.DataError)) as caught:
        online_test(world, config=config, **asked)
    message = str(caught.value)
    assert words in message
    assert message.count(";") == 2


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("n_days", 0), ("sessions_a_day", 0.0), ("k", []), ("k", [0]), ("temperature", -1.0)),
        *(("shares", [0.5, 0.0]), ("level", 95.0), ("scale", 0.0), ("day", 3)),
    ],
)
def test_bad_options_are_refused_in_one_sentence(option: str, value: object) -> None:
    with pytest.raises(cp.ConfigError, match=f"must .*; found .*{option}"):
        configured(OnlineTest, options={option: value})
