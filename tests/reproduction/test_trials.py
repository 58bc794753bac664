"""The trials of dials: worlds as they are meant to be, scores that are right, jobs run once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import counterplay as cp
from counterplay.metrics.dials import Box
from counterplay.simulation.factors import Factors
from counterplay.simulation.policies import Exponential
from reproduction import trial_candidates, trial_judgements, trial_worlds, trials, trials_settings
from reproduction.datasets import Place
from reproduction.outside_scores import als_factors, outside_scores
from reproduction.trial_judgements import GRID, Judged, judge_world
from reproduction.trial_summary import judgements, line, recorded_surface, scores, summarised
from reproduction.trial_worlds import MECHANISMS, most_rated, trial_world
from reproduction.trials import TrialSettings

SMALL = {"n_users": 120, "n_items": 80, "n_shown": 12.0, "mean_relevance": 0.3}
CHOSEN = TrialSettings(frozen=True, gammas=(0.0, 0.5, 1.0), lambdas=(0.0, 0.4), point=(0.55, 0.3))
TRAINED = {name: trial_candidates.TRAINED[name] for name in ("pop", "gmf")}


@pytest.fixture(scope="module")
def world() -> dict[str, Any]:
    """Give what was found in a small world."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(trial_candidates, "TRAINED", TRAINED)
        patched.setattr(trial_candidates, "_MOST_EPOCHS", 2)
        patched.setattr(trial_judgements, "N_RANDOM", 300)
        patched.setattr(trial_judgements, "N_TRUE", 300)
        patched.setattr(trial_worlds, "SIZE", SMALL)
        made = trial_world("history", 3)
        return {"mechanism": "history", "seconds": 1.0, **judge_world(made, 3)}


def test_there_are_twelve_mechanisms() -> None:
    assert len(MECHANISMS) == 12
    assert len(set(MECHANISMS)) == 12


@pytest.mark.parametrize("mechanism", [name for name in MECHANISMS if name != "two-stage"])
def test_a_world_is_as_large_as_it_is_meant_to_be(
    mechanism: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial_worlds, "SIZE", SMALL)
    made = trial_world(mechanism, 1)
    assert (made.n_users, made.n_items) == (120, 80)
    log = made.log((1.0,))
    assert 1 < len(log) / 120 < 10
    again = trial_world(mechanism, 1).log((1.0,))
    assert log.fingerprint == again.fingerprint
    assert log.fingerprint != trial_world(mechanism, 2).log((1.0,)).fingerprint


def test_a_share_of_taste_is_in_exposure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial_worlds, "SIZE", SMALL)
    users = np.arange(120)
    for share in (0.3, 0.6):
        made = trial_world(f"personal-{share}", 0)
        assert isinstance(made.policy, Exponential)
        assert isinstance(made.taste, Factors)
        logs = np.log(made.policy.accept(users, None, -20.0))
        taste = made.taste.of_all(users)
        within = logs - logs.mean(axis=0) - share * (taste - taste.mean(axis=0))
        np.testing.assert_allclose(within, 0, atol=1e-9)
        by_item = np.sort(logs.mean(axis=0) - share * (taste - made.taste.item_bias).mean(axis=0))
        places = np.arange(1.0, 81.0)
        np.testing.assert_allclose(by_item[::-1], by_item[-1] - 0.5 * np.log(places), atol=1e-9)


def test_the_items_that_most_users_rated_are_kept() -> None:
    log = cp.read({"user": [0, 1, 2, 0, 1, 2, 0], "item": [5, 5, 5, 6, 6, 7, 8]})
    kept = most_rated(log, 2)
    assert kept.n_items == 2
    assert len(kept) == 5


def test_scores_from_outside_find_who_belongs_together() -> None:
    """Even users like even items; one pair of each user is held back."""
    pairs = [
        (user, item)
        for user in range(20)
        for item in range(12)
        if user % 2 == item % 2 and item // 2 != user // 2 % 6
    ]
    user, item = np.array(pairs).T
    train = cp.read({"user": user, "item": item})
    found = outside_scores(train, np.random.default_rng(0))
    assert set(found) == {"als", "ease", "knn"}
    users = np.arange(20)
    for each in found.values():
        table = each.of_all(users)
        table[train.user, train.item] = -np.inf
        best = table.argmax(axis=1)
        names = np.array([int(train.users.ids[int(one)]) for one in users])
        items = np.array([int(train.items.ids[int(one)]) for one in best])
        np.testing.assert_array_equal(names % 2, items % 2)
    one, other = als_factors(train, np.random.default_rng(0))
    assert (len(one), len(other)) == (20, 12)


def test_scores_of_an_assumption_by_hand() -> None:
    truth = np.array([0.1, 0.2, 0.4])
    values = np.array([0.1, 0.5, 0.4])
    leads = np.array([[0.0, -1.0, -1.0], [0.4, 0.0, 0.05], [0.2, -1.0, 0.0]])
    found = scores(Judged(values, values - 0.05, values + 0.05, leads), truth)
    assert found["squared"] == pytest.approx(0.03)
    assert found["bias"] == pytest.approx(0.1)
    assert found["order"] == pytest.approx(0.5)
    assert found["regret"] == pytest.approx(0.5)
    assert (found["pairs"], found["decided"], found["wrong"]) == (3, 3, 1)
    assert found["held"] == pytest.approx(2 / 3)


