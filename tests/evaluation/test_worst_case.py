"""The worst case of an evaluation: its corners, its ends, and what decides."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import counterplay as cp
from counterplay.data.splits import split_at_random
from counterplay.evaluation.evaluator import compared
from counterplay.evaluation.propensities import Contestant
from counterplay.evaluation.settings import DialSettings
from counterplay.evaluation.stage import Evaluation, Stage
from counterplay.metrics.scoring import TableScores
from counterplay.simulation.synthetic import Synthetic

NAMES = ("one", "two", "three")


@pytest.fixture(scope="module")
def split() -> cp.Split:
    log = Synthetic(n_users=120, n_items=60, n_shown=12, skew=0.5).world().log()
    return split_at_random(log, np.random.default_rng(0), fractions=(0.2, 0.3))


def stage_of(split: cp.Split, **settings: object) -> tuple[Stage, list[Contestant]]:
    stage = Stage(split, Evaluation.model_validate(settings), explicit=False)
    rng = np.random.default_rng(1)
    users, items = np.divmod(
        np.arange(split.train.n_users * split.train.n_items), split.train.n_items
    )
    known = np.isin(users * split.train.n_items + items, split.test.pair)
    found = []
    for name, weight in zip(NAMES, (1.0, 0.5, 0.0), strict=True):
        scores = weight * known + rng.normal(size=len(users))
        table = TableScores(users, items, scores, split.train.n_items)
        found.append(Contestant(name, table, None))
    return stage, found


def test_the_corners_are_standard_and_popularity(split: cp.Split) -> None:
    """(0, 0) to the last digits; (1, 0) but for the 1 that keeps unseen items from 0."""
    stage, contestants = stage_of(split, estimators=("standard", "popularity", "robust"))
    case = stage.worst_case(contestants)
    values = case.maps["hit", 10]
    names = [each.name for each in contestants]
    standard = [stage.values(each)["hit", 10].mean() for each in contestants]
    assert list(values.at(0.0, 0.0).values()) == pytest.approx(standard)
    events = np.bincount(split.train.item, minlength=split.train.n_items)
    weights = 1 / (events[stage.targets.item] + 1)
    popular = [
        (weights * stage.values(each)["hit", 10]).sum() / weights.sum() for each in contestants
    ]
    assert [values.at(1.0, 0.0)[name] for name in names] == pytest.approx(popular)


def test_an_estimate_is_the_mean_over_the_box_between_its_ends(split: cp.Split) -> None:
    stage, contestants = stage_of(split, estimators=("dials", "robust"), metrics=("hit",))
    record = compared(stage, contestants)
    over = stage.worst_case(contestants).surface(("hit", 10))
    assert over.box.dials == DialSettings().box().dials
    for name in NAMES:
        (found,) = (
            each
            for each in record.estimates
            if (each.candidate, each.estimator) == (name, "robust")
        )
        place = over.names.index(name)
        column = over.values[:-1, place]
        assert found.value == pytest.approx(column.mean())
        assert found.low is not None
        assert found.high is not None
        assert found.low < column.min() <= column.max() < found.high
    point = [each.value for each in record.estimates if each.estimator == "dials"]
    assert point == pytest.approx(list(over.point.values()))


def test_a_difference_is_decided_where_its_worst_end_is_beyond_0(split: cp.Split) -> None:
    stage, contestants = stage_of(split, estimators=("robust",), metrics=("hit",))
    record = compared(stage, contestants)
    over = stage.worst_case(contestants).surface(("hit", 10))
    states = set()
    for each in record.comparisons:
        ahead = over.lead(each.first, each.second, n_tests=2) > 0
        behind = over.lead(each.second, each.first, n_tests=2) > 0
        assert each.decided == (ahead or behind)
        assert each.low is not None
        assert each.high is not None
        assert (each.low > 0, each.high < 0) == (ahead, behind)
        states.add(each.decided)
    assert states == {True, False}  # the case tells both apart
    assert record.dials is not None
    pairs = {(each.first, each.second) for each in record.dials.leads}
    assert len(pairs) == len(record.dials.leads) == 6
    assert set(record.dials.box) < set(record.dials.dials)


def test_known_dials_are_the_only_ones(split: cp.Split) -> None:
    known = DialSettings(popularity_share=0.4, personal_share=0.0)
    assert known.box().dials == ((0.4, 0.0),)
    assert known.box().point == (0.4, 0.0)
    half = DialSettings(personal_share=0.1)
    assert {lam for _, lam in half.box().dials} == {0.1}
    assert len(half.box().dials) == 5
    stage, contestants = stage_of(split, estimators=("robust", "dials"), dials=known.model_dump())
    record = compared(stage, contestants)
    values = {(each.estimator, each.candidate): each.value for each in record.estimates
              if each.metric == "hit"}  # fmt: skip
    for name in NAMES:
        assert values["robust", name] == pytest.approx(values["dials", name])


def test_the_click_model_never_sees_the_rows_that_are_weighted(split: cp.Split) -> None:
    """Other test items leave what it has learnt as it is."""
    first = stage_of(split, estimators=("robust",))
    item = np.array(split.interactions.item)
    rows = split.part == 2
    item[rows] = (item[rows] + 7) % split.train.n_items
    other = cp.Split(replace(split.interactions, item=item), split.part, split.kind)
    stage = Stage(other, first[0].config, explicit=False)
    model, again = first[0].worst_case(first[1]).model, stage.worst_case(first[1]).model
    assert model.coefficients.tolist() == again.coefficients.tolist()


def test_without_rows_to_learn_from_the_box_is_of_popularity_alone() -> None:
    """The one validation row is of a user who has seen everything."""
    few = cp.read({"user": [0, 0, 0, 1, 1, 1], "item": [0, 1, 2, 0, 1, 2]})
    tiny = cp.Split(few, np.array([0, 0, 1, 0, 0, 2], dtype=np.int8), "by hand")
    stage = Stage(tiny, Evaluation(estimators=("robust",), k=(1,)), explicit=False)
    users, items = np.divmod(np.arange(6), 3)
    contestants = [
        Contestant(name, TableScores(users, items, sign * items.astype(float), 3), None)
        for name, sign in (("up", 1), ("down", -1))
    ]
    with pytest.warns(cp.CounterplayWarning, match="could not be judged .* popularity alone"):
        case = stage.worst_case(contestants)
    assert case.model.n_rows == 0
    values = case.maps["hit", 1].values[:-1].reshape(5, 6, 2)
    assert (values == values[:, :1]).all()  # λ has nothing to act on
