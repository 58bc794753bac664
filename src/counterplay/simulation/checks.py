"""Check that a world is what it says: its probabilities, its logs, and that the two agree."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.seeding import Streams
from counterplay.simulation import draws, impressions
from counterplay.simulation.draws import WorldError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CHECKS = (  # what the others rest on first
    *("range", "all items", "one by one", "policy", "occasions", "same log", "other sample"),
    *("order", "repeats", "logged propensity", "whole log", "shown", "exposed", "clicks", "refit"),
    *("impressions", "random rows"),
)
_N_OCCASIONS = 100


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found.

    Attributes:
        name: Of the check.
        ok: Whether the world passed it.
        text: What was found; for a failed check, with the probable cause and what to do.
    """

    name: str
    ok: bool
    text: str


def check_world(world: Any, *, seed: int = 0, alpha: float = 1e-6) -> list[Finding]:
    """Check a world, also one of your own, and return what was found.

    Args:
        world: A `World`, or an object with its `n_users`, `n_items`, `examination`, `relevance`,
            `shown`, `propensity` and `log`; the occasion of a log's round is
            `("log", sample, round)`. A `policy` is checked too, and random rows where `log` takes
            `random_share`.
        seed: Of the choice of users.
        alpha: False-alarm rate of all checks together.

    Example:
        >>> from counterplay.simulation.synthetic import Synthetic
        >>> small = Synthetic(n_users=50, n_items=40, n_shown=8).world()
        >>> all(finding.ok for finding in check_world(small))
        True
    """
    check = _Check(world, seed, alpha)
    findings = []
    for name in CHECKS:
        try:
            findings.append(Finding(name, True, getattr(check, name.replace(" ", "_"))()))
        except WorldError as error:
            findings.append(Finding(name, False, str(error)))
        except Exception as error:  # a world may raise anything
            what = (str(error).strip().splitlines() or [""])[0]
            text = (
                f"a world must answer what it is asked; found {type(error).__name__}: {what}; "
                "call the method by itself, as check_world does"
            )
            findings.append(Finding(name, False, text))
    return findings


