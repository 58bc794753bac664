"""Click rates of policies from impressions: against sums by hand, obp's formulas, and the truth.

obp has an environment of its own (`benchmarks/open_bandit.py` compares with it on real logs). Here
its estimators are written down, row by row, from the formulas of its documentation:
InverseProbabilityWeighting, DirectMethod, DoublyRobust, SelfNormalizedInverseProbabilityWeighting
and ReplayMethod of `obp.ope`.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

import counterplay as cp
from counterplay.data.impressions import impressions_of, taken_apart
from counterplay.data.splits import TEST
from counterplay.evaluation.policies import (
    AS_LOGGED,
    ShownRows,
    policies_valued,
    shown_rows,
)
from counterplay.evaluation.records import CandidateEstimate
from counterplay.evaluation.stage import Evaluation
from counterplay.metrics.intervals import bootstrap
from counterplay.metrics.off_policy import (
    linear_sums,
    policy_values,
    replay_value,
    reward_by_action,
)
from counterplay.metrics.scoring import TableScores
from counterplay.seeding import Streams
from counterplay.simulation.synthetic import Synthetic
from counterplay.simulation.values import true_values

pytestmark = pytest.mark.filterwarnings("ignore:weights must spread:counterplay.CounterplayWarning")
N_USERS, N_ITEMS = 30, 9
Z = 4.0  # |z| of an unbiased estimate exceeds it once in 15,000 runs


def obp_formulas(
    reward: NDArray[Any],  # [n]
    action: NDArray[Any],  # [n]
    pscore: NDArray[Any],  # [n]
    action_dist: NDArray[Any],  # [n, n_actions]
    estimated_rewards: NDArray[Any],  # [n, n_actions]
) -> dict[str, float]:
    """Return what obp documents as V̂ of each estimator."""
    n = len(reward)
    weight = [action_dist[t, action[t]] / pscore[t] for t in range(n)]
    baseline = [float(estimated_rewards[t] @ action_dist[t]) for t in range(n)]
    logged = [estimated_rewards[t, action[t]] for t in range(n)]
    match = [float(action_dist[t, action[t]] > 0) for t in range(n)]
    return {
        "ips": sum(w * r for w, r in zip(weight, reward, strict=True)) / n,
        "snips": sum(w * r for w, r in zip(weight, reward, strict=True)) / sum(weight),
        "dm": sum(baseline) / n,
        "dr": sum(
            b + w * (r - q) for b, w, r, q in zip(baseline, weight, reward, logged, strict=True)
        )
        / n,
        "replay": sum(m * r for m, r in zip(match, reward, strict=True)) / sum(match),
    }


def split_of(seed: int = 0, n: int = 2000, *, uniform: bool = False) -> cp.Split:
    """Return clicks and impressions with propensities, in three parts by time."""
    rng = np.random.default_rng(seed)
    policy = np.full((N_USERS, N_ITEMS), 1 / N_ITEMS)
    if not uniform:
        policy = rng.dirichlet(np.full(N_ITEMS, 2.0), N_USERS) * 0.8 + 0.2 / N_ITEMS
    user = rng.integers(N_USERS, size=n)
    item = np.array([rng.choice(N_ITEMS, p=policy[one]) for one in user])
    rows = {
        "user": user,
        "item": item,
        "clicked": rng.random(n) < 0.1 + 0.3 * (item % 3 == user % 3),
        "propensity": policy[user, item],
        "position": rng.integers(1, 4, size=n),
        "time": np.arange(n),
    }
    plan = cp.data.Preparation(split="time", clicked="clicked", test=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cp.CounterplayWarning)  # of cold users
        found = cp.prepare(pl.DataFrame(rows), plan)
    assert isinstance(found, cp.Split)
    return found


def scores_of(log: cp.Interactions, seed: int = 0, *, ties: bool = False) -> TableScores:
    table = np.random.default_rng(seed).random((log.n_users, log.n_items))
    if ties:
        table = np.floor(3 * table)
    user, item = (each.ravel() for each in np.indices(table.shape))
    return TableScores(user, item, table.ravel(), log.n_items)


def valued(
    rows: ShownRows, scores: TableScores, **settings: Any
) -> dict[tuple[str, int], CandidateEstimate]:
    config = Evaluation.model_validate({"n_resamples": 200, **settings})
    found = policies_valued(rows, {"it": scores}, config).estimates
    return {(each.estimator, each.k): each for each in found}


def policy_of(scores: TableScores, rows: cp.Interactions, seen: cp.Interactions, k: int) -> Any:
    """Return the probability of each item for each row, `[n, n_items]`, item by item."""
    found = np.zeros((len(rows), rows.n_items))
    known = set(zip(seen.user.tolist(), seen.item.tolist(), strict=True))
    for row, user in enumerate(rows.user.tolist()):
        own = scores.of_all(np.array([user]))[0]
        unseen = [item for item in range(rows.n_items) if (user, item) not in known]
        room = min(k, len(unseen))
        for item in unseen:
            above = sum(own[other] > own[item] for other in unseen)
            level = sum(own[other] == own[item] for other in unseen)
            found[row, item] = min(max(room - above, 0), level) / level / room
    return found


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("k", [1, 3, 20])
def test_values_agree_with_obps_formulas_on_the_same_rows(k: int, ties: bool) -> None:
    split = split_of()
    rows = shown_rows(split, Evaluation(k=(k,)), None)
    scores = scores_of(split.interactions, ties=ties)
    found = valued(rows, scores, k=(k,))
    shown = impressions_of(split, TEST)
    assert shown.clicked is not None
    assert shown.propensity is not None
    model = reward_by_action(
        shown.clicked, shown.item, shown.n_items, Streams(0).numpy("policies", "folds"),
        clusters=shown.user, prior=100,
    )  # fmt: skip
    chosen = policy_of(scores, shown, rows.seen, k)
    twin = obp_formulas(
        shown.clicked, shown.item, shown.propensity, chosen, model.table[model.line]
    )
    for name in ("ips", "snips", "dm", "dr"):
        assert found[name, k].value == pytest.approx(twin[name], rel=1e-9, abs=1e-12), name
        assert found[name, k].n == len(shown)
    assert found["mean", 0].value == pytest.approx(shown.clicked.mean(), rel=1e-9, abs=1e-12)
    assert found["mean", 0].candidate == AS_LOGGED
    # Replay takes whether the item is on the list, whatever the length of the list.
    length = np.minimum(k, (chosen > 0).sum(1)) if not ties else None
    if length is not None:
        on_list = chosen[np.arange(len(shown)), shown.item] * length
        weight = on_list / shown.propensity
        again = float((weight * shown.clicked).sum() / weight.sum())
        assert found["replay", k].value == pytest.approx(again, rel=1e-9, abs=1e-12)


def test_replay_agrees_with_obps_where_everything_was_as_likely() -> None:
    split = split_of(uniform=True)
    scores = scores_of(split.interactions)
    shown = impressions_of(split, TEST)
    assert shown.clicked is not None
    rows = ShownRows(None, shown, split.interactions.take(split.part < TEST), "shop")
    found = valued(rows, scores, k=(3,))
    chosen = policy_of(scores, shown, rows.seen, 3)
    ones = np.ones(len(shown))
    twin = obp_formulas(shown.clicked, shown.item, ones / N_ITEMS, chosen, 0 * chosen)
    assert set(found) == {("mean", 0), ("replay", 3)}
    assert found["replay", 3].value == pytest.approx(twin["replay"], rel=1e-9, abs=1e-12)
    assert found["replay", 3].normalised
    both = valued(replace(rows, impressions=shown), scores, k=(3,))
    assert both["replay", 3] == found["replay", 3]  # random rows are taken as they are
    one = valued(replace(rows, impressions=shown, random=None), scores, k=(1,))
    for name in ("value", "low", "high"):  # all lists are as long, so the two are the same
        snips, again = (getattr(one[each, 1], name) for each in ("snips", "replay"))
        assert snips == pytest.approx(again, rel=1e-9, abs=1e-12)


def test_free_functions_agree_with_obps_formulas_for_any_policy() -> None:
    rng = np.random.default_rng(3)
    n, n_actions = 400, 7
    logging, new = rng.dirichlet(np.full(n_actions, 5.0), (2, n))
    action = np.array([rng.choice(n_actions, p=one) for one in logging])
    rows, reward = np.arange(n), rng.random(n)
    model, pscore = rng.random((n, n_actions)), logging[np.arange(n), action]
    twin = obp_formulas(reward, action, pscore, new, model)
    found = policy_values(
        reward, pscore, new[rows, action], rng,
        predicted=model[rows, action], expected=(model * new).sum(1), n_resamples=200,
    )  # fmt: skip
    for each in found:
        assert each.value == pytest.approx(twin[each.estimator], rel=1e-9, abs=1e-12)
    best = (new == new.max(1, keepdims=True)).astype(float)
    replayed = replay_value(reward, best[rows, action], rng, n_resamples=200)
    twin = obp_formulas(reward, action, pscore, best, model)
    assert replayed.value == pytest.approx(twin["replay"], rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("exposure", ["uniform", "history"])
def test_the_truth_of_a_world_is_covered(exposure: Literal["uniform", "history"]) -> None:
    """Items are drawn uniformly, so propensities are known; |z| at most 4 of each estimate."""
    world = Synthetic(
        n_users=400, n_items=60, n_shown=10, mean_relevance=0.2, exposure=exposure, seed=3
    ).world()
    seen = world.log((1.0,))
    rng = np.random.default_rng(0)
    user = np.repeat(np.arange(world.n_users), 40)
    item = rng.integers(world.n_items, size=len(user))
    chance = world.relevance(user, item[:, None])[:, 0]
    shown = cp.Interactions(
        seen.users, seen.items, user.astype(np.int32), item.astype(np.int32),
        clicked=rng.random(len(user)) < chance,
        propensity=np.full(len(user), 1 / world.n_items),
    )  # fmt: skip
    taste = np.log(world.relevance(np.arange(world.n_users)))
    taste += rng.normal(size=taste.shape)
    users, items = (each.ravel() for each in np.indices(taste.shape))
    scores = TableScores(users, items, taste.ravel(), world.n_items)
    truth = true_values(world, scores, seen, k=(3, 10))
    plain = float(world.relevance(np.arange(world.n_users)).mean())
    found = valued(ShownRows(shown, None, seen, "world"), scores, k=(3, 10), n_resamples=400)
    for (name, k), each in found.items():
        if name in ("mean", "dm"):
            continue  # dm is as good as its model
        assert each.low is not None
        assert each.high is not None
        error = (each.high - each.low) / 2 / 1.96
        assert abs(each.value - truth["ctr", k]) < Z * error, (name, k)
        assert abs(plain - truth["ctr", k]) > Z * error, "the policy must differ from the log"
    assert abs(found["dr", 10].value - truth["ctr", 10]) < abs(
        found["dm", 10].value - truth["ctr", 10]
    )


def test_users_who_have_seen_everything_are_left_out_with_a_count() -> None:
    split = split_of()
    rows = shown_rows(split, Evaluation(), None)
    assert rows.impressions is not None
    n = int((rows.impressions.user == 0).sum())
    rest = rows.seen.take(rows.seen.user > 0)
    everything = cp.Interactions(
        rest.users, rest.items,
        np.concatenate([np.zeros(N_ITEMS, np.int32), rest.user]),
        np.concatenate([np.arange(N_ITEMS, dtype=np.int32), rest.item]),
    )  # fmt: skip
    scores = scores_of(split.interactions)
    with pytest.warns(
        cp.CounterplayWarning, match=f"left out {n:,} of {len(rows.impressions):,} rows"
    ):
        found = valued(replace(rows, seen=everything), scores, k=(3,))
    kept = rows.impressions.take(rows.impressions.user > 0)
    again = valued(replace(rows, seen=rest, impressions=kept), scores, k=(3,))
    assert [found[key].value for key in found if key[1]] == [
        again[key].value for key in again if key[1]
    ]


def test_items_without_a_score_are_on_no_list() -> None:
    split = split_of()
    rows = shown_rows(split, Evaluation(), None)
    assert rows.impressions is not None
    user, item = np.arange(N_USERS), np.zeros(N_USERS, np.int64)
    none = rows.seen.take(np.zeros(len(rows.seen), np.bool_))
    found = valued(replace(rows, seen=none), TableScores(user, item, user * 1.0, N_ITEMS), k=(5,))
    shown = rows.impressions
    assert shown.clicked is not None
    assert shown.propensity is not None
    first = shown.item == 0
    weight = first / shown.propensity
    assert found["ips", 5].value == pytest.approx(
        (weight * shown.clicked).mean(), rel=1e-9, abs=1e-12
    )


def test_propensities_that_are_not_of_single_impressions_are_noticed() -> None:
    split = split_of()
    rows = shown_rows(split, Evaluation(), None)
    assert rows.impressions is not None
    assert rows.impressions.propensity is not None
    half = replace(rows.impressions, propensity=rows.impressions.propensity / 2)
    scores = scores_of(split.interactions)
    with pytest.warns(cp.CounterplayWarning, match="mean of about 1; found 2.*read snips"):
        found = valued(replace(rows, impressions=half), scores, k=(5,))
    right = valued(rows, scores, k=(5,))
    assert found["snips", 5].value == pytest.approx(right["snips", 5].value, rel=1e-9, abs=1e-12)
    assert found["ips", 5].value == pytest.approx(2 * right["ips", 5].value, rel=1e-9, abs=1e-12)


def test_propensities_below_the_clip_are_raised_to_it() -> None:
    split = split_of()
    rows = shown_rows(split, Evaluation(), None)
    assert rows.impressions is not None
    assert rows.impressions.propensity is not None
    raised = replace(rows.impressions, propensity=np.maximum(rows.impressions.propensity, 0.1))
    scores = scores_of(split.interactions)
    clipped = valued(rows, scores, k=(9,), clip=0.1)
    with pytest.warns(cp.CounterplayWarning, match="mean of about 1; found 0.8"):
        assert clipped == valued(replace(rows, impressions=raised), scores, k=(9,))


def test_no_click_on_a_list_means_no_interval() -> None:
    split = split_of()
    rows = shown_rows(split, Evaluation(), None)
    assert rows.impressions is not None
    nothing = replace(rows.impressions, clicked=np.zeros(len(rows.impressions), np.bool_))
    with pytest.warns(cp.CounterplayWarning, match="no clicked row shows one of the 2 best"):
        found = valued(replace(rows, impressions=nothing), scores_of(split.interactions), k=(2,))
    assert [(each.value, each.low, each.high) for key, each in found.items() if key[1]] == [
        (0, None, None), (0, None, None), (0, 0, 0), (0, None, None), (0, None, None),
    ]  # fmt: skip


def refused(split: cp.Split, message: str, **settings: Any) -> None:
    with pytest.raises(cp.CounterplayError, match=message):
        shown_rows(split, Evaluation.model_validate(settings), None)


def test_data_that_say_nothing_are_refused() -> None:
    split = split_of()
    assert split.unclicked is not None
    refused(replace(split, unclicked=None, unclicked_part=None), "found a log of clicks alone")
    bare = replace(split, unclicked=replace(split.unclicked, propensity=None))
    refused(bare, "found impressions without propensities")
    for kind in ("leave-last-two", "random"):
        refused(replace(split, kind=kind), f"found the split {kind}, which depends on clicks")
    refused(split, "found gamma, which is for clicks", gamma=(2.0,))
    refused(split, "found estimators, which is for clicks", estimators=("standard",))


def test_random_rows_alone_are_enough() -> None:
    split = split_of(uniform=True)
    assert split.unclicked is not None
    _, _, random = taken_apart(_random_log())
    assert random is not None
    bare = replace(split, unclicked=replace(split.unclicked, propensity=None))
    with pytest.warns(cp.CounterplayWarning, match="by random rows alone.*without propensities"):
        rows = shown_rows(bare, Evaluation(), random)
    assert rows.impressions is None
    assert rows.users.tolist() == [0, 1, 2]


def _random_log() -> cp.Interactions:
    return cp.read(
        {
            "user": [0, 0, 1, 2, 2],
            "item": [0, 1, 2, 3, 4],
            "clicked": [True, False, True, False, True],
            "random": [True, True, True, True, False],
        },
        clicked="clicked",
        random="random",
    )


def test_differences_are_those_of_the_values_and_of_the_same_resamples() -> None:
    split = split_of(uniform=True)
    config = Evaluation(k=(2, 4), n_resamples=400)
    rows = shown_rows(split, config, None)
    candidates = {name: scores_of(split.interactions, seed) for seed, name in enumerate("abc")}
    record = policies_valued(rows, candidates, config)
    value = {(each.candidate, each.estimator, each.k): each.value for each in record.estimates}
    assert [(each.k, each.estimator) for each in record.comparisons[::3]] == [
        (k, name) for k in (2, 4) for name in ("dr", "ips", "replay", "snips")
    ]
    assert len(record.comparisons) == 2 * 4 * 3
    for each in record.comparisons:
        one, other = (value[who, each.estimator, each.k] for who in (each.first, each.second))
        assert each.value == pytest.approx(one - other, abs=1e-12)
        assert each.low is not None
        assert each.high is not None
        assert each.low < each.value < each.high
        assert each.decided == (each.low > 0 or each.high < 0)
        assert each.n == len(rows.impressions or ())
    same = policies_valued(rows, {"a": candidates["a"], "b": candidates["a"]}, config).comparisons
    assert all((each.value, each.p) == (0, 1) for each in same)
    assert policies_valued(rows, {"a": candidates["a"]}, config).comparisons == ()


def test_progress_is_told_to_the_end_of_each_step() -> None:
    split = split_of(uniform=True)
    config = Evaluation(k=(2,), n_resamples=200)
    told: list[tuple[str, int, int | None, str]] = []
    rows = shown_rows(split, config, None)
    policies_valued(
        rows, {"a": scores_of(split.interactions)}, config, lambda *each: told.append(each)
    )
    texts = list(dict.fromkeys(text for text, *_ in told))
    assert texts == ["lists of a", "ranking by a"]
    assert rows.impressions is not None
    n_users, n_rows = len(np.unique(rows.impressions.user)), len(rows.impressions)
    for text, total, unit in ((texts[0], n_users, "users"), (texts[1], n_rows, "rows")):
        steps = [each[1:] for each in told if each[0] == text]
        assert steps[0] == (0, total, unit)
        assert steps[-1] == (total, total, unit)


def test_random_rows_are_compared_by_replay() -> None:
    split = split_of(uniform=True)
    config = Evaluation(k=(3,), n_resamples=200)
    random = replace(impressions_of(split, TEST), propensity=None)
    rows = ShownRows(None, random, split.interactions.take(split.part < TEST), "log")
    candidates = {name: scores_of(split.interactions, seed) for seed, name in enumerate("ab")}
    record = policies_valued(rows, candidates, config)
    _, one, other = record.estimates
    (found,) = record.comparisons
    assert (found.estimator, found.first, found.second) == ("replay", "a", "b")
    assert found.value == pytest.approx(one.value - other.value)


def test_linear_sums_vary_as_the_ratio_does() -> None:
    rng = np.random.default_rng(3)
    n, n_users = 4000, 400
    users = rng.integers(n_users, size=n)
    effect = rng.normal(size=n_users)[users]
    below = rng.uniform(0.2, 2, n) * np.exp(0.2 * effect)
    above = below * (rng.random(n) < 0.3 + 0.1 * np.tanh(effect))
    sums = linear_sums(above, below, users)
    counts = np.bincount(users, minlength=n_users).astype(float)
    assert sums.sum() / n == pytest.approx(above.sum() / below.sum())
    plain = linear_sums(above, np.ones(n), users)
    assert plain == pytest.approx(np.bincount(users, above))  # a mean is linear
    linear = bootstrap(sums, counts, np.arange(n_users), rng, n_resamples=4000)
    exact = bootstrap(above, below, users, rng, n_resamples=4000)
    # Standard deviations of 4,000 resamples differ by 1.6% or so by chance.
    assert linear.std() == pytest.approx(exact.std(), rel=0.07)


def test_candidates_that_have_lists_for_other_users_are_not_compared() -> None:
    split = split_of(uniform=True)
    config = Evaluation(k=(3,), n_resamples=200)
    rows = shown_rows(split, config, None)
    everything = scores_of(split.interactions)
    few = TableScores(
        np.arange(1, N_USERS).repeat(N_ITEMS),
        np.tile(np.arange(N_ITEMS), N_USERS - 1),
        np.random.default_rng(0).random((N_USERS - 1) * N_ITEMS),
        N_ITEMS,
    )
    with (
        pytest.warns(cp.CounterplayWarning, match="'few' has nothing unseen"),
        pytest.raises(cp.DataError, match="lists for the same users; found 'few'"),
    ):
        policies_valued(rows, {"all": everything, "few": few}, config)
