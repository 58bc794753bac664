"""Synthetic worlds are as they were asked to be. Seeds are fixed: nothing here is left to luck."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import ValidationError

from counterplay.simulation.factors import Factors
from counterplay.simulation.policies import Mixture, Scored
from counterplay.simulation.synthetic import Synthetic
from counterplay.simulation.world import World

KINDS = ["uniform", "popularity", "history", "mixture"]


def world(**given: Any) -> World:
    given = {"n_users": 600, "n_items": 200, "n_shown": 20.0} | given
    return Synthetic(**given).world()


def shown(place: World) -> NDArray[np.float64]:
    return place.shown(np.arange(place.n_users))


@pytest.mark.parametrize("exposure", KINDS)
def test_as_much_is_shown_as_was_asked_for(exposure: str) -> None:
    """Within a twentieth: the scores of few items do not lie about 0 exactly."""
    for n_shown in (3.0, 30.0):
        place = world(exposure=exposure, n_shown=n_shown)
        assert shown(place).sum(1).mean() == pytest.approx(n_shown, rel=0.05)


def test_the_kinds_of_exposure_differ_as_their_names_say() -> None:
    uniform, popularity, history, mixture = (world(exposure=kind).policy for kind in KINDS)
    for policy in (uniform, popularity, history):
        assert isinstance(policy, Scored)
    assert isinstance(uniform, Scored)
    assert isinstance(popularity, Scored)
    assert isinstance(history, Scored)
    assert np.ptp(uniform.caps) == 0
    assert uniform.scores is None
    assert popularity.scores is None
    assert (popularity.caps == history.caps).all()
    assert isinstance(history.scores, Factors)
    assert isinstance(mixture, Mixture)
    np.testing.assert_allclose(mixture.caps, (history.caps + uniform.caps) / 2, rtol=1e-12)
    users = np.arange(600)
    average = (history.caps * history.accept(users, None)) / 2
    average += (uniform.caps * uniform.accept(users, None)) / 2
    np.testing.assert_allclose(mixture.caps * mixture.accept(users, None), average, rtol=1e-9)


@pytest.mark.parametrize("mean_relevance", [0.05, 0.2, 0.5])
@pytest.mark.parametrize("given", [{}, {"taste": 0.5, "noise": 2.0}, {"quality": 0.0, "dim": 32}])
def test_the_mean_relevance_is_about_what_was_asked_for(
    mean_relevance: float, given: dict[str, Any]
) -> None:
    place = world(n_items=2000, mean_relevance=mean_relevance, **given)
    found = place.relevance(np.arange(place.n_users)).mean()
    assert found == pytest.approx(mean_relevance, rel=0.1)


def test_an_accurate_recommender_shows_what_is_liked() -> None:
    def correlation(accuracy: float) -> float:
        place = world(exposure="history", accuracy=accuracy)
        users = np.arange(place.n_users)
        accepted, relevance = place.accepted(users), place.relevance(users)
        return float(np.corrcoef(accepted.ravel(), relevance.ravel())[0, 1])

    none, some, full = (correlation(accuracy) for accuracy in (0.0, 0.5, 1.0))
    assert abs(none) < 0.05
    assert some > none + 0.1
    assert full > some + 0.1


def test_sharpness_makes_it_follow_its_scores() -> None:
    spread = [
        float(np.std(world(sharpness=sharpness).accepted(np.arange(600))))
        for sharpness in (0.0, 0.5, 2.0)
    ]
    assert spread == sorted(spread)
    assert spread[2] > spread[1] * 1.3


def test_skew_concentrates_exposure() -> None:
    def share_of_the_top(skew: float) -> float:
        by_item = np.sort(shown(world(exposure="popularity", skew=skew, n_shown=3.0)).sum(0))
        return float(by_item[-20:].sum() / by_item.sum())

    shares = [share_of_the_top(skew) for skew in (0.0, 0.5, 1.0)]
    assert shares[0] == pytest.approx(0.1)
    assert shares[1] > shares[0] + 0.05
    assert shares[2] > shares[1] + 0.05


def test_drift_moves_tastes_over_time_and_keeps_their_spread() -> None:
    users = np.arange(600)
    still, moving = world(drift=0.0), world(drift=0.5)
    assert (still.relevance(users, time=3.0) == still.relevance(users)).all()
    assert (moving.relevance(users) == still.relevance(users)).all()

    def likeness(time: float) -> float:
        now, then = moving.relevance(users, time=time), moving.relevance(users)
        return float(np.corrcoef(now.ravel(), then.ravel())[0, 1])

    assert likeness(0.0) == pytest.approx(1)
    assert 0.7 < likeness(1.0) < 0.95
    assert likeness(3.0) < likeness(1.0) - 0.3
    assert moving.relevance(users, time=3.0).mean() == pytest.approx(0.2, rel=0.1)


def test_dials_reach_the_world() -> None:
    given = {
        "noise": 0.3, "exposure_noise": 0.7, "confounding": 0.9, "examination": 0.6,
        "list_length": 4, "seed": 5,
    }  # fmt: skip
    place = world(**given)
    assert {name: getattr(place, name) for name in given} == given


def test_unobserved_dials_leave_the_population_as_it_is() -> None:
    """So the strength of confounding can be varied alone."""
    users = np.arange(600)
    none, severe = world(confounding=0.0), world(confounding=1.0)
    assert (none.relevance(users) == severe.relevance(users)).all()
    assert (none.propensity(users) == severe.propensity(users)).all()


@pytest.mark.parametrize(
    "wrong",
    [
        *({"users": 5}, {"exposure": "random"}, {"n_users": 0}, {"n_items": 1}, {"seed": -1}),
        *({"mean_relevance": 0.0}, {"mean_relevance": 1.0}, {"n_shown": 0.0}, {"noise": -1.0}),
        *({"confounding": 1.1}, {"examination": 0.0}, {"list_length": 0}),
    ],
)
def test_unknown_keys_and_values_out_of_range_are_errors(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=next(iter(wrong))):
        Synthetic(**wrong)
