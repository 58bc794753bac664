from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import hypergeom

import counterplay as cp
from counterplay.metrics import measures as metrics
from counterplay.metrics.formulas import METRICS as _METRICS
from counterplay.metrics.measures import ranking_metrics
from counterplay.metrics.ranks import Ranks

METRICS = tuple(_METRICS)
CUTOFFS = (1, 2, 3, 5, 10)
Users = list[list[float]]

# Ranks in one list a user: all different; and any at all, as of rows that occur twice.
DISTINCT = st.lists(st.lists(st.integers(1, 12).map(float), max_size=7, unique=True), max_size=6)
ANY_RANK = st.integers(1, 12).map(float) | st.just(math.inf)
CROWDED = st.lists(st.lists(ANY_RANK, max_size=7), max_size=6)

# A list a user: scores of few values, so that many tie, and which of them are targets.
TIED = st.lists(
    st.lists(st.tuples(st.integers(0, 2), st.booleans()), min_size=1, max_size=6), max_size=4
)
Lists = list[list[tuple[int, bool]]]


def rows(users: Users) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    group = np.repeat(np.arange(len(users)), [len(ranks) for ranks in users]).astype(np.int64)
    return np.array([rank for ranks in users for rank in ranks], dtype=np.float64), group


def plain(name: str, ranks: list[float], k: int) -> float:
    """One user's metric, word for word."""
    if not ranks:
        return math.nan
    hits = [rank for rank in ranks if rank <= k]
    dcg = sum(1 / math.log2(1 + rank) for rank in hits)
    precisions = [sum(other <= rank for other in ranks) / rank for rank in hits]
    possible = min(len(ranks), k)
    return {
        "hit": float(len(hits) > 0),
        "recall": len(hits) / len(ranks),
        "precision": len(hits) / k,
        "dcg": dcg,
        "ndcg": dcg / sum(1 / math.log2(1 + place) for place in range(1, possible + 1)),
        "mrr": 1 / min(hits) if hits else 0.0,
        "map": sum(precisions) / possible,
    }[name]


@given(DISTINCT)
def test_metrics_equal_their_plain_twins(users: Users) -> None:
    found = ranking_metrics(*rows(users), names=METRICS, k=CUTOFFS, n_groups=len(users))
    assert set(found) == set(itertools.product(METRICS, CUTOFFS))
    for (name, k), values in found.items():
        expected = [plain(name, ranks, k) for ranks in users]
        np.testing.assert_allclose(values, expected, rtol=1e-12, err_msg=f"{name}@{k}")


@given(CROWDED)
def test_all_metrics_but_dcg_end_at_1(users: Users) -> None:
    found = ranking_metrics(*rows(users), names=METRICS, k=CUTOFFS, n_groups=len(users))
    for (name, k), values in found.items():
        outside = (values < 0) | (values > (math.inf if name == "dcg" else 1))
        assert not outside.any(), (name, k)


def standing(lists: Lists) -> tuple[Ranks, NDArray[np.int64]]:
    """Return where the targets of each list stand, and whose they are."""
    above, tied, group = [], [], []
    for user, candidates in enumerate(lists):
        scores = [score for score, _ in candidates]
        for score, is_target in candidates:
            if is_target:
                above.append(sum(other > score for other in scores))
                tied.append(scores.count(score) - 1)
                group.append(user)
    return Ranks(np.array(above, int), np.array(tied, int)), np.array(group, int)


def every_order(candidates: list[tuple[int, bool]]) -> list[list[float]]:
    """Return the targets' ranks in each order of a list that its scores admit."""
    found = []
    for order in itertools.permutations(candidates):
        scores = [score for score, _ in order]
        if scores == sorted(scores, reverse=True):
            found.append([float(rank) for rank, (_, target) in enumerate(order, 1) if target])
    return found


