from __future__ import annotations

import json
import warnings
from collections.abc import Iterator

import numpy as np
import polars as pl
import pytest

import counterplay as cp
from counterplay.data.features import FeatureTable
from counterplay.evaluation.audience_records import Segment, Segments
from counterplay.evaluation.levels import N_LEVELS, levels, usable
from counterplay.evaluation.segments import Followed, segments
from counterplay.metrics.dials import surface

from .audience import contestants, make_split, make_stage

HIT = ("hit", 5)


@pytest.fixture(autouse=True)
def _without_notes() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cp.CounterplayWarning)
        yield


def found(*estimators: str, follows: str = "standard", names: tuple[str, ...] = ()) -> Segments:
    split = make_split()
    names = names or ("one", "other")
    second = names[1] if len(names) > 1 else None
    stage = make_stage(split, *(estimators or (follows,)))
    given = segments(stage, contestants(split, *names), Followed(follows, HIT, names[0], second))
    assert given is not None
    return Segments.model_validate(json.loads(json.dumps(given.to_dict())))


def one(all_: Segments, of: str, label: str = "") -> Segment:
    (match,) = [each for each in all_.segments if each.of == of and label in each.label]
    return match


@pytest.mark.parametrize("estimator", ["standard", "popularity"])
def test_a_value_is_the_weighted_mean_of_the_segments_rows(estimator: str) -> None:
    split = make_split()
    stage, two = make_stage(split, estimator), contestants(split)
    given = segments(stage, two, Followed(estimator, HIT, "one", "other"))
    assert given is not None
    targets = stage.targets
    new = np.bincount(stage.train.user, minlength=stage.train.n_users)[targets.user] == 0
    assert 0 < new.sum() < len(new)
    segment = one(given, "new users", "no training rows")
    assert segment.n == new.sum()
    assert segment.n_users == len(np.unique(targets.user[new]))
    for each in segment.values:
        weights = stage.weights(each.estimator, two[0], two)
        values = stage.values(next(own for own in two if own.name == each.candidate))[HIT]
        wanted = sum(w * v for w, v, is_new in zip(weights, values, new, strict=True) if is_new)
        assert each.value == pytest.approx(wanted / weights[new].sum(), abs=1e-9)
    assert {each.estimator for each in segment.values} == {estimator, "standard"}


def test_the_worst_case_is_that_of_the_rows() -> None:
    split = make_split()
    stage, two = make_stage(split, "standard", "robust"), contestants(split)
    given = segments(stage, two, Followed("robust", HIT, "one", "other"))
    assert given is not None
    case = stage.worst_case(two)
    tail = one(given, "popularity of items", "tail")
    level = next(each for each in levels(stage.train) if each.label == tail.label)
    rows = np.flatnonzero(level.flags[stage.targets.item])
    values = {each.name: stage.values(each)[HIT][rows] for each in two}
    over = surface(values, case.exposures.take(rows), stage.targets.user[rows], case.box)
    robust = {each.candidate: each for each in tail.values if each.estimator == "robust"}
    for name, mean in over.mean().items():
        assert robust[name].value == pytest.approx(mean, abs=1e-9)
        low, high = over.ends(name)
        assert robust[name].low == pytest.approx(max(low, 0), abs=1e-9)
        assert robust[name].high == pytest.approx(min(high, 1), abs=1e-9)
    (lead,) = [each for each in tail.leads if each.estimator == "robust"]
    least = over.lead("one", "other", n_tests=2 * given.n_leads)
    assert lead.low == pytest.approx(least)
    assert lead.decided == (least > 0 or over.lead("other", "one", n_tests=2 * given.n_leads) > 0)


def test_parts_of_a_kind_are_all_rows() -> None:
    given = found()
    stage = make_stage(make_split())
    whole = len(stage.targets)
    by_kind = {of: sum(each.n for each in given.segments if each.of == of)
               for of in dict.fromkeys(each.of for each in given.segments)}  # fmt: skip
    assert list(by_kind) == [
        "new users", "activity of users", "popularity of items", "user feature town",
        "item feature genres", "item feature year",
    ]  # fmt: skip
    new = one(given, "new users", "no training rows").n
    assert by_kind["activity of users"] == whole - new
    for of in ("new users", "popularity of items", "user feature town", "item feature year"):
        assert by_kind[of] == whole
    assert by_kind["item feature genres"] > whole, "an item may have several"


