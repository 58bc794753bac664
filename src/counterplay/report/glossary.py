"""What was compared: candidates and estimators, a sentence each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterplay.evaluation.estimators import ESTIMATORS
from counterplay.learning.methods import ABOUT as METHODS
from counterplay.models.names import ABOUT as MODELS

if TYPE_CHECKING:
    from counterplay.study.records import Findings, NamedRun


def candidates_of(record: Findings) -> dict[str, str]:
    """Return who the candidates are, a sentence each; nobody where nothing was evaluated."""
    if not record.estimates:
        return {}
    names = dict.fromkeys(
        [*(each.candidate for each in record.estimates), *(run.name for run in record.runs)]
    )
    runs = {run.name: run for run in record.runs}
    return {name: _trained(runs[name]) if name in runs else _given(name) for name in names}


def estimators_of(record: Findings) -> dict[str, str]:
    """Return what the estimators are and assume, a sentence each."""
    return {
        name: f"{ESTIMATORS[name].title}. It {ESTIMATORS[name].assumes}"
        for name in dict.fromkeys(each.estimator for each in record.estimates)
        if name in ESTIMATORS
    }


def _trained(run: NamedRun) -> str:
    """Say what a run's model is, and how it learnt."""
    name, method = run.model_of("candidate"), run.configuration.method
    model = f"{name}: {MODELS[name]}" if name in MODELS else f"the model {name}"
    if run.parameters.get("candidate") == 0:
        return f"{model}."
    how = f"{method}: {METHODS[method]}" if method in METHODS else f"the method {method}"
    return f"{model}. It learnt by {how}."


def _given(name: str) -> str:
    from counterplay.evaluation.old_system import NAME

    if name == NAME:
        return "the system that collected the log. Clicks favour it: they are what it showed."
    return "known by its scores, which were given; nothing was trained here."
