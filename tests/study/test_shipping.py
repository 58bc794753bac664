from __future__ import annotations

import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import counterplay as cp
from counterplay.evaluation.old_system import NAME as OLD_SYSTEM
from counterplay.simulation.synthetic import Synthetic
from counterplay.simulation.writing import write_world
from counterplay.study.config import StudyConfig
from counterplay.study.finished import Study, load_study
from counterplay.study.records import StudyRecord
from counterplay.study.shipping import refit
from counterplay.study.winner import chosen, run_of

FAST: dict[str, Any] = {
    "candidates": ("pop", "erm"),
    "dim": 4,
    "training": {"epochs": 3, "batch_size": 64},
    "evaluation": {"n_resamples": 200, "estimators": ("standard",), "gamma": ()},
}


@pytest.fixture(autouse=True)
def _without_notes() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cp.CounterplayWarning)
        yield


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """An undecided study of a log, with scores of elsewhere."""
    folder, rng = tmp_path_factory.mktemp("shipping"), np.random.default_rng(0)
    log = pl.DataFrame(
        {"user": rng.integers(0, 20, 300), "item": rng.integers(0, 40, 300), "time": range(300)}
    )
    pairs = log.select("user").unique().join(log.select("item").unique(), how="cross")
    pairs.with_columns(score=pl.col("item") / 40).write_csv(folder / "theirs.csv")
    config = StudyConfig.model_validate(FAST | {"scores": {"theirs": folder / "theirs.csv"}})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cp.CounterplayWarning)
        return cp.run(log, folder / "study", config)


def shipping(study: Study, name: str | None) -> StudyRecord:
    """Return the record with another verdict."""
    found = study.record.verdict.model_copy(
        update={"recommended": name, "decided": name is not None}
    )
    return study.record.model_copy(update={"verdict": found})


def test_the_verdict_chooses_and_where_it_does_not_a_name_is_needed(study: Study) -> None:
    assert chosen(shipping(study, "erm")) == "erm"
    assert chosen(shipping(study, "erm"), "pop") == "pop"
    assert chosen(shipping(study, None), "pop") == "pop"
    with pytest.raises(cp.ConfigError, match=r"found it undecided between \w+ and .*--candidate"):
        chosen(shipping(study, None))


@pytest.mark.parametrize(
    ("name", "said"), [("theirs", "known by its scores alone"), (OLD_SYSTEM, "the old system")]
)
def test_what_was_not_trained_cannot_be_shipped(study: Study, name: str, said: str) -> None:
    sentence = rf"must be a model that the study trained; found '{name}', which is {said}"
    with pytest.raises(cp.DataError, match=sentence):
        chosen(shipping(study, name))
    with pytest.raises(cp.DataError, match=sentence):
        chosen(study.record, name)


def test_an_unknown_name_is_one_sentence(study: Study) -> None:
    with pytest.raises(cp.ConfigError, match=r"found 'emr'; did you mean 'erm'"):
        study.refit("emr")
    with pytest.raises(cp.ConfigError, match=r"found 'xyz'; name one of them"):
        study.recommend(candidate="xyz")


def test_one_candidate_needs_no_verdict(tmp_path: Path) -> None:
    log = pl.DataFrame({"user": [1, 1, 1, 2, 2, 2, 3, 3, 3], "item": [1, 2, 3, 3, 4, 5, 5, 6, 1]})
    config = StudyConfig.model_validate(
        FAST | {"candidates": ("pop",), "preparation": {"order": "file"}}
    )
    study = cp.run(log, tmp_path / "study", config)
    assert study.recommended is None
    assert chosen(study.record) == "pop"


