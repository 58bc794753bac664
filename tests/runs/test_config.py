from __future__ import annotations

import shlex
from pathlib import Path

import pytest

import counterplay as cp
from counterplay.learning.config import Game, Training
from counterplay.runs.config import run_config, training_command


def test_a_file_then_options_then_assignments(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text(
        'method = "ps"\n[candidate]\nname = "mlp"\ndim = 8\n[training]\nepochs = 3\nrate = 0.1\n'
    )
    config = run_config(
        path,
        ["training.rate=0.5", "candidate.name=ncf", "training.link.floor=0.2"],
        {"training.epochs": 7, "method": None},
    )
    assert (config.method, config.candidate.name, config.candidate.dim) == ("ps", "ncf", 8)
    assert (config.training.epochs, config.training.rate) == (7, 0.5)
    assert config.training.link.floor == 0.2


@pytest.mark.parametrize(
    ("assignment", "expected"),
    [
        ("training.epoch=3", "found 'training.epoch'; did you mean 'epochs'"),
        ("trainning.epochs=3", "found 'trainning'; did you mean 'training'"),
        ("training.link.flor=0.1", "found 'training.link.flor'; did you mean 'floor'"),
        ("epochs=3", "found 'epochs'; did you mean 'training.epochs'"),
        ("candidate.epochs=3", "found 'candidate.epochs'; did you mean 'training.epochs'"),
        ("candidate.zzz=1", "known are name, dim"),
        ("training.epochs=0", r"found training.epochs=0"),
        ("method=abc", "found 'abc'; did you mean 'acl'"),
        ("training.epochs", "the form section.key=value"),
        ("method.name=x", "method"),
    ],
)
def test_bad_settings_name_the_nearest_good_one(assignment: str, expected: str) -> None:
    with pytest.raises(cp.ConfigError, match=expected) as caught:
        run_config(None, ["method=acl", assignment] if "method." in assignment else [assignment])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("device", ["cuda:99", "toaster", "meta:x"])
def test_a_device_that_is_not_there_is_refused_before_any_work(device: str, tmp_path: Path) -> None:
    config = run_config(None, [f"training.device={device}"])
    with pytest.raises(cp.ConfigError, match=f"found '{device}', of which torch says: .*cpu"):
        cp.train(tmp_path / "data", tmp_path / "run", config)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("content", [None, "[broken", "epochs = "])
def test_bad_files_are_refused(content: str | None, tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    if content is not None:
        path.write_text(content)
    with pytest.raises(cp.ConfigError, match="readable TOML file"):
        run_config(path)


@pytest.mark.parametrize("content", ["[training]\nepoch = 3", "[trainng]\nepochs = 3"])
def test_a_bad_key_is_named_with_the_file_that_holds_it(content: str, tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text(content)
    with pytest.raises(cp.ConfigError, match=r"in '.*run\.toml'; did you mean"):
        run_config(path)
    path.write_text("[training]\nepochs = 3")
    with pytest.raises(cp.ConfigError) as caught:
        run_config(path, ["training.rat=0.1"])
    assert "run.toml" not in str(caught.value)


def test_options_that_a_method_does_not_have_are_refused() -> None:
    assert type(run_config(None, ["method=erm"]).of_method()) is Training
    assert type(run_config(None, ["method=acl"]).of_method()) is Game
    with pytest.raises(cp.ConfigError, match=r"training\.alpha with erm"):
        run_config(None, ["method=erm", "training.alpha=2.0"]).of_method()


@pytest.mark.parametrize("method", ["erm", "ps", "acl"])
def test_a_record_says_the_command_that_trains_it(method: str) -> None:
    settings = ["candidate.name=mlp", "training.rate=0.003", "training.link.floor=0.05"]
    settings = settings[: 2 if method == "erm" else 3]
    config = run_config(None, [f"method={method}", *settings])
    command = shlex.split(training_command(config.model_dump(mode="json"), "a run"))
    assert command[:7] == ["counterplay", "train", "DATA", "--out", "a run", "--method", method]
    assignments = command[8::2]
    assert len(assignments) == len(settings)
    assert run_config(None, [f"method={method}", *assignments]) == config
