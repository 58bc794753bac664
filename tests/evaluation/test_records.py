"""Records: their dump is the JSON, and what is read is a record or refused in a sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

import counterplay as cp
from counterplay.data.files import write_json
from counterplay.evaluation.records import Band, EvaluationRecord, Record, read_as

ESTIMATE = {
    "candidate": "a", "metric": "hit", "k": 10, "estimator": "standard", "protocol": "full",
    "value": 0.5, "low": None, "high": None, "level": 0.95, "n": 3, "ess": 3.0, "top_share": 0.5,
    "normalised": True,
}  # fmt: skip
EVALUATION: dict[str, Any] = {
    "dataset": "log",
    "part": "test",
    "configuration": {"own": {"setting": [1]}},
    "estimates": [ESTIMATE],
    "bands": [],
    "cold": None,
    "notes": ["few rows"],
}


def read(values: dict[str, Any], folder: Path) -> EvaluationRecord:
    write_json(values, folder / "result.json")
    return read_as(EvaluationRecord, folder / "result.json", "an evaluation", remedy="try again")


def test_the_dump_is_the_json_in_its_order(tmp_path: Path) -> None:
    found = read(EVALUATION, tmp_path)
    assert json.dumps(found.to_dict()) == json.dumps(EVALUATION)
    compared = found.model_copy(update={"comparisons": ()})
    assert compared.to_dict().keys() - EVALUATION.keys() == {"comparisons"}
    assert found.to_polars().rows(named=True) == [ESTIMATE]
    assert str(found) == "<EvaluationRecord of 'a' on 'log': test rows>"


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"estimates": [ESTIMATE | {"value": "much"}]}, "estimates.0.value"),
        ({"estimates": [{"metric": "hit"}]}, "estimates.0.candidate"),
        ({"bands": 3}, "bands"),
        ({"strange": 1}, "strange"),
        ({"part": None}, "part"),
    ],
)
def test_what_is_none_is_refused_and_its_place_named(
    changes: dict[str, Any], place: str, tmp_path: Path
) -> None:
    with pytest.raises(cp.DataError, match=r"result\.json' must be an evaluation; found") as caught:
        read(EVALUATION | changes, tmp_path)
    assert f" {place} " in str(caught.value)
    assert str(caught.value).endswith("; try again")
    assert "\n" not in str(caught.value)


def test_a_record_does_not_change_and_keeps_half_a_character() -> None:
    name = "caf\udce9"  # a file's name that is not UTF-8
    band = Band(candidate=name, metric="hit", k=1, estimator="x", gamma=2, low=0, high=1)
    assert band.to_dict()["candidate"] == name
    assert isinstance(band, Record)
    with pytest.raises(ValidationError, match="frozen"):
        band.low = 0.5
    with pytest.raises(ValidationError, match="string"):
        Band.model_validate(band.to_dict() | {"candidate": 3})
