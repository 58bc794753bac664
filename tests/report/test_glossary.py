"""Candidates and estimators in a sentence each, before what is said of them."""

from __future__ import annotations

from counterplay.evaluation.estimators import ESTIMATORS
from counterplay.learning import methods
from counterplay.models import names
from counterplay.report.glossary import candidates_of, estimators_of
from counterplay.study.records import Findings

from .conftest import make_values


def test_each_candidate_has_its_model_and_its_method(record: Findings) -> None:
    found = candidates_of(record)
    assert list(found) == ["pop", "erm", "ps", "acl"]
    for name, sentence in found.items():
        model = "pop" if name == "pop" else "gmf"
        assert names.ABOUT[model] in sentence
        assert sentence.endswith(".")
    assert "learnt" not in found["pop"]  # it has nothing to learn
    for name in ("erm", "ps", "acl"):
        assert methods.ABOUT[name] in found[name]


def test_each_estimator_has_its_title_and_what_it_assumes(record: Findings) -> None:
    found = estimators_of(record)
    assert list(found) == ["standard", "popularity", "opponent", "oracle"]
    for name, sentence in found.items():
        assert sentence == f"{ESTIMATORS[name].title}. It {ESTIMATORS[name].assumes}"


def test_what_was_not_trained_here_is_told_from_the_old_system() -> None:
    values = make_values(("pop", "old system", "ours"))
    values["runs"] = values["runs"][:1]
    found = candidates_of(Findings.model_validate(values))
    assert "collected the log" in found["old system"]
    assert "scores" in found["ours"]
    assert "collected the log" not in found["ours"]


def test_a_model_and_a_method_of_ones_own_go_by_their_names() -> None:
    values = make_values()
    run = Findings.model_validate(values).runs[-1]
    config = run.configuration.model_copy(
        update={
            "method": "mine:Own",
            "candidate": run.configuration.candidate.model_copy(update={"name": "new"}),
        }
    )
    record = Findings.model_validate(values)
    record = record.model_copy(update={"runs": (run.model_copy(update={"configuration": config}),)})
    assert candidates_of(record)["acl"] == "the model new. It learnt by the method mine:Own."


def test_nothing_is_said_of_nothing() -> None:
    empty = Findings(name="empty")
    assert candidates_of(empty) == estimators_of(empty) == {}


def test_only_known_models_and_methods_are_described() -> None:
    assert set(names.ABOUT) <= set(names.MODELS)
    assert set(methods.ABOUT) <= set(methods.METHODS)
