from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

import counterplay as cp
from counterplay.runs.config import Method, RunConfig
from counterplay.runs.defaults import training_for
from counterplay.settings import configured
from counterplay.tuning.space import Choices, Selection, Space, Tuning, first_settings, searched

METHODS: list[Method] = ["erm", "ps", "acl"]
LOG = cp.read({"user": [1, 1, 2] * 200, "item": [3, 4, 5] * 200})

rates = st.floats(1e-9, 1e3)
counts = st.integers(1, 10**6)
ranges = st.tuples(rates, rates).map(sorted)
whole_ranges = st.tuples(counts, counts).map(sorted)


@pytest.mark.parametrize("method", METHODS)
def test_the_first_trial_has_the_settings_that_the_data_ask_for(method: Method) -> None:
    config = Tuning(seed=3)
    wanted = training_for(LOG, seed=3)
    found = config.run_config(method, LOG, first_settings(config, method, LOG))
    assert {name: getattr(found.training, name) for name in wanted} == wanted
    assert found == config.run_config(method, LOG, {}).model_copy(
        update={"training": found.training}
    )
    assert found.of_method() == config.run_config(method, LOG, {}).of_method()


@given(rate=ranges, l2=ranges, alpha=ranges, batch_size=whole_ranges, exposure_dim=whole_ranges)
def test_the_first_trial_is_within_the_space(**space: list[float]) -> None:
    config = Tuning(space=Space.model_validate(space))
    for method in METHODS:
        settings = first_settings(config, method, LOG)
        start = config.run_config(method, LOG, {}).model_dump()
        ends = searched(config, method)
        assert settings.keys() == ends.keys()
        for key, value in settings.items():
            section, name = key.split(".")
            if isinstance(ends[key], Choices):
                assert value in ends[key]
                continue
            low, high = ends[key]
            assert low <= value <= high
            assert isinstance(value, type(low))
            assert value in (start[section][name], low, high)


def test_epochs_are_selected_by_the_rule_that_selects_trials() -> None:
    rule = {"protocol": "sampled", "metric": "ndcg", "k": 3, "n_negatives": 20}
    config = Tuning.model_validate({"selection": rule, "validation": {"k": 5, "users": 9}})
    handed = rule | {"k": 5, "users": 9}
    for method in METHODS:
        assert config.run_config(method, LOG, {}).validation.model_dump() == handed
    assert config.to_dict()["validation"] == handed
    assert Tuning().judged == RunConfig().validation


def test_methods_share_what_they_have_in_common() -> None:
    spaces = [searched(Tuning(), method) for method in METHODS]
    shared = set.intersection(*(set(each) for each in spaces))
    assert shared == set(spaces[0])
    assert {key: spaces[1][key] for key in shared} == {key: spaces[2][key] for key in shared}
    assert set(spaces[1]) - shared == {"exposure.name"}
    assert set(spaces[2]) - shared == {"training.alpha", "training.exposure_rate", "exposure.dim"}


@pytest.mark.parametrize(
    ("model", "names"),
    [
        ("gmf", {"dim", "training.rate", "training.l2", "training.batch_size",
                 "training.n_negatives"}),
        ("attn", {"dim", "training.rate", "training.l2", "training.batch_size",
                  "training.n_negatives"}),
        ("pop", set()),
        ("ease", {"ridge"}),
        ("knn", {"neighbours", "shrink"}),
        ("ials", {"dim", "ridge", "confidence", "sweeps"}),
    ],
)  # fmt: skip
def test_what_is_searched_belongs_to_the_model(model: str, names: set[str]) -> None:
    config = configured(Tuning, None, [f"candidate.name={model}"])
    found = searched(config, "erm")
    assert {key.removeprefix("candidate.") for key in found} == names
    settings = first_settings(config, "erm", LOG)
    run = config.run_config("erm", LOG, settings)
    for key, value in settings.items():
        section, name = key.split(".")
        assert value is not None
        assert getattr(getattr(run, section), name) == value
        ends = found[key]
        assert value in ends if isinstance(ends, Choices) else ends[0] <= value <= ends[1]


def test_the_first_trial_of_a_model_has_the_ridge_of_the_data() -> None:
    config = configured(Tuning, None, ["candidate.name=ease"])
    assert first_settings(config, "erm", LOG) == {"candidate.ridge": 0.5 * len(LOG) ** 0.5}


