"""All models on public logs: equal trials, choices by validation, ranks and differences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from counterplay.errors import ConfigError
from counterplay.tuning.space import searched
from reproduction import models, models_fit, models_settings
from reproduction.datasets import Place
from reproduction.models_fit import (
    LINES,
    LOGS,
    Log,
    ModelFit,
    fitted,
    job_of,
    prepared,
    trials_of,
    tuning_of,
)
from reproduction.models_page import page, rows
from reproduction.models_settings import N_TRIALS, SEED, ModelsSettings, scaled
from reproduction.models_summary import compared, reversed_pairs, summarised

DATA = "ml-1m"


@pytest.fixture
def place(public: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setitem(models_fit.LOGS, DATA, Log("Small", {}, patience=1))
    monkeypatch.setattr(models_fit, "N_SAMPLED", 20)
    prepared.cache_clear()
    return Place(public, tmp_path)


@pytest.mark.parametrize("line", LINES)
def test_every_line_has_as_many_different_trials_within_what_is_searched(
    place: Place, line: str
) -> None:
    train = prepared(DATA, place).split.train
    trials = trials_of(line, train, N_TRIALS, SEED)
    assert len({str(sorted(each.items())) for each in trials}) == (N_TRIALS if line != "pop" else 1)
    ranges = searched(tuning_of(line, SEED, train), LINES[line].method)
    assert ("candidate.dim" in ranges) == (line not in ("pop", "knn", "ease"))
    for settings in trials:
        assert settings.keys() == ranges.keys()
        assert all(ends[0] <= settings[key] <= ends[-1] for key, ends in ranges.items())


def test_more_trials_begin_with_those_that_were_done(place: Place) -> None:
    train = prepared(DATA, place).split.train
    assert trials_of("gmf", train, 6, SEED)[:4] == trials_of("gmf", train, 4, SEED)


def test_the_popular_are_ranked_as_counting_ranks_them(place: Place) -> None:
    found = fitted(job_of(DATA, "pop", 0, {}), place)
    here = prepared(DATA, place)
    log, counts = here.split.interactions, np.bincount(here.split.train.item, minlength=170)
    for row in range(0, len(here.targets), 17):
        user, item = here.targets.user[row], here.targets.item[row]
        assert item == log.item[log.user == user][-1]  # the last one of the user
        unseen = np.setdiff1d(np.arange(log.n_items), here.seen.item[here.seen.user == user])
        assert found["full"]["above"][row] == (counts[unseen] > counts[item]).sum()
        others = here.candidates[row, 1:]
        assert len(others) == 20
        assert np.isin(others, unseen).all()
        assert item not in others
        assert found["sampled"]["above"][row] == (counts[others] > counts[item]).sum()


def test_a_trial_keeps_no_test_ranks(place: Place) -> None:
    train = prepared(DATA, place).split.train
    job = job_of(DATA, "gmf", SEED, trials_of("gmf", train, 2, SEED)[1], trial=True)
    found = fitted(job.model_copy(update={"epochs": 2}), place)
    assert 0 < found["validation"] <= 1
    assert "full" not in found


def test_what_defaults_scale_with_a_log_is_scaled_from_the_log_of_trials(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models_fit, "L2", (1e-6, 0.1))  # so that the defaults are within
    monkeypatch.setitem(models_fit.LOGS, DATA, Log("Small", {}, tuned_on="lastfm"))
    theirs, ours = (prepared(each, place).split.train for each in ("lastfm", DATA))
    assert len(theirs) != len(ours)
    chosen = trials_of("gmf", theirs, 3, SEED)[2]
    found = scaled(DATA, "gmf", chosen, place)
    assert found["training.l2"] == pytest.approx(
        chosen["training.l2"] * len(theirs) / len(ours), rel=0.01
    )
    same = ("training.rate", "training.n_negatives", "candidate.dim")
    assert all(found[key] == pytest.approx(chosen[key], rel=0.01) for key in same)
    assert scaled("lastfm", "gmf", chosen, place) == chosen


def test_reported_seeds_wait_for_frozen_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ModelsSettings(frozen=False, n_seeds={}, chosen={})
    monkeypatch.setattr(models, "settings", lambda: asked)
    with pytest.raises(ConfigError, match="frozen"):
        models.jobs()


def test_reported_fits_are_each_asked_for_once_and_by_chance_only_where_it_enters() -> None:
    asked = models.jobs()
    assert len({job.key for job in asked}) == len(asked)
    assert max(job.seed for job in asked) < SEED
    assert {job.seed for job in asked if not LINES[job.line].by_chance} == {0}
    for data, chosen in models_settings.settings().chosen.items():
        assert data in LOGS
        defaults = {job.line for job in asked if job.data == data and not job.settings}
        assert defaults == chosen.keys() <= LINES.keys()


def _result(above: list[int], validation: float) -> dict[str, Any]:
    ranks = {"above": above, "tied": [0] * len(above)}
    swapped = {"above": above[::-1], "tied": [0] * len(above)}
    return {
        "validation": validation, "full": ranks, "sampled": swapped, "best_epoch": 3, "seconds": 1.0
    }  # fmt: skip


def _cells(n: int = 200) -> list[dict[str, Any]]:
    """Of ease, always first; of gmf, third if tuned and else never; of mlp, one in four first."""
    some = [0 if place % 4 == 0 else 50 for place in range(n)]
    tuned: dict[str, Any] = {"candidate.dim": 64}
    fits: list[tuple[str, dict[str, Any], int, dict[str, Any]]] = [
        ("ease", {}, 0, _result([0] * n, 0.2)),
        ("gmf", {}, 0, _result([50] * n, 0.0)),
        ("gmf", tuned, 0, _result([2] * n, 0.1)),
        ("mlp", {}, 0, _result(some, 0.3)),
        ("mlp", {}, 1, _result([50] * n, 0.3)),
        ("ncf", {}, 0, _result(some, 0.1)),
    ]
    jobs: list[ModelFit] = [job_of(DATA, line, seed, settings) for line, settings, seed, _ in fits]
    chosen = {DATA: {"ease": {}, "gmf": tuned, "mlp": {}, "ncf": {}}}
    return summarised(jobs, [result for *_, result in fits], chosen)


def test_values_are_means_over_users_and_seeds() -> None:
    (cell,) = _cells()
    lines = cell["lines"]
    assert lines["gmf"]["tuned"]["full hit"]["value"] == pytest.approx(100)
    assert lines["gmf"]["tuned"]["full ndcg"]["value"] == pytest.approx(100 / np.log2(4))
    assert lines["gmf"]["defaults"]["full hit"]["value"] == 0
    assert lines["ease"]["tuned"] == lines["ease"]["defaults"]
    mlp = lines["mlp"]["tuned"]
    assert mlp["full hit"]["value"] == pytest.approx(12.5)
    assert mlp["ndcg by seed"] == [25.0, 0.0]
    assert mlp["full hit"]["low"] < 12.5 < mlp["full hit"]["high"]


def test_differences_are_to_the_best_on_validation_and_tell_what_tuning_gained() -> None:
    (cell,) = _cells()
    assert cell["best"] == "mlp"  # by validation, though ease is better on test rows
    assert cell["behind"]["ease"]["value"] == pytest.approx(87.5)
    assert cell["behind"]["ease"]["low"] > 0
    assert cell["gain"].keys() == {"gmf"}
    assert cell["gain"]["gmf"]["value"] == pytest.approx(50)


def test_one_fit_is_compared_to_another_user_by_user() -> None:
    found = compared(_result([0] * 50, 0.1), _result([2] * 50, 0.1), n_comparisons=5)
    assert found["ndcg"] == pytest.approx([100, 50])
    assert found["gain"]["value"] == pytest.approx(50)
    assert found["gain"]["level"] == pytest.approx(0.99)


def test_the_page_has_every_cell_and_what_reverses() -> None:
    cells = _cells()
    text = page(cells, "Some notes.")
    assert "| `gmf` | 0.00 [0.00, 0.00] | 100.00 [100.00, 100.00] |" in text
    assert "Some notes." in text
    assert "NeuMF" in text
    found = {each["what"]: each for each in rows(cells)}
    (gmf,) = (each for what, each in found.items() if "gmf" in what)
    assert (gmf["ours"], gmf["ratio"]) == ("50.00, defaults 0.00", "0.50")


def test_the_order_of_models_is_compared_between_protocols() -> None:
    def of(full: float, sampled: float) -> dict[str, Any]:
        return {
            "tuned": {("full", "ndcg"): np.array([full]), ("sampled", "ndcg"): np.array([sampled])}
        }

    assert reversed_pairs({"a": of(1, 2), "b": of(2, 1), "c": of(3, 3)}) == [("a", "b")]
