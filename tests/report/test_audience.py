"""Segments, users and lists: what the page says of them, and where it says nothing."""

from __future__ import annotations

import json
import re

import pytest

from counterplay.report.blocks import Chart, Fold, Matrix, People, Prose
from counterplay.report.page import render
from counterplay.report.quality import quality_section
from counterplay.report.segments import segments_section
from counterplay.report.users import users_section
from counterplay.study.records import Findings

from .conftest import Values, make_gallery, make_record, make_values


def test_a_matrix_a_kind_and_the_best_of_a_column_is_marked(record: Findings) -> None:
    section = segments_section(record)
    assert section is not None
    chart, activity, town, fold, rest = section.blocks
    assert isinstance(chart, Chart)
    assert isinstance(activity, Matrix)
    assert isinstance(town, Matrix)
    assert isinstance(fold, Fold)
    assert rest == Prose(["Not shown: item feature title, which is a name."])
    assert list(activity.rows) == ["pop", "erm", "ps", "acl"]
    assert activity.columns["1 to 10 training rows"] == "100 rows of 60 users"
    cells = [own[0] for own in activity.rows.values()]
    assert [cell.value for cell in cells] == ["0.0100", "0.0200", "0.0300", "0.0400"]
    assert [cell.best for cell in cells] == [False, False, False, True]
    assert cells[0].notes == ("–",)
    assert cells[1].notes == ("0.0050 to 0.0900",)
    assert [panel.title for panel in chart.panels] == ["activity of users", "user feature town"]


def test_leads_say_which_are_beyond_chance(record: Findings) -> None:
    section = segments_section(record)
    assert section is not None
    chart = section.blocks[0]
    assert isinstance(chart, Chart)
    assert chart.title == "Lead of acl over ps in Hit@10, by segment"
    columns = chart.tables[0].columns
    assert columns["beyond chance"] == ["yes", "yes", "yes", "yes", "no", "no", *["yes"] * 4]
    assert columns["lead"][:2] == ["−0.0200", "−0.0200"]
    assert "Bonferroni" in section.reading
    assert "by chance" in section.reading


def test_errors_lead_when_they_are_smaller(values: Values) -> None:
    values["evaluation"]["diagnostics"]["segments"] |= {"metric": "mse", "k": 0}
    section = segments_section(Findings.model_validate(values))
    assert section is not None
    chart, activity = section.blocks[:2]
    assert isinstance(chart, Chart)
    assert isinstance(activity, Matrix)
    assert chart.tables[0].columns["lead"][0] == "+0.0200"
    assert chart.tables[0].columns["interval"][0] == "+0.0150 to +0.0250"
    assert [own[0].best for own in activity.rows.values()] == [True, False, False, False]


def test_one_candidate_has_segments_without_leads() -> None:
    section = segments_section(make_record(("a",)))
    assert section is not None
    assert not any(isinstance(block, Chart) for block in section.blocks)


def test_many_kinds_are_folded(values: Values) -> None:
    found = values["evaluation"]["diagnostics"]["segments"]
    one = found["segments"][0]
    found["segments"] = [one | {"of": f"item feature {place}"} for place in range(20)]
    section = segments_section(Findings.model_validate(values))
    assert section is not None
    folds = [block.summary for block in section.blocks if isinstance(block, Fold)]
    assert folds[-1] == "14 more features"


def test_three_users_and_all_as_data(record: Findings) -> None:
    section = users_section(record)
    assert section is not None
    (people,) = section.blocks
    assert isinstance(people, People)
    assert [each.name for each in people.people] == ["user 0", "user 2", "user 4"]
    last = people.people[-1]
    assert last.history == ["item-0", "The 1th (item-1)"]
    assert last.more == 40
    assert last.chosen == ["The 8th (item-8)"]
    marked = {name: [each.chosen for each in shown] for name, shown in last.lists.items()}
    assert marked == {name: [False, False, name == "acl"] for name in ("pop", "erm", "ps", "acl")}
    data = json.loads(re.search(r'id="people">(.*?)</script>', render(record))[1])  # type: ignore[index]
    assert [each["id"] for each in data["users"]] == [f"user {place}" for place in range(5)]
    assert data["candidates"] == ["pop", "erm", "ps", "acl"]
    assert [data["items"][place] for place in data["users"][4]["lists"][3]][-1] == last.chosen[0]


