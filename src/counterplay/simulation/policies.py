"""Logging policies: what the old system showed, with a probability that is known.

A pair is shown with the probability `cap_i · accept(u, i)`, where the cap is the item's own and
`accept` is in [0, 1]. So a log is drawn in time that grows with its rows, not with the number of
pairs: pairs are proposed by the caps alone and then accepted one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from scipy.special import expit

from counterplay.errors import ConfigError
from counterplay.simulation.chance import mean_capped, mean_sigmoid

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from counterplay.metrics.scoring import Scores
    from counterplay.simulation.factors import Factors


class Policy(Protocol):
    """What a world asks of the system that did the exposing."""

    @property
    def caps(self) -> NDArray[np.float64]:
        """The highest probability that an item is shown to anybody, `[n_items]`."""

    def accept(
        self,
        users: NDArray[np.integer],
        items: NDArray[np.integer] | None,
        shift: NDArray[np.float64] | float = 0.0,
    ) -> NDArray[np.float64]:
        """Return the probability, as a share of the cap, for `items` `[B, K]` or all of them.

        `shift` is what unobserved factors add to the policy's score of each pair.
        """

    def mean_accept(
        self, users: NDArray[np.integer], items: NDArray[np.integer] | None, deviation: float
    ) -> NDArray[np.float64]:
        """Return the mean of `accept` over a normal shift with that standard deviation."""

    def prominence(
        self, users: NDArray[np.integer], items: NDArray[np.integer] | None
    ) -> NDArray[np.float64]:
        """Return how high up a pair is shown, if it is: 1 always first, 0 always last."""


@dataclass(frozen=True, eq=False)
class Scored:
    """`cap_i · a_u · σ(s(u, i) + shift)`: a recommender with scores s; without, all are alike.

    Attributes:
        caps: Of the items, in (0, 1]: all the same for a uniform policy, or by popularity.
        activity: How much each user is shown, in (0, 1], `[n_users]`.
        scores: The recommender's: factors, or anything that scores; None for 0 everywhere.
        sharpness: What scores are multiplied with; more shows less of what it scores low.
        offset: What is added to them.
    """

    caps: NDArray[np.float64]
    activity: NDArray[np.float64]
    scores: Factors | Scores | None = None
    sharpness: float = 1.0
    offset: float = 0.0

    def __post_init__(self) -> None:
        for name, values in (("caps", self.caps), ("activity", self.activity)):
            if not ((values > 0) & (values <= 1)).all():
                raise ConfigError(
                    f"the {name} of a policy must be above 0 and at most 1; found "
                    f"{values.min():g} to {values.max():g}; show less, or scale them"
                )

    def accept(
        self,
        users: NDArray[np.integer],
        items: NDArray[np.integer] | None,
        shift: NDArray[np.float64] | float = 0.0,
    ) -> NDArray[np.float64]:
        """Return `a_u · σ(s + shift)`."""
        shares: NDArray[np.float64] = expit(self._scores(users, items) + shift)
        shares *= self.activity[users, None]
        return shares

    def mean_accept(
        self, users: NDArray[np.integer], items: NDArray[np.integer] | None, deviation: float
    ) -> NDArray[np.float64]:
        """Return `a_u · E[σ(s + normal)]`, to nine digits."""
        mean = mean_sigmoid(self._scores(users, items), deviation)
        mean *= self.activity[users, None]
        return mean

    def prominence(
        self, users: NDArray[np.integer], items: NDArray[np.integer] | None
    ) -> NDArray[np.float64]:
        """Return `σ(s)`, whatever the user's activity."""
        prominence: NDArray[np.float64] = expit(self._scores(users, items))
        return prominence

    def _scores(
        self, users: NDArray[np.integer], items: NDArray[np.integer] | None
    ) -> NDArray[np.float64]:
        if self.scores is None:
            shape = len(users), len(self.caps) if items is None else items.shape[1]
            return np.full(shape, float(self.offset))
        found = self.scores.of_all(users) if items is None else self.scores.of(users, items)
        scores: NDArray[np.float64] = self.offset + self.sharpness * found.astype(np.float64)
        return scores