class _Check:
    """One examination of one world: a method per check, which says what is fine, or raises."""

    def __init__(self, world: Any, seed: int, alpha: float) -> None:
        self.world, self.alpha = world, alpha
        self.rng = rng = Streams(seed).numpy("check", "users")
        n = max(1, draws.PAIRS // world.n_items)
        self.users = np.sort(rng.permutation(world.n_users)[:n])
        self.few = self.users[: max(2, draws.FEW // world.n_items)]
        self.items = rng.integers(world.n_items, size=(len(self.few), 5))

    @cached_property
    def drawn(self) -> draws.Draws:
        return draws.Draws(self.world, self.users)

    def _questions(self) -> Iterator[tuple[str, Callable[..., Any]]]:
        """Yield what can be asked about pairs, in words and as functions of users and items."""
        for name in ("relevance", "shown", "propensity"):
            ask = getattr(self.world, name)
            yield name, ask
            yield (
                f"{name} on an occasion",
                lambda users, items, ask=ask: ask(users, items, occasion=("check", 0)),
            )

    def range(self) -> str:
        for name, ask in self._questions():
            for items in (None, self.items):
                found = np.asarray(ask(self.few, items))
                wanted = len(self.few), self.world.n_items if items is None else items.shape[1]
                if found.shape != wanted:
                    raise WorldError(
                        f"{name} must have one row per user and one column per item, {wanted}; "
                        f"found {found.shape}; probably users are not broadcast: index them "
                        "[:, None]"
                    )
                if not ((found >= 0) & (found <= 1)).all():
                    raise WorldError(
                        f"{name} must be from 0 to 1; found {found.min():g} to {found.max():g}; "
                        "probably a logit or a product is taken for a probability: put it through "
                        "a sigmoid, or clip it"
                    )
        return f"all probabilities of {len(self.few)} users are from 0 to 1"

    def all_items(self) -> str:
        everything = np.tile(np.arange(self.world.n_items), (len(self.few), 1))
        for name, ask in self._questions():
            apart = np.abs(ask(self.few, None) - ask(self.few, everything))
            if not np.allclose(apart, 0, atol=1e-5):
                raise WorldError(
                    f"{name} of all items must be that of each; found up to {apart.max():g} "
                    "between them; probably items=None takes another path than given items: make "
                    "both use the same numbers"
                )
        return "asking for all items and for each gives the same"

    def one_by_one(self) -> str:
        for name, ask in self._questions():
            together = ask(self.few, self.items)
            for place in range(min(len(self.few), 5)):
                alone = ask(self.few[place : place + 1], self.items[place : place + 1, :1])
                if not np.allclose(alone[0, 0], together[place, 0], *draws.NEAR):
                    raise WorldError(
                        f"{name} of a pair must not depend on what is asked with it; found "
                        f"{alone[0, 0]:g} alone and {together[place, 0]:g} in a batch; probably it "
                        "draws random numbers or normalises over a batch: derive chance from the "
                        "pair and the occasion"
                    )
        return "pairs have the same probabilities alone and in a batch"

    def policy(self) -> str:
        policy = getattr(self.world, "policy", None)
        if policy is None:
            return "the world names no policy"
        caps = np.asarray(policy.caps)
        if caps.shape != (self.world.n_items,) or not ((caps > 0) & (caps <= 1)).all():
            raise WorldError(
                f"a policy's caps must be {self.world.n_items:,} numbers above 0 and at most 1; "
                f"found {caps.min():g} to {caps.max():g} in shape {caps.shape}; probably they are "
                "counts or weights: divide them by what makes the largest 1"
            )
        for shift in (-3.0, 0.0, 3.0):
            shares = policy.accept(self.few, None, shift)
            if not ((shares >= 0) & (shares <= 1)).all():
                raise WorldError(
                    f"a policy must accept with a probability from 0 to 1; found {shares.min():g} "
                    f"to {shares.max():g} with a shift of {shift:g}; probably the caps are too low "
                    "for it: raise them"
                )
        return "caps and shares of the policy are probabilities"

    def occasions(self) -> str:
        users, items = self.few[:100], self.items[:100]
        for name in ("relevance", "shown", "propensity"):
            ask = getattr(self.world, name)
            each = np.array(
                [ask(users, items, occasion=("check", n)).mean() for n in range(_N_OCCASIONS)]
            )
            stated = float(ask(users, items).mean())
            error = float(each.std(ddof=1)) / _N_OCCASIONS**0.5
            most = draws.limit(self.alpha, 3) * error + 0.02 * stated  # quadrature is rough
            if abs(each.mean() - stated) > most + 1e-9:
                raise WorldError(
                    f"{name} without an occasion must be the mean over occasions; found "
                    f"{stated:.4g} where {_N_OCCASIONS} occasions have {each.mean():.4g} on "
                    "average; probably it leaves the unobserved factors out: average over them"
                )
        return f"probabilities are the means over occasions, to 2 % ({_N_OCCASIONS} drawn)"

    def same_log(self) -> str:
        again = self.world.log((self.drawn.rate,), impressions=True, with_truth=True)
        if again.fingerprint != self.drawn.logs[0].fingerprint:
            raise WorldError(
                "the same seed and sample must give the same log, byte by byte; found two that "
                "differ; probably a generator outside the world's streams is used, or one is used "
                "on: make a new one in each call, from seed, sample and round"
            )
        return "the same sample is the same log"

    def other_sample(self) -> str:
        logs = {log.fingerprint for log in self.drawn.logs}
        other = self.world.log((self.drawn.rate,), sample=1, impressions=True, with_truth=True)
        if len(logs) < draws.N_LOGS or other.fingerprint == self.drawn.logs[0].fingerprint:
            raise WorldError(
                "another sample, or another round, must give another log; found the same; probably "
                "sample and first_round do not enter the name of the random stream: put them in"
            )
        return "other samples and rounds are other logs"

    def order(self) -> str:
        log = self.world.log((self.drawn.rate,) * 2, with_truth=True)
        if log.time is None or log.propensity is None or log.position is None:
            raise WorldError(
                "a log with the truth must have time, propensity and position; found "
                f"{', '.join(name for name, _ in log.columns())}; add the others"
            )
        users, times = np.diff(log.user), np.diff(log.time)
        if not ((users > 0) | ((users == 0) & (times >= 0))).all():
            raise WorldError(
                "a log's rows must be sorted by user and then by time; found others; probably "
                "rounds are put one after the other: order them with np.lexsort((time, user))"
            )
        return f"{len(log):,} rows are sorted by user and time"

    def repeats(self) -> str:
        rate = self.drawn.rate
        first = self.world.log((rate,) * 3, with_truth=True)
        later = self.world.log((rate,), first_round=3, before=first, with_truth=True)
        pairs = np.concatenate([first.pair, later.pair])
        n_repeated = len(pairs) - len(np.unique(pairs))
        if n_repeated:
            raise WorldError(
                f"a pair must not be clicked twice; found {n_repeated:,} of {len(pairs):,} clicks "
                "that repeat one; probably the clicks of earlier rounds, or of `before`, are still "
                "shown: leave them out"
            )
        return f"none of {len(pairs):,} clicks repeats another"

    def logged_propensity(self) -> str:
        return draws.logged_propensities(self.world, self.drawn)

    def whole_log(self) -> str:
        return draws.whole_log(self.world, self.drawn, self.rng, self.alpha)

    def shown(self) -> str:
        cause = "the draw uses other probabilities than shown(), or pairs are drawn together"
        return draws.counted(self.drawn, "shown", cause, self.alpha)

    def exposed(self) -> str:
        cause = "propensity() leaves out position bias, or is off by a factor"
        return draws.counted(self.drawn, "exposed", cause, self.alpha)

    def clicks(self) -> str:
        cause = "clicks use another relevance than relevance() states for that occasion and time"
        return draws.counted(self.drawn, "clicked", cause, self.alpha)

    def refit(self) -> str:
        return draws.fitted_propensities(self.drawn, self.alpha)

    def impressions(self) -> str:
        return impressions.impressions(self.world, self.drawn)

    def random_rows(self) -> str:
        return impressions.random_rows(self.world, self.drawn, self.alpha)
