"""Good worlds pass (also in test_contract); each broken one fails the check of its fault."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from itertools import count
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import counterplay as cp
from counterplay.simulation import draws
from counterplay.simulation.checks import CHECKS, check_world
from counterplay.simulation.policies import Scored
from counterplay.simulation.synthetic import Synthetic
from counterplay.simulation.world import World
from tests.simulation.makers import broken

Numbers = NDArray[np.float64]
Indices = NDArray[np.integer]


def synthetic(**options: Any) -> World:
    return Synthetic(**{"n_users": 150, "n_items": 60, "n_shown": 12, **options}).world()


def failed(world: object, **options: Any) -> dict[str, str]:
    findings = check_world(world, **options)
    assert [finding.name for finding in findings] == list(CHECKS)
    return {finding.name: finding.text for finding in findings if not finding.ok}


@pytest.mark.parametrize(
    "options",
    [
        {"noise": 0, "exposure_noise": 0, "examination": 1, "exposure": "uniform"},
        {"n_items": 2, "n_shown": 0.2, "skew": 0.1},
        {"n_users": 1},
    ],
)
def test_extreme_worlds_pass(options: dict[str, Any]) -> None:
    """False-alarm rate: at most about 1e-6 a world."""
    assert failed(synthetic(**options)) == {}


def test_good_worlds_pass_at_the_stated_rate() -> None:
    """Twenty worlds at a rate of 1 in 10 each: 9 or more alarms have a probability of 4e-5."""
    alarms = sum(
        bool(failed(synthetic(n_users=40, n_items=20, n_shown=4, seed=seed), alpha=0.1))
        for seed in range(20)
    )
    assert alarms < 9


def careless(world: World, users: Indices, items: Any = None, **options: Any) -> Numbers:
    """Ask for all items in another way."""
    found = World.relevance(world, users, items, **options)
    return found[:, ::-1].copy() if items is None else found


def batched(world: World, *args: Any, **options: Any) -> Numbers:
    found = World.relevance(world, *args, **options)
    found /= found.max()
    return found


def forgetful(world: World, *args: Any, **options: Any) -> Numbers:
    """Leave the unobserved factors out, where there is no occasion."""
    calm = options.get("occasion") is None
    return World.relevance(World(world.taste, world.policy) if calm else world, *args, **options)


def unmoved(world: World, *args: Any, **options: Any) -> Numbers:
    stated: Numbers = 0.4 * World.propensity(world, *args, **options) ** 0.7
    return stated


def reluctant(world: World, *args: Any, **options: Any) -> cp.Interactions:
    """Click less than stated."""
    log = World.log(world, *args, **options)
    if log.clicked is None:
        return log
    return replace(log, clicked=log.clicked & (np.arange(len(log)) % 5 > 1))


def partial(world: World, *args: Any, **options: Any) -> cp.Interactions:
    log = World.log(world, *args, **options)
    return log.take(np.arange(len(log)) % 4 > 0)


def unbiased(world: World, *args: Any, **options: Any) -> cp.Interactions:
    """Log propensities without position bias."""
    log = World.log(world, *args, **options)
    if log.propensity is None or log.position is None:
        return log
    return replace(log, propensity=log.propensity / world.examination ** (log.position - 1.0))


CALLS = count()


def restless(world: World, *args: Any, **options: Any) -> cp.Interactions:
    """Draw from a generator that goes on from call to call."""
    return World.log(world, *args, **options | {"sample": next(CALLS)})


def unsorted(world: World, *args: Any, **options: Any) -> cp.Interactions:
    log = World.log(world, *args, **options)
    columns: dict[str, Any] = {name: column[::-1] for name, column in log.columns()}
    return replace(log, **columns)


def lopsided(world: World, *args: Any, **options: Any) -> cp.Interactions:
    """Never draw the second half of the users, of whom few may be looked at."""
    log = World.log(world, *args, **options)
    return log.take(log.user < world.n_users // 2)


def silent(*_: Any, **__: Any) -> Numbers:
    raise RuntimeError("no relevance today\nat all")


FAULTS: dict[str, tuple[str, Callable[..., Any]]] = {
    "loud": ("relevance", lambda w, *a, **o: 8 * World.relevance(w, *a, **o)),
    "flat": ("shown", lambda w, *a, **o: World.shown(w, *a, **o).ravel()),
    "careless": ("relevance", careless),
    "batched": ("relevance", batched),
    "overstated": (
        "propensity",
        lambda w, *a, **o: np.minimum(1.3 * World.propensity(w, *a, **o), 1),
    ),
    "tempered": ("propensity", unmoved),
    "unexamined": ("propensity", lambda w, *a, **o: w.shown(*a, **o)),
    "forgetful": ("relevance", forgetful),
    "reluctant": ("log", reluctant),
    "partial": ("log", partial),
    "unbiased": ("log", unbiased),
    "restless": ("log", restless),
    "stubborn": (
        "log",
        lambda w, *a, **o: World.log(w, *a, **o | {"sample": 0, "first_round": 0}),
    ),
    "unsorted": ("log", unsorted),
    "untimed": ("log", lambda w, *a, **o: replace(World.log(w, *a, **o), time=None)),
    "repeating": ("log", lambda w, *a, **o: World.log(w, *a, **o | {"before": None})),
    "silent": ("relevance", silent),
}
FOUND = [
    ("loud", "range", r"relevance must be from 0 to 1; found .* to [2-8]\.\d+; probably a logit"),
    ("flat", "range", "shown must have one row per user .* probably users are not broadcast"),
    ("careless", "all items", "relevance of all items must be that of each"),
    ("batched", "one by one", "relevance of a pair must not depend on what is asked with it"),
    ("overstated", "exposed", "probably propensity.. leaves out position bias, or is off"),
    ("overstated", "refit", "must come back when they are fitted"),
    ("tempered", "refit", r"slope 1\.[45]\d\d .* probably propensity\(\) is tempered"),
    ("unexamined", "exposed", "how often pairs are exposed must match its probability"),
    ("unexamined", "refit", "must come back when they are fitted"),
    (
        "forgetful",
        "occasions",
        "relevance without an occasion .* leaves the unobserved factors out",
    ),
    ("reluctant", "clicks", "probably clicks use another relevance"),
    ("partial", "whole log", "14,400 pairs .* probably some users or items are never drawn"),
    ("partial", "shown", "probably the draw uses other probabilities"),
    ("unbiased", "logged propensity", "probably position bias, the rate or the occasion"),
    ("restless", "same log", "probably a generator outside the world's streams"),
    ("stubborn", "other sample", "probably sample and first_round do not enter"),
    ("unsorted", "order", "must be sorted by user and then by time"),
    ("untimed", "order", "must have time, propensity and position; found user, item, exposed"),
    ("repeating", "repeats", "must not be clicked twice; found"),
    ("silent", "range", "found RuntimeError: no relevance today; call the method"),
]


@cache
def faults(name: str) -> dict[str, str]:
    return failed(broken(synthetic(examination=0.7, noise=2.0, n_users=240), *FAULTS[name]))


@pytest.mark.parametrize(("fault", "name", "text"), FOUND)
def test_each_fault_is_found(fault: str, name: str, text: str) -> None:
    assert name in faults(fault)
    assert re.search(text, faults(fault)[name]), faults(fault)[name]


class OwnPolicy(Scored):
    factor = 1.0

    def accept(self, *args: Any, **options: Any) -> Numbers:
        return self.factor * super().accept(*args, **options)


class Generous(OwnPolicy):
    factor = 4.0


@pytest.mark.parametrize(
    ("caps", "kind", "text"),
    [(1.0, Generous, "must accept with a probability from 0 to 1"), (3.0, OwnPolicy, "60 numbers")],
)
def test_faults_of_the_policy_are_found(caps: float, kind: type[Scored], text: str) -> None:
    policy = kind(np.full(60, 0.2), np.ones(150))
    object.__setattr__(policy, "caps", caps * policy.caps / policy.caps.max())
    assert text in failed(replace(synthetic(), policy=policy))["policy"]


class Plain:
    """A world of one's own, with nothing of the library's: everybody sees a third of all."""

    n_users, n_items, examination = 50, 30, 1.0

    def __init__(self, wrong: float = 1.0) -> None:
        self.wrong = wrong

    def relevance(self, users: Indices, items: Indices | None = None, **_: Any) -> Numbers:
        return self._all(users, items, 0.4)

    def shown(self, users: Indices, items: Indices | None = None, **_: Any) -> Numbers:
        return self._all(users, items, self.wrong / 3)

    def propensity(self, users: Indices, items: Indices | None = None, **_: Any) -> Numbers:
        return self.shown(users, items)

    def _all(self, users: Indices, items: Indices | None, value: float) -> Numbers:
        return np.full((len(users), self.n_items if items is None else items.shape[1]), value)

    def log(
        self,
        rates: Sequence[float],
        *,
        sample: int = 0,
        first_round: int = 0,
        before: cp.Interactions | None = None,
        impressions: bool = False,
        with_truth: bool = False,
    ) -> cp.Interactions:
        clicked = np.zeros((self.n_users, self.n_items), dtype=np.bool_)
        if before is not None:
            clicked[before.user, before.item] = True
        parts = []
        for number, rate in enumerate(rates, first_round):
            rng = np.random.default_rng((sample, number))
            shown = (rng.random(clicked.shape) < rate / 3) & ~clicked
            liked = shown & (rng.random(clicked.shape) < 0.4)
            user, item = np.nonzero(shown if impressions else liked)
            parts.append((user, item, np.full(len(user), number), liked[user, item]))
            clicked |= liked
        user, item, time, liked = (np.concatenate(each) for each in zip(*parts, strict=True))
        order = np.lexsort((time, user))
        return cp.Interactions(
            cp.data.Vocabulary.of(np.arange(self.n_users)),
            cp.data.Vocabulary.of(np.arange(self.n_items)),
            user[order].astype(np.int32),
            item[order].astype(np.int32),
            clicked=liked[order] if impressions else None,
            time=time[order],
            exposed=np.ones(len(user), dtype=np.bool_) if with_truth else None,
            propensity=np.full(len(user), self.wrong / 3) if with_truth else None,
            position=np.ones(len(user), dtype=np.int16) if with_truth else None,
        )


def test_a_world_of_ones_own_is_checked() -> None:
    assert failed(Plain()) == {}
    findings = {finding.name: finding.text for finding in check_world(Plain())}
    assert findings["random rows"] == "the world draws no random rows"
    assert set(failed(Plain(wrong=1.3))) == {"whole log", "shown", "exposed", "refit", "clicks"}


class Counting:
    """Notes the largest answer that was asked for."""

    def __init__(self, world: World) -> None:
        self.world, self.most = world, 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.world, name)
        if name not in ("relevance", "shown", "propensity"):
            return found

        def asked(*args: Any, **options: Any) -> Numbers:
            answer: Numbers = found(*args, **options)
            self.most = max(self.most, answer.size)
            return answer

        return asked


def test_large_worlds_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draws, "PAIRS", 1 << 12)
    monkeypatch.setattr(draws, "FEW", 1 << 10)
    monkeypatch.setattr(draws, "_ROWS", 2000)
    counting = Counting(synthetic(n_users=3000))
    assert failed(counting) == {}
    assert 0 < counting.most <= 1 << 12
    assert "whole log" in failed(broken(synthetic(n_users=3000), "log", lopsided))