@dataclass(frozen=True, eq=False)
class Exponential:
    """`min(1, e^(log p(u, i) + shift))`: the paper's exposure, where factors are added to log p.

    Attributes:
        logits: Of the exposure model, `p = σ(logit)`.
        extra: The self-defined part, e(x, z), on top of `exponent · log p`.
        exponent: Tempers p: above 1 it is steeper, below flatter.
        strength: What `extra` is multiplied with.
        offset: What is added to the logarithm, so that as much is shown as is wanted.
    """

    logits: Factors
    extra: Factors | None = None
    exponent: float = 1.0
    strength: float = 1.0
    offset: float = 0.0

    @property
    def caps(self) -> NDArray[np.float64]:
        """All pairs are proposed: any of them may be certain."""
        return np.ones(self.logits.n_items)

    def accept(
        self,
        users: NDArray[np.integer],
        items: NDArray[np.integer] | None,
        shift: NDArray[np.float64] | float = 0.0,
    ) -> NDArray[np.float64]:
        """Return `min(1, p^exponent · e^(strength · extra + offset + shift))`."""
        log_p = self._log(users, items) + shift
        return np.exp(np.minimum(log_p, 0, out=log_p), out=log_p)

    def mean_accept(
        self, users: NDArray[np.integer], items: NDArray[np.integer] | None, deviation: float
    ) -> NDArray[np.float64]:
        """Return its mean, exactly: it has a kink at 1."""
        return mean_capped(self._log(users, items), deviation)

    def prominence(
        self, users: NDArray[np.integer], items: NDArray[np.integer] | None
    ) -> NDArray[np.float64]:
        """Return `σ(logit)`, untempered."""
        logits = self.logits.of_all(users) if items is None else self.logits.of(users, items)
        prominence: NDArray[np.float64] = expit(logits)
        return prominence

    def _log(
        self, users: NDArray[np.integer], items: NDArray[np.integer] | None
    ) -> NDArray[np.float64]:
        logits = self.logits.of_all(users) if items is None else self.logits.of(users, items)
        log_p: NDArray[np.float64] = self.offset - self.exponent * np.logaddexp(0, -logits)
        if self.extra is not None:
            extra = self.extra.of_all(users) if items is None else self.extra.of(users, items)
            log_p += self.strength * extra
        return log_p


@dataclass(frozen=True, eq=False)
class Mixture:
    """Several policies, each of which a pair may be shown by: the probabilities are averaged.

    Attributes:
        policies: At least one.
        shares: Of each, adding up to 1.
    """

    policies: Sequence[Policy]
    shares: Sequence[float]

    def __post_init__(self) -> None:
        shares = list(self.shares)
        if len(shares) != len(self.policies) or not min(shares, default=-1) >= 0:
            raise ConfigError(
                f"a mixture needs a share of 0 or more for each policy; found {shares} for "
                f"{len(self.policies)} policies; give one each"
            )
        if abs(sum(shares) - 1) > 1e-9:
            raise ConfigError(
                f"the shares of a mixture must add up to 1; found {sum(shares):g}; scale them"
            )

    @property
    def caps(self) -> NDArray[np.float64]:
        """The averages of the policies' caps."""
        caps: NDArray[np.float64] = sum(
            (share * each.caps for share, each in self._parts()), np.zeros(1)
        )
        return caps

    def accept(
        self,
        users: NDArray[np.integer],
        items: NDArray[np.integer] | None,
        shift: NDArray[np.float64] | float = 0.0,
    ) -> NDArray[np.float64]:
        """Return the averaged probability as a share of the averaged cap."""
        return self._averaged(items, lambda each: each.accept(users, items, shift))

    def mean_accept(
        self, users: NDArray[np.integer], items: NDArray[np.integer] | None, deviation: float
    ) -> NDArray[np.float64]:
        """Return the averaged mean."""
        return self._averaged(items, lambda each: each.mean_accept(users, items, deviation))

    def prominence(
        self, users: NDArray[np.integer], items: NDArray[np.integer] | None
    ) -> NDArray[np.float64]:
        """Return the averaged prominence."""
        return self._averaged(items, lambda each: each.prominence(users, items))

    def _averaged(
        self,
        items: NDArray[np.integer] | None,
        values: Callable[[Policy], NDArray[np.float64]],
    ) -> NDArray[np.float64]:
        """Return the mean of the policies' values, in proportion to their shares and caps."""
        chosen = slice(None) if items is None else items
        total = sum(
            (share * each.caps[chosen] * values(each) for share, each in self._parts()), np.zeros(1)
        )
        mean: NDArray[np.float64] = total / self.caps[chosen]
        return np.minimum(mean, 1.0, out=mean)

    def _parts(self) -> list[tuple[float, Policy]]:
        return list(zip(self.shares, self.policies, strict=True))


def caps_for(
    appeal: NDArray[np.float64], n_shown: float, mean_accept: float
) -> NDArray[np.float64]:
    """Return caps in proportion to `appeal`, at most 1, that show `n_shown` items a user.

    Example:
        >>> caps_for(np.array([4.0, 1.0, 1.0]), 1.5, 1.0)
        array([1.  , 0.25, 0.25])
    """
    wanted = n_shown / mean_accept
    if not (appeal > 0).all():
        raise ConfigError(f"appeal must be above 0; found {appeal.min():g}; leave such items out")
    if not 0 < wanted < len(appeal):
        raise ConfigError(
            f"a user can be shown more than 0 and fewer than {mean_accept * len(appeal):,.0f} of "
            f"{len(appeal):,} items; found n_shown {n_shown:g}; change it"
        )
    falling = np.sort(appeal)[::-1]
    rest = np.cumsum(falling[::-1])[::-1]
    scales = (wanted - np.arange(len(falling))) / rest  # where the first 0, 1, … are capped
    scale = scales[np.argmax(scales * falling <= 1)]
    caps: NDArray[np.float64] = np.minimum(scale * appeal, 1)
    return caps
