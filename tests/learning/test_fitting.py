"""What is said of weights that do nothing, and of a link that has turned."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import pytest

import counterplay as cp
from counterplay.learning.config import LinkSettings, Training
from counterplay.learning.effect import ALIKE
from counterplay.learning.fitting import fit
from counterplay.learning.method import Method
from counterplay.learning.records import Epoch, Meter

LOG = cp.read({"user": [0, 0, 1, 1], "item": [0, 1, 1, 2]})
EFFECT = "no effect; this is plain learning"


class Told(Method[Training]):
    """Plays nothing: its epochs are as given, whatever the meter says."""

    def __init__(self, epochs: Sequence[Epoch], config: Training, *, exposure: bool) -> None:
        models = {role: cp.models.build("gmf", LOG, dim=2) for role in ("candidate", "exposure")}
        super().__init__(models, LOG, config.model_copy(update={"epochs": len(epochs)}))
        if exposure:
            self.players["exposure"] = models["exposure"]
        self.told = epochs

    def step(self, batch: object, meter: Meter) -> None:  # noqa: ARG002 - it plays nothing
        meter.epoch = lambda number, *_: self.told[number]  # type: ignore[method-assign]


class Judging(Told):
    judges = True


def notes(
    epochs: Sequence[Epoch],
    *,
    exposure: bool = True,
    values: Sequence[float] | None = None,
    config: Training | None = None,
) -> list[str]:
    """Return what is said of a method whose epochs are as given."""
    method = (Told if exposure else Judging)(epochs, config or Training(), exposure=exposure)
    left = iter(values or ())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit(
            method,
            validate=None if values is None else lambda model: _of(model, method.candidate, left),
        )
    assert {each.category for each in caught} <= {cp.CounterplayWarning}
    return [str(each.message) for each in caught]


def _of(model: cp.Scorer, candidate: cp.Scorer, left: object) -> float:
    return float(next(left)) if model is candidate else 0.0  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("config", "objective", "advised", "not_advised"),
    [
        (
            cp.learning.Game(recipe="paper"),
            1.0,
            ("lower alpha", "stable recipe", "link.learn=false"),
            (),
        ),
        (
            cp.learning.Game(),
            1.0,
            ("lower alpha", "exposure_rate", "link.floor"),
            ("stable recipe",),
        ),
        (
            cp.learning.Game(link=LinkSettings(learn=False)),
            1.0,
            ("lower alpha",),
            ("stable recipe", "link.learn"),
        ),
        (
            cp.learning.Weighted(recipe="paper"),
            None,
            ("stable recipe", "exposure model"),
            ("alpha",),
        ),
        (
            cp.learning.Weighted(),
            None,
            ("link.floor", "link.learn=false"),
            ("alpha", "stable recipe"),
        ),
        (Training(), None, ("another exposure model",), ("alpha", "link")),
    ],
)
def test_weights_without_effect_are_named_with_what_helps_such_a_run(
    config: Training,
    objective: float | None,
    advised: tuple[str, ...],
    not_advised: tuple[str, ...],
) -> None:
    (note,) = notes([Epoch(0, objective=objective, ess=0.9976)], config=config)
    who = "weights have" if objective is None else "opponent has"
    assert note.startswith(f"the {who} {EFFECT}: the effective sample size of the weights is 99.8%")
    remedy = note.rpartition("; ")[2]
    assert all(each in remedy for each in advised)
    assert not any(each in remedy for each in not_advised)


def test_an_opponent_of_candidates_that_stand_still_is_no_learning() -> None:
    (note,) = notes([Epoch(0, objective=1.0, ess=1.0)], exposure=False)
    assert note.startswith("the opponent has no effect; this is plain evaluation: ")
    assert note.endswith("; lower its alpha, or let it play for more epochs")


@pytest.mark.parametrize(("ess", "said"), [(None, 0), (0.5, 0), (ALIKE, 0), (0.9801, 1), (1.0, 1)])
def test_the_bound_is_a_share_of_98_percent(ess: float | None, said: int) -> None:
    assert ALIKE == 0.98
    assert len(notes([Epoch(0, objective=1.0, ess=ess)])) == said


def test_one_outlier_does_not_hide_that_all_others_are_alike() -> None:
    """The range of propensities goes from the floor to 1; the effective sample is the whole."""
    epoch = Epoch(0, objective=1.0, propensity=(0.01, 0.999, 1.0), ess=0.999)
    assert any(EFFECT in note for note in notes([epoch]))
    narrow = Epoch(0, objective=1.0, propensity=(0.010, 0.012, 0.0199), ess=0.9)
    assert notes([narrow]) == []  # weights of 50 to 100 are not alike


def test_the_epoch_that_was_kept_is_judged() -> None:
    epochs = [Epoch(0, objective=1.0, ess=1.0), Epoch(1, objective=1.0, ess=0.5)]
    assert notes(epochs) == []  # the last one
    assert notes(epochs, values=[0.1, 0.9]) == []
    assert len(notes(epochs, values=[0.9, 0.1])) == 1


def test_a_link_that_has_turned_is_named() -> None:
    (note,) = notes([Epoch(0, beta=(0.0, -0.25, 0.0), ess=0.5)])
    assert note.startswith("the link is inverted (β1 = -0.25)")
