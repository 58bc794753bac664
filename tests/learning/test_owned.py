"""Workers that own a part of the items' vectors each learn what one process learns."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

import counterplay as cp
from counterplay.data.interactions import Interactions
from counterplay.errors import ConfigError
from counterplay.groups import ALONE, Group
from counterplay.learning.config import AmongAll, Training
from counterplay.learning.fitting import fit
from counterplay.learning.methods import MADE, method_of
from counterplay.learning.methods.erm import Erm
from counterplay.models.item_tables import apart, tables_of_items, whole_items
from counterplay.models.registry import ModelSettings
from counterplay.models.shares import n_parameters
from counterplay.seeding import Streams
from tests.groups import Threads, by_workers, share_of

from .test_shards import SHARDS, learnt, learnt_by, log_of

pytestmark = pytest.mark.filterwarnings("ignore::counterplay.CounterplayWarning")


def players(log: Interactions, method: str, model: str = "gmf") -> dict[str, Any]:
    return {
        role: ModelSettings(name=model, dim=4, length=6).build(
            log, Streams(0).torch("initial", role)
        )
        for role in method_of(method).roles
        if role not in MADE
    }


def agree(log: Interactions, size: int, method: str, model: str = "gmf", **given: Any) -> None:
    alone, _ = learnt(log, ALONE, method, model, **given)
    work = partial(learnt_by, log, method, model, {**given, "owns_items": True})
    found, _ = by_workers(size, work)[0]
    assert found.keys() == alone.keys()
    for name, table in alone.items():
        atol = 1e-2 if name.startswith("link") else 1e-4
        assert torch.allclose(found[name], table, atol=atol, rtol=0), name


def test_a_worker_holds_its_part_of_tables_and_moments() -> None:
    """Sizes are those of shards; models count what is elsewhere."""
    log = log_of(n_items=26)

    def work(group: Group) -> tuple[list[int], list[int], int]:
        mine = share_of(log, group, SHARDS, owns_items=True)
        method = method_of("erm")(players(mine, "erm", "attn"), mine, Training(epochs=1))
        found = fit(method)
        tables = [each.held for _, each in apart(found.candidate)]
        state = method.optimizers["candidate"].parts[0].state
        moments = [len(state[table]["exp_avg"]) for table in tables]
        return [len(each) for each in tables], moments, n_parameters(found.candidate)

    mine = share_of(log, ALONE, SHARDS)
    whole = n_parameters(players(mine, "erm", "attn")["candidate"])
    held = by_workers(4, work)
    assert [each[0] for each in held] == [[n, n] for n in np.diff([0, 6, 13, 19, 26])]
    assert all(each[1] == each[0] and each[2] == whole for each in held)


@pytest.mark.parametrize("model", ["gmf", "attn"])
def test_there_may_be_fewer_items_than_workers(model: str) -> None:
    n = np.arange(40)
    log = cp.read({"user": n // 2, "item": (n // 2 + n % 2) % 3, "time": n})
    given = {"batch_size": 16, "rate": 1e-3} if model == "attn" else {"batch_size": 16}
    alone, _ = learnt(log, ALONE, "erm", model, **given)
    work = partial(learnt_by, log, "erm", model, {**given, "owns_items": True})
    found, _ = by_workers(8, work)[0]
    assert torch.allclose(found["candidate.item.own"], alone["candidate.item.own"], atol=1e-4)


@pytest.mark.parametrize("optimizer", ["dense", "lazy"])
def test_only_what_a_player_looks_up_moves(optimizer: str) -> None:
    """With ratings the candidate looks up one item a row, and its opponent sampled ones too."""
    rng = np.random.default_rng(1)
    rows = {"user": rng.integers(30, size=300), "item": rng.integers(40, size=300)}
    log = cp.read({**rows, "rating": rng.integers(1, 6, size=300), "time": np.arange(300)})
    agree(log, 4, "acl", loss="squared", optimizer=optimizer, batch_size=8, l2=1e-2)


def test_bytes_fall_with_the_number_of_workers() -> None:
    """The batch is that of all; where each has a copy, bytes do not fall."""
    log = log_of(n_users=200, n_items=3000, n=2000)

    def sent(group: Group, *, owns_items: bool) -> int:
        learnt(log, group, "erm", "gmf", epochs=1, batch_size=256, owns_items=owns_items)
        assert isinstance(group, Threads)
        return group.n_bytes

    owned, copied = (
        [max(by_workers(size, partial(sent, owns_items=own))) for size in (2, 4, 8)]
        for own in (True, False)
    )
    assert owned[0] > owned[1] > owned[2]
    assert owned[0] < copied[0] == copied[2]


def test_items_are_owned_above_a_workers_look_ups() -> None:
    assert Training(batch_size=1000, n_negatives=4).n_lookups(2) == 2500
    softmax = AmongAll(batch_size=1000, n_shared=64)
    assert softmax.n_lookups(4) == 250 + 64


def test_what_a_method_looks_up_elsewhere_must_be_said() -> None:
    log = log_of()

    class Elsewhere(Erm):
        says = False

        def step(self, batch: Any, meter: Any) -> None:
            more = torch.arange(self.log.n_items)
            if self.says:
                self.also(more)
            self.candidate(batch.users[:1], more[None])
            super().step(batch, meter)

    def work(group: Group) -> None:
        mine = share_of(log, group, SHARDS, owns_items=True)
        fit(Elsewhere(players(mine, "erm"), mine, Training(epochs=1, batch_size=8)))

    with pytest.raises(ConfigError, match=r"call self\.also\(items\)"):
        by_workers(2, work)
    Elsewhere.says = True
    by_workers(2, work)


@pytest.mark.parametrize("optimizer", ["dense", "lazy"])
def test_gradients_of_before_a_step_are_left_out(
    optimizer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = Erm.step

    def stray(self: Erm, batch: Any, meter: Any) -> None:
        self.candidate(batch.users, batch.items).sum().backward()
        step(self, batch, meter)

    monkeypatch.setattr(Erm, "step", stray)
    agree(log_of(n_items=26), 2, "erm", optimizer=optimizer, batch_size=16)


def test_items_of_an_earlier_step_must_be_said_again() -> None:
    log = log_of(n_items=26)

    class Late(Erm):
        before: torch.Tensor | None = None

        def step(self, batch: Any, meter: Any) -> None:
            if self.before is not None:
                self.candidate(batch.users[:1], self.before)
            self.before = batch.items.reshape(1, -1)
            super().step(batch, meter)

    def work(group: Group) -> None:
        mine = share_of(log, group, SHARDS, owns_items=True)
        fit(Late(players(mine, "erm"), mine, Training(epochs=1, batch_size=8)))

    with pytest.raises(ConfigError, match=r"call self\.also\(items\)"):
        by_workers(2, work)


def test_items_that_a_method_keeps_are_found_anew_in_each_step() -> None:
    log = log_of(n_items=26)

    class Kept(Erm):
        kept = torch.arange(20, 26)[None]

        def step(self, batch: Any, meter: Any) -> None:
            self.also(self.kept)
            found, anew = (
                self.candidate(batch.users[:1], items) for items in (self.kept, self.kept.clone())
            )
            assert torch.equal(found, anew)
            super().step(batch, meter)

    def work(group: Group) -> None:
        mine = share_of(log, group, SHARDS, owns_items=True)
        fit(Kept(players(mine, "erm"), mine, Training(epochs=1, batch_size=8)))

    by_workers(2, work)


def test_a_model_that_needs_all_items_at_once_says_so() -> None:
    def work(group: Group) -> None:
        mine = share_of(log_of(), group, SHARDS, owns_items=True)
        model = players(mine, "erm")["candidate"]
        with pytest.raises(ConfigError, match=r"needs the vectors of all items.*--copy-items"):
            model.score_all(torch.zeros(1, dtype=torch.int32))
        with whole_items(model, group):
            assert model.score_all(torch.zeros(1, dtype=torch.int32)).shape == (1, mine.n_items)
        assert all(each.is_apart for _, each in tables_of_items(model))

    by_workers(2, work)