def test_features_have_few_levels() -> None:
    given = found()
    towns = [each.label for each in given.segments if each.of == "user feature town"]
    assert len(towns) == N_LEVELS + 1
    assert towns[-1] == "4 others"
    years = [each.label for each in given.segments if each.of == "item feature year"]
    assert years[-1] == "unknown"
    assert len(years) == 5
    assert years[0].startswith("1,990 to ")
    assert given.left_out == (
        "user feature same, which has one value", "item feature Title, which is a name",
    )  # fmt: skip


def test_intervals_are_wider_where_many_are_judged() -> None:
    given = found()
    assert given.n_leads == len(given.segments)
    for segment in given.segments:
        (lead,) = segment.leads
        values = {each.candidate: each for each in segment.values}
        assert lead.value == pytest.approx(values["one"].value - values["other"].value)
        if lead.low is not None:
            assert lead.low <= lead.value <= (lead.high or 0)


def test_what_other_fits_would_say_widens_a_lead(monkeypatch: pytest.MonkeyPatch) -> None:
    split = make_split()
    stage, two = make_stage(split, "standard"), contestants(split)
    fits = np.random.default_rng(3).uniform(0.1, 3, (7, len(stage.targets)))

    def half_widths() -> dict[tuple[str, str], float]:
        given = segments(stage, two, Followed("standard", HIT, "one", "other"))
        assert given is not None
        leads = {(each.of, each.label): each.leads[0] for each in given.segments}
        return {key: lead.value - lead.low for key, lead in leads.items() if lead.low is not None}

    before = half_widths()
    monkeypatch.setattr(type(stage), "refits", lambda *_: fits)
    after = half_widths()
    lead = stage.values(two[0])[HIT] - stage.values(two[1])[HIT]
    squares = []  # z², the same everywhere
    for level in levels(stage.train):
        if (key := (level.of, level.label)) in before.keys() & after.keys():
            rows = level.flags[stage.targets.user if level.role == "user" else stage.targets.item]
            by_fit = [np.average(lead[rows], weights=each[rows]) for each in fits]
            squares.append((after[key] ** 2 - before[key] ** 2) / np.var(by_fit))
    assert len(squares) > 5
    assert min(squares) > 2
    np.testing.assert_allclose(squares, squares[0], rtol=1e-6)


def test_one_candidate_has_no_lead() -> None:
    given = found(names=("one",))
    assert given.second is None
    assert given.n_leads == 0
    assert all(each.leads == () and each.values for each in given.segments)


def test_rows_that_are_all_alike_have_no_interval() -> None:
    given = found(names=("one", "never"))
    flat = [each for segment in given.segments for each in segment.values if each.value == 0]
    assert flat
    assert all(each.low is None and each.high is None for each in flat)


def test_without_features_and_times() -> None:
    split = make_split(features=False, times=False)
    stage = make_stage(split)
    given = segments(stage, contestants(split), Followed("standard", HIT, "one", "other"))
    assert given is not None
    assert {each.of for each in given.segments} <= {
        "new users", "activity of users", "popularity of items",
    }  # fmt: skip
    assert all(each.n > 0 for each in given.segments)


def test_ratings_have_segments_too() -> None:
    split = make_split(ratings=True)
    stage = make_stage(split, explicit=True)
    given = segments(stage, contestants(split), Followed("standard", ("mse", 0), "one", "other"))
    assert given is not None
    assert any(each.value > 1 for segment in given.segments for each in segment.values)


def test_a_text_that_tells_everybody_apart_is_no_segment() -> None:
    split = make_split()
    table = split.interactions.item_features
    assert table is not None
    sku = pl.Series("sku", [f"s{each}" for each in range(len(table))])
    columns, why = usable(FeatureTable(table.frame.with_columns(sku)))
    assert "sku" not in columns
    assert "sku, which has nearly as many values as ids" in why