@given(TIED)
def test_ties_have_the_mean_of_the_metric_over_all_orders(lists: Lists) -> None:
    """All orders of several targets in several ties, one by one, for every metric."""
    found = ranking_metrics(*standing(lists), names=METRICS, k=CUTOFFS, n_groups=len(lists))
    orders = [every_order(each) for each in lists]
    for (name, k), values in found.items():
        expected = [np.mean([plain(name, ranks, k) for ranks in each]) for each in orders]
        np.testing.assert_allclose(values, expected, rtol=1e-12, err_msg=f"{name}@{k}")


@pytest.mark.parametrize("n", [1, 10, 19, 20, 21, 1000])
def test_a_constant_score_earns_what_chance_would(n: int) -> None:
    """A target among n that all tie is on each place alike: no size of the tie is a threshold."""
    found = ranking_metrics(Ranks(np.array([0]), np.array([n - 1])), np.array([0]), k=[10])
    places = np.arange(1, min(n, 10) + 1)
    assert found["hit", 10].item() == pytest.approx(len(places) / n, rel=1e-12)
    assert found["ndcg", 10].item() == pytest.approx((1 / np.log2(1 + places)).sum() / n, rel=1e-12)


@pytest.mark.parametrize(("size", "n_targets", "above"), [(400, 30, 0), (5000, 2, 7), (60, 60, 3)])
def test_large_ties_agree_with_the_hypergeometric_distribution(
    size: int, n_targets: int, above: int
) -> None:
    ranks = Ranks(np.full(n_targets, above), np.full(n_targets, size - 1))
    found = ranking_metrics(ranks, np.zeros(n_targets, int), names=("hit", "mrr"), k=[10, 50])
    for k in (10, 50):
        missed = hypergeom(size, n_targets, np.arange(1, k - above + 1)).pmf(0)
        assert found["hit", k].item() == pytest.approx(1 - missed[-1], rel=1e-9)
        first = np.append(1, missed[:-1]) - missed
        expected = (first / (above + np.arange(1, k - above + 1))).sum()
        assert found["mrr", k].item() == pytest.approx(expected, rel=1e-9)


@given(TIED.filter(len), st.integers(0, 99))
def test_order_and_labels_of_rows_change_not_one_bit(lists: Lists, seed: int) -> None:
    (ranks, group), rng = standing(lists), np.random.default_rng(seed)
    order, label = rng.permutation(len(ranks)), rng.permutation(len(lists))
    found = ranking_metrics(ranks, group, names=METRICS, k=CUTOFFS, n_groups=len(lists))
    others = Ranks(ranks.above[order], ranks.tied[order])
    shuffled = ranking_metrics(
        others, label[group[order]], names=METRICS, k=CUTOFFS, n_groups=len(lists)
    )
    for key, values in found.items():
        np.testing.assert_array_equal(values, shuffled[key][label], err_msg=str(key))


@pytest.mark.parametrize("n_targets", [1, 2, 5, 9])
def test_a_perfect_list_has_exactly_1(n_targets: int) -> None:
    ranks = np.arange(n_targets, 0, -1.0)
    found = ranking_metrics(ranks, np.zeros(n_targets, int), names=("ndcg", "map"), k=CUTOFFS)
    assert all(values.tolist() == [1.0] for values in found.values())


def test_rows_that_occur_twice_take_a_place_each() -> None:
    """Five at the rank 3 take 3 to 7, and one given at 4 comes after them."""
    crowded = ranking_metrics(np.full(5, 3.0), np.zeros(5, int), names=METRICS, k=[4])
    spread = ranking_metrics(np.arange(3.0, 8.0), np.zeros(5, int), names=METRICS, k=[4])
    for key, values in spread.items():
        np.testing.assert_allclose(crowded[key], values, rtol=1e-12, err_msg=str(key))
    ranks, group = np.array([1.0, 1.0, 2.0, 9.0, 2.0]), np.array([4, 4, 4, 4, 0])
    found = ranking_metrics(ranks, group, names=["precision", "recall", "map"], k=[2])
    assert found["precision", 2][[0, 4]].tolist() == [0.5, 1]  # the third comes after the two
    assert found["recall", 2][[0, 4]].tolist() == [1, 0.5]
    assert found["map", 2][[0, 4]].tolist() == [0.5, 1]


