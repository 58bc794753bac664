"""Good worlds pass, and each broken one fails the check that is about its fault."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import counterplay as cp
from counterplay.simulation import agreement
from counterplay.simulation.checks import AnyWorld, check_world, require_world
from counterplay.simulation.factors import Factors
from counterplay.simulation.policies import Exponential, Scored
from counterplay.simulation.synthetic import Synthetic
from counterplay.simulation.world import World

Numbers = NDArray[np.float64]
Indices = NDArray[np.integer]
NAMES = {
    "range",
    "all items",
    "one by one",
    "policy",
    "occasions",
    "same log",
    "other sample",
    "order",
    "repeats",
    "logged propensity",
    "whole log",
    "shown",
    "exposed",
    "clicks",
    "refit",
}


def synthetic(**options: Any) -> World:
    return Synthetic(**{"n_users": 150, "n_items": 60, "n_shown": 12, **options}).world()


def exponential() -> World:
    world, rng = synthetic(), np.random.default_rng(0)
    logits, extra = (
        Factors(
            scale * rng.normal(size=(150, 3)),
            rng.normal(size=(60, 3)),
            np.zeros(150),
            rng.normal(size=60),
        )
        for scale in (1.0, 0.3)
    )
    return replace(world, policy=Exponential(logits, extra, 1.5, 0.5, -0.5))


GOOD: dict[str, Callable[[], World]] = {
    "uniform": lambda: synthetic(exposure="uniform"),
    "popularity": lambda: synthetic(exposure="popularity"),
    "history": lambda: synthetic(),
    "mixture": lambda: synthetic(exposure="mixture"),
    "exponential": exponential,
    "drift": lambda: synthetic(drift=0.7),
    "confounded": lambda: synthetic(confounding=0.8),
    "position bias": lambda: synthetic(examination=0.7),
    "no chance": lambda: synthetic(noise=0, exposure_noise=0, examination=1, exposure="uniform"),
    "two items": lambda: synthetic(n_items=2, n_shown=0.2, skew=0.1),
    "one user": lambda: synthetic(n_users=1),
}


def failed(world: AnyWorld, **options: Any) -> dict[str, str]:
    findings = check_world(world, **options)
    assert {finding.name for finding in findings} == NAMES
    return {finding.name: finding.text for finding in findings if not finding.ok}


@pytest.mark.parametrize("make", GOOD.values(), ids=GOOD.keys())
def test_good_worlds_pass(make: Callable[[], World]) -> None:
    """False-alarm rate: at most about 1e-6 a world."""
    assert failed(make()) == {}


def test_good_worlds_pass_at_the_stated_rate() -> None:
    """Twenty worlds at a rate of 1 in 10 each: 9 or more alarms have a probability of 4e-5."""
    alarms = sum(
        bool(failed(synthetic(n_users=40, n_items=20, n_shown=4, seed=seed), alpha=0.1))
        for seed in range(20)
    )
    assert alarms < 9


class Loud(World):
    def relevance(self, *args: Any, **options: Any) -> Numbers:
        return 8 * super().relevance(*args, **options)


class Flat(World):
    def shown(self, *args: Any, **options: Any) -> Numbers:
        return super().shown(*args, **options).ravel()


class Careless(World):
    """All items are asked for in another way."""

    def relevance(self, users: Indices, items: Indices | None = None, **options: Any) -> Numbers:
        found = super().relevance(users, items, **options)
        return found[:, ::-1].copy() if items is None else found


class Batched(World):
    def relevance(self, *args: Any, **options: Any) -> Numbers:
        found = super().relevance(*args, **options)
        found /= found.max()
        return found


class Overstated(World):
    def propensity(self, *args: Any, **options: Any) -> Numbers:
        return np.minimum(1.3 * super().propensity(*args, **options), 1)


class Tempered(World):
    def propensity(self, *args: Any, **options: Any) -> Numbers:
        stated: Numbers = 0.4 * super().propensity(*args, **options) ** 0.7
        return stated


class Unexamined(World):
    """States that what is shown is exposed."""

    def propensity(self, *args: Any, **options: Any) -> Numbers:
        return self.shown(*args, **options)


class Forgetful(World):
    """Leaves the unobserved factors out, where there is no occasion."""

    def relevance(self, users: Indices, items: Indices | None = None, **options: Any) -> Numbers:
        if options.get("occasion") is not None:
            return super().relevance(users, items, **options)
        return World(self.taste, self.policy).relevance(users, items, **options)


class Reluctant(World):
    """Its users click less than stated."""

    def log(self, *args: Any, **options: Any) -> cp.Interactions:
        log = super().log(*args, **options)
        if log.rating is None:
            return log
        return replace(log, rating=log.rating * (np.arange(len(log)) % 5 > 1).astype(np.float32))


class Partial(World):
    """Does not log all that it shows."""

    def log(self, *args: Any, **options: Any) -> cp.Interactions:
        log = super().log(*args, **options)
        return log.take(np.arange(len(log)) % 4 > 0)


class Unrated(World):
    """Logs propensities without position bias."""

    def log(self, *args: Any, **options: Any) -> cp.Interactions:
        log = super().log(*args, **options)
        if log.propensity is None or log.position is None:
            return log
        return replace(log, propensity=log.propensity / self.examination ** (log.position - 1.0))


@dataclass(frozen=True, eq=False)
class Restless(World):
    """Its generator goes on from call to call."""

    @cached_property
    def calls(self) -> list[int]:
        return []

    def log(self, *args: Any, **options: Any) -> cp.Interactions:
        self.calls.append(1)
        return World.log(self, *args, **options | {"sample": len(self.calls)})


class Stubborn(World):
    """Does not hear of samples and rounds."""

    def log(self, *args: Any, **options: Any) -> cp.Interactions:
        return super().log(*args, **options | {"sample": 0, "first_round": 0})


class Unsorted(World):
    def log(self, *args: Any, **options: Any) -> cp.Interactions:
        log = super().log(*args, **options)
        columns: dict[str, Any] = {name: column[::-1] for name, column in log.columns()}
        return replace(log, **columns)


class Repeating(World):
    def log(self, *args: Any, **options: Any) -> cp.Interactions:
        return super().log(*args, **options | {"before": None})


class Untimed(World):
    def log(self, *args: Any, **options: Any) -> cp.Interactions:
        return replace(super().log(*args, **options), time=None)


class Broken(World):
    def relevance(self, *_: Any, **__: Any) -> Numbers:
        raise RuntimeError("no relevance today\nat all")


BAD = [
    (Loud, "range", r"relevance must be from 0 to 1; found .* to [2-8]\.\d+; probably a logit"),
    (Flat, "range", "shown must have one row a user .* probably users are not broadcast"),
    (Careless, "all items", "relevance of all items must be that of each"),
    (Batched, "one by one", "relevance of a pair must not depend on what is asked with it"),
    (
        Overstated,
        "exposed",
        "probably propensity.. leaves out position bias, or is off by a factor",
    ),
    (Overstated, "refit", "must come back when they are fitted"),
    (Tempered, "refit", r"slope 1\.[45]\d\d .* probably propensity\(\) is tempered"),
    (Unexamined, "exposed", "how often pairs are exposed must match its probability"),
    (Unexamined, "refit", "must come back when they are fitted"),
    (Forgetful, "occasions", "relevance without an occasion .* leaves the unobserved factors out"),
    (Reluctant, "clicks", "probably clicks come from another relevance"),
    (Partial, "whole log", "14,400 pairs .* probably some users or items are never drawn"),
    (Partial, "shown", "probably the draw uses other probabilities"),
    (Unrated, "logged propensity", "probably position bias, the rate or the occasion"),
    (Restless, "same log", "probably a generator outside the world's streams"),
    (Stubborn, "other sample", "probably sample and first_round do not enter"),
    (Unsorted, "order", "must stand by user and then by time"),
    (Untimed, "order", "must have time, propensity and position; found user, item, exposed"),
    (Repeating, "repeats", "must not be clicked twice; found"),
    (Broken, "range", "found RuntimeError: no relevance today; call the method"),
]


@cache
def faults(kind: Callable[..., World]) -> dict[str, str]:
    good = synthetic(examination=0.7, noise=2.0, n_users=240)
    return failed(kind(**{each: getattr(good, each) for each in World.__dataclass_fields__}))


@pytest.mark.parametrize(("kind", "name", "text"), BAD)
def test_each_fault_is_found(kind: Callable[..., World], name: str, text: str) -> None:
    assert name in faults(kind)
    assert re.search(text, faults(kind)[name]), faults(kind)[name]


def test_a_fault_is_raised_where_a_good_world_is_required() -> None:
    require_world(Plain())
    with pytest.raises(cp.DataError, match="a log must show as many pairs"):
        require_world(Plain(wrong=1.3))


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
        **_: Any,
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
        user, item, time, rating = (np.concatenate(each) for each in zip(*parts, strict=True))
        order = np.lexsort((time, user))
        return cp.Interactions(
            cp.Vocabulary.of(np.arange(self.n_users)),
            cp.Vocabulary.of(np.arange(self.n_items)),
            user[order].astype(np.int32),
            item[order].astype(np.int32),
            rating=rating[order].astype(np.float32) if impressions else None,
            time=time[order],
            exposed=np.ones(len(user), dtype=np.bool_),
            propensity=np.full(len(user), self.wrong / 3),
            position=np.ones(len(user), dtype=np.int16),
        )


def test_a_world_of_ones_own_is_checked() -> None:
    assert failed(Plain()) == {}
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
    monkeypatch.setattr(agreement, "PAIRS", 1 << 12)
    monkeypatch.setattr(agreement, "FEW", 1 << 10)
    monkeypatch.setattr(agreement, "_ROWS", 2000)
    counting = Counting(synthetic(n_users=3000))
    assert failed(counting) == {}
    assert 0 < counting.most <= 1 << 12
    good = synthetic(n_users=3000)
    values = {each: getattr(good, each) for each in World.__dataclass_fields__}
    assert "whole log" in failed(Lopsided(**values))


class Lopsided(World):
    """Never draws the second half of its users, of whom few may be looked at."""

    def log(self, *args: Any, **options: Any) -> cp.Interactions:
        log = super().log(*args, **options)
        return log.take(log.user < self.n_users // 2)


def test_fewer_users_are_looked_at_on_request() -> None:
    texts = {finding.name: finding.text for finding in check_world(synthetic(), n_users=7)}
    assert texts["range"] == "all probabilities of 7 users are from 0 to 1"
