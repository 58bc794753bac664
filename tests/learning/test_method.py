"""Methods as values: found by name or by place, and one of one's own from training to tuning."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import counterplay as cp
from counterplay.learning.config import Robust
from counterplay.learning.method import Method
from counterplay.learning.methods import METHODS, method_of, settings_of
from counterplay.runs.config import config_of, run_config
from counterplay.runs.training import load_run
from counterplay.tuning.space import Tuning, first_settings, searched

EXAMPLES = Path(__file__).parents[2] / "examples"
OWN = "own_method:Bpr"
QUICK = ["training.epochs=2", "training.batch_size=128", "candidate.dim=4"]


@pytest.fixture(autouse=True)
def _examples_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))


def test_the_methods_of_the_paper_have_names() -> None:
    found = {name: method_of(name) for name in ("erm", "ps", "acl")}
    assert found.keys() <= METHODS.keys()
    assert all(issubclass(each, Method) for each in found.values())
    assert [each.roles for each in found.values()] == [
        ("candidate",),
        ("candidate", "exposure", "link"),
        ("candidate", "exposure", "link"),
    ]


def test_one_of_ones_own_is_entered_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    own = method_of(OWN)
    assert own.settings.model_fields.keys() > cp.learning.Training.model_fields.keys()
    monkeypatch.setitem(METHODS, "mine", own)
    assert method_of("mine") is own
    assert run_config(None, ["method=mine", "training.margin=0.5"]).training.margin == 0.5  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("emr", "found 'emr'; did you mean 'erm'"),
        ("quite else", "found 'quite else'; choose one of them"),
        ("no_such_module:Bpr", "must be importable; found 'no_such_module:Bpr'"),
        ("own_method:Bpm", "must be importable; found 'own_method:Bpm'"),
        (":Bpr", "must be importable"),
        ("own_method:N_USERS", "must be importable"),
        ("counterplay.learning.method:Method", "must have a step"),
        ("broken_method:X", "must be importable; found 'broken_method:X' .SyntaxError"),
        ("leaving_method:X", "must be importable; found 'leaving_method:X' .SystemExit"),
        ("settingless_method:X", "settings that are a subclass of"),
        ("own_method:main", "must be a subclass of counterplay.learning.method.Method"),
        ("own_method:BprSettings", "must be a subclass of counterplay.learning.method.Method"),
    ],
)
def test_what_is_no_method_is_one_sentence(
    name: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_method.py").write_text("class X(:")
    (tmp_path / "leaving_method.py").write_text("raise SystemExit(5)")
    base = "from counterplay.learning.methods.erm import Erm\nclass X(Erm):\n    settings = None"
    (tmp_path / "settingless_method.py").write_text(base)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(cp.ConfigError, match=words):
        method_of(name)


def test_ones_own_is_trained_kept_loaded_and_evaluated(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = run_config(None, [*QUICK, f"method={OWN}", "training.margin=0.25"])
    record = cp.train(dataset, tmp_path / "run", config).to_dict()
    assert record["configuration"]["training"]["margin"] == 0.25
    assert config_of(json.loads(json.dumps(record["configuration"]))) == config
    assert list(record["parameters"]) == ["candidate"]
    candidate, exposure, link = load_run(tmp_path / "run", cp.data.load_split(dataset).train)
    assert (exposure, link) == (None, None)
    assert isinstance(candidate, cp.Scorer)
    how = cp.evaluation.Evaluation(estimators=("standard",), n_resamples=200)
    assert cp.evaluate(tmp_path / "run", config=how).estimates
    monkeypatch.undo()
    monkeypatch.delitem(sys.modules, "own_method")
    with pytest.raises(cp.ConfigError, match="must be importable; found 'own_method:Bpr'"):
        cp.evaluate(tmp_path / "run", config=how)


def test_its_settings_are_checked_as_all_are(dataset: Path) -> None:
    with pytest.raises(cp.ConfigError, match=r"found 'training.alpha'; known are .*margin"):
        run_config(None, [f"method={OWN}", "training.alpha=1"])
    with pytest.raises(cp.ConfigError, match=r"found training.margin='x'"):
        run_config(None, [f"method={OWN}", "training.margin=x"])


def test_without_settings_of_its_own_it_has_their_defaults() -> None:
    """As a study's runs are configured, which share one kind of settings."""
    config = cp.runs.RunConfig(method=OWN, training=cp.learning.Game(rate=0.5))
    found = config.of_method()
    assert (type(found).__name__, found.rate) == ("BprSettings", 0.5)
    assert found.margin == 0.0  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", [each for each in METHODS if each != "dr"])  # of ratings
def test_tuning_begins_with_the_defaults_of_each_method(name: str) -> None:
    config = Tuning.model_validate({"methods": [name]})
    log = cp.read({"user": [0, 0, 1, 1], "item": [0, 1, 1, 2]})
    settings = first_settings(config, name, log)
    assert settings.keys() == searched(config, name).keys()
    assert {key for key, _ in method_of(name).searched} <= settings.keys()
    config.run_config(name, log, settings)  # all of them are settings of the method


def test_tuning_searches_what_it_says(dataset: Path, tmp_path: Path) -> None:
    asked = {"methods": [OWN], "trials": 2, "training": {"epochs": 1}}
    config = Tuning.model_validate(asked)
    assert searched(config, OWN)["training.margin"] == (0.1, 2.0)
    found = cp.tune(dataset, tmp_path / "tuned", config)
    (method,) = found["methods"]
    margins = [trial["settings"]["training.margin"] for trial in method["trials"]]
    assert margins[0] == 0.1  # the default, 0, or the nearest in the space
    assert 0.1 < margins[1] < 2.0


@pytest.mark.parametrize("name", METHODS)
def test_settings_that_are_known_before_torch_are_those_of_the_method(name: str) -> None:
    assert settings_of(name) is method_of(name).settings


def test_a_method_that_was_put_in_anothers_place_has_its_own_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Other(Method[Robust]):
        settings = Robust

    monkeypatch.setitem(METHODS, "erm", Other)
    assert settings_of("erm") is Robust
