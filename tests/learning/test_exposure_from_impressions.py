"""The exposure model fitted to impressions, and weights on observed items only."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import counterplay as cp
from counterplay.data.interactions import Interactions
from counterplay.learning.batches import Batches
from counterplay.learning.config import Game, LinkSettings, Weighted
from counterplay.learning.methods.acl import Acl, acl
from counterplay.learning.methods.opponent import opponent
from counterplay.learning.methods.ps import Exposed, ps
from counterplay.learning.optimizers import Optimizer
from counterplay.learning.regularizers import shown_losses
from counterplay.learning.weighting import groups_of, weighted_loss
from counterplay.models.link import Link
from counterplay.models.registry import build
from counterplay.models.scorer import Scorer

from .by_hand import Adam, Array, ByHand, Rows, Table, double_precision, rows_of, slope

N_USERS, N_ITEMS = 6, 8
FLOOR = 0.25
pytestmark = pytest.mark.filterwarnings("ignore::counterplay.CounterplayWarning")


def shown_rows(seed: int = 0, *, n: int = 60) -> Interactions:
    """Return impressions of all items but the last two; items 0 and 1 are hardly ever clicked."""
    rng = np.random.default_rng(seed)
    ids = cp.read({"user": np.arange(48) // 8, "item": np.arange(48) % 8})
    user = np.sort(rng.integers(0, N_USERS, n)).astype(np.int32)
    item = rng.integers(0, N_ITEMS - 2, n).astype(np.int32)
    clicked = (rng.random(n) < 0.5) & (item > 1)
    return Interactions(ids.users, ids.items, user, item, clicked=clicked)


def clicks_of(rows: Interactions) -> Interactions:
    assert rows.clicked is not None
    return replace(rows.take(rows.clicked), clicked=None)


def tables(seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(N_USERS, N_ITEMS)), 1.5 * rng.normal(size=(N_USERS, N_ITEMS)) - 0.5


def options(**changes: Any) -> dict[str, Any]:
    shared = {"epochs": 1, "batch_size": 64, "n_negatives": 3, "rate": 0.3}
    return shared | {"link": {"floor": FLOOR, "intercept": 0.3}} | changes


class Observed(ByHand):
    """By hand, with weights on the first item of each row only."""

    def scaled_weights(self, rows: Rows, g: Array, beta: Array) -> Array:
        w = 1 / self.propensities(rows, g, beta, rows.y_link)
        if self.config.recipe == "stable":
            w /= w[:, :1].mean()
        w[:, 1:] = 1
        return w

    def effective_share(self, rows: Rows) -> float:
        w = self.scaled_weights(rows, self.g, self.beta)[:, :1]
        return float(w.sum() ** 2 / w.size / (w**2).sum())


@pytest.mark.parametrize("recipe", ["paper", "stable"])
@pytest.mark.parametrize("learn", [True, False])
def test_steps_with_weights_on_observed_items_by_hand(recipe: str, learn: bool) -> None:
    log, (f, g) = clicks_of(shown_rows()), tables()
    link = {"floor": FLOOR, "intercept": 0.3, "learn": learn}
    how = options(recipe=recipe, weigh="observed", link=link, epochs=2)
    game = Game.model_validate(how | {"alpha": 0.7, "exposure_rate": 0.2})
    with double_precision():
        fit = acl(Table(f), Table(g), log, game)
        hand = Observed(f, g, game, log)
        for epoch, (rows,) in enumerate(rows_of(log, game, Table(f), 2)):
            hand.move_f(rows)
            share = hand.effective_share(rows)
            assert fit.epochs[epoch].ess == pytest.approx(share)
            hand.move_g(rows)
    for ours, theirs in ((fit.candidate, hand.f), (fit.exposure, hand.g)):
        assert isinstance(ours, Table)
        np.testing.assert_allclose(ours.table.detach().numpy(), theirs, rtol=1e-6, atol=1e-9)
    assert fit.link is not None
    assert fit.link.beta == pytest.approx(hand.betas(hand.beta))


@pytest.mark.parametrize("recipe", ["paper", "stable"])
def test_sampled_items_have_the_gradient_that_they_have_without_weights(recipe: Any) -> None:
    torch.manual_seed(0)
    losses = torch.rand(5, 4, dtype=torch.float64, requires_grad=True)
    scores = torch.randn(5, 4, dtype=torch.float64, requires_grad=True)
    groups = groups_of(recipe, 1)
    loss, weights = weighted_loss(losses, Link(), scores[:, :1], torch.ones(5, 1), groups)
    loss.backward()
    assert losses.grad is not None
    assert scores.grad is not None
    assert weights.shape == (5, 1)
    assert torch.equal(losses.grad[:, 1:], torch.full((5, 3), 1 / 20, dtype=torch.float64))
    assert not torch.equal(losses.grad[:, 0], losses.grad[:, 1])
    assert bool((scores.grad[:, 1:] == 0).all())
    assert bool((scores.grad[:, 0] != 0).all())


def test_impressions_change_the_defaults_unless_they_are_given() -> None:
    config = Weighted(exposure_from="impressions")
    assert (config.weigh, config.link.learn) == ("observed", False)
    floor = Weighted.model_validate({"exposure_from": "impressions", "link": {"floor": 0.1}})
    assert (floor.link.floor, floor.link.learn) == (0.1, False)
    given = Game(exposure_from="impressions", weigh="all", link=LinkSettings(learn=True))
    assert (given.weigh, given.link.learn) == ("all", True)
    assert Game.model_validate(given.model_dump()) == given
    assert (Weighted().weigh, Weighted().link.learn) == ("all", True)


def test_the_loss_of_what_was_shown() -> None:
    g = torch.randn(4, 3, dtype=torch.float64)
    unseen = torch.tensor([1.0, 0.0, 1.0, 1.0], dtype=torch.float64)
    total = 0.0
    for row in range(4):
        total += np.log1p(np.exp(-float(g[row, 0])))
        if unseen[row]:
            total += sum(np.log1p(np.exp(float(g[row, place]))) for place in (1, 2))
    assert float(shown_losses(g, unseen).mean()) == pytest.approx(total / 12)
    assert float(shown_losses(g[:, :1], None).mean()) == pytest.approx(
        float(torch.nn.functional.softplus(-g[:, 0]).mean())
    )


def test_propensity_scoring_fits_g_to_all_that_was_shown_by_hand() -> None:
    rows, (f, g) = shown_rows(), tables()
    how = Weighted.model_validate(options(exposure_from="impressions", rate=0.2))
    with double_precision():
        exposure = Table(g)
        ps(Table(f), exposure, clicks_of(rows), how, impressions=rows)
        (batch,) = Batches(rows, how.plain(), Table(g)).epoch(cp.Streams(how.seed), 0)
        users, items = batch.users.numpy().astype(int), batch.items.numpy().astype(int)

        def loss(g: Array) -> float:
            scores = g[users[:, None], items]
            scores[:, 0] *= -1  # shown, clicked or not
            return float(np.logaddexp(0, scores).mean())

        expected = Adam().step(g, slope(loss, g), how.rate)
    np.testing.assert_allclose(exposure.table.detach().numpy(), expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("method", ["ps", "acl"])
def test_g_ranks_what_was_shown_and_not_clicked_above_the_unseen(method: str) -> None:
    rows = shown_rows(n=90)
    log, exposure = clicks_of(rows), Table(np.zeros((N_USERS, N_ITEMS))).float()
    shared = options(exposure_from="impressions", epochs=30, rate=0.1)
    candidate = Table(np.zeros((N_USERS, N_ITEMS))).float()
    if method == "ps":
        ps(candidate, exposure, log, Weighted.model_validate(shared), impressions=rows)
    else:
        game = Game.model_validate(shared | {"exposure_rate": 0.1, "alpha": 20.0})
        acl(candidate, exposure, log, game, impressions=rows)
    scores = exposure.table.detach().numpy()
    seen = np.zeros((N_USERS, N_ITEMS), np.bool_)
    seen[rows.user, rows.item] = True
    clicked = np.zeros_like(seen)
    clicked[log.user, log.item] = True
    for user in range(N_USERS):
        assert scores[user, seen[user] & ~clicked[user]].min() > scores[user, ~seen[user]].max()


def test_who_was_shown_everything_gives_g_no_item_to_rank_lower() -> None:
    rows = shown_rows()
    user = np.concatenate([np.zeros(N_ITEMS, np.int32), rows.user[rows.user > 0]])
    item = np.concatenate([np.arange(N_ITEMS, dtype=np.int32), rows.item[rows.user > 0]])
    rows = Interactions(rows.users, rows.items, user, item, clicked=np.arange(len(user)) % 3 == 0)
    exposure = Table(np.zeros((N_USERS, N_ITEMS))).float()
    how = Weighted.model_validate(options(exposure_from="impressions", epochs=3))
    ps(Table(tables()[0]).float(), exposure, clicks_of(rows), how, impressions=rows)
    assert float(exposure.table.detach()[0].min()) > 0


@pytest.mark.parametrize("recipe", ["paper", "stable"])
def test_a_frozen_g_makes_the_game_propensity_scoring(recipe: str) -> None:
    rows, (f, g) = shown_rows(), tables()
    log, exposure = clicks_of(rows), Table(g).float()
    shared = options(exposure_from="impressions", recipe=recipe, epochs=4, batch_size=8)
    scored = ps(Table(f).float(), exposure, log, Weighted.model_validate(shared), impressions=rows)
    still = Table(exposure.table.detach().double().numpy()).float()
    still.requires_grad_(requires_grad=False)
    fit = acl(Table(f).float(), still, log, Game.model_validate(shared), impressions=rows)
    ours, theirs = (each.candidate.state_dict()["table"] for each in (fit, scored))
    assert torch.equal(ours, theirs)
    moving = Table(exposure.table.detach().double().numpy()).float()
    other = acl(Table(f).float(), moving, log, Game.model_validate(shared), impressions=rows)
    assert not torch.equal(other.candidate.state_dict()["table"], theirs)


def test_the_game_draws_as_many_impressions_as_a_step_has_clicks() -> None:
    rows = shown_rows()
    method = Acl(
        {"candidate": Table(tables()[0]).float(), "exposure": Table(tables()[1]).float()},
        clicks_of(rows),
        Game(exposure_from="impressions", n_negatives=2),
    )
    method.impressions = rows
    method.prepare()
    batches = Batches(rows, method.config)
    rng = cp.Streams(0).numpy("impressions", 0)
    batch, again = (batches.draw(17, cp.Streams(0).numpy("impressions", 0)) for _ in "ab")
    assert batch.items.shape == (17, 3)
    assert torch.equal(batch.items, again.items)
    assert not torch.equal(batches.draw(17, rng).items, batches.draw(17, rng).items)
    pairs = set(rows.pair.tolist())
    for user, items in zip(batch.users.tolist(), batch.items.tolist(), strict=True):
        assert user * N_ITEMS + items[0] in pairs
        assert not pairs & {user * N_ITEMS + item for item in items[1:]}


@pytest.mark.parametrize("regularizer", ["feedback", "exposure"])
def test_the_opponent_is_held_by_impressions_and_not_by_clicks(regularizer: str) -> None:
    """Only R(g) moves g while it is alone: the step is that of the drawn impressions."""
    rows, (f, g) = shown_rows(), tables()
    more = {"warmup": 2, "epochs": 3, "alpha": 0.7, "exposure_rate": 0.2}
    game = Game.model_validate(options(exposure_from="impressions", regularizer=regularizer) | more)
    log, states = clicks_of(rows), []
    with double_precision():
        exposure, steps, expected = Table(g), Adam(), g
        watch = [lambda _: states.append(exposure.table.detach().numpy().copy())]
        acl(Table(f), exposure, log, game, impressions=rows, callbacks=watch)
        for epoch in range(2):
            rng = cp.Streams(0).numpy("impressions", epoch)
            batch = Batches(rows, game).draw(len(log), rng)
            users, items = batch.users.numpy().astype(int), batch.items.numpy().astype(int)

            def held(g: Array) -> float:
                scores = g[users[:, None], items]  # noqa: B023
                scores[:, 0] *= -1
                return game.alpha * float(np.logaddexp(0, scores).mean())

            expected = steps.step(expected, slope(held, expected), game.exposure_rate)
            np.testing.assert_allclose(states[epoch], expected, rtol=1e-6, atol=1e-9)


def test_the_popularity_regularizer_counts_impressions() -> None:
    rows, (f, g) = shown_rows(), tables()
    shared = options(regularizer="popularity", weigh="observed", alpha=3.0)
    found = []
    for more in ({"exposure_from": "impressions"}, {"link": {**shared["link"], "learn": False}}):
        game = Game.model_validate(shared | more)
        given = rows if "exposure_from" in more else None
        fit = acl(Table(f).float(), Table(g).float(), clicks_of(rows), game, impressions=given)
        found.append(fit.epochs[0].exposure_loss)
    assert found[0] != found[1]


@pytest.mark.parametrize(
    ("method", "name", "n_steps"),
    [("ps", "gmf", 9), ("ps", "attn", 31), ("acl", "attn", 9), ("acl", "gmf", 20)],
)
def test_interrupted_it_ends_in_the_same_bytes(
    method: str, name: Any, n_steps: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = shown_rows(n=90)
    rows = replace(rows, time=np.arange(len(rows), dtype=np.int64))
    shared = options(exposure_from="impressions", epochs=5, batch_size=16, rate=0.02)

    def model(seed: int) -> Scorer:
        generator = torch.Generator().manual_seed(seed)
        return build(name, rows, dim=4, length=5, dropout=0.2, generator=generator)

    def learn(checkpoint: Path | None, seen: Interactions = rows) -> dict[str, torch.Tensor]:
        given: dict[str, Any] = {"impressions": seen, "checkpoint": checkpoint}
        log = clicks_of(rows)
        if method == "ps":
            fit = ps(model(0), model(1), log, Weighted.model_validate(shared), **given)
        else:
            fit = acl(model(0), model(1), log, Game.model_validate(shared), **given)
        return {**fit.candidate.state_dict(), **fit.exposure.state_dict(prefix="g.")}  # type: ignore[union-attr]

    whole, left, step = learn(None), n_steps, Optimizer.step

    def interrupted(self: Optimizer, loss: torch.Tensor) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise KeyboardInterrupt
        step(self, loss)

    with monkeypatch.context() as patched:
        patched.setattr(Optimizer, "step", interrupted)
        with pytest.raises(KeyboardInterrupt):
            learn(tmp_path / "checkpoint")
    for key, value in learn(tmp_path / "checkpoint").items():
        assert torch.equal(value, whole[key]), key
    with pytest.raises(cp.CheckpointError, match="other settings or data"):
        learn(tmp_path / "checkpoint", rows.take(np.arange(len(rows) - 1)))


def test_impressions_that_do_not_fit_are_refused() -> None:
    rows = shown_rows()
    log, (f, g) = clicks_of(rows), tables()
    from_impressions = Weighted(exposure_from="impressions")
    game = Game(exposure_from="impressions")

    def learn(given: Interactions | None, how: Weighted = from_impressions) -> None:
        ps(Table(f).float(), Table(g).float(), log, how, impressions=given)

    with pytest.raises(cp.DataError, match="found no impressions; give"):
        learn(None)
    with pytest.raises(cp.DataError, match="found rows without clicked"):
        learn(log)
    with pytest.raises(cp.ConfigError, match="found impressions with exposure_from=clicks"):
        learn(rows, Weighted())
    with pytest.raises(cp.DataError, match="the users and items of the log; found 6 and 6"):
        learn(rows.compact())
    with pytest.raises(cp.DataError, match="found no impressions"):
        acl(Table(f).float(), Table(g).float(), log, game)
    with pytest.raises(cp.DataError, match="found no impressions"):
        opponent([Table(f).float()], Table(g).float(), log, game)
    assert Exposed.needs == "impressions"