def random_lists(seed: int) -> tuple[NDArray[np.bool_], NDArray[np.float64], NDArray[np.float64]]:
    """Return relevance, scores without ties and ranks of 40 users and 30 items."""
    rng = np.random.default_rng(seed)
    ranks = rng.permuted(np.tile(np.arange(1.0, 31.0), (40, 1)), axis=1)
    relevant = rng.random((40, 30)) < rng.uniform(0.02, 0.6, (40, 1))
    relevant[np.arange(40), rng.integers(0, 30, 40)] = True
    return relevant, 31 - ranks, ranks


def test_metrics_agree_with_trec_eval() -> None:
    """Its map_cut divides by all targets, also where k places cannot hold them."""
    relevant, scores, ranks = random_lists(0)
    k = (1, 5, 10, 30)
    truth = {f"{u}": {f"{i}": int(relevant[u, i]) for i in range(30)} for u in range(40)}
    run = {f"{u}": {f"{i}": float(scores[u, i]) for i in range(30)} for u in range(40)}
    cuts = ",".join(map(str, k))
    measures = {f"{name}.{cuts}" for name in ("ndcg_cut", "recall", "P", "map_cut", "success")}
    expected = pytrec_eval.RelevanceEvaluator(truth, measures | {"recip_rank"}).evaluate(run)
    found = ranking_metrics(ranks[relevant], np.nonzero(relevant)[0], names=METRICS, k=k)
    names = {"ndcg": "ndcg_cut", "recall": "recall", "precision": "P", "hit": "success"}
    theirs = {name: [expected[f"{u}"][name] for u in range(40)] for name in expected["0"]}
    assert found["mrr", 30] == pytest.approx(theirs["recip_rank"])
    n_targets = relevant.sum(1)
    for cutoff in k:
        for ours, name in names.items():
            assert found[ours, cutoff] == pytest.approx(theirs[f"{name}_{cutoff}"])
        over_all = found["map", cutoff] * np.minimum(n_targets, cutoff) / n_targets
        assert over_all == pytest.approx(theirs[f"map_cut_{cutoff}"])


def test_no_rows_are_groups_without_targets() -> None:
    none, nobody = np.empty(0), np.empty(0, dtype=np.int32)
    assert np.isnan(ranking_metrics(none, nobody, names=["map"], k=[3], n_groups=2)["map", 3]).all()
    assert all(len(values) == 0 for values in ranking_metrics(none, nobody).values())


def test_unknown_metrics_are_refused_with_the_nearest_known() -> None:
    for name, nearest in {"NDCG": "ndcg", "recal": "recall", "prec": "precision"}.items():
        with pytest.raises(cp.ConfigError, match=f"found '{name}'; did you mean '{nearest}'"):
            ranking_metrics(np.ones(1), np.zeros(1, int), names=["hit", name])


@pytest.mark.parametrize("k", [0, -5, 2.5])
def test_cutoffs_that_are_no_lengths_are_refused(k: int) -> None:
    with pytest.raises(cp.ConfigError, match=f"1 or more; found {k}"):
        ranking_metrics(np.ones(1), np.zeros(1, int), k=[5, k])


