from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterplay.data.directory import load_split
from reproduction.methods import TableMethod, baselines, games, weighted

METHODS = [
    *baselines(("pop", "cf", "gmf", "attn"), 4),
    *weighted(("gmf",), 4, with_oracle=True),
    *games(("gmf", "attn"), 4, fixed=(("alpha", 0.5),)),
]


def test_names_tell_methods_apart() -> None:
    everything = METHODS + games(("gmf",), 4) + games(("gmf",), 8)
    assert len({method.name for method in everything}) == len(everything)
    assert METHODS[2].name == "gmf-8"
    assert METHODS[4].name == "ps-gmf-pop-stable-4"
    assert METHODS[4].title == "PS GMF / Pop, stable"
    assert METHODS[-1].name == "acl-attn-paper-4-alpha=0.5"
    assert METHODS[-1].printed == "acl-attn"


@given(st.integers(0, 40), st.sampled_from(METHODS))
def test_a_trial_changes_one_tuned_setting_and_is_the_same_again(
    number: int, method: TableMethod
) -> None:
    settings = dict(method.trial(number))
    assert settings == dict(method.trial(number))
    assert len(settings) == (1 if number and method.tuned else 0)
    assert set(settings) <= set(method.tuned)
    assert not set(settings) & {name for name, _ in method.fixed}


def test_the_first_trial_is_the_defaults_and_settings_take_turns() -> None:
    (game,) = games(("gmf",), 4, recipes=("stable",))
    assert game.trial(0) == ()
    tried = [dict(game.trial(number)) for number in range(1, 9)]
    assert [next(iter(each)) for each in tried] == 2 * ["rate", "l2", "alpha", "exposure_rate"]
    assert [each["rate"] for each in tried if "rate" in each] == [0.005, 0.05]
    assert len({tuple(each.items()) for each in tried}) == 8


@given(st.integers(1, 2))
def test_the_first_trials_of_shared_settings_are_the_same_for_all(number: int) -> None:
    assert len({method.trial(number) for method in METHODS if method.tuned}) == 1


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_every_trial_is_a_configuration_of_its_method(method: TableMethod, dataset: Path) -> None:
    train = load_split(dataset).train
    for number in range(8):
        config = method.run_config(method.trial(number), train, seed=3, epochs=7, patience=5)
        config.of_method()
        assert (config.method, config.candidate.name) == (method.method, method.candidate)
        assert (config.candidate.dim, config.training.seed) == (method.dim, 3)
        assert config.training.epochs == (1 if method.candidate == "pop" else 7)
        assert not config.candidate.use_features
        judged = config.validation
        assert (judged.protocol, judged.n_negatives) == ("sampled", 100)  # as the paper judges
        assert (judged.metric, judged.k) == ("hit", 10)
    if method.method != "erm":
        assert config.training.recipe == method.recipe
    if method.fixed:
        assert config.training.alpha == 0.5
        assert config.exposure.name == method.candidate


def test_strengths_of_the_appendix_are_of_a_batch(dataset: Path) -> None:
    train = load_split(dataset).train
    method = METHODS[2]
    plain = method.run_config((), train, seed=0, epochs=1, patience=1)
    tuned = method.run_config((("l2", 0.2),), train, seed=0, epochs=1, patience=1)
    assert plain.training.l2 == pytest.approx(2 / len(train))
    assert tuned.training.l2 == pytest.approx(0.2 / tuned.training.batch_size)


def test_the_outcome_can_be_left_out_of_the_link(dataset: Path) -> None:
    (method,) = games(("gmf",), 4, recipes=("paper",), fixed=(("with_outcome", 0.0),))
    config = method.run_config((), load_split(dataset).train, seed=0, epochs=2, patience=1)
    assert not config.training.link.with_outcome
