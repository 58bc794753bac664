"""What was compared: candidates and estimators, a sentence each, and what limits the result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterplay.evaluation.estimators import ESTIMATORS
from counterplay.learning.methods import ABOUT as METHODS
from counterplay.models.names import ABOUT as MODELS
from counterplay.report.blocks import Block, Items, Pairs, Part, Section

if TYPE_CHECKING:
    from counterplay.study.records import Findings, NamedRun


def glossary_section(record: Findings) -> Section | None:
    """Return who the candidates are and what the estimators assume, with all reservations."""
    if not record.estimates:
        return None
    names = dict.fromkeys(
        [*(each.candidate for each in record.estimates), *(run.name for run in record.runs)]
    )
    runs = {run.name: run for run in record.runs}
    candidates = {name: _trained(runs[name]) if name in runs else _given(name) for name in names}
    blocks: list[Block] = [Part("Candidates", [Pairs(candidates)])]
    estimators = {
        name: f"{ESTIMATORS[name].title}. It {ESTIMATORS[name].assumes}"
        for name in dict.fromkeys(each.estimator for each in record.estimates)
        if name in ESTIMATORS
    }
    if estimators:
        blocks.append(Part("Estimators", [Pairs(estimators)]))
    notes = list(dict.fromkeys(record.evaluation.notes)) if record.evaluation else []
    if notes:
        blocks.append(Part("With reservations", [Items(notes)]))
    reading = (
        "A candidate is what might be shipped. An estimator is one assumption about what users had "
        "been shown; the same candidate has another value under each."
    )
    return Section("glossary", "What was compared", reading, blocks)


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