@pytest.mark.parametrize(
    ("ranks", "group", "n_groups", "message"),
    [
        ([1.0, 0.5], [0, 1], None, "from 1; found 0.5 in row 1"),
        ([1.0, 2.5], [0, 1], None, r"whole numbers from 1; found 2.5 in row 1; .* Ranks\(above"),
        ([math.nan, 1.0], [0, 1], None, "from 1; found nan in row 0"),
        ([1.0, 2.0], [0], None, r"found the shapes \(2,\) and \(1,\)"),
        ([[1.0], [2.0]], [[0], [1]], None, r"found the shapes \(2, 1\)"),
        ([1.0, 2.0], [0.0, 1.0], None, "whole numbers; found the type float64"),
        ([1.0, 2.0], [0, -1], None, "found -1"),
        ([1.0, 2.0], [0, 3], 3, "n_groups - 1 = 2; found 3"),
    ],
)
def test_what_cannot_be_ranks_is_refused(
    ranks: list[float], group: list[int], n_groups: int | None, message: str
) -> None:
    with pytest.raises(cp.DataError, match=message):
        ranking_metrics(np.array(ranks), np.array(group), n_groups=n_groups)


@pytest.mark.parametrize(
    ("above", "tied"), [([-1], [0]), ([0], [-1]), ([0, 1], [0]), ([0.5], [0]), ([0], [math.inf])]
)
def test_counts_that_cannot_be_are_refused(above: list[float], tied: list[float]) -> None:
    with pytest.raises(cp.DataError, match="whole numbers of 0 or more, above and tied; found"):
        ranking_metrics(Ranks(np.array(above), np.array(tied)), np.zeros(len(above), int))


RATINGS = st.lists(st.tuples(st.floats(-9, 9), st.integers(1, 5)), min_size=1, max_size=9)


@given(RATINGS)
def test_rating_errors_equal_their_plain_twins(pairs: list[tuple[float, int]]) -> None:
    predicted, rating = (np.array(column) for column in zip(*pairs, strict=True))
    found = metrics.rating_errors(predicted, rating.astype(np.uint8))
    assert found["mse"].tolist() == pytest.approx([(p - r) ** 2 for p, r in pairs])
    assert found["mae"].tolist() == pytest.approx([abs(p - r) for p, r in pairs])


def test_ratings_of_another_length_are_refused() -> None:
    with pytest.raises(cp.DataError, match=r"shapes \(2,\) and \(1,\)"):
        metrics.rating_errors(np.ones(2), np.ones(1))


LISTS = st.lists(st.lists(st.integers(-1, 5), min_size=3, max_size=3), min_size=1, max_size=6)


@given(LISTS.filter(lambda lists: any(item >= 0 for row in lists for item in row)))
def test_catalogue_metrics_equal_their_plain_twins(lists: list[list[int]]) -> None:
    items, events = np.array(lists), [8, 1, 0, 5, 2, 100]
    flat = [item for row in lists for item in row if item >= 0]
    times = [flat.count(item) for item in range(6)]
    assert metrics.coverage(items, 6) == pytest.approx(len(set(flat)) / 6)
    differences = sum(abs(one - other) for one in times for other in times)
    assert metrics.gini_of_lists(items, 6) == pytest.approx(differences / (2 * 6 * sum(times)))
    popularity = sum(events[item] for item in flat) / len(flat)
    assert metrics.mean_popularity(items, np.array(events)) == pytest.approx(popularity)


def test_gini_is_0_for_equal_shares_and_nearly_1_for_one_item() -> None:
    assert metrics.gini_of_lists(np.arange(12).reshape(4, 3), 12) == 0
    assert metrics.gini_of_lists(np.full((5, 1), 7), 12) == pytest.approx(11 / 12)


def test_lists_of_padding_cover_nothing_and_have_no_mean() -> None:
    nothing = np.full((2, 3), -1)
    assert metrics.coverage(nothing, 4) == 0
    with pytest.raises(cp.DataError, match="only padding"):
        metrics.gini_of_lists(nothing, 4)
    with pytest.raises(cp.DataError, match="only padding"):
        metrics.mean_popularity(nothing, np.ones(4, int))


@pytest.mark.parametrize("items", [[[0, 4]], [[-2, 0]], [[0.0, 1.0]]])
def test_lists_of_unknown_items_are_refused(items: list[list[int]]) -> None:
    with pytest.raises(cp.DataError, match="n_items - 1 = 3, or -1 for padding; found"):
        metrics.coverage(np.array(items), 4)
