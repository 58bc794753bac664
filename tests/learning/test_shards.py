"""Any number of workers learns the same from the same shards."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import counterplay as cp
from counterplay.data.features import FeatureTable
from counterplay.data.interactions import Interactions
from counterplay.errors import ConfigError
from counterplay.groups import ALONE, Group
from counterplay.learning.batches import Batch
from counterplay.learning.config import Training
from counterplay.learning.fitting import fit
from counterplay.learning.methods import MADE, method_of
from counterplay.learning.records import Epoch, Fit
from counterplay.learning.shards import ShardBatches
from counterplay.metrics.recommendations import top_k
from counterplay.metrics.scoring import ModelScores
from counterplay.models.registry import ModelSettings
from counterplay.models.shares import whole_states
from counterplay.seeding import Streams
from tests.groups import by_workers, share_of

SHARDS = 8
pytestmark = pytest.mark.filterwarnings("ignore::counterplay.CounterplayWarning")


def log_of(n_users: int = 30, n_items: int = 25, n: int = 400, seed: int = 0) -> Interactions:
    rng = np.random.default_rng(seed)
    skewed = (n_users * rng.random(n) ** 2).astype(int)
    return cp.read(
        {
            "user": skewed,
            "item": rng.integers(n_items, size=n),
            "time": rng.integers(10**6, size=n),
        }
    )


def with_more(log: Interactions) -> Interactions:
    """The same with features, ratings and propensities."""
    rng = np.random.default_rng(1)
    colours = {
        role: FeatureTable(
            pl.DataFrame({"colour": rng.choice(["red", "blue"], n), "size": rng.random(n)})
        )
        for role, n in (("user", log.n_users), ("item", log.n_items))
    }
    return replace(log, user_features=colours["user"], item_features=colours["item"])


def learnt(
    log: Interactions, group: Group, method: str, model: str, checkpoint: Path | None = None,
    /, **given: Any,
) -> tuple[dict[str, torch.Tensor], list[Epoch]]:  # fmt: skip
    """Return the states of all players, whole, and the epochs."""
    mine = share_of(log, group, SHARDS, owns_items=given.pop("owns_items", False))
    kind = method_of(method)
    config = kind.settings(**{"epochs": 2, "batch_size": 64, **given})
    players = {
        role: ModelSettings(name=model, dim=4, length=6).build(
            mine, Streams(0).torch("initial", role)
        )
        for role in kind.roles
        if role not in MADE
    }
    found: Fit = fit(kind(players, mine, config), checkpoint=checkpoint)
    return whole_states(found.players, group), found.epochs


def learnt_by(
    log: Interactions, method: str, model: str, given: dict[str, Any], group: Group
) -> Any:
    return learnt(log, group, method, model, **given)


CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("erm", "gmf", {}),
    ("erm", "cf", {"optimizer": "lazy", "l2": 1e-3}),
    ("erm", "mlp", {"negatives_exponent": 0.5}),
    ("erm", "ncf", {}),
    ("erm", "attn", {"rate": 1e-3}),
    ("ps", "gmf", {}),
    ("acl", "gmf", {}),
    ("acl", "mlp", {"recipe": "paper"}),
    ("acl", "attn", {"weigh": "observed", "rate": 1e-3, "exposure_rate": 1e-3}),
    ("dro", "gmf", {}),
    ("dro", "gmf", {"group": "click"}),
    ("rd", "gmf", {}),
    ("relmf", "gmf", {}),
    ("softmax", "gmf", {"n_shared": 8}),
]


@pytest.mark.parametrize(("method", "model", "given"), CASES)
@pytest.mark.parametrize("featured", [False, True])
def test_any_number_of_workers_learns_the_same(
    method: str, model: str, given: dict[str, Any], *, featured: bool
) -> None:
    """Rounding is all that some gradients are, and Adam makes much of it.

    A bias of attention's keys, or a constant beside a softmax, has no effect and no gradient. So of
    these only tables and losses are compared. Four workers own items, two have all of them.
    """
    log = with_more(log_of()) if featured else log_of()
    alone, epochs = learnt(log, ALONE, method, model, **given)
    for size in (2, 4):
        how = {**given, "owns_items": size == 4}
        found, theirs = by_workers(size, partial(learnt_by, log, method, model, how))[0]
        assert found.keys() == alone.keys()
        for name, table in alone.items():
            is_table = name.endswith(("own", "bias", "token_vectors")) and "blocks" not in name
            if is_table or (model != "attn" and method != "softmax"):
                atol = 1e-2 if name.startswith("link") else 1e-4
                assert torch.allclose(found[name].float(), table.float(), atol=atol, rtol=0), name
        for one, other in zip(epochs, theirs, strict=True):
            assert other.candidate_loss == pytest.approx(one.candidate_loss, abs=1e-4)
            assert other.ess == pytest.approx(one.ess, abs=1e-4)
            assert other.beta == pytest.approx(one.beta, abs=1e-3)
            assert other.propensity == pytest.approx(one.propensity, abs=1e-3)
            assert other.candidate_gradient == pytest.approx(one.candidate_gradient, rel=1e-3)


@pytest.mark.parametrize(
    ("method", "model", "given"),
    [
        ("erm", "gmf", {}),
        ("ps", "gmf", {}),
        ("acl", "gmf", {}),
        ("erm", "mlp", {}),
        ("erm", "attn", {"epochs": 1, "batch_size": 8_192, "rate": 1e-3}),
    ],
)
def test_any_number_of_workers_recommends_the_same(
    method: str, model: str, given: dict[str, Any]
) -> None:
    """The ten best items of 2,000 users; what may change places are scores within 1e-4.

    How many are that near is up to how a processor rounds. Norms of four numbers let rounding grow
    from step to step, so attention has few.
    """
    log, lists, scorers = log_of(n_users=2_000, n_items=300, n=20_000), [], []
    users = np.arange(log.n_users)
    given = {"batch_size": 2_048, "rate": 0.05} | given
    for size in (1, 2, 4):
        states, _ = by_workers(size, lambda group: learnt(log, group, method, model, **given))[0]
        candidate = ModelSettings(name=model, dim=4, length=6).build(log, None)
        prefix = "candidate."
        candidate.load_state_dict(
            {
                name.removeprefix(prefix): value
                for name, value in states.items()
                if name.startswith(prefix)
            }
        )
        scorers.append(ModelScores(candidate, log, train=log))
        lists.append(top_k(scorers[-1], users, log, 10))
    items, scores = lists[0]
    assert len(np.unique(items)) > 20  # they are not everybody's
    for others, theirs in lists[1:]:
        assert np.abs(theirs - scores).max() < 1e-4
        here = scorers[0].of(users, others)  # what one worker thinks of their lists
        assert np.abs(here - scores).max() < 1e-4  # so only what is as good changes places


@pytest.mark.parametrize("method", ["erm", "acl", "dro"])
@pytest.mark.parametrize("optimizer", ["dense", "lazy"])
@pytest.mark.parametrize("owns_items", [False, True])
def test_a_worker_may_have_no_rows_in_a_step(
    method: str, optimizer: str, *, owns_items: bool
) -> None:
    """Eight workers with a dozen rows each, in batches of four: in most steps one has none."""
    log, given = log_of(n=100), {"batch_size": 4, "optimizer": optimizer, "epochs": 1}
    alone, _ = learnt(log, ALONE, method, "gmf", **given)
    how = {**given, "owns_items": owns_items}
    found, _ = by_workers(8, partial(learnt_by, log, method, "gmf", how))[0]
    for name, table in alone.items():
        atol = 1e-2 if name.startswith("link") else 1e-4
        assert torch.allclose(found[name], table, atol=atol, rtol=0), name


def test_a_worker_may_have_no_users() -> None:
    """Nearly all rows are one user's, so seven shards of eight are empty."""
    log = cp.read({"user": [0] * 60 + [1, 2, 3], "item": [*range(60), 1, 2, 61], "time": range(63)})
    alone, _ = learnt(log, ALONE, "acl", "gmf", batch_size=16)
    how = {"batch_size": 16, "owns_items": True}
    found, _ = by_workers(2, partial(learnt_by, log, "acl", "gmf", how))[0]
    assert all(torch.allclose(found[name], alone[name], atol=1e-3) for name in alone)