def test_a_world_is_recorded_with_all_that_settings_can_ask_for(world: dict[str, Any]) -> None:
    assert world["candidates"] == ["pop", "gmf", "als", "ease", "knn"]
    found = judgements(world, "hit@10", CHOSEN)
    assert list(found) == [
        *("standard", "popularity", "corner (1, 0)", "point"),
        *("box, λ = 0", "box", "random rows", "oracle"),
    ]
    box = recorded_surface(world, "hit@10", Box.grid((0.0, 1.0), (0.0,), (0.55, 0.3)))
    np.testing.assert_allclose(found["standard"].values, box.values[0])
    np.testing.assert_allclose(found["corner (1, 0)"].values, box.values[1])
    np.testing.assert_allclose(found["point"].values, list(box.point.values()))
    values = np.array(world["metrics"]["hit@10"]["values"])
    wanted = [GRID.index((gamma, lam)) for gamma in (0.0, 0.5, 1.0) for lam in (0.0, 0.4)]
    np.testing.assert_allclose(found["box"].values, values[wanted].mean(axis=0))
    assert (found["box"].leads <= found["box, λ = 0"].leads + 1e-12).all()
    # Popularity has a floor and no smoothing: it is another estimate than the corner.
    assert (found["popularity"].values != found["corner (1, 0)"].values).any()
    again = Judged.of(found["box"].plain())
    np.testing.assert_allclose(again.leads, found["box"].leads, rtol=1e-6)


def test_worlds_are_summarised_over_all_and_by_mechanism(world: dict[str, Any]) -> None:
    other = {**world, "mechanism": "uniform"}
    found = summarised([world, other], CHOSEN, "hit@10")
    assert set(found["mechanisms"]) == {"history", "uniform"}
    assert found["n_worlds"] == 2
    one, whole = found["mechanisms"]["history"]["lines"][0], found["overall"][0]
    assert one["error"] == pytest.approx(whole["error"])
    assert whole["n_decided"] == 2 * one["n_decided"]
    assert found["rules"]["standard"]["against_standard"]["value"] == 0
    assert set(found["rules"]) >= {"mean over the box", "minimax regret", "max-min value"}


def test_a_world_is_judged_once_and_reported_when_settings_are_frozen(
    world: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged: list[tuple[str, int]] = []

    def noted(made: Any, seed: int) -> dict[str, Any]:
        judged.append((made.name, seed))
        return {key: value for key, value in world.items() if key not in ("mechanism", "seconds")}

    place = Place(tmp_path, tmp_path / "out")
    monkeypatch.setattr(trials, "judge_world", noted)
    monkeypatch.setattr(trial_worlds, "SIZE", SMALL)
    made = trial_world("uniform", 0)
    monkeypatch.setattr(trials, "whole", lambda *_: made.log((1.0,)))
    monkeypatch.setattr(trials, "trial_world", lambda *_: made)
    monkeypatch.setattr(trials, "SEEDS", range(1))
    monkeypatch.setattr(trials_settings, "SEEDS", range(100, 101))
    monkeypatch.setattr(trials, "settings", lambda: CHOSEN.model_copy(update={"frozen": False}))
    with pytest.raises(cp.ConfigError, match="trials-settings"):
        trials.run(place)
    assert not judged
    found = trials_settings.run(place)
    assert len(judged) == 12
    assert {seed for _, seed in judged} == {100}
    assert "worst mechanism" in found["pages"]["trials-settings.md"]
    trials_settings.run(place)
    assert len(judged) == 12  # all are kept
    monkeypatch.setattr(trials, "settings", lambda: CHOSEN)
    reported = trials.run(place)
    assert len(judged) == 24
    assert set(reported["summary"]["mechanisms"]) == set(MECHANISMS)
    for name in (*MECHANISMS, "Rules that choose", "ends hold"):
        assert name in reported["pages"]["trials.md"]
    assert [row["met"] is not None for row in reported["rows"]] == [True, True]


def test_a_failure_is_told_and_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> dict[str, Any]:
        raise cp.DataError("no clicks")

    monkeypatch.setattr(trials, "judge_world", fails)
    monkeypatch.setattr(trial_worlds, "SIZE", SMALL)
    with pytest.raises(cp.CounterplayError, match="uniform/trials/seed-7"):
        trials.judged_worlds([7], Place(tmp_path, tmp_path), ["uniform"])


def test_the_settings_file_is_read() -> None:
    found = trials.settings()
    assert all((gamma, lam) in GRID for gamma in found.gammas for lam in found.lambdas)
    assert found.point in GRID
    assert set(trials_settings.POINTS) <= set(GRID)


def test_shares_of_wrong_decisions_pair_by_world() -> None:
    """Thirty worlds: one assumption is wrong once in every world, the other never."""
    wrong = {"squared": 0.0, "bias": 0.0, "order": 1.0, "regret": 0.0, "pairs": 4.0,
             "decided": 4.0, "wrong": 1.0, "held": 1.0}  # fmt: skip
    right = wrong | {"wrong": 0.0, "decided": 2.0}
    found = [{"standard": wrong, "popularity": right, "box": right} for _ in range(30)]
    one, other = line("standard", found), line("box", found)
    assert (one["wrong"], one["wrong_low"], one["wrong_high"]) == (0.25, 0.25, 0.25)
    assert other["wrong_against_standard"] == {"value": -0.25, "low": -0.25, "high": -0.25, "n": 30}
    assert other["wrong_against_popularity"]["value"] == 0
    assert other["decided_against_standard"]["value"] == -0.5
    few = line("box", found[:5])
    assert few["wrong_low"] is None  # five worlds make no interval of a share
    mixed = [{"standard": wrong if place % 2 else right} for place in range(40)]
    lone = line("standard", [each | {"popularity": right} for each in mixed])
    assert lone["wrong"] == pytest.approx(20 / 120)
    assert lone["wrong_low"] < 20 / 120 < lone["wrong_high"]
