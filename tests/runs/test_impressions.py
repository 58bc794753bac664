"""Runs whose exposure model is fitted to impressions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import counterplay as cp
from counterplay.data.directory import load_split
from counterplay.data.impressions import impressions_of
from counterplay.data.splits import TRAIN
from counterplay.models.popularity import Popularity
from counterplay.runs import RunConfig, load_run
from counterplay.runs.config import run_config
from counterplay.serving.recommend import load_trained
from counterplay.simulation.synthetic import Synthetic
from counterplay.simulation.writing import write_world

pytestmark = pytest.mark.filterwarnings("ignore::counterplay.CounterplayWarning")


@pytest.fixture(scope="module", params=[True, False], ids=["impressions", "clicks"])
def data(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world") / "w"
    world = Synthetic(n_users=60, n_items=50, n_shown=12, mean_relevance=0.4).world()
    write_world(world, folder, rates=(1.0, 0.5, 0.5), impressions=request.param)
    return folder / "log"


def config(method: str, exposure: str) -> RunConfig:
    training: dict[str, Any] = {"epochs": 2, "batch_size": 128, "exposure_from": "impressions"}
    model = {"name": "gmf", "dim": 4}
    return RunConfig.model_validate(
        {
            "method": method,
            "candidate": model,
            "exposure": model | {"name": exposure},
            "training": training,
        }
    )


@pytest.mark.parametrize(("method", "exposure"), [("ps", "pop"), ("ps", "gmf"), ("acl", "gmf")])
def test_a_run_fits_exposure_to_impressions_if_there_are_any(
    method: str, exposure: str, data: Path, tmp_path: Path
) -> None:
    split = load_split(data)
    if split.unclicked is None:
        with pytest.raises(cp.DataError, match="clicks alone; give a log with a column 'clicked'"):
            cp.train(data, tmp_path / "run", config(method, exposure))
        assert not (tmp_path / "run").exists()
        return
    record = cp.train(data, tmp_path / "run", config(method, exposure))
    training = record.configuration.training
    assert (training.weigh, training.link.learn) == ("observed", False)
    _, model, link = load_run(tmp_path / "run", split.train)
    assert link is not None
    assert link.beta == pytest.approx((0, 1, 0))
    if exposure == "pop":
        assert isinstance(model, Popularity)
        shown = impressions_of(split, TRAIN)
        events = np.bincount(shown.item, minlength=shown.n_items) + 1
        np.testing.assert_allclose(model.logits[:-1], np.log(events / events.mean()), rtol=1e-4)


@pytest.mark.parametrize("method", ["shown", "erm"])
def test_users_who_were_shown_something_and_clicked_nothing_are_known_to_shown(
    method: str, tmp_path: Path
) -> None:
    world = Synthetic(n_users=60, n_items=50, n_shown=8, mean_relevance=0.1).world()
    split = write_world(world, tmp_path / "w", rates=(1.0, 0.5, 0.5), impressions=True)
    settings = [f"method={method}", "training.epochs=1", "candidate.dim=4"]
    cp.train(tmp_path / "w" / "log", tmp_path / "run", run_config(None, settings))
    clicked = np.bincount(split.train.user, minlength=60) > 0
    shown = np.bincount(impressions_of(split, TRAIN).user, minlength=60) > 0
    assert (shown & ~clicked).any()
    known = shown if method == "shown" else clicked
    found = load_trained(tmp_path / "run")
    assert found.fallback.unknown.tolist() == [*(~known).tolist(), True]
    lost = np.flatnonzero(shown & ~clicked)
    same = found.scores.of_all(lost) == found.fallback.items[:-1]
    assert same.all() == (method == "erm")
