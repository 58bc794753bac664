"""The report's charts as plotly figures, from results themselves."""

from __future__ import annotations

from typing import Any

import pytest

import counterplay as cp
from counterplay.evaluation.records import EvaluationRecord
from counterplay.report.estimates import forest
from counterplay.report.plots import colours, painted
from counterplay.study.records import Findings

from .conftest import make_record, make_values


@pytest.fixture
def evaluation(record: Findings) -> EvaluationRecord:
    assert record.evaluation is not None
    return record.evaluation


def texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for each in value.values() for text in texts(each)]
    if isinstance(value, list | tuple):
        return [text for each in value for text in texts(each)]
    return [value] if isinstance(value, str) else []


def test_a_figure_is_the_reports_own(record: Findings, evaluation: EvaluationRecord) -> None:
    figure = evaluation.plot_estimates(estimator="opponent")
    chart = forest(record, ("hit", 10))
    drawn = next(panel for panel in chart.panels if panel.title == "opponent").figure
    assert [list(trace.x) for trace in figure.data] == [trace["x"] for trace in drawn["data"]]
    assert figure.layout.title.text == "Who is ahead in Hit@10, opponent"


def test_no_name_of_a_colour_is_left(evaluation: EvaluationRecord, record: Findings) -> None:
    for figure in (
        evaluation.plot_estimates(),
        evaluation.plot_differences(),
        evaluation.plot_bands(),
        cp.report.plot(record),
    ):
        assert type(figure).__module__.startswith("plotly.")
        assert not [text for text in texts(figure.to_plotly_json()) if text.startswith("@")]
    assert painted({"color": "@series-0/80"}) == {"color": "rgba(0, 114, 178, 0.502)"}
    assert painted({"color": "@ink", "text": "@ink"}) == {"color": "#1d1d1f", "text": "@ink"}
    assert colours()["paper"] == "#fffefb", "by day"


def test_what_is_asked_for_is_drawn(evaluation: EvaluationRecord) -> None:
    figure = evaluation.plot_differences(estimator="popularity", candidate="ps")
    assert figure.layout.title.text == "Lead of ps over each rival in Hit@10"
    figure = evaluation.plot_estimates(estimator="popularity", metric=("ndcg", 10))
    assert figure.layout.title.text == "Who is ahead in NDCG@10, popularity"
    figure = evaluation.plot_bands(estimator="oracle")
    assert figure.layout.title.text == "Hit@10 against Γ, oracle"
    assert [trace.name for trace in figure.data] == ["pop", "erm", "ps", "acl"]
    assert figure.layout.showlegend


def test_what_is_not_there_is_refused(evaluation: EvaluationRecord) -> None:
    with pytest.raises(cp.ConfigError, match=r"of standard, popularity.*; found dials; name"):
        evaluation.plot_estimates(estimator="dials")
    with pytest.raises(cp.ConfigError, match=r"the metric must be .*; found \('auc', 10\); name"):
        evaluation.plot_bands(metric=("auc", 10))
    with pytest.raises(cp.ConfigError, match=r"the estimator must be .*; found standard; name"):
        evaluation.plot_bands(estimator="standard")
    with pytest.raises(cp.ConfigError, match=r"a comparison of 'nobody'.*; found none;"):
        evaluation.plot_differences(candidate="nobody")
    plain = evaluation.model_copy(update={"bands": ()})
    with pytest.raises(cp.ConfigError, match=r"needs bands.*; found none;"):
        plain.plot_bands()
    with pytest.raises(cp.ConfigError, match=r"needs an evaluation of candidates; found none;"):
        cp.report.plot(Findings(name="x"))


def test_names_in_a_legend_are_text() -> None:
    record = make_record(("<b>a</b>", "b", "c", "d"))
    assert record.evaluation is not None
    assert record.evaluation.plot_bands().data[0].name == "&lt;b&gt;a&lt;/b&gt;"


def test_frames_begin_with_the_value_and_its_ends() -> None:
    evaluation = EvaluationRecord.model_validate(make_values()["evaluation"])
    columns = evaluation.to_polars().columns
    assert columns[:4] == ["value", "low", "high", "candidate"]
    assert columns[-4:] == ["n", "estimator", "metric", "k"]
