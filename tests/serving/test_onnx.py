from __future__ import annotations

import logging
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import counterplay as cp
from counterplay.models.registry import ModelName
from counterplay.serving.onnx import _plain, onnx_scores, write_onnx

from .test_vectors import N_ITEMS, N_USERS, make_log, make_model

NAMES: tuple[ModelName, ...] = ("pop", "cf", "gmf", "mlp", "ncf", "attn")


def query(model: cp.Scorer, n: int, k: int) -> list[torch.Tensor]:
    """Return users, items and histories; one user, one item and some histories are unknown."""
    generator = torch.Generator().manual_seed(n)
    users = torch.randint(0, N_USERS, (n,), generator=generator)
    items = torch.randint(0, N_ITEMS, (n, k), generator=generator)
    users[-1] = items[0, -1] = -1
    if not model.history_length:
        return [users, items]
    history = torch.randint(0, N_ITEMS, (n, model.history_length), generator=generator)
    padding = torch.randint(0, model.history_length + 1, (n, 1), generator=generator)
    history[torch.arange(model.history_length) < padding] = N_ITEMS
    return [users, items, history]


@torch.no_grad()
def own_scores(model: cp.Scorer, asked: list[torch.Tensor]) -> torch.Tensor:
    scores: torch.Tensor = model(*asked[:2], *(cp.models.History.of(each) for each in asked[2:]))
    return scores


@pytest.mark.parametrize("name", ["gmf", "ncf", "attn"])  # the others are parts of these
def test_a_file_scores_as_the_model_does(
    name: ModelName, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model = make_model(name, make_log(features=name == "gmf"))
    logger = logging.getLogger("torch.onnx._internal.exporter._registration")
    level = logger.level
    write_onnx(model, tmp_path / "model.onnx")
    assert capfd.readouterr() == ("", "")
    assert logger.level == level
    for n, k in ((1, 1), (1, 5), (7, 1), (40, 30)):  # none of them the exporter's own example
        asked = query(model, n, k)
        found = onnx_scores(tmp_path / "model.onnx", *(each.numpy() for each in asked))
        assert found.shape == (n, k)
        np.testing.assert_allclose(found, own_scores(model, asked), rtol=1e-4, atol=1e-5)
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.onnx"]
    content = (tmp_path / "model.onnx").read_bytes()
    assert str(Path(cp.__file__).parent).encode() not in content


@pytest.mark.parametrize("features", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_what_is_exported_scores_as_the_model_does(name: ModelName, features: bool) -> None:
    model = make_model(name, make_log(features=features))
    before = {key: value.clone() for key, value in model.state_dict().items()}
    asked = query(model, 20, 6)
    with torch.no_grad():
        plain = _plain(model).eval()(*asked)
    np.testing.assert_allclose(plain, own_scores(model, asked), rtol=1e-4, atol=1e-6)
    assert before.keys() == model.state_dict().keys()
    assert all(bool((value == model.state_dict()[key]).all()) for key, value in before.items())


class Constant(cp.Scorer):
    """A model that the library does not know."""


def test_a_model_of_one_s_own_is_refused(tmp_path: Path) -> None:
    with pytest.raises(cp.ConfigError, match="found Constant"):
        write_onnx(Constant(2, 3), tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("package", ["onnx", "onnxruntime", "onnxscript"])
def test_without_the_packages_it_says_what_to_install(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(cp.ConfigError, match=rf"found no {package}; install counterplay\[onnx\]"):
        write_onnx(make_model("pop", make_log()), tmp_path / "model.onnx")
