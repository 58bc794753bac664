"""The trial of impressions: equal trials, choices by validation, gains that are right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import ttest_1samp

import counterplay as cp
from reproduction import exposure, exposure_learning, exposure_settings, trial_worlds
from reproduction.datasets import Place
from reproduction.exposure_learning import L2, METHODS, OWN, LearningJob, TuningJob, tuned
from reproduction.exposure_settings import ExposureSettings
from reproduction.exposure_summary import interval, page, rows, summarised

SMALL = {"n_users": 60, "n_items": 50, "n_shown": 12.0, "mean_relevance": 0.4}
CHOSEN = {
    name: {"l2": 1e-4} | ({} if own is None else {own[0]: own[1]}) for name, own in OWN.items()
}


@pytest.fixture
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial_worlds, "SIZE", SMALL)
    monkeypatch.setattr(exposure_learning, "N_SHOWN", {"sparse": 10.0})
    monkeypatch.setattr(exposure_learning, "PATIENCE", 1)
    exposure_learning.setting_of.cache_clear()


@pytest.mark.usefixtures("_small")
def test_every_method_learns_in_the_same_world() -> None:
    job = LearningJob(density="sparse", mechanism="history", seed=1, chosen=CHOSEN)
    found = exposure_learning.learnt_all(job)
    assert set(found["fits"]) == set(METHODS)
    assert 0 < found["rows"]["clicks"] < found["rows"]["impressions"]
    for fit in found["fits"].values():
        assert 0 < fit["truth"] <= found["perfect"]
    assert 0 < found["pop"] <= found["perfect"]


@pytest.mark.usefixtures("_small")
@pytest.mark.parametrize("method", METHODS)
def test_settings_are_chosen_by_validation_among_as_many_trials(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By AUC for what learns from impressions, else by hits; never by the truth."""
    asked: list[dict[str, float]] = []

    def learnt(_: Any, name: str, settings: dict[str, float], **__: Any) -> dict[str, Any]:
        assert name == method
        asked.append(settings)
        hit, auc = (1.0, 0.5) if settings["l2"] == L2["sparse"][1] else (0.5, 0.6)
        return {"settings": settings, "hit": hit, "auc": auc, "truth": -hit}

    monkeypatch.setattr(exposure_learning, "learnt", learnt)
    job = TuningJob(density="sparse", mechanism="history", method=method, seed=1)
    found = tuned(job)
    assert len(asked) == 4
    by_auc = method.startswith("shown")
    assert (found["chosen"]["l2"] == L2["sparse"][1]) is not by_auc
    own = OWN[method]
    if own is not None:
        assert [each[own[0]] for each in asked] == [own[1]] * 3 + [own[2]]
        assert asked[3]["l2"] == found["chosen"]["l2"]


def world(mechanism: str, density: str, shown: float) -> dict[str, Any]:
    fits = {name: {"truth": 2.0} for name in METHODS} | {"shown": {"truth": shown}}
    return {
        "mechanism": mechanism, "density": density, "fits": fits, "pop": 1.0, "perfect": 5.0,
        "rows": {"clicks": 10, "impressions": 40},
    }  # fmt: skip


def test_gains_are_paired_and_in_per_cent() -> None:
    values = [2.4, 2.3, 2.6]
    (cell,) = summarised([world("history", "sparse", value) for value in values])
    gain = cell["gain"]["shown"]
    assert gain["value"] == pytest.approx(100 * (np.mean(values) / 2 - 1))
    level = 1 - 0.05 / 6  # six comparisons
    ends = ttest_1samp(50 * np.array(values) - 100, 0).confidence_interval(level)
    assert (gain["low"], gain["high"]) == pytest.approx((ends.low, ends.high))
    assert cell["truth"]["pop"] == 1.0
    assert cell["gain"]["pop"]["value"] == -50
    assert interval(np.array([3.0]), 6) == {"value": 3.0, "low": None, "high": None}


def test_the_goal_is_met_only_if_every_kind_of_world_reaches_it() -> None:
    values = (2.40, 2.41, 2.42)
    kinds = [(m, d) for m in exposure_learning.MECHANISMS for d in ("sparse", "dense")]
    all_reach = [world(*kind, value) for kind in kinds for value in values]
    assert rows(summarised(all_reach))[0]["met"] is True
    assert rows(summarised(all_reach[:9]))[0]["met"] is None  # the others are not known
    one_less = [*all_reach[3:], *(world(*kinds[0], value) for value in (2.10, 2.11, 2.12))]
    assert rows(summarised(one_less))[0]["met"] is False
    text = page(summarised(all_reach[:9]), {"sparse": {"uniform": CHOSEN}}, "It gains.")
    assert "Planned: 10 seeds. Run: sparse (uniform 3, popularity 3, popularity-quality 0," in text
    assert "| uniform, sparse | 3 | 10, 40 | 5.00 | 1.00 | 2.00 | 2.41 |" in text
    assert "It gains." in text
    assert "interval above 0: uniform, sparse (+20.5 %); popularity, sparse (+20.5 %); " in text
    assert "Less than 10 %: uniform, sparse (+5.5 %)" in page(summarised(one_less), {}, "")


def test_settings_that_are_not_frozen_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = ExposureSettings(frozen=False, n_seeds={"sparse": {"history": 1}}, chosen={})
    file = tmp_path / "settings.json"
    file.write_text(settings.model_dump_json())
    monkeypatch.setattr(exposure_settings, "SETTINGS", file)
    with pytest.raises(cp.ConfigError, match="must be frozen"):
        exposure.run(Place(tmp_path, tmp_path))
