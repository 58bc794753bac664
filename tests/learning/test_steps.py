"""Steps of the methods, through the public functions, are those that are computed by hand.

One batch an epoch, so that an epoch is a step of each player; everything in double precision.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import counterplay as cp
from counterplay.learning.config import Game, LinkSettings, Training, Weighted
from counterplay.learning.methods.acl import acl
from counterplay.learning.methods.erm import erm
from counterplay.learning.methods.opponent import opponent
from counterplay.learning.methods.ps import ps
from counterplay.learning.records import Fit

from .by_hand import Array, ByHand, Rows, Table, delta, double_precision, rows_of, slope

SHAPE = 4, 5  # users, items
FLOOR = 0.25  # which some of the propensities below are at
pytestmark = pytest.mark.filterwarnings("ignore::counterplay.CounterplayWarning")


@pytest.fixture(autouse=True)
def _double() -> Iterator[None]:
    with double_precision():
        yield


def clicks() -> cp.Interactions:
    """Items have one, two or three users; user 1 comes back to item 0."""
    return cp.read({"user": [0, 0, 1, 1, 1, 2, 2, 3], "item": [0, 1, 0, 2, 0, 0, 3, 4]})


def rated() -> cp.Interactions:
    rating = [4.0, 1.0, 2.5, 5.0, 3.0, 1.5, 4.5]
    return cp.read({"user": [0, 0, 1, 1, 2, 2, 3], "item": [0, 1, 0, 2, 0, 3, 4], "rating": rating})


def tables(seed: int = 0) -> tuple[Array, Array]:
    """Return f and g; of the propensities of g about a third lie below the floor."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=SHAPE), 1.5 * rng.normal(size=SHAPE) - 0.5


def true_exposure(users: torch.Tensor, items: torch.Tensor) -> torch.Tensor:
    return 0.3 + 0.1 * items.double() + 0.05 * users[:, None].double()


def game(**changes: object) -> Game:
    shared = {
        "epochs": 1,
        "batch_size": 64,
        "n_negatives": 3,
        "rate": 0.3,
        "exposure_rate": 0.2,
        "alpha": 0.7,
        "link": {"floor": FLOOR, "intercept": 0.3},
    }
    return Game.model_validate(shared | changes)


def played(log: cp.Interactions, config: Game) -> tuple[Fit, ByHand, list[Rows]]:
    """Return what the library ends in, what it is by hand, and the batches; both from one state."""
    f, g = tables()
    fit = acl(Table(f), Table(g), log, config, known=true_exposure)
    hand = ByHand(f, g, config, log, true_exposure)
    return fit, hand, [rows for (rows,) in rows_of(log, config, Table(f), config.epochs)]


def numbers(model: object) -> Array:
    assert isinstance(model, Table)
    return model.table.detach().numpy().copy()


def assert_close(ours: object, theirs: object) -> None:
    assert_allclose(np.asarray(ours), np.asarray(theirs), rtol=1e-6, atol=1e-9)


def assert_same_state(fit: Fit, hand: ByHand) -> None:
    assert fit.link is not None
    assert_close(numbers(fit.candidate), hand.f)
    assert_close(fit.link.beta, hand.betas(hand.beta))
    assert_close(numbers(fit.exposure), hand.g)


