"""The words that name candidates, and the field that a log gets without any."""

from __future__ import annotations

from pathlib import Path

import pytest

import counterplay as cp
from counterplay.models import ease
from counterplay.models.ease import Ease
from counterplay.study import field
from counterplay.study.config import StudyConfig
from counterplay.study.field import FIELD, Entrant, at_once, entrant_of, field_for
from counterplay.study.reservations import reservations

from .test_config import settings, split_of


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("acl", Entrant(None, "acl")),
        ("ease", Entrant("ease", "erm")),
        ("ease-ips", Entrant("ease", "ips")),
        ("mlp-acl", Entrant("mlp", "acl")),
        (
            "counterplay.learning.methods.erm:Erm",
            Entrant(None, "counterplay.learning.methods.erm:Erm"),
        ),
        (
            "mlp-counterplay.learning.methods.erm:Erm",
            Entrant("mlp", "counterplay.learning.methods.erm:Erm"),
        ),
    ],
)
def test_a_word_is_a_model_a_method_or_both(word: str, expected: Entrant) -> None:
    assert entrant_of(word) == expected


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("eaze", "found 'eaze'; did you mean 'ease'"),
        ("mlp-nothing", "found 'mlp-nothing'"),
        ("acl-mlp", "found 'acl-mlp'"),
        ("nowhere:Nothing", "must be importable"),
        ("", "found ''"),
    ],
)
def test_other_words_are_refused(word: str, said: str) -> None:
    with pytest.raises(cp.ConfigError, match=said):
        entrant_of(word)


def test_a_file_among_the_candidates_is_given_scores(tmp_path: Path) -> None:
    file = tmp_path / "ours.csv"
    file.write_text("user,item,score\n")
    config = settings(candidates=["pop", str(file), "ease"])
    assert config.candidates == ("pop", "ease")
    assert config.scores == {"ours": file}
    assert StudyConfig.model_validate(config.model_dump()) == config
    other = tmp_path / "other" / "ours.csv"
    other.parent.mkdir()
    other.write_text("user,item,score\n")
    with pytest.raises(ValueError, match="two files named 'ours'"):
        settings(candidates=["pop", str(file), str(other)])
    with pytest.raises(ValueError, match=r"a candidate must be .* found '.*gone\.csv'"):
        settings(candidates=["pop", str(tmp_path / "gone.csv")])


def test_a_file_does_not_take_the_place_of_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for word in ("mlp-acl", "ease"):
        Path(word).write_text("user,item,score\n")
    assert settings(candidates=["mlp-acl", "ease"]).scores == {}


def test_named_candidates_that_predict_no_ratings_are_refused() -> None:
    split = split_of(rating=[3.0, 4.0] * 100)
    for word in ("pop", "ease", "softmax", "relmf"):
        config = settings(candidates=("erm", word), feedback="ratings")
        assert word in config.names
        with pytest.raises(cp.ConfigError, match=word):
            config.check(split, world=False)


def test_a_named_model_without_room_is_refused_before_training(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config, split = settings(candidates=("pop", "ease")), split_of()
    config.check(split, world=False)
    monkeypatch.setattr(ease, "_A_PAIR", 2**40)
    with pytest.raises(cp.ConfigError, match=r"ease must hold"):
        config.check(split, world=False)


def test_the_field_follows_from_what_the_log_has() -> None:
    split = split_of()
    assert field_for(split, ratings=False) == FIELD
    timed = split_of(time=range(200))
    assert field_for(timed, ratings=False) == (*FIELD, "attn")
    assert settings().for_log(timed).names == (*FIELD, "attn")
    assert settings(candidates=("pop",)).for_log(timed).names == ("pop",)
    logged = split_of(propensity=[0.5] * 200)
    assert field_for(logged, ratings=False) == (*FIELD, "ips")
    rated = split_of(rating=[3.0] * 200)
    assert field_for(rated, ratings=True) == ("erm", "ps", "acl")


def test_a_model_without_room_is_left_out_with_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    split = split_of()
    assert not [note for note in reservations(settings(), split) if "left out" in note]

    def full(n_items: int, _: object) -> None:
        raise cp.ConfigError(f"no room for {n_items}")

    monkeypatch.setattr(Ease, "check_size", full)
    assert "ease" not in field_for(split, ratings=False)
    said = [note for note in reservations(settings(), split) if "left out" in note]
    assert said == [f"ease is left out: no room for {split.interactions.n_items}"]
    assert not [
        note for note in reservations(settings(candidates=("ease",)), split) if "left out" in note
    ]


def test_models_computed_at_once_have_one_epoch_whatever_is_set() -> None:
    split = split_of(time=range(200))
    config = settings(training={"epochs": 7}).for_log(split)
    epochs = {name: config.run(name, split).training.epochs for name in config.names}
    once = {name for name in ("pop", "ease", "knn", "ials") if at_once(name)}
    assert once == {"pop", "ease", "knn", "ials"}
    assert epochs == {name: 1 if name in once else 7 for name in config.names}
    usual = settings().for_log(split)
    assert usual.run("attn", split).training.epochs == field._SHORT["attn"]["epochs"]
