from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest
import torch

import counterplay as cp
from counterplay.learning.config import Game, Training, Weighted
from counterplay.learning.methods.acl import acl
from counterplay.learning.methods.erm import erm
from counterplay.learning.methods.ps import ps
from counterplay.learning.optimizers import Optimizer
from counterplay.learning.records import Fit
from counterplay.models.registry import ModelName, build
from counterplay.models.scorer import Scorer

from .conftest import Checkerboard

WRONG = r"must be (as it was|a checkpoint|in format 3)"
SHARED = {"epochs": 5, "batch_size": 32, "rate": 0.02}


def model(name: ModelName, log: cp.Interactions, seed: int) -> Scorer:
    generator = torch.Generator().manual_seed(seed)
    return build(name, log, dim=4, length=6, dropout=0.3, generator=generator)


def learn(
    method: str, name: ModelName, log: cp.Interactions, checkpoint: Path | None, optimizer: str
) -> Fit:
    players = model(name, log, 0), model(name, log, 1)
    options = SHARED | {"optimizer": optimizer}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cp.CounterplayWarning)
        if method == "erm":
            return erm(players[0], log, Training.model_validate(options), checkpoint=checkpoint)
        if method == "ps":
            return ps(*players, log, Weighted.model_validate(options), checkpoint=checkpoint)
        more = {"discount": 1.1, "exposure_discount": 1.2}
        return acl(*players, log, Game.model_validate(options | more), checkpoint=checkpoint)


@pytest.mark.parametrize(
    ("method", "name", "optimizer", "n_steps"),
    [
        ("erm", "attn", "auto", 20),
        ("ps", "gmf", "dense", 3),
        ("ps", "gmf", "dense", 39),
        ("acl", "gmf", "lazy", 3),
        ("acl", "gmf", "lazy", 39),
        ("acl", "attn", "auto", 20),
    ],
)
def test_interrupted_at_any_step_it_ends_in_the_same_bytes(
    method: str,
    name: ModelName,
    optimizer: str,
    n_steps: int,
    checkerboard: Checkerboard,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = checkerboard.log
    whole = learn(method, name, log, None, optimizer)
    left, step = n_steps, Optimizer.step

    def interrupted(self: Optimizer, loss: torch.Tensor) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise KeyboardInterrupt
        step(self, loss)

    with monkeypatch.context() as patched:
        patched.setattr(Optimizer, "step", interrupted)
        with pytest.raises(KeyboardInterrupt):
            learn(method, name, log, tmp_path / "checkpoint", optimizer)
    resumed = learn(method, name, log, tmp_path / "checkpoint", optimizer)
    for ours, theirs in ((whole.candidate, resumed.candidate), (whole.exposure, resumed.exposure)):
        if ours is not None and theirs is not None:
            for key, value in ours.state_dict().items():
                assert torch.equal(value, theirs.state_dict()[key]), key
    assert whole.epochs == resumed.epochs
    assert (whole.best_epoch, whole.stopped) == (resumed.best_epoch, resumed.stopped)


def test_a_finished_run_is_not_run_again(checkerboard: Checkerboard, tmp_path: Path) -> None:
    first = learn("acl", "gmf", checkerboard.log, tmp_path / "checkpoint", "auto")
    before = {path.name: path.read_bytes() for path in (tmp_path / "checkpoint").iterdir()}
    again = learn("acl", "gmf", checkerboard.log, tmp_path / "checkpoint", "auto")
    after = {path.name: path.read_bytes() for path in (tmp_path / "checkpoint").iterdir()}
    assert first.epochs == again.epochs
    assert before == after


def test_a_checkpoint_of_another_run_is_refused(checkerboard: Checkerboard, tmp_path: Path) -> None:
    log, folder = checkerboard.log, tmp_path / "checkpoint"
    learn("erm", "gmf", log, folder, "auto")
    with pytest.raises(
        cp.CheckpointError, match=r'training.optimizer: began with "auto", asked for "dense"'
    ):
        learn("erm", "gmf", log, folder, "dense")


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("state.safetensors", b"broken"),
        ("state.safetensors", None),
        ("state.json", b"{"),
        ("state.json", json.dumps({"format": 1}).encode()),
    ],
)
def test_a_damaged_checkpoint_is_one_sentence(
    file: str, content: bytes | None, checkerboard: Checkerboard, tmp_path: Path
) -> None:
    folder = tmp_path / "checkpoint"
    learn("erm", "gmf", checkerboard.log, folder, "auto")
    (folder / file).unlink() if content is None else (folder / file).write_bytes(content)
    with pytest.raises(cp.CheckpointError, match=WRONG) as caught:
        learn("erm", "gmf", checkerboard.log, folder, "auto")
    assert "\n" not in str(caught.value)


def test_nothing_is_pickled(checkerboard: Checkerboard, tmp_path: Path) -> None:
    learn("acl", "gmf", checkerboard.log, tmp_path / "checkpoint", "auto")
    assert {path.suffix for path in (tmp_path / "checkpoint").iterdir()} == {
        ".json",
        ".safetensors",
    }
