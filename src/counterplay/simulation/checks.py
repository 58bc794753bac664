"""Whether a world is what it says: its probabilities, its logs, and that the two agree."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from counterplay.errors import DataError
from counterplay.seeding import Streams
from counterplay.simulation import agreement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from counterplay.data.interactions import Interactions
    from counterplay.simulation.agreement import Result

    Numbers = NDArray[np.float64]


class AnyWorld(Protocol):
    """What is asked of a world; one with a `policy` has its caps and shares looked at too.

    The occasion of a log's round is `("log", sample, round)`.
    """

    @property
    def n_users(self) -> int:
        """Number of users."""

    @property
    def n_items(self) -> int:
        """Number of items."""

    @property
    def examination(self) -> float:
        """How much less often each place down a list is examined; 1 for no position bias."""

    def relevance(
        self,
        users: NDArray[np.integer],
        items: NDArray[np.integer] | None = None,
        *,
        time: float = 0.0,
        occasion: tuple[str | int, ...] | None = None,
    ) -> Numbers:
        """Return the probability of a click on what is seen, of `items` `[B, K]` or all of them."""

    def shown(
        self,
        users: NDArray[np.integer],
        items: NDArray[np.integer] | None = None,
        *,
        occasion: tuple[str | int, ...] | None = None,
    ) -> Numbers:
        """Return the probability that a pair is shown in a round of rate 1."""

    def propensity(
        self,
        users: NDArray[np.integer],
        items: NDArray[np.integer] | None = None,
        *,
        occasion: tuple[str | int, ...] | None = None,
    ) -> Numbers:
        """Return the probability that a pair is shown and examined in a round of rate 1."""

    def log(
        self,
        rates: Sequence[float],
        *,
        sample: int = 0,
        first_round: int = 0,
        before: Interactions | None = None,
        impressions: bool = False,
        with_truth: bool = False,
    ) -> Interactions:
        """Draw a log, as `World.log` does."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found.

    Attributes:
        name: Of the check.
        ok: Whether the world passed it.
        text: What was found; if it did not pass, with the probable cause and what to do.
    """

    name: str
    ok: bool
    text: str


def check_world(
    world: AnyWorld, *, seed: int = 0, n_users: int | None = None, alpha: float = 1e-6
) -> list[Finding]:
    """Check a world, also one of your own, and return what was found.

    A good world fails with a probability of about `alpha` at most, all checks together.

    Args:
        world: With the methods of `AnyWorld`.
        seed: Of the choice of users.
        n_users: Whose pairs are looked at; by default as many as make a million pairs.
        alpha: False-alarm rate.

    Example:
        >>> from counterplay.simulation.synthetic import Synthetic
        >>> small = Synthetic(n_users=50, n_items=40, n_shown=8).world()
        >>> all(finding.ok for finding in check_world(small))
        True
    """
    check = _Check(world, seed, n_users, alpha)
    findings = []
    for name, run in check.all():
        try:
            problem, fine = run()
        except Exception as error:  # whatever a world of one's own may raise
            what = (str(error).strip().splitlines() or [""])[0]
            problem, fine = (
                f"a world must answer what it is asked; found {type(error).__name__}: {what}; "
                "call the method by itself, as check_world does",
                "",
            )
        findings.append(Finding(name, not problem, problem or fine))
    return findings


def require_world(world: AnyWorld, *, seed: int = 0) -> None:
    """Raise a DataError with the first thing that is wrong with a world, if there is one."""
    for finding in check_world(world, seed=seed):
        if not finding.ok:
            raise DataError(finding.text)


class _Check:
    """One examination of one world."""

    def __init__(self, world: AnyWorld, seed: int, n_users: int | None, alpha: float) -> None:
        self.world, self.alpha = world, alpha
        self.rng = rng = Streams(seed).numpy("check", "users")
        n = min(world.n_users, n_users or max(1, agreement.PAIRS // world.n_items))
        self.users = np.sort(rng.permutation(world.n_users)[:n])
        self.few = self.users[: max(2, agreement.FEW // world.n_items)]
        self.items = rng.integers(world.n_items, size=(len(self.few), 5))

    def all(self) -> Iterator[tuple[str, Callable[[], Result]]]:
        """Yield the checks by name, what the others rest on first."""
        yield "range", self.range
        yield "all items", self.all_items
        yield "one by one", self.one_by_one
        yield "policy", self.policy
        yield "occasions", self.occasions
        yield "same log", self.same_log
        yield "other sample", self.other_sample
        yield "order", self.order
        yield "repeats", self.repeats
        yield "logged propensity", self.logged
        yield "whole log", self.whole
        yield "shown", self.shown
        yield "exposed", self.exposed
        yield "clicks", self.clicks
        yield "refit", self.refit

    def range(self) -> Result:
        for name, ask in self._questions():
            for items in (None, self.items):
                found = np.asarray(ask(self.few, items))
                wanted = len(self.few), self.world.n_items if items is None else items.shape[1]
                if found.shape != wanted:
                    return (
                        f"{name} must have one row a user and one column an item, {wanted}; found "
                        f"{found.shape}; probably users are not broadcast: index them [:, None]"
                    ), ""
                if not ((found >= 0) & (found <= 1)).all():
                    return (
                        f"{name} must be from 0 to 1; found {found.min():g} to {found.max():g}; "
                        "probably a logit or a product is taken for a probability: put it through "
                        "a sigmoid, or clip it"
                    ), ""
        return "", f"all probabilities of {len(self.few)} users are from 0 to 1"

    def all_items(self) -> Result:
        everything = np.broadcast_to(
            np.arange(self.world.n_items), (len(self.few), self.world.n_items)
        )
        for name, ask in self._questions():
            apart = np.abs(ask(self.few, None) - ask(self.few, everything))
            if not np.allclose(apart, 0, atol=1e-5):
                return (
                    f"{name} of all items must be that of each; found up to {apart.max():g} "
                    "between them; probably items=None takes another path than given items: make "
                    "both use the same numbers"
                ), ""
        return "", "asking for all items and for each gives the same"

    def one_by_one(self) -> Result:
        for name, ask in self._questions():
            together = ask(self.few, self.items)
            for place in range(min(len(self.few), 5)):
                alone = ask(self.few[place : place + 1], self.items[place : place + 1, :1])
                if not np.allclose(alone[0, 0], together[place, 0], **agreement.NEAR):
                    return (
                        f"{name} of a pair must not depend on what is asked with it; found "
                        f"{alone[0, 0]:g} alone and {together[place, 0]:g} in a batch; probably it "
                        "draws random numbers or normalises over a batch: derive chance from the "
                        "pair and the occasion"
                    ), ""
        return "", "pairs have the same probabilities alone and in a batch"

    def policy(self) -> Result:
        policy = getattr(self.world, "policy", None)
        if policy is None:
            return "", "the world names no policy"
        caps = np.asarray(policy.caps)
        if caps.shape != (self.world.n_items,) or not ((caps > 0) & (caps <= 1)).all():
            return (
                f"a policy's caps must be {self.world.n_items:,} numbers above 0 and at most 1; "
                f"found {caps.min():g} to {caps.max():g} in shape {caps.shape}; probably they are "
                "counts or weights: divide them by what makes the largest 1"
            ), ""
        for shift in (-3.0, 0.0, 3.0):
            shares = policy.accept(self.few, None, shift)
            if not ((shares >= 0) & (shares <= 1)).all():
                return (
                    f"a policy must accept with a probability from 0 to 1; found {shares.min():g} "
                    f"to {shares.max():g} with a shift of {shift:g}; probably the caps are too low "
                    "for it: raise them"
                ), ""
        return "", "caps and shares of the policy are probabilities"

    def occasions(self) -> Result:
        return agreement.means_over_occasions(
            self.world, self.few[:100], self.items[:100], self.alpha
        )

    def same_log(self) -> Result:
        again = self.world.log((self.draws.rate,), impressions=True)
        if again.fingerprint != self.draws.logs[0].fingerprint:
            return (
                "the same seed and sample must give the same log, byte by byte; found two that "
                "differ; probably a generator outside the world's streams is used, or one is used "
                "on: make it anew in each call, from seed, sample and round"
            ), ""
        return "", "the same sample is the same log"

    def other_sample(self) -> Result:
        prints = {log.fingerprint for log in self.draws.logs}
        other = self.world.log((self.draws.rate,), sample=1, impressions=True)
        if len(prints) < agreement.N_LOGS or other.fingerprint == self.draws.logs[0].fingerprint:
            return (
                "another sample, or another round, must give another log; found the same; probably "
                "sample and first_round do not enter the name of the random stream: put them in"
            ), ""
        return "", "other samples and rounds are other logs"

    def order(self) -> Result:
        log = self.world.log((self.draws.rate,) * 2, with_truth=True)
        if log.time is None or log.propensity is None or log.position is None:
            return (
                "a log with the truth must have time, propensity and position; found "
                f"{', '.join(name for name, _ in log.columns())}; add the others"
            ), ""
        users, times = np.diff(log.user), np.diff(log.time)
        if not ((users > 0) | ((users == 0) & (times >= 0))).all():
            return (
                "a log's rows must stand by user and then by time; found others; probably rounds "
                "are put one after the other: order them with np.lexsort((time, user))"
            ), ""
        return "", f"{len(log):,} rows stand by user and time"

    def repeats(self) -> Result:
        rate = self.draws.rate
        first = self.world.log((rate,) * 3, with_truth=True)
        later = self.world.log((rate,), first_round=3, before=first, with_truth=True)
        pairs = np.concatenate([first.pair, later.pair])
        n_repeated = len(pairs) - len(np.unique(pairs))
        if n_repeated:
            return (
                f"a pair must not be clicked twice; found {n_repeated:,} of {len(pairs):,} clicks "
                "that repeat one; probably the clicks of earlier rounds, or of `before`, are still "
                "shown: leave them out"
            ), ""
        return "", f"none of {len(pairs):,} clicks repeats another"

    def logged(self) -> Result:
        return agreement.logged_propensities(self.world, self.draws)

    def whole(self) -> Result:
        return agreement.whole_log(self.world, self.draws, self.rng, self.alpha)

    def shown(self) -> Result:
        cause = "the draw uses other probabilities than shown(), or pairs are drawn together"
        return agreement.counted(self.draws, "shown", cause, self.alpha)

    def exposed(self) -> Result:
        cause = "propensity() leaves out position bias, or is off by a factor"
        return agreement.counted(self.draws, "exposed", cause, self.alpha)

    def clicks(self) -> Result:
        cause = (
            "clicks come from another relevance than relevance() states on that occasion, or at "
            "that time"
        )
        return agreement.counted(self.draws, "clicked", cause, self.alpha)

    def refit(self) -> Result:
        return agreement.fitted_propensities(self.draws, self.alpha)

    @cached_property
    def draws(self) -> agreement.Draws:
        return agreement.Draws(self.world, self.users)

    def _questions(self) -> Iterator[tuple[str, Callable[..., Any]]]:
        """Yield what can be asked about pairs, in words and as functions of users and items."""
        for name in ("relevance", "shown", "propensity"):
            ask = getattr(self.world, name)
            yield name, ask
            yield (
                f"{name} on an occasion",
                lambda users, items, ask=ask: ask(users, items, occasion=("check", 0)),
            )
