"""Estimators as values: what each needs is checked, and one of one's own takes part."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import counterplay as cp
from counterplay.evaluation.estimators import ESTIMATORS, Estimator, known, trusted


def log_of(**columns: object) -> cp.Interactions:
    return cp.read({"user": [0, 1], "item": [2, 3], **columns})


def test_the_names_are_those_of_the_values() -> None:
    assert list(ESTIMATORS) == [each.name for each in ESTIMATORS.values()]
    assert all(each.title and each.assumes.endswith(".") for each in ESTIMATORS.values())
    assert [name for name, each in ESTIMATORS.items() if not each.weighs] == [
        "standard",
        "robust",
        "doubly-robust",
        "randomised",
    ]
    assert [name for name, each in ESTIMATORS.items() if not each.propensities] == [
        "robust",
        "doubly-robust",
    ]


def test_the_order_of_trust_is_a_property() -> None:
    assert trusted() == [
        "randomised",
        "logged",
        "impressions",
        "doubly-robust",
        "robust",
        "dials",
        "standard",
        "propensity",
        "popularity",
    ]
    levels = [each.trust for each in ESTIMATORS.values() if each.trust]
    assert len(set(levels)) == len(levels)  # no two are trusted alike


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("world", [False, True])
def test_what_applies_is_not_refused_and_what_does_not_is(name: str, world: bool) -> None:
    estimator = ESTIMATORS[name]
    for log in (log_of(), log_of(propensity=[0.25, 1])):
        there = {
            "propensities": log.propensity is not None,
            "world": world,
            "random rows": False,
            "impressions": False,
            None: True,
        }
        expected = there[estimator.needs]
        assert estimator.applies(log, world=world) == expected
        if expected:
            estimator.check(log, world=world)
        else:
            with pytest.raises((cp.DataError, cp.ConfigError), match=f"the {name} estimator needs"):
                estimator.check(log, world=world)


def test_a_name_that_is_none_has_a_neighbour() -> None:
    assert known("logged") == "logged"
    with pytest.raises(cp.ConfigError, match="found 'populrity'; did you mean 'popularity'"):
        known("populrity")
    with pytest.raises(cp.ConfigError, match="found 'x'; choose one of them"):
        known("x")


def test_one_of_ones_own_weighs_rows(dataset: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Odd items are taken to be shown ten times as often."""
    own = Estimator(
        name="even",
        title="Weighting even items",
        assumes="takes odd items to be shown ten times as often.",
        propensities=lambda stage, *_: np.where(stage.targets.item % 2, 1.0, 0.1),
        trust=99,
    )
    monkeypatch.setitem(ESTIMATORS, "even", own)
    assert trusted()[0] == "even"
    split = cp.data.load_split(dataset)
    user, item = np.divmod(np.arange(split.test.n_users * split.test.n_items), split.test.n_items)
    table = pl.DataFrame(
        {
            "user": split.test.users.decode(user),
            "item": split.test.items.decode(item),
            "score": -(item % 2) - item / 1000,  # even items first
        }
    )
    how = cp.evaluation.Evaluation(
        estimators=("standard", "even"), n_resamples=200, metrics=("hit",)
    )
    values = {each.estimator: each.value for each in cp.evaluate(table, dataset, how).estimates}
    even = split.test.item % 2 == 0
    n_hits = values["standard"] * len(even)  # only even items are among the first ten
    assert 0 < n_hits < even.sum()
    assert values["even"] == pytest.approx(10 * n_hits / (10 * even.sum() + (~even).sum()))
