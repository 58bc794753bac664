"""What models that are computed at once have in common: contracts, methods and refusals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import counterplay as cp
from counterplay.data.histories import Histories
from counterplay.learning.config import FromShown, Game, Inverse, Training, Weighted
from counterplay.learning.fitting import fit
from counterplay.learning.methods.acl import Acl
from counterplay.learning.methods.erm import Erm, erm
from counterplay.learning.methods.ips import Ips, ips
from counterplay.learning.methods.ps import Ps, ps
from counterplay.learning.methods.shown import Shown
from counterplay.models.registry import build
from counterplay.models.scorer import History, Scorer
from counterplay.models.solved import FromOwnItems, Solved, clicks_of, item_products
from counterplay.testing import ScorerContract
from counterplay.testing.learners import checkerboard, ranks_of_withheld
from counterplay.testing.notes import without_notes

NAMES = ("ease", "knn", "ials")


def made(name: str, log: cp.Interactions, *, seed: int = 0, **size: Any) -> Scorer:
    return build(name, log, dim=8, generator=torch.Generator().manual_seed(seed), **size)


def scores(model: Scorer) -> torch.Tensor:
    with torch.no_grad():
        return model.eval().score_all(torch.arange(model.n_users))


class TestSolved(ScorerContract):
    @pytest.fixture(params=NAMES, autouse=True)
    def _each(self, request: pytest.FixtureRequest) -> None:
        self.name = request.param

    def make(self, log: cp.Interactions, generator: torch.Generator) -> Scorer:
        return build(self.name, log, dim=4, neighbours=5, generator=generator)


def repeated_log() -> cp.Interactions:
    """Return a log in which pairs repeat, with an item nobody has and a user without rows."""
    rng = np.random.default_rng(3)
    user, item = np.sort(rng.integers(0, 7, 60)), rng.integers(0, 8, 60)
    log = cp.read({"user": [*user, 8, 9], "item": [*item, 8, 9]})
    return log.take((log.user < 7) & (log.item < 8))


@pytest.mark.parametrize("name", NAMES)
def test_a_checkerboard_is_learnt_at_once(name: str) -> None:
    log, _ = checkerboard()
    found = erm(made(name, log), log, Training())
    assert (ranks_of_withheld(found.candidate) == 0).mean() > 0.8
    assert (len(found.epochs), found.best_epoch, found.ess) == (1, 0, None)


@pytest.mark.parametrize("name", NAMES)
def test_pairs_of_models_agree_with_all_scores_where_rows_repeat_or_are_missing(name: str) -> None:
    log = repeated_log()
    model = made(name, log, neighbours=3)
    erm(model, log, Training())
    users = torch.tensor([6, 0, 7, 3], dtype=torch.int32)
    items = torch.tensor([[9, 1, 0, 1]] * 4, dtype=torch.int32)
    with torch.no_grad():
        both = model(users, items), model.score_all(users).gather(1, items.long())
    torch.testing.assert_close(*both)
    assert both[0][2].abs().max() < 1e-3  # who has no rows has no opinion
    assert both[0][:, 0].abs().max() < 1e-3  # nor has anybody of what nobody has


@pytest.mark.parametrize("name", NAMES)
def test_pairs_are_scored_in_parts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    log, _ = checkerboard()
    model = made(name, log)
    erm(model, log, Training())
    users, items = torch.arange(20), torch.arange(20).roll(3).expand(20, -1)
    with torch.no_grad():
        whole = model(users, items)
        monkeypatch.setattr("counterplay.models.solved._BLOCK", 400)
        torch.testing.assert_close(model(users, items), whole)


@pytest.mark.parametrize("name", NAMES)
def test_equal_weights_change_nothing(name: str) -> None:
    log = repeated_log()
    plain, weighted = made(name, log), made(name, log)
    assert isinstance(plain, Solved)
    assert isinstance(weighted, Solved)
    plain.solve(log)
    weighted.solve(log, np.ones(len(log)))
    torch.testing.assert_close(scores(weighted), scores(plain), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_the_weights_of_ips_are_inverse_propensities_of_mean_1(name: str) -> None:
    log = repeated_log()
    q = np.random.default_rng(0).uniform(0.05, 1, len(log))
    log = replace(log, propensity=q)
    model, by_hand = made(name, log), made(name, log)
    found = ips(model, log, Inverse(floor=0.3))
    raised = 1 / np.maximum(q, 0.3 * q.mean())
    assert isinstance(by_hand, Solved)
    by_hand.solve(log, raised / raised.mean())
    assert torch.equal(scores(model), scores(by_hand))
    assert found.ess == pytest.approx(raised.sum() ** 2 / (len(q) * (raised**2).sum()))
    low, _, high = found.epochs[0].propensity or (0, 0, 0)
    assert (low, high) == pytest.approx((1 / raised.max(), 1 / raised.min()))


@pytest.mark.parametrize("exposure", ["pop", "gmf", "attn"])
def test_the_weights_of_ps_are_those_of_the_fitted_exposure(exposure: str) -> None:
    log, _ = checkerboard()
    config = Weighted(epochs=3, batch_size=64)
    model, by_hand = made("ease", log), made("ease", log)
    g = build(exposure, log, dim=4, length=5, generator=torch.Generator().manual_seed(1))
    with without_notes():
        found = ps(model, g, log, config)
    assert found.link is not None
    weights, windows = np.empty(len(log)), Histories(log).windows(5)
    for window, place in np.argwhere(windows.row >= 0):  # one by one, with what came before
        row = windows.row[window, place]
        inputs = torch.from_numpy(windows.inputs[window : window + 1])
        history = History(inputs, torch.tensor([0]), torch.tensor([place]))
        user, item = torch.tensor([log.user[row]]), torch.tensor([[log.item[row]]])
        with torch.no_grad():
            weights[row] = 1 / float(found.link(g(user, item, history), torch.ones(1, 1)))
    assert isinstance(by_hand, Solved)
    by_hand.solve(log, weights / weights.mean())
    torch.testing.assert_close(scores(model), scores(by_hand), rtol=1e-4, atol=1e-5)
    assert found.ess == pytest.approx(
        weights.sum() ** 2 / (len(log) * (weights**2).sum()), rel=1e-4
    )


def test_a_repeated_pair_has_the_mean_weight_of_its_rows() -> None:
    log = cp.read({"user": [0, 0, 0, 1], "item": [0, 0, 1, 1]})
    found = clicks_of(log, np.array([1.0, 3.0, 5.0, 7.0])).toarray()
    assert found.tolist() == [[2, 5], [0, 7]]
    assert clicks_of(log).toarray().tolist() == [[1, 1], [0, 1]]


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_gives_the_same_bytes(name: str) -> None:
    log = repeated_log()
    first, again = (erm(made(name, log), log, Training()).candidate for _ in range(2))
    assert all(
        torch.equal(each, again.state_dict()[key]) for key, each in first.state_dict().items()
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_state_goes_into_an_empty_model_and_holds_no_log(name: str) -> None:
    log = repeated_log()
    model, shell = made(name, log), made(name, log, seed=5)
    erm(model, log, Training())
    shell.load_state_dict(model.state_dict())
    assert torch.equal(scores(shell), scores(model))
    assert not {"own", "begins", "counts"} & model.state_dict().keys()
    assert isinstance(model, FromOwnItems) or name == "ials"


class Other(Erm):
    """A step of its own, for which Erm's weights do not stand."""

    def step(self, batch: Any, meter: Any) -> None:
        raise AssertionError(batch, meter)