@pytest.mark.parametrize("owns_items", [False, True])
def test_the_same_workers_learn_the_same_bytes(*, owns_items: bool) -> None:
    work = partial(learnt_by, log_of(), "acl", "gmf", {"owns_items": owns_items})
    once, again = (by_workers(2, work)[0][0] for _ in range(2))
    assert all(torch.equal(once[name], again[name]) for name in once)


def test_shards_learn_something_else_than_a_log_as_a_whole_but_as_well() -> None:
    """The last loss is about the same; the streams are not."""
    log = log_of()
    config = Training(epochs=8, batch_size=64)
    model = ModelSettings(name="gmf", dim=4).build(log, Streams(0).torch("initial", "candidate"))
    plain = cp.learning.erm(model, log, config)
    _, epochs = learnt(log, ALONE, "erm", "gmf", epochs=8)
    assert epochs[-1].candidate_loss == pytest.approx(plain.epochs[-1].candidate_loss, rel=0.1)
    assert epochs[-1].candidate_loss != plain.epochs[-1].candidate_loss


def batches(log: Interactions, group: Group, size: int, epoch: int = 0) -> list[Batch]:
    config = Training(batch_size=size, n_negatives=2)
    source = ShardBatches(share_of(log, group, SHARDS), config)
    return list(source.epoch(Streams(0), epoch))