RECIPES = ("paper", "stable")
VARIANTS: dict[str, dict[str, object]] = {
    "plain": {},
    "no outcome": {"link": {"floor": FLOOR, "with_outcome": False}},
    "fixed link": {"link": {"floor": FLOOR, "learn": False}},
    "exponential": {"loss": "exponential"},
    "exposure": {"regularizer": "exposure", "loss": "exponential"},
    "popularity": {"regularizer": "popularity", "alpha": 3.0},
    "known": {"regularizer": "known", "alpha": 3.0},
    "no regularizer": {"alpha": 0.0},
    "l2": {"l2": 0.3},
    "no negatives": {"n_negatives": 0},
}


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_one_step_of_the_game_by_hand(recipe: str, variant: str) -> None:
    """First step f and β; g's step is against the updated f, and with the updated β."""
    config = game(recipe=recipe, **VARIANTS[variant])
    fit, hand, (rows,) = played(clicks(), config)
    before = hand.propensities(rows, hand.g, hand.beta, rows.y_link)
    assert 0 < (before == FLOOR).mean() < 1
    hand.move_f(rows)
    halfway = copy.deepcopy(hand)  # where g's step is computed
    hand.move_g(rows)
    assert_same_state(fit, hand)

    # The gradients as they were left: had a step touched the other player, they would have grown.
    for name, model in (("f", fit.candidate), ("g", fit.exposure)):
        assert isinstance(model, Table)
        assert model.table.grad is not None
        assert_close(model.table.grad.numpy(), hand.steps[name].gradient)
    assert fit.link is not None
    if config.link.learn:
        of_beta = [fit.link.intercept, fit.link.slope, fit.link.outcome]
        for ours, theirs in zip(of_beta, hand.steps["beta"].gradient, strict=True):
            if ours is not None:
                assert float(ours.grad) == pytest.approx(theirs, rel=1e-6, abs=1e-9)  # type: ignore[arg-type]

    (epoch,) = fit.epochs
    state = rows, halfway.f, halfway.g, halfway.beta
    propensities = halfway.propensities(rows, halfway.g, halfway.beta, rows.y_link)
    assert epoch.candidate_loss == pytest.approx(halfway.loss(*state))
    assert epoch.exposure_loss == pytest.approx(halfway.held(rows, halfway.g, halfway.beta))
    assert epoch.objective == pytest.approx(halfway.objective(*state))
    assert epoch.beta == pytest.approx(halfway.betas(halfway.beta))
    ends = propensities.min(), propensities.mean(), propensities.max()
    assert epoch.propensity == pytest.approx(ends)
    assert epoch.ess == fit.ess == pytest.approx(halfway.effective_share(rows))
    norms = {name: np.linalg.norm(step.gradient) for name, step in hand.steps.items() if step.n}
    assert epoch.exposure_gradient == pytest.approx(norms["g"])
    expected = np.hypot(norms["f"], norms.get("beta", 0))
    assert epoch.candidate_gradient == pytest.approx(expected)


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("regularizer", ["feedback", "popularity"])
def test_several_steps_with_discounts_and_a_warm_up_by_hand(recipe: str, regularizer: str) -> None:
    config = game(
        recipe=recipe, regularizer=regularizer, epochs=4, warmup=1, discount=1.7,
        exposure_discount=1.3, l2=0.1,
    )  # fmt: skip
    fit, hand, batches = played(clicks(), config)
    for epoch, rows in enumerate(batches):
        if epoch > 0:
            hand.move_f(rows, epoch)
        hand.move_g(rows, epoch, alone=epoch == 0)
    assert_same_state(fit, hand)


@pytest.mark.parametrize("recipe", RECIPES)
def test_steps_with_ratings_by_hand(recipe: str) -> None:
    """The rating is what f predicts; the link sees it standardised; sampled items hold g too."""
    config = game(recipe=recipe, loss="squared", epochs=3)
    fit, hand, batches = played(rated(), config)
    for epoch, rows in enumerate(batches):
        hand.move_f(rows, epoch)
        hand.move_g(rows, epoch)
    assert_same_state(fit, hand)


@settings(max_examples=25)
@given(st.integers(0, 200), st.sampled_from(RECIPES), st.floats(0.0, 2.0))
def test_f_lowers_the_objective_and_g_raises_it(seed: int, recipe: str, alpha: float) -> None:
    config = game(recipe=recipe, alpha=alpha, rate=1e-4, exposure_rate=1e-4, seed=seed)
    (f, g), log = tables(seed), clicks()
    hand = ByHand(f, g, config, log)
    ((rows,),) = rows_of(log, config, Table(f))
    fit = acl(Table(f), Table(g), log, config)
    assert fit.link is not None
    slope_learnt = float(fit.link.slope.detach())
    beta = np.array([fit.link.beta[0], slope_learnt, fit.link.beta[2]])
    start = hand.objective(rows, f, g, hand.beta)
    after_f = hand.objective(rows, numbers(fit.candidate), g, beta)
    after_g = hand.objective(rows, numbers(fit.candidate), numbers(fit.exposure), beta)
    assert after_f < start
    assert after_g > after_f


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("regularizer", ["feedback", "popularity"])
def test_steps_of_the_opponent_by_hand(recipe: str, n: int, regularizer: str) -> None:
    """It plays against the mean loss of candidates that stand still, and β stays."""
    config = game(recipe=recipe, epochs=3, exposure_discount=1.4, regularizer=regularizer)
    log, g = clicks(), tables()[1]
    candidates = [tables(seed)[0] for seed in range(n)]
    exposure = Table(g)
    fit = opponent([Table(f) for f in candidates], exposure, log, config)
    hand = ByHand(np.stack(candidates), g, config, log, together=True)
    for epoch, (rows,) in enumerate(rows_of(log, config, Table(g), config.epochs)):
        here = rows, hand.f, hand.g, hand.beta
        assert fit.epochs[epoch].objective == pytest.approx(hand.objective(*here))
        assert fit.epochs[epoch].ess == pytest.approx(hand.effective_share(rows))
        hand.move_g(rows, epoch)
    assert_close(numbers(exposure), hand.g)


def weighted(**changes: object) -> Weighted:
    names = Weighted.model_fields
    return Weighted(**{name: getattr(game(**changes), name) for name in names})


