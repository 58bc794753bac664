"""Candidates and estimators in a sentence each, before what is said of them."""

from __future__ import annotations

from typing import Any

from counterplay.evaluation.estimators import ESTIMATORS
from counterplay.learning import methods
from counterplay.models import names
from counterplay.report.blocks import Items, Pairs, Part
from counterplay.report.glossary import glossary_section
from counterplay.study.records import Findings

from .conftest import make_values


def parts(record: Findings) -> dict[str, Any]:
    """Give the rows or texts of each part."""
    section = glossary_section(record)
    assert section is not None
    found: dict[str, Any] = {}
    for part in section.blocks:
        assert isinstance(part, Part)
        (block,) = part.blocks
        assert isinstance(block, Pairs | Items)
        found[part.title] = block.rows if isinstance(block, Pairs) else block.texts
    return found


def test_each_candidate_has_its_model_and_its_method(record: Findings) -> None:
    found = parts(record)["Candidates"]
    assert list(found) == ["pop", "erm", "ps", "acl"]
    for name, sentence in found.items():
        model = "pop" if name == "pop" else "gmf"
        assert names.ABOUT[model] in sentence
        assert sentence.endswith(".")
    assert "learnt" not in found["pop"]  # it has nothing to learn
    for name in ("erm", "ps", "acl"):
        assert methods.ABOUT[name] in found[name]


def test_each_estimator_has_its_title_and_what_it_assumes(record: Findings) -> None:
    found = parts(record)["Estimators"]
    assert list(found) == ["standard", "popularity", "opponent", "oracle"]
    for name, sentence in found.items():
        assert sentence == f"{ESTIMATORS[name].title}. It {ESTIMATORS[name].assumes}"


def test_a_reservation_stands_once_and_is_absent_where_there_is_none(record: Findings) -> None:
    values = make_values()
    values["evaluation"]["notes"] *= 2
    found = parts(Findings.model_validate(values))
    assert found["With reservations"] == ["opponent: 1% of the rows carry 8% of the weight"]
    values["evaluation"]["notes"] = []
    assert "With reservations" not in parts(Findings.model_validate(values))
    assert list(parts(record)) == ["Candidates", "Estimators", "With reservations"]


def test_what_was_not_trained_here_is_told_from_the_old_system() -> None:
    values = make_values(("pop", "old system", "ours"))
    values["runs"] = values["runs"][:1]
    found = parts(Findings.model_validate(values))["Candidates"]
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
    assert parts(record)["Candidates"]["acl"] == "the model new. It learnt by the method mine:Own."


def test_nothing_is_said_of_nothing() -> None:
    assert glossary_section(Findings(name="empty")) is None


def test_only_known_models_and_methods_are_described() -> None:
    assert set(names.ABOUT) <= set(names.MODELS)
    assert set(methods.ABOUT) <= set(methods.METHODS)