@pytest.mark.parametrize(
    ("assignments", "choices", "first"),
    [
        ([], (8, 16, 32, 64, 128), 32),
        (["candidate.dim=24"], (8, 16, 24, 32, 64, 128), 24),
        (["candidate.dim=300"], (8, 16, 32, 64, 128), 128),
        (["space.dim=24"], (24,), 24),
        (["space.dim=[5, 40]", "candidate.dim=3"], (8, 16, 32), 8),
    ],
)
def test_dimensions_are_powers_of_2_and_ones_own(
    assignments: list[str], choices: tuple[int, ...], first: int
) -> None:
    config = configured(Tuning, None, assignments)
    assert searched(config, "erm")["candidate.dim"] == choices
    assert first_settings(config, "erm", LOG)["candidate.dim"] == first


def test_ps_tries_its_own_exposure_model_first() -> None:
    config = configured(Tuning, None, ["exposure.name=cf"])
    assert searched(config, "ps")["exposure.name"] == ("cf", "pop", "gmf")
    assert first_settings(config, "ps", LOG)["exposure.name"] == "cf"


@given(st.sampled_from(METHODS), rates, counts)
def test_settings_arrive_in_the_run(method: Method, rate: float, dim: int) -> None:
    config = Tuning().run_config(method, LOG, {"training.rate": rate, "exposure.dim": dim})
    assert (config.training.rate, config.exposure.dim) == (rate, dim)
    assert config.candidate.dim == 32


def test_training_settings_go_to_the_methods_that_have_them() -> None:
    config = configured(
        Tuning, None, ["training.recipe=paper", "training.alpha=2", "training.link.floor=0.1"]
    )
    runs = {method: config.run_config(method, LOG, {}) for method in METHODS}
    assert [runs[method].training.recipe for method in METHODS] == ["stable", "paper", "paper"]
    assert [runs[method].training.alpha for method in METHODS] == [1, 1, 2]
    assert [runs[method].training.link.floor for method in METHODS] == [0.01, 0.1, 0.1]
    assert config.to_dict()["training"] == {"recipe": "paper", "alpha": 2.0, "link": {"floor": 0.1}}


def test_one_number_fixes_a_setting(tmp_path: Path) -> None:
    (tmp_path / "tune.toml").write_text("[space]\nrate = 0.05\nn_negatives = 3\nl2 = [0.1, 0.2]\n")
    space = configured(Tuning, tmp_path / "tune.toml").space
    assert (space.rate, space.n_negatives, space.l2) == ((0.05, 0.05), (3, 3), (0.1, 0.2))


@pytest.mark.parametrize(
    ("assignment", "expected"),
    [
        ("space.rat=[0.1, 0.2]", "did you mean 'rate'"),
        ("spice.rate=[0.1, 0.2]", "did you mean 'space'"),
        ("selection.estimators=standard", "did you mean 'estimator'"),
        ("space.rate=[0.2, 0.1]", "must not end below its beginning"),
        ("space.rate=[0, 0.1]", "greater than 0"),
        ("space.rate=[0.1, inf]", "finite"),
        ("space.batch_size=[1.5, 2]", "a whole number; found space.batch_size=1.5"),
        ("space.rate=fast", "a list; found space.rate="),
        (
            "space.exposure=['popularity']",
            "cf, gmf, mlp, ncf, attn, ease, knn, ials; found 'popularity'",
        ),
        (
            "selection.estimator=opponent",
            "one of standard, popularity, propensity, logged; found 'opponent'",
        ),
        ("training.loss=squared", "selected by ranks"),
        ("training.seed=1", "seed is that of the whole tuning"),
        ("methods=['erm', 'erm']", "a method is tuned once"),
        ("methods=[]", "at least 1"),
        ("trials=0", "at least 1; found trials=0"),
    ],
)
def test_bad_settings_are_one_sentence(assignment: str, expected: str) -> None:
    with pytest.raises(cp.ConfigError) as caught:
        configured(Tuning, None, [assignment])
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_opponent_without_parameters_is_refused() -> None:
    config = configured(Tuning, None, ["exposure.name=pop"])
    first_settings(config, "ps", LOG)
    with pytest.raises(cp.ConfigError, match="must have something to learn"):
        first_settings(config, "acl", LOG)


def test_trials_are_selected_on_validation_rows() -> None:
    options: dict[str, Any] = {"exponent": 0.5, "floor": 0.2, "clip": 0.3, "n_negatives": 7}
    found = Selection(estimator="propensity", metric="mrr", k=3, **options).evaluation(9)
    assert found.part == "validation"
    assert (found.estimators, found.metrics, found.k) == (("propensity",), ("mrr",), (3,))
    assert {name: getattr(found, name) for name in options} == options
    assert found.seed == 9
    with pytest.raises(ValidationError):
        Selection.model_validate({"part": "test"})