@pytest.mark.parametrize("recipe", RECIPES)
def test_propensity_scoring_by_hand(recipe: str) -> None:
    """First g is fitted by its own logistic loss, whatever δ is, and then stands still."""
    log, config = clicks(), game(recipe=recipe, loss="exponential", epochs=2, l2=0.1)
    (f, g), first = tables(), Training(epochs=3, batch_size=64, n_negatives=3, rate=0.2, l2=0.05)
    exposure = Table(g)
    how = weighted(recipe=recipe, loss="exponential", epochs=2, l2=0.1)
    fit = ps(Table(f), exposure, log, how, exposure_config=first)
    hand = ByHand(f, g, config, log)
    hand.steps["g"].l2 = first.l2
    for (rows,) in rows_of(log, first, exposure, 3):
        of_g = slope(lambda g: float(delta("logistic", rows.y, rows.scores(g)).mean()), hand.g)  # noqa: B023
        hand.g = hand.steps["g"].step(hand.g, of_g, first.rate)
    for epoch, (rows,) in enumerate(rows_of(log, how, exposure, 2)):
        loss = hand.loss(rows, hand.f, hand.g, hand.beta)
        share = hand.effective_share(rows)
        hand.move_f(rows)
        assert fit.epochs[epoch].candidate_loss == pytest.approx(loss)
        assert fit.epochs[epoch].ess == pytest.approx(share)
    assert_same_state(fit, hand)
    assert not exposure.table.requires_grad


def test_the_first_stage_of_propensity_scoring_is_logistic_unless_told_otherwise() -> None:
    """It has the settings of the second stage besides, its rate and l2 among them."""
    log, (f, g) = clicks(), tables()
    exposure = Table(g)
    ps(Table(f), exposure, log, weighted(loss="exponential", epochs=2, l2=0.1))
    shared = {"epochs": 2, "batch_size": 64, "n_negatives": 3, "rate": 0.3, "l2": 0.1}
    alone = erm(Table(g), log, Training.model_validate(shared | {"loss": "logistic"}))
    assert np.array_equal(numbers(exposure), numbers(alone.candidate))


def test_plain_learning_by_hand() -> None:
    log, config = clicks(), Training(epochs=3, batch_size=64, n_negatives=3, rate=0.2, l2=0.05)
    f, steps = tables()[0], ByHand(*tables(), game(l2=0.05), clicks()).steps["f"]
    fit = erm(Table(f), log, config)
    for (rows,) in rows_of(log, config, Table(f), 3):
        of_f = slope(lambda f: float(delta("logistic", rows.y, rows.scores(f)).mean()), f)  # noqa: B023
        f = steps.step(f, of_f, config.rate)
    assert_close(numbers(fit.candidate), f)
    assert fit.ess is None


def frozen(values: Array) -> Table:
    model = Table(values)
    return model.requires_grad_(requires_grad=False)


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("regularizer", ["feedback", "popularity"])
def test_a_g_that_is_frozen_makes_the_game_propensity_scoring(
    recipe: str, regularizer: str
) -> None:
    """To the digit: PS fits g and freezes it; the game with that g frozen moves f and β alike."""
    log, (f, g) = clicks(), tables()
    options = {"recipe": recipe, "epochs": 5, "batch_size": 3}
    exposure = Table(g)
    scored = ps(Table(f), exposure, log, weighted(**options))
    assert not np.array_equal(numbers(exposure), g)
    config = game(**options, regularizer=regularizer)
    fit = acl(Table(f), frozen(numbers(exposure)), log, config)
    assert np.array_equal(numbers(fit.candidate), numbers(scored.candidate))
    assert np.array_equal(numbers(fit.exposure), numbers(exposure))
    assert fit.link is not None
    assert scored.link is not None
    assert fit.link.beta == scored.link.beta
    moving = acl(Table(f), Table(numbers(exposure)), log, config)
    assert not np.array_equal(numbers(moving.candidate), numbers(scored.candidate))


def test_alone_g_steps_down_its_regularizer_and_is_never_what_is_kept() -> None:
    log, (f, g) = clicks(), tables()
    config = game(epochs=2, warmup=1, exposure_rate=1e-3, rate=1e-3)
    candidate, exposure = Table(f), Table(g)
    states: list[tuple[Array, Array]] = []
    watch = [lambda _: states.append((numbers(candidate), numbers(exposure)))]
    fit = acl(candidate, exposure, log, config, callbacks=watch, validate=lambda _: 0.0)
    hand = ByHand(f, g, config, log)
    ((rows,), _) = rows_of(log, config, Table(f), 2)
    assert np.array_equal(states[0][0], f)
    assert hand.held(rows, states[0][1], hand.beta) < hand.held(rows, g, hand.beta)
    assert fit.best_epoch == 1


@pytest.mark.parametrize("learn", [True, False])
def test_the_link_learns_only_on_request(learn: bool) -> None:
    (f, g), log = tables(), clicks()
    link = LinkSettings(floor=FLOOR, learn=learn)
    for fit in (
        acl(Table(f), Table(g), log, game(link=link)),
        ps(Table(f), Table(g), log, weighted(link=link)),
    ):
        assert fit.link is not None
        assert (fit.link.beta == pytest.approx((0, 1, 0))) is not learn
