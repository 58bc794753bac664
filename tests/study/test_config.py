from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import counterplay as cp
from counterplay.data.splits import VALIDATION
from counterplay.learning.config import Training
from counterplay.learning.methods import METHODS
from counterplay.learning.methods.erm import Erm
from counterplay.runs.config import config_of
from counterplay.runs.defaults import ranked_among
from counterplay.settings import configured
from counterplay.simulation import writing
from counterplay.simulation.synthetic import Synthetic
from counterplay.study.config import GAMMAS, StudyConfig


def split_of(**columns: object) -> cp.Split:
    """Return 20 users of 10 rows each, the last of which are held out."""
    rng = np.random.default_rng(0)
    rows = {"user": np.repeat(np.arange(20), 10), "item": rng.integers(0, 300, 200)}
    log = cp.read(rows | columns)
    part = np.tile(np.array([0] * 8 + [1, 2], dtype=np.int8), 20)
    return cp.Split(log, part, "by hand")


@pytest.fixture(scope="module")
def split() -> cp.Split:
    return split_of()


def settings(**values: object) -> StudyConfig:
    return StudyConfig.model_validate(values)


def test_any_method_may_be_a_candidate(split: cp.Split, monkeypatch: pytest.MonkeyPatch) -> None:
    class Settings(Training):
        margin: float = 0.5

    class Mine(Erm):
        settings = Settings

    monkeypatch.setitem(METHODS, "mine", Mine)
    config = settings(candidates=("pop", "mine"), runs={"other": {"method": "mine"}})
    runs = [config.run(name, split) for name in config.names]
    assert [each.method for each in runs] == ["erm", "mine", "mine"]
    for each in runs[1:]:
        assert config_of(each.model_dump()) == each  # so its record can be read again
        assert isinstance(each.training, Settings)


def test_the_usual_candidates_share_the_model_and_the_training(split: cp.Split) -> None:
    config = settings(model="mlp", dim=8, seed=3, training={"rate": 0.5})
    runs = {name: config.run(name, split) for name in config.names}
    assert list(runs) == ["pop", "ease", "knn", "erm", "ps", "acl"]
    assert [each.method for each in runs.values()] == ["erm"] * 4 + ["ps", "acl"]
    models = [each.candidate.name for each in runs.values()]
    assert models == ["pop", "ease", "knn", "mlp", "mlp", "mlp"]
    assert {each.training.rate for each in runs.values()} == {0.5}
    assert {each.training.seed for each in runs.values()} == {3}
    assert runs["pop"].training.epochs == 1
    assert runs["acl"].training.epochs > runs["acl"].training.patience > 10
    assert runs["ps"].exposure.name == "mlp"
    for each in runs.values():
        each.of_method()


def test_what_is_said_of_a_run_goes_before_what_is_said_of_all(split: cp.Split) -> None:
    mine = {"method": "erm", "training": {"rate": 0.1}, "validation": {"k": 3}}
    config = settings(candidates=(), runs={"mine": mine}, training={"rate": 0.5, "epochs": 7})
    found = config.run("mine", split)
    assert (found.training.rate, found.training.epochs) == (0.1, 7)
    assert (found.validation.k, found.validation.n_negatives) == (3, 100)


def test_the_evaluation_s_rule_selects_the_epochs_of_every_run(split: cp.Split) -> None:
    evaluation = {"protocol": "sampled", "n_negatives": 30, "metrics": ["ndcg", "hit"], "k": [5, 9]}
    runs = {"mine": {"method": "erm"}, "own": {"method": "erm", "validation": {"metric": "mrr"}}}
    config = settings(evaluation=evaluation, runs=runs)
    found = {name: config.run(name, split).validation.model_dump() for name in config.names}
    handed = {"protocol": "sampled", "metric": "ndcg", "k": 5, "n_negatives": 30, "users": None}
    assert found.pop("own") == handed | {"metric": "mrr"}
    assert all(each == handed for each in found.values())
    usual = settings().run("acl", split).validation
    assert (usual.protocol, usual.metric, usual.k) == ("full", "hit", 10)


