"""The charts of the report as plotly figures, for notebooks and one's own pages.

Each is the panel that the report draws, in the colours of its style sheet by day: nothing is drawn
twice. Results have these as methods (`study.plot()`, `evaluation.plot_estimates()`), which ask for
them by the name `counterplay.report`, since this room lies above theirs.
"""

from __future__ import annotations

import re
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, TypeVar

from counterplay.errors import ConfigError
from counterplay.evaluation.records import EvaluationRecord
from counterplay.report import figures
from counterplay.report.estimates import forest
from counterplay.report.leads import chart_of, first_of, follows, lead_chart
from counterplay.report.sensitivity import bands_chart
from counterplay.study.records import Findings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plotly.graph_objects import Figure  # type: ignore[import-untyped]

    from counterplay.evaluation.records import Key
    from counterplay.report.blocks import Chart

Result = EvaluationRecord | Findings
Wanted = TypeVar("Wanted")
_WIDTH = 720


def plot(result: Result) -> Figure:
    """Return the picture at the top of the report: the leader's lead over each rival."""
    chart = lead_chart(_findings(result))
    if chart is None:
        raise _nothing("an evaluation of candidates")
    return _figure(chart)


def plot_estimates(
    result: Result, *, estimator: str | None = None, metric: Key | None = None
) -> Figure:
    """Return each candidate's estimate with its interval, under one estimator.

    Args:
        result: An evaluation, or the record of a study.
        estimator: By default the most trusted one that is there.
        metric: Name and cutoff, such as `("ndcg", 10)`; by default the one that decides.
    """
    findings, key, name = _asked(result, estimator, metric)
    return _figure(forest(findings, key), name)


def plot_differences(
    result: Result,
    *,
    estimator: str | None = None,
    metric: Key | None = None,
    candidate: str | None = None,
) -> Figure:
    """Return the paired differences of a candidate to each other one, more being better.

    Args:
        result: A comparison, or the record of a study.
        estimator: By default the most trusted one that is there.
        metric: Name and cutoff; by default the one that decides.
        candidate: By default the one that the estimator puts first.
    """
    findings, key, name = _asked(result, estimator, metric)
    assert findings.evaluation is not None
    leader = candidate or first_of(findings.evaluation, key, name)
    chart = chart_of(findings.evaluation, key, name, leader, truth={})
    if chart is None:
        raise _nothing(f"a comparison of '{leader}' under {name}")
    return _figure(chart)


def plot_bands(
    result: Result, *, estimator: str | None = None, metric: Key | None = None
) -> Figure:
    """Return what estimates could be if the odds of exposure were off by each factor Γ.

    Args:
        result: An evaluation with bands, or the record of a study.
        estimator: By default the first that has bands.
        metric: Name and cutoff; by default the one that decides.
    """
    findings, key, _ = _asked(result, None, metric)
    chart = bands_chart(findings, key)
    if chart is None:
        raise _nothing("bands, which need evaluation.gamma")
    return _figure(chart, estimator)


def _asked(result: Result, estimator: str | None, metric: Key | None) -> tuple[Findings, Key, str]:
    """Return the record, the metric and the estimator; refuse what is not there."""
    findings = _findings(result)
    key = findings.key
    if findings.evaluation is None or key is None:
        raise _nothing("an evaluation of candidates")
    keys = list(dict.fromkeys(each.key for each in findings.estimates))
    key = _one_of("metric", keys, key if metric is None else (metric[0], metric[1]))
    name = estimator or follows(findings.evaluation, key)
    return findings, key, _one_of("estimator", list(findings.by_estimator(key)), name)


def _one_of(what: str, there: Sequence[Wanted], wanted: Wanted) -> Wanted:
    if wanted not in there:
        raise ConfigError(
            f"the {what} must be one that was evaluated, of {', '.join(map(str, there))}; found "
            f"{wanted}; name one of them"
        )
    return wanted


def _findings(result: Result) -> Findings:
    if isinstance(result, EvaluationRecord):
        return Findings(name=result.dataset, evaluation=result)
    return result


def _nothing(what: str) -> ConfigError:
    return ConfigError(f"a plot needs {what}; found none; evaluate first")


def _figure(chart: Chart, panel: str | None = None) -> Figure:
    """Return one panel of a chart, by default the first, as plotly's own figure."""
    from plotly.graph_objects import Figure

    titles = [each.title for each in chart.panels]
    chosen = chart.panels[0 if panel is None else titles.index(_one_of("estimator", titles, panel))]
    values = painted(chosen.figure)
    data, layout = values["data"], values["layout"]
    names = {each.place: figures.text(each.name) for each in chart.series}
    for trace in data:
        trace["name"] = names.get(trace.get("meta"), "")
    heading = chart.title + (f", {chosen.title}" if chosen.title else "")
    layout |= {
        "title": {"text": figures.text(heading), "font": {"size": 15}},
        "height": chosen.height + 80,
        "width": _WIDTH,
        "showlegend": len(chart.series) > 1,
        "margin": {"l": 8, "r": 12, "t": 60, "b": 8},
    }
    return Figure(data=data, layout=layout)


def painted(value: Any, key: str = "") -> Any:
    """Return a figure with its colours in place of their names."""
    if isinstance(value, dict):
        return {name: painted(each, name) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [painted(each, key) for each in value]
    if key.endswith("color") and isinstance(value, str) and value.startswith("@"):
        name, _, alpha = value[1:].partition("/")
        return _written(colours()[name] + alpha)
    return value


@lru_cache(maxsize=1)
def colours() -> dict[str, str]:
    """Return the colours of the style sheet by name, those by day."""
    style = files("counterplay.report") / "templates" / "style.css"
    by_day = style.read_text(encoding="utf-8").partition("}")[0]
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6,8});", by_day))


def _written(colour: str) -> str:
    """Return a colour as plotly's own checks take it: with an alpha it has another form."""
    red, green, blue, alpha = (*bytes.fromhex(colour[1:]), 255)[:4]
    return colour if alpha == 255 else f"rgba({red}, {green}, {blue}, {alpha / 255:.3f})"
