"""What every model and every method must do."""

from __future__ import annotations

import copy
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch

from counterplay.data.histories import Histories
from counterplay.data.readers import read
from counterplay.learning.fitting import fit
from counterplay.learning.methods import MADE
from counterplay.models.registry import build
from counterplay.models.scorer import History, Scorer
from counterplay.models.solved import Solved
from counterplay.testing.notes import without_notes

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from counterplay.data.interactions import Interactions
    from counterplay.learning.config import Training
    from counterplay.learning.method import Method
    from counterplay.learning.records import Epoch

N = 20  # users and items of a checkerboard


def checkerboard() -> tuple[Interactions, NDArray[np.int64]]:
    """Return clicks of even users on even items and odd on odd, and the one item each withholds."""
    rng = np.random.default_rng(0)
    user, item = np.divmod(np.arange(N * N), N)
    withheld = 2 * rng.integers(0, N // 2, N) + np.arange(N) % 2
    kept = (user % 2 == item % 2) & (item != withheld[user])
    rows = {"user": user[kept], "item": item[kept], "time": rng.permutation(N * N)[kept]}
    return read(rows), withheld


def ranks_of_withheld(model: Scorer) -> NDArray[np.int64]:
    """Return the rank of each user's withheld item among the unseen ones, 0 is best, `[N]`."""
    log, withheld = checkerboard()
    history = None
    if model.history_length:
        windows = Histories(log).last(np.arange(N), model.history_length)
        history = History.of(torch.from_numpy(windows))
    with torch.no_grad():
        scores = model.eval().score_all(torch.arange(N), history).double().numpy().copy()
    scores[log.user, log.item] = -np.inf
    found: NDArray[np.int64] = (scores > scores[np.arange(N), withheld][:, None]).sum(1)
    return found


class ScorerContract:
    """What every model must do. A subclass has `make`."""

    def make(self, log: Interactions, generator: torch.Generator) -> Scorer:
        """Return a fresh model for the users and items of a log."""
        raise NotImplementedError

    def log(self) -> Interactions:
        """Return the log that the model is made for; override it to add features."""
        return checkerboard()[0]

    def _model(self, seed: int = 0) -> Scorer:
        model = self.make(self.log(), torch.Generator().manual_seed(seed)).eval()
        if isinstance(model, Solved):
            model.solve(self.log())
        return model

    def _query(self, model: Scorer) -> tuple[torch.Tensor, torch.Tensor, History]:
        """Return five users, four items each, and histories of different lengths."""
        rng = np.random.default_rng(1)
        users = torch.from_numpy(rng.integers(0, model.n_users, 5))
        items = torch.from_numpy(rng.integers(0, model.n_items, (5, 4)))
        length = max(model.history_length, 1)
        windows = torch.from_numpy(rng.integers(0, model.n_items, (5, length)))
        for row, share in enumerate((0, 0.3, 0.8, 1, 0.2)):
            windows[row, : round(share * length)] = model.n_items  # padding
        return users, items, History.of(windows)

    def test_logits_are_finite_and_have_the_shape_of_the_items(self) -> None:
        model = self._model()
        users, items, history = self._query(model)
        logits = model(users, items, history)
        assert logits.shape == items.shape
        assert bool(torch.isfinite(logits).all())

    def test_a_batch_equals_one_by_one(self) -> None:
        model = self._model()
        users, items, history = self._query(model)
        together = model(users, items, history)
        for row in range(len(users)):
            part = slice(row, row + 1)
            alone = model(users[part], items[part], History.of(history.items[part]))
            torch.testing.assert_close(alone[0], together[row])

    def test_scoring_all_items_equals_scoring_each(self) -> None:
        model = self._model()
        users, _, history = self._query(model)
        everything = torch.arange(model.n_items).expand(len(users), -1)
        each = model(users, everything, history)
        torch.testing.assert_close(model.score_all(users, history), each)

    def test_items_that_queries_share_score_as_items_of_their_own(self) -> None:
        model = self._model()
        users, items, history = self._query(model)
        shared = torch.arange(model.n_items)[::2]
        own, others = model.beside(users, items, shared, history)
        torch.testing.assert_close(own, model(users, items, history))
        torch.testing.assert_close(others, model(users, shared.expand(len(users), -1), history))

    def test_a_loaded_state_scores_the_same(self) -> None:
        model = self._model()
        query, other = self._query(model), copy.deepcopy(model)
        with torch.no_grad():
            for parameter in other.parameters():
                parameter.add_(1)
        other.load_state_dict(model.state_dict())
        assert torch.equal(other(*query), model(*query))

    def test_unknown_ids_get_a_finite_score(self) -> None:
        model = self._model()
        users, items, history = self._query(model)
        nobody, nothing = torch.full_like(users, -1), torch.full_like(items, -1)
        of_nothing = model(users, nothing, history)
        for scores in (model(nobody, items, history), of_nothing):
            assert bool(torch.isfinite(scores).all())
        assert torch.equal(of_nothing[:, 0], of_nothing[:, 1])

    def test_every_parameter_gets_a_gradient(self) -> None:
        model = self._model().train()
        users, items = torch.arange(model.n_users), torch.arange(model.n_items)
        length = max(model.history_length, 1)
        windows = torch.arange(model.n_users)[:, None] + torch.arange(length)
        windows %= model.n_items
        windows[0] = model.n_items  # one user has no history
        scores = model(users, items.expand(len(users), -1), History.of(windows))
        parameters = [(name, each) for name, each in model.named_parameters() if each.requires_grad]
        if parameters:
            scores.square().sum().backward()
        still = [name for name, each in parameters if each.grad is None or not each.grad.any()]
        assert still == []

    def test_the_generator_decides_the_initial_values(self) -> None:
        models = [self._model(seed) for seed in (0, 0, 1)]
        first, again, other = (each(*self._query(each)) for each in models)
        assert torch.equal(first, again)
        learnt = any(each.requires_grad for each in models[0].parameters())
        assert torch.equal(first, other) == (not learnt)


class MethodContract:
    """What every method must do. A subclass has `method`, and settings if the defaults are slow."""

    method: ClassVar[type[Method[Any]]]

    def config(self) -> Training:
        """Return settings that learn a checkerboard of 20 by 20 in some seconds."""
        return self.method.settings(epochs=25, rate=0.03, batch_size=64)

    def players(self) -> dict[str, Scorer]:
        """Return fresh players, by their roles; the link is made by the method."""
        log = self.log()
        return {
            role: build("gmf", log, dim=4, generator=torch.Generator().manual_seed(place))
            for place, role in enumerate(self.method.roles)
            if role not in MADE
        }

    def log(self) -> Interactions:
        """Return rows to learn a checkerboard from; override it to add what a method needs."""
        return checkerboard()[0]

    def _fit(self, *, epochs: int | None = None, **options: Any) -> dict[str, torch.nn.Module]:
        config = self.config()
        if epochs is not None:
            config = config.model_copy(update={"epochs": epochs})
        with without_notes():
            return dict(fit(self.method(self.players(), self.log(), config), **options).players)

    def test_it_learns_a_checkerboard(self) -> None:
        candidate = self._fit()["candidate"]
        assert isinstance(candidate, Scorer)
        ranks = ranks_of_withheld(candidate)
        assert (ranks == 0).mean() > 0.8  # by chance one in eleven

    def test_the_same_seed_gives_the_same_bytes(self) -> None:
        first, again = self._fit(epochs=3), self._fit(epochs=3)
        assert _equal(first, again)

    def test_what_breaks_off_goes_on_to_the_same_bytes(self, tmp_path: Path) -> None:
        def stop(epoch: Epoch) -> None:
            if epoch.epoch == 1:
                raise KeyboardInterrupt

        whole = self._fit(epochs=4)
        with suppress(KeyboardInterrupt):
            self._fit(epochs=4, checkpoint=tmp_path / "checkpoint", callbacks=[stop])
        assert _equal(whole, self._fit(epochs=4, checkpoint=tmp_path / "checkpoint"))

    def test_its_settings_come_back_from_json(self) -> None:
        config = self.config()
        assert self.method.settings.model_validate_json(config.model_dump_json()) == config


def _equal(first: dict[str, torch.nn.Module], second: dict[str, torch.nn.Module]) -> bool:
    """Tell whether players have the same states, to the bit."""
    assert first.keys() == second.keys()
    return all(
        torch.equal(value, second[role].state_dict()[name])
        for role, player in first.items()
        for name, value in player.state_dict().items()
    )
