from __future__ import annotations

import numpy as np
import pytest

from counterplay.evaluation import list_measures as module
from counterplay.metrics.beyond_accuracy import intra_list_diversity, novelty

from .audience import make_split, make_stage

pytestmark = pytest.mark.filterwarnings("ignore::counterplay.CounterplayWarning")


def test_measures_are_means_over_the_users() -> None:
    stage = make_stage(make_split())
    train = stage.train
    users = np.unique(stage.targets.user)
    rng = np.random.default_rng(0)
    lists = np.stack([rng.choice(train.n_items, 4, replace=False) for _ in users]).astype(np.int32)
    new, varied, lift = module.list_measures(stage, users)(lists)
    pairs = np.unique(train.pair)
    who, what = pairs // train.n_items, pairs % train.n_items
    n_users_of = np.bincount(what, minlength=train.n_items)
    assert new.value == pytest.approx(novelty(lists, n_users_of, len(np.unique(who))).mean())
    assert varied.value == pytest.approx(
        intra_list_diversity(lists, who, what, train.n_items).mean()
    )
    events = np.bincount(train.item, minlength=train.n_items)
    histories = [events[train.item[train.user == user]] for user in users]
    some = [place for place, each in enumerate(histories) if len(each)]
    assert len(some) < len(users), "one of them is new"
    above = np.mean([events[lists[place]].mean() for place in some])
    below = np.mean([histories[place].mean() for place in some])
    assert lift.value == pytest.approx(above / below - 1)
    assert (new.n, varied.n, lift.n) == (len(users), len(users), len(some))
    for each in (new, varied, lift):
        assert each.value is not None
        assert each.low is not None
        assert each.high is not None
        assert each.low < each.value < each.high


def test_many_users_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_LISTS", 7)
    monkeypatch.setattr(module, "_MOST_USERS", 20)
    stage = make_stage(make_split())
    users = np.unique(stage.targets.user)
    lists = np.tile(np.arange(4, dtype=np.int32), (len(users), 1))
    new, varied, _ = module.list_measures(stage, users)(lists)
    assert (new.n, varied.n) == (len(users), 7)


def test_lists_of_nothing_have_no_value() -> None:
    stage = make_stage(make_split())
    users = np.unique(stage.targets.user)
    empty = np.full((len(users), 4), -1, dtype=np.int32)
    for each in module.list_measures(stage, users)(empty):
        assert (each.n, each.value, each.low) == (0, None, None)