@pytest.mark.parametrize(
    ("method", "config", "role"),
    [
        (Acl, Game(), "candidate"),
        (Acl, Game(), "exposure"),
        (Ps, Weighted(), "exposure"),
        (Shown, FromShown(), "candidate"),
        (Other, Training(), "candidate"),
    ],
)
def test_a_method_without_row_weights_refuses_before_any_work(
    method: type[Any], config: Training, role: str
) -> None:
    log, _ = checkerboard()
    if method is Shown:
        log = replace(log, clicked=np.ones(len(log), dtype=bool))
    players = {each: made("gmf", log) for each in method.roles} | {role: made("ease", log)}
    with pytest.raises(
        cp.ConfigError, match=f"{role} model of .* by gradients; found ease"
    ) as told:
        method(players, log, config)
    assert ("one of erm, ps, ips" in str(told.value)) == (role == "candidate")


@pytest.mark.parametrize(
    ("method", "able"), [(Erm, True), (Ps, True), (Ips, True), (Acl, False), (Other, False)]
)
def test_weights_belong_to_the_step_that_they_stand_for(method: type[Any], able: bool) -> None:
    assert method.weighs_rows() == able


def test_ratings_are_refused() -> None:
    log = cp.read({"user": [0, 1], "item": [0, 1], "rating": [1.0, 2.0]})
    with pytest.raises(cp.ConfigError, match="ease ranks items and predicts no ratings"):
        erm(made("ease", log), log, Training(loss="squared"))


def test_validation_and_callbacks_see_the_computed_model() -> None:
    log, _ = checkerboard()
    told: list[float | None] = []
    method = Erm({"candidate": made("ease", log)}, log, Training())
    fit(
        method,
        validate=lambda model: float((ranks_of_withheld(model) == 0).mean()),
        callbacks=[lambda epoch: told.append(epoch.validation)],
    )
    assert told == [1.0]


@pytest.mark.parametrize("faster", [0, 10**9])  # always sparse, always dense
@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_products_of_items_are_those_of_the_whole_matrix(
    faster: int, half: bool, weighted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("counterplay.models.solved._FASTER", faster)
    monkeypatch.setattr("counterplay.models.solved._ITEMS", 3)
    log = repeated_log()
    weights = np.random.default_rng(0).uniform(0.1, 2, len(log)) if weighted else None
    clicks = clicks_of(log, weights)
    found = np.full((log.n_items, log.n_items), np.nan)

    def put(rows: slice, values: NDArray[np.float32]) -> None:
        found[rows, rows.start if half else 0 :] = values

    item_products(clicks, put, half=half)
    dense = clicks.toarray().astype(np.float64)
    wanted = dense.T @ dense
    kept = np.arange(log.n_items) >= np.arange(log.n_items)[:, None] if half else wanted >= 0
    np.testing.assert_allclose(found[kept], wanted[kept], rtol=1e-5)
