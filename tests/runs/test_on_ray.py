"""What workers of a Ray cluster are told; a fake cluster does at once what it is asked for."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from counterplay.learning.methods import METHODS
from counterplay.runs import on_ray
from counterplay.runs.config import RunConfig, config_of, run_config


class _ToldError(Exception):
    pass


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    def remote(**_: Any) -> Any:
        return lambda function: SimpleNamespace(remote=function)

    room = SimpleNamespace(wait=lambda _: True)
    groups = SimpleNamespace(placement_group=lambda _: room, remove_placement_group=lambda _: None)
    kinds = SimpleNamespace(PlacementGroupSchedulingStrategy=lambda *_, **__: None)
    ray = SimpleNamespace(is_initialized=lambda: True, remote=remote, get=lambda found: found)
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setitem(sys.modules, "ray.util.placement_group", groups)
    monkeypatch.setitem(sys.modules, "ray.util.scheduling_strategies", kinds)
    monkeypatch.setattr(on_ray, "_address", lambda: ("127.0.0.1", 1))


@pytest.mark.parametrize("method", METHODS)
def test_workers_get_the_settings_that_were_given_and_no_others(
    method: str, cluster: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A default of one method need not be an option of another."""
    told: list[RunConfig] = []

    def work(*given: Any) -> None:
        told.append(config_of(given[5]))
        raise _ToldError

    monkeypatch.setattr(on_ray, "_work", work)
    asked = run_config(None, [f"method={method}", "training.epochs=3"])
    with pytest.raises(_ToldError):
        on_ray.train_on_ray(tmp_path, tmp_path / "run", asked, n_workers=1, shards=8)
    assert told[0].of_method() == asked.of_method()
    assert told[0].of_method().epochs == 3
