from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import counterplay as cp
from counterplay.data.shares import load_share
from counterplay.groups import ALONE, Group
from counterplay.metrics.intervals import bootstrap, interval
from counterplay.models.registry import ModelSettings
from counterplay.runs import validating
from counterplay.runs.config import ValidationSettings
from counterplay.runs.validating import Judge
from tests.groups import by_workers


@pytest.fixture(scope="module")
def split(dataset: Path) -> cp.Split:
    return cp.data.load_split(dataset)


def judge_of(split: cp.Split, *, ratings: bool = False, seed: int = 0, **options: Any) -> Judge:
    train = split.train if ratings else replace(split.train, rating=None)
    return Judge(split, train, ValidationSettings(**options), cp.Streams(seed))


def model_of(split: cp.Split) -> cp.Scorer:
    return cp.models.build("gmf", split.train, generator=torch.Generator().manual_seed(0)).eval()


def full_by_hand(split: cp.Split, model: cp.Scorer, k: int) -> list[float]:
    """Rank each validation item among all items that its user has not in training."""
    train, rows = split.train, split.validation
    scores = cp.metrics.ModelScores(model, train).of_all(np.arange(train.n_users))
    hits = []
    for user, item in zip(rows.user.tolist(), rows.item.tolist(), strict=True):
        own = set(train.item[train.user == user].tolist()) - {item}
        above = [each for each in range(train.n_items) if each not in own]
        hits.append(float(sum(scores[user, above] > scores[user, item]) < k))
    return hits


def test_full_ranks_are_those_of_a_loop_with_an_interval_over_users(split: cp.Split) -> None:
    judge, model = judge_of(split, k=7), model_of(split)
    expected = full_by_hand(split, model, 7)
    assert judge.values(model).tolist() == expected
    assert 0 < judge(model) < 1
    assert judge(model) == pytest.approx(np.mean(expected))
    found = judge.estimate(model)
    assert found["value"] == pytest.approx(judge(model))
    said = {"metric": "hit", "k": 7, "estimator": "standard", "protocol": "full", "n": 40}
    assert (said | {"level": 0.95}).items() <= found.items()
    rng = cp.Streams(0).numpy("validation", "bootstrap")
    values = np.array(expected)[:, None]
    low, high = interval(bootstrap(values, np.ones(40), split.validation.user, rng))
    assert (found["low"], found["high"]) == (float(low[0]), float(high[0]))


def test_other_metrics_and_the_sampled_protocol_are_for_the_asking(split: cp.Split) -> None:
    model = model_of(split)
    judge = judge_of(split, protocol="sampled", n_negatives=20, metric="ndcg", k=5)
    train, rows = replace(split.train, rating=None), split.validation
    rng = cp.Streams(0).numpy("validation")
    items = cp.metrics.sampled_candidates(train, rows, 20, rng)
    ranks = cp.metrics.sampled_ranks(cp.metrics.ModelScores(model, train), rows.user, items)
    expected = cp.metrics.ranking_metrics(ranks, np.arange(len(ranks)), names=["ndcg"], k=[5])[
        "ndcg", 5
    ]
    assert judge.values(model).tolist() == expected.tolist()
    assert judge.protocol == judge.estimate(model)["protocol"] == "sampled-20"
    whole = judge_of(split, metric="mrr", k=20)
    assert whole(model) != judge_of(split, k=20)(model)


def test_a_budget_takes_fewer_users_and_no_other_rule(
    split: cp.Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, rows = model_of(split), split.validation
    asked = judge_of(split, users=9)
    assert len(np.unique(asked.targets.user)) == 9
    assert asked.protocol == "full"
    chosen = np.isin(rows.user, asked.targets.user)
    assert asked.values(model).tolist() == judge_of(split).values(model)[chosen].tolist()
    assert judge_of(split, users=9).targets.user.tolist() == asked.targets.user.tolist()
    assert judge_of(split, users=9, seed=1).targets.user.tolist() != asked.targets.user.tolist()
    monkeypatch.setattr(validating, "SCORES", 5 * split.train.n_items + 1)
    assert len(np.unique(judge_of(split).targets.user)) == 5
    for options in ({"protocol": "sampled", "n_negatives": 12}, {"ratings": True}):
        assert len(judge_of(split, **options).targets) == len(rows)  # cheap: nobody is left out


def test_errors_of_ratings_are_weighted_by_what_was_logged(split: cp.Split) -> None:
    model, rng = model_of(split), np.random.default_rng(0)
    plain = judge_of(split, ratings=True)
    assert plain.estimate(model)["estimator"] == "standard"
    errors = plain.values(model)
    assert plain(model) == pytest.approx(-errors.mean())
    q = rng.uniform(0.1, 1, len(split.interactions))
    logged = cp.Split(replace(split.interactions, propensity=q), split.part, split.kind)
    weights = 1 / q[split.part == 1]
    judge = judge_of(logged, ratings=True)
    assert judge(model) == pytest.approx(-(errors @ weights) / weights.sum())
    found = judge.estimate(model)
    assert (found["estimator"], found["metric"]) == ("logged", "mse")
    assert found["value"] == pytest.approx(-judge(model))
    assert judge_of(logged).estimate(model)["estimator"] == "standard"  # clicks are not weighted


def test_the_epoch_is_chosen_by_the_rule_that_is_set(split: cp.Split) -> None:
    """One model has every target third, the other fifth: not every rule tells them apart."""
    rows, n_items = split.validation, split.train.n_items

    class Fixed(cp.Scorer):
        def __init__(self, place: int) -> None:
            super().__init__(split.train.n_users, n_items)
            logits = (torch.arange(n_items) / n_items).repeat(self.n_users, 1)
            for user, item in zip(rows.user.tolist(), rows.item.tolist(), strict=True):
                own = set(split.train.item[split.train.user == user].tolist())
                others = [each for each in range(n_items) if each not in own and each != item]
                logits[user, item] = logits[user, others[-place]] + 0.5 / n_items
            self.logits = logits

        def forward(
            self, users: torch.Tensor, items: torch.Tensor, history: object = None
        ) -> torch.Tensor:
            del history
            return self.logits[users[:, None], items]

    third, fifth = Fixed(3), Fixed(5)
    assert judge_of(split, k=3)(third) == 1 > judge_of(split, k=3)(fifth) == 0
    assert judge_of(split, k=5)(third) == judge_of(split, k=5)(fifth) == 1
    mrr = judge_of(split, metric="mrr", k=5)
    assert mrr(third) == pytest.approx(1 / 3)
    assert mrr(fifth) == pytest.approx(1 / 5)


@pytest.mark.parametrize("settings", [{}, {"protocol": "sampled", "n_negatives": 20}, {"users": 7}])
def test_several_workers_judge_as_one_does(settings: dict[str, Any], dataset: Path) -> None:
    """The value, and the estimate with its interval, are those of all users together."""

    def judged(group: Group) -> tuple[float, dict[str, Any]]:
        split = load_share(dataset, group, 8)
        train = replace(split.train, rating=None)
        judge = Judge(split, train, ValidationSettings(**settings), cp.Streams(0))
        model = ModelSettings(name="gmf", dim=4).build(train, cp.Streams(0).torch("initial"))
        return judge(model), judge.estimate(model)

    alone = judged(ALONE)
    for value, estimate in by_workers(2, judged):
        assert value == pytest.approx(alone[0], abs=1e-12)
        assert estimate == pytest.approx(alone[1])
