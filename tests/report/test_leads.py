"""The picture at the top: whose lead it is, seen so that more is better."""

from __future__ import annotations

import pytest

from counterplay.evaluation.records import EvaluationRecord
from counterplay.report import figures
from counterplay.report.leads import chart_of, first_of, follows, lead_chart
from counterplay.study.records import Findings

from .conftest import make_record, make_values


def points(record: Findings) -> dict[str, float]:
    chart = lead_chart(record)
    assert chart is not None
    (table,) = chart.tables
    return dict(zip(table.columns["rival"], map(_number, table.columns["lead"]), strict=True))


def _number(text: str) -> float:
    return float(text.replace("−", "-"))


def test_the_leader_is_seen_from_itself_whichever_came_first(record: Findings) -> None:
    assert record.evaluation is not None
    found = points(record)
    values = {
        each.candidate: each.value
        for each in record.evaluation.estimates
        if each.key == ("hit", 10) and each.estimator == "opponent"
    }
    assert set(found) == {"pop", "erm", "ps"}
    for rival, lead in found.items():
        assert lead == pytest.approx(values["acl"] - values[rival], abs=1e-4)
    assert list(found.values()) == sorted(found.values()), "the nearest first"


def test_smaller_errors_are_a_lead(record: Findings) -> None:
    evaluation = record.evaluation
    assert evaluation is not None
    errors = evaluation.model_copy(
        update={
            name: tuple(each.model_copy(update={"metric": "mse", "k": 0})
                        for each in getattr(evaluation, name) if each.key == ("hit", 10))
            for name in ("estimates", "comparisons")
        }
    )  # fmt: skip
    leader = first_of(errors, ("mse", 0), "opponent")
    assert leader == "pop", "it has the smallest value"
    chart = chart_of(errors, ("mse", 0), "opponent", leader, truth={})
    assert chart is not None
    leads = [_number(cell) for cell in chart.tables[0].columns["lead"]]
    assert min(leads) > 0
    assert chart.panels[0].figure["layout"]["xaxis"]["title"]["text"] == "MSE saved"


def test_an_interval_has_one_of_three_states() -> None:
    assert figures.state_of(0.1, 0.2) == figures.AHEAD
    assert figures.state_of(-0.2, -0.1) == figures.BEHIND
    for ends in ((-0.1, 0.1), (0.0, 0.2), (-0.2, 0.0), (None, None)):
        assert figures.state_of(*ends) == figures.UNSURE


def test_many_rivals_are_the_nearest_twelve() -> None:
    record = make_record(tuple(f"candidate {place}" for place in range(30)))
    chart = lead_chart(record)
    assert chart is not None
    assert "The nearest 12 of 29 rivals." in chart.reading
    assert len(chart.tables[0].rows) == 12


def test_one_candidate_has_its_values(record: Findings) -> None:
    chart = lead_chart(make_record(("a",)))
    assert chart is not None
    assert chart.title == "Hit@10 by estimator"
    assert lead_chart(Findings(name="x")) is None


def test_without_a_verdict_the_most_trusted_estimator_is_followed() -> None:
    evaluation = EvaluationRecord.model_validate(make_values()["evaluation"])
    assert follows(evaluation, ("hit", 10)) == "standard"
    chart = lead_chart(Findings(name="x", evaluation=evaluation))
    assert chart is not None
    assert chart.title == "Lead of pop over each rival in Hit@10"


def test_the_truth_is_beside_the_lead(record: Findings) -> None:
    chart = lead_chart(record)
    assert chart is not None
    (table,) = chart.tables
    truths = dict(zip(table.columns["rival"], table.columns["in truth"], strict=True))
    for rival, value in truths.items():
        assert _number(value) == pytest.approx(record.truth["acl"] - record.truth[rival], abs=1e-4)
