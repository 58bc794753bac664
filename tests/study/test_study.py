from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import polars as pl
import pytest

import counterplay as cp
from counterplay.data import splits
from counterplay.data.files import write_json
from counterplay.evaluation import diagnostics
from counterplay.evaluation.old_system import NAME as OLD_SYSTEM
from counterplay.runs import training as training
from counterplay.simulation.synthetic import Synthetic
from counterplay.simulation.writing import write_world
from counterplay.study import plan
from counterplay.study import study as module
from counterplay.study.config import StudyConfig
from counterplay.study.study import Study, load_study, study_record

TRAIN = cp.train  # which tests put something else in the place of

FAST: dict[str, Any] = {
    "candidates": ("pop", "erm", "acl"),
    "dim": 4,
    "training": {"epochs": 2, "batch_size": 64},
    "evaluation": {"n_resamples": 200, "gamma": (1, 2), "opponent": {"epochs": 3}},
}
WITH_OPPONENT = FAST["evaluation"] | {"estimators": ("standard", "popularity", "opponent")}
PARTS = ("study.json", "evaluation.json")


def quick(**settings: object) -> StudyConfig:
    return StudyConfig.model_validate(FAST | settings)


@pytest.fixture(autouse=True)
def _without_notes() -> Iterator[None]:
    """Few epochs: there is always something to note."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cp.CounterplayWarning)
        yield


def frame_of(n: int = 300, *, seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "user": rng.integers(0, 20, n),
            "item": [f"<i>{each}</i>" for each in rng.integers(0, 40, n)],
            "time": np.arange(n),
        }
    )


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("logs") / "<b>log.csv"
    frame_of().write_csv(path)
    return path


@pytest.fixture(scope="module")
def study(log: Path, tmp_path_factory: pytest.TempPathFactory) -> Study:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cp.CounterplayWarning)
        return cp.run(log, tmp_path_factory.mktemp("studies") / "study", quick(), command="go")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("worlds") / "world"
    made = Synthetic(n_users=60, n_items=40, n_shown=10, sharpness=3, seed=0).world()
    write_world(made, place, rates=(1.0, 0.3, 0.5))
    return place


def bytes_of(folder: Path, names: tuple[str, ...] = PARTS) -> list[bytes]:
    return [(folder / name).read_bytes() for name in names]


def test_a_log_ends_in_a_verdict_and_frames(study: Study) -> None:
    assert {each.name for each in study.folder.iterdir()} == {"plan.json", "data", "runs", *PARTS}
    names, estimators = {"pop", "erm", "acl"}, {"standard", "popularity", "dials", "robust"}
    found = study.record.verdict
    assert found.leader in names
    assert study.recommended == found.recommended
    assert study.recommended == (found.leader if found.decided else None)
    assert study.verdict.splitlines()[0] == study.record.verdict.headline
    assert set(study.estimates["candidate"]) == names
    assert set(study.estimates["estimator"]) == estimators
    assert study.estimates["value"].is_between(0, 1).all()
    assert len(study.comparisons) == 3 * 4 * 3  # pairs, estimators, metrics
    assert set(study.bands["gamma"]) == {1.0, 2.0}
    assert all(isinstance(each, pl.DataFrame) for each in (study.estimates, study.bands))
    assert [each.name for each in study.record.runs] == ["pop", "erm", "acl"]
    assert study.record.commands == ("go",)
    assert study.record.online is None
    assert study.record.split.counts["test"] == 20
    assert load_study(study.folder).record == study.record == study_record(study.folder)


def test_who_is_ahead_beyond_chance_is_recommended(log: Path, tmp_path: Path) -> None:
    """Scores that know the test rows, and others that know nothing of them."""
    split = cp.data.load_split(
        cp.run(log, tmp_path / "one", quick(candidates=("pop",))).folder / "data"
    )
    test, n = split.test, split.test.n_items
    users, items = np.divmod(np.arange(test.n_users * n), n)
    known = np.isin(users * n + items, test.pair)
    files = {}
    for name, scores in (("knows", known + 0.0), ("not", -1.0 * known - items / n / 2)):
        files[name] = tmp_path / f"{name}.csv"
        pl.DataFrame(
            {"user": test.users.decode(users), "item": test.items.decode(items), "score": scores}
        ).write_csv(files[name])
    how = quick(candidates=("pop",), scores=files)
    study = cp.run(log, tmp_path / "two", how)
    assert study.recommended == "knows"
    assert study.record.verdict.decided is True
    assert study.verdict.startswith("Ship knows.\n")
    for each in study.comparisons.iter_rows(named=True):
        known_0 = each["low"] is not None and not each["low"] <= 0 <= each["high"]
        assert (each["p"] <= 1 - each["level"]) == known_0


def test_it_draws_and_reports_itself(study: Study, tmp_path: Path) -> None:
    leader = study.record.verdict.leader
    assert study.plot().layout.title.text == f"Lead of {leader} over each rival in Hit@10"
    page = study.report(tmp_path / "page.html")
    assert page == tmp_path / "page.html"
    assert study.record.verdict.leader in page.read_text(encoding="utf-8")
    for frame, own in ((study.estimates, "candidate"), (study.comparisons, "first")):
        assert frame.columns[:4] == ["value", "low", "high", own]
    assert study.bands.columns[:3] == ["low", "high", "candidate"]


def test_a_sample_of_users_is_kept_or_nobody(log: Path, tmp_path: Path, study: Study) -> None:
    found = study.record.evaluation.diagnostics
    assert found is not None
    assert found.gallery is not None
    assert found.segments is not None
    assert 0 < len(found.gallery.users) <= 50
    assert found.segments.first == study.record.verdict.leader
    assert found.segments.estimator == study.record.verdict.estimator
    nobody = module.run(log, tmp_path / "nobody", quick(gallery_users=0))
    diagnostics = nobody.record.evaluation.diagnostics
    assert diagnostics is not None
    assert diagnostics.gallery is None


def test_a_study_from_before_a_setting_goes_on(study: Study, log: Path, tmp_path: Path) -> None:
    old = tmp_path / "old"
    shutil.copytree(study.folder, old)
    plan = json.loads((old / "plan.json").read_text(encoding="utf-8"))
    del plan["configuration"]["gallery_users"], plan["digest"]
    write_json(plan, old / "plan.json")
    assert module.run(log, old, quick()).record == study.record


def test_it_shows_itself_without_markup_of_the_log(study: Study) -> None:
    assert study.record.name == "<b>log"
    shown = study._repr_html_()
    assert "<b>" not in shown
    assert "&lt;b&gt;log" in shown
    assert "robust" in shown
    assert repr(study).startswith("<Study of '<b>log': ")


def test_the_same_seed_gives_the_same_bytes(study: Study, log: Path, tmp_path: Path) -> None:
    cp.run(log, tmp_path / "again", quick(), command="go")
    assert bytes_of(tmp_path / "again") == bytes_of(study.folder)
    cp.run(log, tmp_path / "other", quick(seed=1))
    assert bytes_of(tmp_path / "other", PARTS[1:]) != bytes_of(study.folder, PARTS[1:])


class Stopped(KeyboardInterrupt):
    """Somebody pressed the keys."""


@pytest.mark.parametrize("stage", ["data", "first epoch", "second run", "evaluation"])
def test_interrupted_and_run_again_it_ends_in_the_same_bytes(
    stage: str, study: Study, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def trained(*arguments: Any, **options: Any) -> Any:
        def stop(_: object) -> None:
            if stage == "first epoch":
                raise Stopped

        record = TRAIN(*arguments, **options | {"callbacks": [stop]})
        calls.append(arguments)
        if stage == "second run" and len(calls) == 2:
            raise Stopped
        return record

    def written(value: dict[str, Any], path: Path) -> None:
        write_json(value, path)
        if stage == "evaluation" and path.name == "evaluation.json":
            raise Stopped

    def saved(*_: object) -> None:
        raise Stopped

    with monkeypatch.context() as patch:
        patch.setattr("counterplay.runs.training.train", trained)
        patch.setattr(module, "write_json", written)
        if stage == "data":
            patch.setattr(plan, "save", saved)
        with pytest.raises(Stopped):
            cp.run(log, tmp_path / "broken", quick())
    assert not (tmp_path / "broken" / "study.json").exists()
    with pytest.raises(cp.DataError, match="let it go on with the same command"):
        load_study(tmp_path / "broken")
    cp.run(log, tmp_path / "broken", quick())
    assert bytes_of(tmp_path / "broken") == bytes_of(study.folder)


def test_a_log_is_sorted_once_each_time_it_is_read(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count, loaded = Mock(side_effect=splits._distinct_up_to), Mock(side_effect=cp.data.load_split)
    monkeypatch.setattr(splits, "_distinct_up_to", count)
    for reader in (module, training):
        monkeypatch.setattr(reader, "load_split", loaded)
    cp.run(log, tmp_path / "study", quick())
    assert count.call_count <= 1 + loaded.call_count == 2


def test_epochs_are_chosen_by_the_rule_that_decides(study: Study) -> None:
    first = study.record.evaluation.estimates[0]
    for run in study.record.runs:
        found = run.validation
        assert found is not None
        assert (found.key, found.protocol, found.estimator) == (
            first.key,
            first.protocol,
            first.estimator,
        )


def test_what_is_done_is_not_done_again(
    study: Study, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr(module, "prepare", never)
    monkeypatch.setattr(plan, "save", never)
    for writer in (module, plan):
        monkeypatch.setattr(writer, "write_json", never)
    for place in ("runs.candidates.staged", "evaluation.evaluator.compared"):
        monkeypatch.setattr(f"counterplay.{place}", never)
    monkeypatch.setattr(diagnostics, "diagnostics", never)
    again = cp.run(log, study.folder, quick(), command="another time")
    assert again.record == study.record


def test_notes_of_all_stages_are_kept_and_told_again(log: Path, tmp_path: Path) -> None:
    study = cp.run(log, tmp_path / "study", quick(evaluation=WITH_OPPONENT))
    notes = study.record.evaluation.notes
    assert any("leaks time" in each for each in notes)
    assert any("the opponent was still moving" in each for each in notes)
    with pytest.warns(cp.CounterplayWarning) as told:
        cp.run(log, study.folder, quick(evaluation=WITH_OPPONENT))
    assert tuple(str(each.message) for each in told) == notes


def test_notes_of_training_say_whose_they_are(tmp_path: Path) -> None:
    items = ["a", "b"] * 15 + ["b", "c"] * 15
    log = {"user": [1] * 30 + [2] * 30, "item": items, "time": np.arange(60)}
    asked = quick(evaluation=FAST["evaluation"] | {"k": (10,)})
    with pytest.raises(cp.ConfigError, match="; found 10 and 1; lower"):
        cp.run(log, tmp_path / "study", asked)
    found = cp.run(log, tmp_path / "study", quick())
    assert found.record.evaluation.configuration["k"] == [1]
    assert {run.validation and run.validation.k for run in found.record.runs} == {1}
    notes = found.record.evaluation.notes
    assert any("would hold them all, so lists of 1 are judged" in each for each in notes)
    assert any(each.startswith("acl: the opponent has no effect; this is plain") for each in notes)
    assert found.record.verdict.headline.startswith("Undecided: ")


def test_another_source_or_configuration_is_refused(
    study: Study, log: Path, tmp_path: Path
) -> None:
    before = {each: each.stat().st_mtime_ns for each in study.folder.rglob("*")}
    frame_of(seed=1).write_csv(tmp_path / "other.csv")
    for source, config, what in (
        (tmp_path / "other.csv", quick(), "another source: began with "),
        (log, quick(seed=1), r"another configuration.seed: began with 0, asked for 1"),
        (frame_of(), quick(), "another source: began with "),
    ):
        with pytest.raises(cp.ConfigError, match=f"{what}.*; name another folder"):
            cp.run(source, study.folder, config)
    assert {each: each.stat().st_mtime_ns for each in study.folder.rglob("*")} == before


def test_a_file_or_a_frame_that_has_changed_is_refused(tmp_path: Path) -> None:
    config = quick(candidates=("pop",), evaluation={"estimators": ("standard",)})
    frame_of().write_csv(tmp_path / "log.csv")
    cp.run(tmp_path / "log.csv", tmp_path / "of a file", config)
    frame_of(290).write_csv(tmp_path / "log.csv")
    with pytest.raises(cp.ConfigError, match="another file"):
        cp.run(tmp_path / "log.csv", tmp_path / "of a file", config)
    cp.run(frame_of(), tmp_path / "of a frame", config)
    cp.run(frame_of(), tmp_path / "of a frame", config)
    with pytest.raises(cp.ConfigError, match="another log"):
        cp.run(frame_of(290), tmp_path / "of a frame", config)


@pytest.mark.parametrize(
    ("source", "config", "error"),
    [
        ("nothing.csv", {}, "found nothing at"),
        ({"user": [1, 2, 3], "item": [1, 2, 3]}, {"preparation": {"split": "none"}}, "rows to"),
        ({"user": [1, 2, 3], "item": [1, 2, 3], "time": [1, 2, 3]}, {}, "--split random"),
        ({"user": [1, 1, 1, 2], "item": [1, 2, 1, 2], "time": [1, 2, 3, 4]}, {}, "all 2 items"),
        ({"who": [1, 2], "what": [3, 4]}, {}, "a column for the user"),
        ({"user": [1, 2], "item": [3, 4]}, {}, "split random of 2 rows; take a longer log"),
    ],
)
def test_what_cannot_end_well_leaves_nothing(
    source: object, config: dict[str, Any], error: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=error):
        cp.run(source, tmp_path / "study", quick(**config))
    assert list(tmp_path.iterdir()) == []


def test_scores_are_looked_at_before_anything_is_trained(log: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text("user,item,score\n0,<i>0</i>,1\n")
    config = quick(scores={"theirs": tmp_path / "bad.csv"})
    with pytest.raises(cp.DataError, match="users with test rows"):
        cp.run(log, tmp_path / "study", config)
    assert not (tmp_path / "study").exists()


def test_given_scores_are_candidates(study: Study, log: Path, tmp_path: Path) -> None:
    """One file knows all pairs, the other only what is new to the user."""
    frame = frame_of()
    pairs = (
        frame.select("user")
        .unique()
        .join(frame.select("item").unique(), how="cross")
        .sort("user", "item")
    )
    scored = pairs.with_columns(score=pl.Series(np.random.default_rng(0).normal(size=len(pairs))))
    scored.write_csv(tmp_path / "all.csv")
    trained = cp.data.load_split(study.folder / "data").train
    seen = pl.DataFrame(
        {"user": trained.users.decode(trained.user), "item": trained.items.decode(trained.item)}
    )
    scored.join(seen, on=["user", "item"], how="anti").write_csv(tmp_path / "new.csv")
    files = {name: tmp_path / f"{name}.csv" for name in ("all", "new")}
    found = cp.run(
        log, tmp_path / "study", quick(candidates=("erm",), scores=files, evaluation=WITH_OPPONENT)
    )
    assert set(found.estimates["candidate"]) == {"erm", "all", "new"}
    assert any("not against new" in each for each in found.record.evaluation.notes)
    assert len(found.record.runs) == 1


def test_one_candidate_and_runs_of_ones_own(log: Path, tmp_path: Path) -> None:
    mine = {"method": "erm", "candidate": {"name": "cf", "dim": 3}, "training": {"rate": 0.1}}
    found = cp.run(log, tmp_path / "study", quick(candidates=(), runs={"mine": mine}))
    assert found.recommended is None
    assert found.record.verdict.leader == "mine"
    assert found.record.verdict.decided is False
    assert found.record.verdict.headline.startswith("There is one candidate, mine")
    assert len(found.comparisons) == 0
    configuration = found.record.runs[0].configuration
    assert configuration.candidate.name == "cf"
    assert (configuration.training.rate, configuration.training.epochs) == (0.1, 2)


def test_ratings_are_judged_by_their_errors(tmp_path: Path) -> None:
    ratings = np.random.default_rng(0).integers(1, 6, 300)
    log = frame_of().drop("time").with_columns(rating=pl.Series(ratings))
    asked = quick(feedback="ratings", candidates=("erm", "acl"))
    found = cp.run(log, tmp_path / "study", asked)
    choice = found.record.verdict.choices[0]
    standard = found.estimates.filter(estimator="standard", metric="mse")
    assert set(standard["candidate"]) == {"erm", "acl"}
    assert choice.value == standard["value"].min()
    flips = found.comparisons.filter(pl.col("estimator") != "standard")["flip"]
    assert (flips.drop_nulls() >= 1).all()
    assert flips.null_count() < len(flips)


def test_a_dataset_directory_is_taken_as_it_is(dataset: Path, tmp_path: Path) -> None:
    found = cp.run(dataset, tmp_path / "study", quick(candidates=("pop", "erm")))
    assert not (found.folder / "data").exists()
    with pytest.raises(cp.ConfigError, match=r"prepared already; found preparation\.core"):
        cp.run(dataset, tmp_path / "other", quick(preparation={"core": 2}))
    copy, split = tmp_path / "copy", cp.data.load_split(dataset)
    cp.data.save(split, copy)
    cp.run(copy, tmp_path / "moved", quick(candidates=("pop",)))
    other = np.where(split.part == 1, 0, split.part).astype(np.int8)
    cp.data.save(replace(split, part=other), copy, overwrite=True)
    with pytest.raises(cp.ConfigError, match="another log"):
        cp.run(copy, tmp_path / "moved", quick(candidates=("pop",)))


def test_logged_propensities_decide_where_there_are_any(tmp_path: Path) -> None:
    propensities = np.random.default_rng(0).uniform(0.2, 1, 300)
    log = frame_of().with_columns(propensity=pl.Series(propensities))
    found = cp.run(log, tmp_path / "study", quick(candidates=("pop", "erm")))
    assert found.record.verdict.estimator == "logged"


def test_a_world_tells_the_truth(world: Path, tmp_path: Path) -> None:
    evaluation = FAST["evaluation"] | {"k": (5, 20), "metrics": ("mrr", "hit")}
    found = cp.run(world, tmp_path / "study", quick(evaluation=evaluation))
    truth, online = found.record.verdict.truth, found.record.online
    assert found.record.kind == "world"
    assert truth is not None
    assert online is not None
    assert set(truth.values) == {OLD_SYSTEM, "pop", "erm", "acl"}
    assert truth.regret.keys() == {"standard", "popularity", "dials", "robust", "oracle"}
    assert all(0 <= each <= 1 for each in truth.regret.values())
    expected = {each.arm: each.value for each in online.truth
                if (each.metric, each.k) == ("mrr", 5)}  # fmt: skip
    assert truth.values == expected
    assert f"In truth {truth.candidate} is the best" in found.verdict


def test_a_world_without_a_log_is_refused(world: Path, tmp_path: Path) -> None:
    shutil.copytree(world, tmp_path / "world", ignore=shutil.ignore_patterns("log"))
    with pytest.raises(cp.DataError, match="a study of a world needs a log of it; found none"):
        cp.run(tmp_path / "world", tmp_path / "study", quick())


def test_lists_that_are_drawn_have_no_truth(world: Path, tmp_path: Path) -> None:
    found = cp.run(
        world, tmp_path / "study", quick(candidates=("pop",), online={"temperature": 1.0})
    )
    assert found.record.verdict.truth is None


def test_results_are_plain_json(study: Study) -> None:
    def refuse(name: str) -> None:
        raise AssertionError(name)

    for name in (*PARTS, "plan.json"):
        json.loads((study.folder / name).read_text(), parse_constant=refuse)


def test_rows_that_repeat_training_are_noted(tmp_path: Path) -> None:
    pairs = pl.DataFrame({"user": [1, 1, 1, 2, 2, 2] * 4, "item": [1, 2, 3, 4, 5, 6] * 4})
    log = pairs.with_columns(time=pl.int_range(len(pairs)))
    study = cp.run(log, tmp_path / "repeated", quick(candidates=("pop", "erm")))
    note = next(each for each in study.record.evaluation.notes if "repeat a pair" in each)
    assert note.startswith("100% of the test rows")
    assert not any("repeat a pair" in each for each in _notes_of_distinct(tmp_path))


def _notes_of_distinct(folder: Path) -> tuple[str, ...]:
    distinct = quick(candidates=("pop", "erm"), preparation={"duplicates": "first"})
    return cp.run(frame_of(), folder / "once", distinct).record.evaluation.notes


def test_notes_say_what_of_the_rows_is_not_as_one_might_think(tmp_path: Path) -> None:
    """Ratings that are not looked at, no times, and lists that are as long as what is left."""
    rng = np.random.default_rng(0)
    rows = {
        "user": np.repeat(np.arange(6), 9),
        "item": np.concatenate([rng.permutation(12)[:9] for _ in range(6)]),
        "rating": rng.integers(1, 6, 54),
    }
    quick = cp.study.StudyConfig.model_validate(
        {
            "candidates": ["pop"],
            "training": {"epochs": 1},
            "evaluation": {"estimators": ["standard"], "n_resamples": 200},
        }
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cp.CounterplayWarning)
        study = cp.run(rows, tmp_path / "study", quick)
    notes = " ".join(study.record.evaluation.notes)
    for words in (
        "every row counts as a click, whatever its rating",
        "rows are held out at random; name it with --time",
        "a list of 10 would hold them all, so lists of 2 are judged",
    ):
        assert words in notes