def test_ratings_and_what_has_no_time_say_so(values: Values) -> None:
    sample = values["evaluation"]["diagnostics"]["gallery"]
    sample |= {"feedback": "ratings", "in_order": False, "names": None}
    for user in sample["users"]:
        user |= {"ratings": [4.5], "n_chosen": 30}
    section = users_section(Findings.model_validate(values))
    assert section is not None
    (people,) = section.blocks
    assert isinstance(people, People)
    assert people.came == "Rated in the test rows"
    assert people.people[0].chosen == ["item-8: 4.5", "and 29 more"]
    assert "the log has no times" in section.reading


@pytest.mark.parametrize("n", [1, 2])
def test_few_users_are_each_shown_once(n: int, values: Values) -> None:
    names = ("a", "b")
    values["evaluation"]["diagnostics"]["gallery"] = make_gallery(names, n)
    section = users_section(Findings.model_validate(values))
    assert section is not None
    (people,) = section.blocks
    assert isinstance(people, People)
    assert len(people.people) == n


def test_empty_lists_are_dashes(values: Values) -> None:
    sample = values["evaluation"]["diagnostics"]["gallery"]
    for user in sample["users"]:
        user["lists"] = {name: [] for name in user["lists"]}
        user["history"] = user["chosen"] = []
        user["n_history"] = user["n_chosen"] = 0
    page = render(Findings.model_validate(values))
    assert "none: a new user" in page
    sample["users"][0]["lists"]["pop"] = [1]
    assert '<td class="word">–</td>' in render(Findings.model_validate(values))


def test_many_lists_are_in_several_tables() -> None:
    section = users_section(make_record(tuple(f"c{place}" for place in range(20))))
    assert section is not None
    (people,) = section.blocks
    assert isinstance(people, People)
    tables = people.people[-1].tables
    assert [len(names) for names, _ in tables] == [8, 8, 4]
    assert [name for names, _ in tables for name in names] == [f"c{place}" for place in range(20)]
    assert all(len(rows) == 3 for _, rows in tables)


def test_lists_beside_accuracy(record: Findings) -> None:
    section = quality_section(record)
    assert section is not None
    matrix = section.blocks[0]
    assert isinstance(matrix, Matrix)
    assert list(matrix.columns) == [
        "Hit@10", "coverage", "novelty", "diversity", "popularity lift", "Gini", "mean popularity",
    ]  # fmt: skip
    accuracy, coverage, novelty, diversity, lift, gini, mean = matrix.rows["pop"]
    assert accuracy.value == "0.0190"
    assert coverage.value == "11%"
    assert novelty.notes == ("3.0000 to 3.2000", "1,990 users")
    assert diversity.value == "0.6100"
    assert (lift.value, lift.notes[0]) == ("+0.5200", "+0.4200 to +0.6200")
    assert (gini.value, mean.value) == ("0.9300", "612.3")


def test_records_from_before_have_neither() -> None:
    values = make_values()
    diagnostics = values["evaluation"]["diagnostics"]
    del diagnostics["segments"], diagnostics["gallery"]
    for each in diagnostics["popularity"]["recommended"]:
        del each["measures"]
    record = Findings.model_validate(values)
    assert segments_section(record) is None
    assert users_section(record) is None
    section = quality_section(record)
    assert section is not None
    matrix = section.blocks[0]
    assert isinstance(matrix, Matrix)
    assert [cell.value for cell in matrix.rows["pop"][2:5]] == ["–"] * 3
    assert 'id="people"' not in render(record)


def test_user_ids_and_names_are_never_markup() -> None:
    values = make_values()
    names = ("pop", "erm", "ps", "acl")
    evil = "</script><script>alert(1)</script>"
    sample = make_gallery(names, prefix=evil)
    sample["names"] = [evil] * 9
    sample["items"] = [f"<img src=x onerror=alert({place})>" for place in range(9)]
    values["evaluation"]["diagnostics"]["gallery"] = sample
    page = render(Findings.model_validate(values))
    assert "<script>alert" not in page
    assert "<img" not in page