def test_a_cutoff_that_no_row_can_miss_is_known_before(split: cp.Split) -> None:
    among = ranked_among(split, VALIDATION)
    settings(evaluation={"k": [among - 1]}).check(split, world=False)
    with pytest.raises(cp.ConfigError, match=rf"validation.k .*; found {among} and {among};"):
        settings(evaluation={"k": [among, 5]}).check(split, world=False)
    sampled = {"protocol": "sampled", "n_negatives": 9, "k": [10]}
    with pytest.raises(cp.ConfigError, match=r"ranked among, .*; found 10 and 10;"):
        settings(evaluation=sampled).check(split, world=False)


def test_ratings_are_predicted_by_all_but_popularity() -> None:
    split = split_of(rating=np.arange(200) % 5 + 1)
    config = settings(feedback="ratings")
    assert config.names == ("erm", "ps", "acl")
    assert {config.run(name, split).training.loss for name in config.names} == {"squared"}
    assert "oracle" not in config.check(split, world=True).estimators


def test_estimators_follow_from_the_data(split: cp.Split) -> None:
    logged = split_of(propensity=np.full(200, 0.5))
    usual = ("standard", "popularity", "dials", "robust")
    assert settings().check(split, world=False).estimators == usual
    assert settings().check(logged, world=False).estimators == (*usual, "logged")
    assert settings().check(split, world=True).estimators == (*usual, "oracle")
    found = settings(seed=4, evaluation={"k": (5,)}).check(split, world=False)
    assert (found.k, found.gamma, found.seed) == ((5,), GAMMAS, 4)
    given = settings(evaluation={"gamma": (), "estimators": ("standard",), "seed": 9})
    found = given.check(split, world=False)
    assert (found.gamma, found.estimators, found.seed) == ((), ("standard",), 9)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"candidates": ()}, "needs candidates to train"),
        ({"candidates": (), "scores": {"ours": "a.csv"}}, "found scores alone"),
        ({"candidates": ("erm", "dr")}, "'dr' needs ratings"),
        ({"candidates": ("pop", "ease-ips")}, "'ease-ips' needs propensities"),
        ({"candidates": ("shown",)}, "'shown' needs impressions"),
        ({"candidates": ("erm", "erm")}, "a name of its own .* found 'erm'"),
        ({"runs": {"erm": {}}}, "found 'erm'"),
        ({"scores": {"pop": "a.csv"}}, "found 'pop'"),
        ({"runs": {"old system": {}}}, "found 'old system'"),
        ({"runs": {"": {}}}, "found ''"),
        ({"runs": {"..": {}}}, r"found '\.\.'"),
        ({"runs": {"a/b": {}}}, "found 'a/b'"),
        ({"runs": {"a\0b": {}}}, "can be a folder's"),
        ({"runs": {"mine": {"method": "erm", "training": {"alpha": 2}}}}, r"training\.alpha with"),
        ({"runs": {"mine": {"training": {"warmup": 9}}}, "training": {"epochs": 9}}, "'mine' that"),
        ({"runs": {"mine": {"training": {"loss": "squared"}}}}, "rank or predict ratings"),
        ({"training": {"loss": "squared"}}, "rank or predict ratings"),
        ({"model": "pop"}, "must have something to learn"),
        ({"feedback": "ratings"}, "needs ratings; found a log without"),
        ({"evaluation": {"estimators": ("opponent",)}}, "estimator whose weights all"),
        ({"evaluation": {"estimators": ("oracle",)}}, "estimator whose weights all"),
        ({"evaluation": {"estimators": ("standard", "logged")}}, "needs propensities"),
        ({"evaluation": {"protocol": "sampled", "n_negatives": 295}}, "take fewer"),
    ],
)
def test_what_cannot_end_well_is_known_before(
    values: dict[str, Any], expected: str, split: cp.Split
) -> None:
    with pytest.raises((cp.ConfigError, cp.DataError), match=expected) as caught:
        settings(**values).check(split, world=True)
    assert str(caught.value).count("; ") >= 2