@settings(max_examples=25, deadline=None)
@given(
    st.integers(5, 40), st.integers(20, 120), st.integers(1, 50), st.integers(0, 3),
    st.sampled_from([1, 2, 4, 8]),
)  # fmt: skip
def test_all_rows_come_once_whatever_the_workers(
    n_users: int, n: int, size: int, epoch: int, n_workers: int
) -> None:
    log = log_of(n_users, 30, n, seed=n)
    whole = batches(log, ALONE, size, epoch)
    parts = by_workers(n_workers, lambda group: batches(log, group, size, epoch))
    assert {len(part) for part in parts} == {len(whole)}
    firsts = [share_of(log, _place(rank, n_workers), SHARDS).share for rank in range(n_workers)]
    for number, batch in enumerate(whole):
        pieces = [part[number] for part in parts]
        assert len(batch) == len(batch.users) == sum(len(each.users) for each in pieces)
        assert all(len(each) == len(batch) for each in pieces)
        users = torch.cat(
            [each.users + at.first_user for each, at in zip(pieces, firsts, strict=True) if at]
        )
        assert torch.equal(users, batch.users)
        assert torch.equal(torch.cat([each.items for each in pieces]), batch.items)
    pairs = [(int(u), int(i)) for b in whole for u, i in zip(b.users, b.items[:, 0], strict=True)]
    assert sorted(pairs) == sorted(zip(log.user.tolist(), log.item.tolist(), strict=True))


def _place(rank: int, size: int) -> Group:
    group = Group()
    group.rank, group.size = rank, size
    return group


def test_small_shards_have_their_rows_in_different_steps() -> None:
    """Eight shards with a row each, and batches of two: four batches, none empty."""
    log = cp.read({"user": range(8), "item": range(8), "time": range(8)})
    assert [len(batch) for batch in batches(log, ALONE, 2)] == [2, 2, 2, 2]


@pytest.mark.parametrize("optimizer", ["dense", "lazy"])
@pytest.mark.parametrize("owners", [(False, False), (True, True), (True, False), (False, True)])
def test_interrupted_workers_go_on_in_another_number(
    tmp_path: Path, optimizer: str, owners: tuple[bool, bool]
) -> None:
    """Whether workers own items before or after makes no difference."""
    log = log_of()
    given: dict[str, Any] = {"epochs": 4, "optimizer": optimizer}
    straight, _ = learnt(log, ALONE, "acl", "gmf", **given)

    def begun(group: Group) -> None:
        learnt(log, group, "acl", "gmf", tmp_path, owns_items=owners[0], **given)

    class BrokenOffError(Exception):
        pass

    from counterplay.data.files import write_json
    from counterplay.learning import shard_checkpoint

    saved = write_json
    seen: list[int] = []

    def broken(*args: Any, **options: Any) -> None:
        """Break off when the second epoch is about to be committed: its files are there."""
        seen.append(1)
        if len(seen) == 2:
            raise BrokenOffError
        saved(*args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shard_checkpoint, "write_json", broken)
        with pytest.raises(BrokenOffError):
            by_workers(4, begun)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["000001", "000002", "state.json"]
    for shard in tmp_path.glob("000002/shard-*"):  # what was not committed does not count
        shard.write_bytes(b"half")
    found, epochs = by_workers(
        2,
        lambda group: learnt(log, group, "acl", "gmf", tmp_path, owns_items=owners[1], **given),
    )[0]
    assert len(epochs) == 4
    for name, table in straight.items():
        atol = 1e-2 if name.startswith("link") else 1e-4
        assert torch.allclose(found[name], table, atol=atol), name
    assert sorted(each.name for each in tmp_path.iterdir()) == ["000004", "state.json"]


def test_checkpoints_may_be_some_epochs_apart(tmp_path: Path) -> None:
    """What is there after each of five epochs; the last one is always written."""
    log, found = share_of(log_of(), ALONE, SHARDS), []
    model = ModelSettings(name="gmf", dim=4).build(log, Streams(0).torch("initial", "candidate"))

    def note(_: Epoch) -> None:
        found.append(sorted(each.name for each in tmp_path.glob("0*")))

    method = method_of("erm")({"candidate": model}, log, Training(epochs=5, batch_size=64))
    fit(method, checkpoint=tmp_path, checkpoint_every=2, callbacks=[note])
    assert found == [[], ["000002"], ["000002"], ["000004"], ["000005"]]


def test_a_damaged_shard_is_noticed(tmp_path: Path) -> None:
    log = log_of()
    learnt(log, ALONE, "erm", "gmf", tmp_path, epochs=1)
    path = next(tmp_path.glob("*/shard-00003.safetensors"))
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(cp.CheckpointError, match="shard-00003"):
        learnt(log, ALONE, "erm", "gmf", tmp_path, epochs=1)


@pytest.mark.parametrize(
    ("method", "model", "given", "named"),
    [
        ("erm", "ease", {}, "ease"),
        ("acl", "gmf", {"regularizer": "popularity"}, "training.regularizer=popularity"),
    ],
)
def test_what_workers_cannot_do_is_refused(
    method: str, model: str, given: dict[str, Any], named: str
) -> None:
    with pytest.raises(ConfigError, match=named):
        learnt(log_of(), ALONE, method, model, **given)


def test_a_method_of_ones_own_says_that_it_learns_from_parts() -> None:
    class Own(method_of("erm")):  # type: ignore[misc]
        for_workers = False

    mine = share_of(log_of(), ALONE, SHARDS)
    model = ModelSettings(name="gmf", dim=4).build(mine, Streams(0).torch("initial", "candidate"))
    with pytest.raises(ConfigError, match="for_workers"):
        Own({"candidate": model}, mine, Training())