def test_a_refit_is_what_is_put_to_use(study: Study, tmp_path: Path) -> None:
    shutil.copytree(study.folder, tmp_path / "study")
    ours = load_study(tmp_path / "study")
    before = ours.recommend([1, 2], 3, candidate="erm")
    assert before.equals(cp.recommend(study.folder / "runs" / "erm", users=[1, 2], k=3))
    found = ours.refit("erm")
    place = tmp_path / "study" / "refits" / "erm"
    assert found == cp.runs.read_record(place)
    assert found.refit is not None
    assert run_of(ours.folder, "erm") == place
    assert run_of(ours.folder, "erm", refitted=False) == ours.folder / "runs" / "erm"
    assert run_of(ours.folder, "pop") == ours.folder / "runs" / "pop"
    after = ours.recommend([1, 2], 3, candidate="erm")
    assert not after.equals(before)
    assert after.equals(cp.recommend(place, users=[1, 2], k=3))
    assert ours.refit("erm") == found  # nothing is left to do
    assert refit(ours.folder, "erm", tmp_path / "elsewhere").epochs == found.epochs
    with pytest.raises(cp.DataError, match="has not seen"):
        cp.evaluate(place)
    told = cp.serving.export_run(place, tmp_path / "exported")
    assert told["refitted"] is True
    assert load_study(ours.folder).record == ours.record


def test_lists_of_a_study_take_what_those_of_a_run_do(study: Study) -> None:
    lists = study.recommend(
        k=2, candidate="erm", include_seen=True, only_items=[1, 2, 3], without_items=[2]
    )
    assert set(lists["item"]) == {1, 3}
    assert lists["user"].n_unique() == 20
    with pytest.raises(TypeError, match="exclude_seen"):
        study.recommend(candidate="erm", exclude_seen=True)  # type: ignore[call-arg]


def test_a_run_may_be_refitted_too(study: Study, tmp_path: Path) -> None:
    shutil.copytree(study.folder / "runs" / "pop", tmp_path / "pop")
    found = refit(tmp_path / "pop")
    assert found == cp.runs.read_record(tmp_path / "pop-refit")
    with pytest.raises(cp.ConfigError, match=r"chosen from a study; found 'erm' and no study"):
        refit(tmp_path / "pop", "erm")


def test_a_study_that_is_not_finished_is_one_sentence(study: Study, tmp_path: Path) -> None:
    shutil.copytree(study.folder, tmp_path / "study")
    (tmp_path / "study" / "study.json").unlink()
    for name in (None, "erm"):
        with pytest.raises(cp.DataError, match="make a study with counterplay run, or let it go"):
            refit(tmp_path / "study", name)


def test_a_study_that_moved_brings_its_data(tmp_path: Path) -> None:
    log = pl.DataFrame({"user": [1, 1, 1, 2, 2, 2, 3, 3, 3], "item": [1, 2, 3, 3, 4, 5, 5, 6, 1]})
    config = StudyConfig.model_validate(FAST | {"preparation": {"order": "file"}})
    before = cp.run(log, tmp_path / "study", config).recommend(candidate="erm")
    (tmp_path / "study").rename(tmp_path / "moved")
    assert cp.recommend(tmp_path / "moved", candidate="erm").equals(before)
    assert refit(tmp_path / "moved", "erm").data == str(tmp_path / "moved" / "data")
    (tmp_path / "moved" / "data").rename(tmp_path / "elsewhere")
    with pytest.raises(cp.DataError, match=r"found nothing at '.*/study/data'; say with --data"):
        cp.recommend(tmp_path / "moved", candidate="pop")
    found = cp.recommend(tmp_path / "moved", candidate="pop", data=tmp_path / "elsewhere")
    assert found.height > 0


def test_the_study_of_a_world_is_refitted_on_its_log(tmp_path: Path) -> None:
    made = Synthetic(n_users=60, n_items=40, n_shown=10, sharpness=3, seed=0).world()
    split = write_world(made, tmp_path / "world", rates=(1.0, 0.3, 0.5))
    study = cp.run(tmp_path / "world", tmp_path / "study", StudyConfig.model_validate(FAST))
    found = study.refit("erm").refit
    assert found is not None
    assert found.rows == len(split.interactions)
    with pytest.raises(cp.DataError, match="the old system"):
        study.refit(OLD_SYSTEM)
