from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reproduction.claims import (
    BEATS_BASE,
    BEATS_PS,
    BEATS_PS_REAL,
    HOLDS,
    LARGER,
    MARGIN,
    MIDDLE,
    OUTCOME,
    UNIFORMLY,
    claims_of,
    judged,
    verdict,
)

POINTS = st.floats(-10, 10)


@given(POINTS, POINTS, st.floats(0, 2))
def test_an_interval_on_one_side_decides(one: float, other: float, margin: float) -> None:
    low, high = sorted((one, other))
    found = verdict(low, high, margin=margin)
    assert (found == "reproduced") == (low > -margin)
    assert (found == "not reproduced") == (high < -margin)


@given(POINTS, POINTS)
def test_whoever_beats_does_not_lose(one: float, other: float) -> None:
    low, high = sorted((one, other))
    if verdict(low, high) == "reproduced":
        assert verdict(low, high, margin=MARGIN) == "reproduced"
    if verdict(low, high, margin=MARGIN) == "not reproduced":
        assert verdict(low, high) == "not reproduced"


@given(st.lists(POINTS, min_size=2, max_size=6))
def test_the_opposite_difference_has_the_opposite_verdict(differences: list[float]) -> None:
    there = judged("claim", differences)
    back = judged("claim", [-each for each in differences])
    opposite = {"reproduced": "not reproduced", "not reproduced": "reproduced"}
    assert back["verdict"] == opposite.get(there["verdict"], "undecided")


@pytest.mark.parametrize("differences", [[], [3.0]])
def test_one_seed_decides_nothing(differences: list[float]) -> None:
    assert judged("claim", differences)["verdict"] == "undecided"


def cell(printed_as: str, recipe: str, values: dict[str, float], **changes: Any) -> dict[str, Any]:
    title = printed_as if "-" not in printed_as else f"{printed_as}, {recipe}"
    about = {"dataset": "ml-1m", "column": "100 sampled", "protocol": "sampled-100"}
    rest = {"metric": "hit@10", "state": "done", "paper": None}
    return about | rest | {"printed_as": printed_as, "title": title, "values": values} | changes


def test_claims_of_the_first_table_compare_with_the_base_and_with_ps() -> None:
    cells = [
        cell("gmf", "", {"0": 10.0, "1": 11.0}, paper=[39.0, 0.2]),
        cell("mlp", "", {"0": 90.0}),
        cell("ps-gmf-pop", "stable", {"0": 10.0, "1": 10.0}),
        cell("ps-gmf-pop", "paper", {"0": 50.0}),
        cell("ps-gmf-oracle", "stable", {"0": 50.0}),
        cell("acl-gmf", "stable", {"0": 11.0, "1": 12.1, "2": 80.0}, paper=[39.08, 0.2]),
        cell("gmf", "", {"0": 0.0}, column="truth"),
        cell("gmf", "", {"0": 0.0}, metric="ndcg@10"),
    ]
    base, weighted = claims_of("table1", cells)
    assert (base["claim"], weighted["claim"]) == (BEATS_BASE, BEATS_PS)
    assert (base["first"], base["second"]) == ("acl-gmf, stable", "gmf")
    assert base["value"] == pytest.approx(1.05)  # the seeds that both have
    assert (base["n"], base["margin"], base["paper"]) == (2, 0, 0.08)
    assert base["verdict"] == "reproduced"
    assert (weighted["second"], weighted["paper"]) == ("ps-gmf-pop, stable", None)
    assert weighted["value"] == pytest.approx(1.55)


def test_the_game_as_the_code_plays_it_is_held_against_the_same() -> None:
    values = {"0": 10.0, "1": 11.0}
    cells = [
        cell("gmf", "", values),
        cell("acl-gmf", "paper", values, swept={"code": 1.0, "product": 1.0, "turns": 1.0}),
        cell("acl-gmf", "paper", values, swept={"code": 1.0, "lazy": 1.0}),
    ]
    found = claims_of("table1-authors", cells)
    assert [(each["claim"], each["first"]) for each in found] == [
        (BEATS_BASE, "acl-gmf, paper (product 1, turns 1)")
    ]


def test_claims_of_the_second_table_have_a_margin() -> None:
    values = {"0": 10.0, "1": 10.0, "2": 10.0}
    close = {"0": 9.7, "1": 9.8, "2": 9.75}
    cells = [cell("gmf", "", values), cell("acl-gmf", "paper", close)]
    beats, holds = claims_of("table2", cells)
    assert (beats["claim"], beats["margin"], beats["verdict"]) == (UNIFORMLY, 0, "not reproduced")
    assert (holds["claim"], holds["margin"]) == (HOLDS, pytest.approx(10 * MARGIN))
    assert holds["verdict"] == "not reproduced"  # 2.5% of the level is more than 1%
    little = {seed: 99.6 + each / 100 for seed, each in close.items()}
    high = dict.fromkeys(values, 100.0)
    _, holds = claims_of("table2", [cell("gmf", "", high), cell("acl-gmf", "paper", little)])
    assert (holds["margin"], holds["verdict"]) == (pytest.approx(1.0), "reproduced")


def test_on_real_data_the_game_is_held_against_ps_of_its_recipe() -> None:
    cells = [
        cell("ps-gmf-pop", "paper", {"0": 1.0}),
        cell("ps-gmf-pop", "stable", {"0": 2.0}),
        cell("acl-gmf", "paper", {"0": 3.0}),
    ]
    (found,) = claims_of("table2-selected", cells)
    assert (found["claim"], found["value"]) == (BEATS_PS_REAL, 2.0)


def test_the_outcome_is_judged_at_the_same_size() -> None:
    same, other = {"dim": 4, "with_outcome": 0.0}, {"dim": 8, "with_outcome": 0.0}
    cells = [
        cell("acl-gmf", "paper", {"0": 5.0}, swept={"dim": 4}),
        cell("acl-gmf", "paper", {"0": 4.0}, swept=same),
        cell("acl-gmf", "paper", {"0": 1.0}, swept=same | {"learn": 0.0}),
        cell("acl-gmf", "paper", {"0": 0.0}, swept=other),
        cell("acl-gmf", "stable", {"0": 0.0}, swept=same),
    ]
    found = claims_of("figure-a1", cells)
    assert [(each["claim"], each["value"]) for each in found] == [(OUTCOME, 1.0), (OUTCOME, 4.0)]
    assert "learn 0" in found[1]["second"]


def test_figures_compare_the_middle_with_its_ends_and_the_largest_with_the_smallest() -> None:
    alphas = [
        cell("acl-gmf", "paper", {"0": value}, swept={"dim": 4, "alpha": alpha})
        for alpha, value in ((5.0, 1.0), (0.1, 2.0), (1.0, 4.0), (0.5, 9.0))
    ]
    found = claims_of("figure-a4", alphas)
    assert [(each["claim"], each["value"]) for each in found] == [(MIDDLE, 2.0), (MIDDLE, 3.0)]
    sizes = [cell("acl-gmf", "paper", {"0": float(dim)}, swept={"dim": dim}) for dim in (16, 8, 64)]
    (larger,) = claims_of("figure-a3", [*sizes, cell("gmf", "", {"0": 0.0}, swept={"dim": 1})])
    assert (larger["claim"], larger["value"]) == (LARGER, 56.0)


def test_what_has_no_data_claims_nothing() -> None:
    missing = [cell(name, "", {}, state="no data") for name in ("gmf", "acl-gmf")]
    assert claims_of("table2", missing) == []
    assert claims_of("figure-a2", [cell("gmf", "", {}), cell("acl-gmf", "", {})]) == []