def test_the_oracle_and_given_scores_need_what_they_need(split: cp.Split) -> None:
    with pytest.raises(cp.ConfigError, match="the oracle estimator needs the world"):
        settings(evaluation={"estimators": ("standard", "oracle")}).check(split, world=False)
    ratings = split_of(rating=np.arange(200) % 5)
    with pytest.raises(cp.ConfigError, match="predict no ratings; found 'theirs'"):
        settings(feedback="ratings", scores={"theirs": "a.csv"}).check(ratings, world=False)


def test_a_split_without_test_rows_is_refused(split: cp.Split) -> None:
    other = cp.Split(split.interactions, np.minimum(split.part, 1), split.kind)
    with pytest.raises(cp.DataError, match="rows to test on; found none after the split by hand"):
        settings().check(other, world=False)


def test_validation_rows_are_needed_only_to_be_evaluated_on(split: cp.Split) -> None:
    part = np.where(split.part == 1, 0, split.part).astype(np.int8)
    without = cp.Split(split.interactions, part, split.kind)
    settings().check(without, world=False)
    with pytest.raises(cp.DataError, match="needs validation rows"):
        settings(evaluation={"part": "validation"}).check(without, world=False)


def test_the_online_test_has_the_cutoffs_that_lists_are_long_enough_for() -> None:
    world = Synthetic(n_users=20, n_items=30, n_shown=5, seed=0).world()
    length = world.list_length
    many = settings(evaluation={"k": (2, length, length + 1)})
    assert many.online_in(world).k == (2, length)
    assert settings(evaluation={"k": (length + 1,)}).online_in(world).k == (length,)
    given = settings(online={"k": (1,), "n_days": 3})
    assert given.online_in(world) == given.online
    assert "time" not in many.online_in(world).model_fields_set  # it is that of the test round


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[runs.mine]\nmethd = 'erm'", "found 'runs.mine.methd' in '.*'; did you mean 'method'"),
        ("[runs.mine.training]\nepoch = 3", "did you mean 'epochs'"),
        ("[preparation]\nusr = 'uid'", "did you mean 'user'"),
        ("[evaluation.opponent]\nalfa = 1", "did you mean 'alpha'"),
        ("candidate = ['erm']", "did you mean 'candidates'"),
        ("runs = 3", "found runs=3"),
    ],
)
def test_unknown_keys_have_a_nearest_known_one(text: str, expected: str, tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(text)
    with pytest.raises(cp.ConfigError, match=expected):
        configured(StudyConfig, tmp_path / "study.toml")


def test_preparation_is_refused_only_where_some_is_asked_for() -> None:
    settings().refuse_preparation("a world")
    with pytest.raises(cp.ConfigError, match=r"a world is prepared already; found preparation\.u"):
        settings(preparation={"user": "uid"}).refuse_preparation("a world")


def test_what_learns_from_impressions_has_settings_for_all_that_was_shown_in_training() -> None:
    world = Synthetic(n_users=600, n_items=200, n_shown=30, mean_relevance=0.3, seed=0).world()
    split = writing.split_of(world, (1.0, 0.3, 1.0), impressions=True)
    assert split.unclicked_part is not None
    n = int((split.part == 0).sum()) + int((split.unclicked_part == 0).sum())
    assert n // 32 > 256 + 32  # so that the batches tell
    training = StudyConfig().run("shown", split).training
    assert (training.batch_size, training.l2) == (n // 32, 4 / n)
    assert StudyConfig().run("erm", split).training.l2 == 2 / len(split.train)
