"""Logging policies: what the old system showed, with a known probability.

A pair is shown with probability `cap_i · accept(u, i)`, where the cap belongs to the item and
`accept` is in [0, 1]. So the time to draw a log grows with its rows, not with the number of pairs:
pairs are proposed by the caps alone and then accepted one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from counterplay.errors import ConfigError
from counterplay.simulation.chance import mean_capped, mean_sigmoid
from counterplay.simulation.factors import scores_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from counterplay.metrics.scoring import Scores
    from counterplay.simulation.factors import Disturbed, Factors, Indices, Numbers


class Policy(Protocol):
    """What a world asks of its logging policy; `items` are `[B, K]`, or None for all."""

    @property
    def caps(self) -> Numbers:
        """The highest probability that an item is shown to anybody, `[n_items]`."""

    def accept(
        self, users: Indices, items: Indices | None, shift: Numbers | float = 0.0
    ) -> Numbers:
        """Return the probability as a share of the cap.

        `shift` is what unobserved factors add to the policy's score of each pair.
        """

    def mean_accept(self, users: Indices, items: Indices | None, deviation: float) -> Numbers:
        """Return the mean of `accept` over a normal shift with that standard deviation."""

    def prominence(self, users: Indices, items: Indices | None) -> Numbers:
        """Return how high in the list a shown pair stands: 1 always first, 0 always last."""


@dataclass(frozen=True, eq=False)
class Scored:
    """`cap_i · a_u · σ(s(u, i) + shift)`: a recommender with scores s, or none (all alike).

    Attributes:
        caps: Per item, in (0, 1]: all equal for a uniform policy, or by popularity.
        activity: How much each user is shown, in (0, 1], `[n_users]`.
        scores: The recommender's scores; None for 0 everywhere.
        sharpness: Factor of the scores; a larger one shows less of what is scored low.
        offset: Added to the scores.
    """

    caps: Numbers
    activity: Numbers
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
        self, users: Indices, items: Indices | None, shift: Numbers | float = 0.0
    ) -> Numbers:
        """Return `a_u · σ(s + shift)`."""
        from scipy.special import expit

        shares: Numbers = expit(self._scores(users, items) + shift)
        shares *= self.activity[users, None]
        return shares

    def mean_accept(self, users: Indices, items: Indices | None, deviation: float) -> Numbers:
        """Return `a_u · E[σ(s + normal)]`, to nine digits."""
        mean = mean_sigmoid(self._scores(users, items), deviation)
        mean *= self.activity[users, None]
        return mean

    def prominence(self, users: Indices, items: Indices | None) -> Numbers:
        """Return `σ(s)`, whatever the user's activity."""
        from scipy.special import expit

        prominence: Numbers = expit(self._scores(users, items))
        return prominence

    def _scores(self, users: Indices, items: Indices | None) -> Numbers:
        if self.scores is None:
            shape = len(users), len(self.caps) if items is None else items.shape[1]
            return np.full(shape, float(self.offset))
        found = scores_of(self.scores, users, items)
        scores: Numbers = self.offset + self.sharpness * found.astype(np.float64)
        return scores


@dataclass(frozen=True, eq=False)
class Exponential:
    """`min(1, e^(log p(u, i) + shift))`: the paper's exposure, where factors are added to log p.

    Attributes:
        logits: Of the exposure model, `p = σ(logit)`.
        extra: The self-defined part, e(x, z), on top of `exponent · log p`.
        exponent: Tempers p: above 1 it is steeper, below 1 flatter.
        strength: Factor of `extra`.
        offset: Added to log p, to set how much is shown.
    """

    logits: Factors | Disturbed
    extra: Factors | None = None
    exponent: float = 1.0
    strength: float = 1.0
    offset: float = 0.0

    @property
    def caps(self) -> Numbers:
        """All pairs are proposed: any of them may be certain."""
        return np.ones(self.logits.n_items)

    def accept(
        self, users: Indices, items: Indices | None, shift: Numbers | float = 0.0
    ) -> Numbers:
        """Return `min(1, p^exponent · e^(strength · extra + offset + shift))`."""
        log_p = self._log(users, items) + shift
        return np.exp(np.minimum(log_p, 0, out=log_p), out=log_p)

    def mean_accept(self, users: Indices, items: Indices | None, deviation: float) -> Numbers:
        """Return its mean, exactly: it has a kink at 1."""
        return mean_capped(self._log(users, items), deviation)

    def prominence(self, users: Indices, items: Indices | None) -> Numbers:
        """Return `σ(logit)`, untempered."""
        from scipy.special import expit

        prominence: Numbers = expit(scores_of(self.logits, users, items))
        return prominence

    def _log(self, users: Indices, items: Indices | None) -> Numbers:
        logits = scores_of(self.logits, users, items)
        log_p: Numbers = self.offset - self.exponent * np.logaddexp(0, -logits)
        if self.extra is not None:
            log_p += self.strength * scores_of(self.extra, users, items)
        return log_p


@dataclass(frozen=True, eq=False)
class Mixture:
    """Several policies, each of which may show a pair: their probabilities are averaged.

    Attributes:
        policies: At least one.
        shares: One per policy, in total 1.
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
    def caps(self) -> Numbers:
        """The averages of the policies' caps."""
        return sum((share * each.caps for share, each in self._parts()), np.zeros(1))

    def accept(
        self, users: Indices, items: Indices | None, shift: Numbers | float = 0.0
    ) -> Numbers:
        """Return the averaged probability as a share of the averaged cap."""
        return self._mean(items, lambda each: each.accept(users, items, shift))

    def mean_accept(self, users: Indices, items: Indices | None, deviation: float) -> Numbers:
        """Return the averaged mean."""
        return self._mean(items, lambda each: each.mean_accept(users, items, deviation))

    def prominence(self, users: Indices, items: Indices | None) -> Numbers:
        """Return the averaged prominence."""
        return self._mean(items, lambda each: each.prominence(users, items))

    def _mean(self, items: Indices | None, values: Callable[[Policy], Numbers]) -> Numbers:
        """Return the mean of the policies' values, in proportion to their shares and caps."""
        chosen = slice(None) if items is None else items
        parts = (share * each.caps[chosen] * values(each) for share, each in self._parts())
        mean: Numbers = sum(parts, np.zeros(1)) / self.caps[chosen]
        return np.minimum(mean, 1.0, out=mean)

    def _parts(self) -> zip[tuple[float, Policy]]:
        return zip(self.shares, self.policies, strict=True)


def caps_for(appeal: Numbers, n_shown: float, mean_accept: float) -> Numbers:
    """Return caps in proportion to `appeal`, at most 1, that show `n_shown` items per user.

    Example:
        >>> caps_for(np.array([4.0, 1.0, 1.0]), 1.5, 1.0)
        array([1.  , 0.25, 0.25])
    """
    wanted = n_shown / mean_accept
    if not (appeal > 0).all():
        raise ConfigError(f"appeal must be above 0; found {appeal.min():g}; leave such items out")
    if not 0 < wanted < len(appeal):
        most = mean_accept * len(appeal)
        raise ConfigError(
            f"a user can be shown more than 0 and fewer than {most:,.0f} of {len(appeal):,} items; "
            f"found n_shown {n_shown:g}; choose another, for example n_shown={round(most / 2, 1):g}"
        )
    falling = np.sort(appeal)[::-1]
    rest = np.cumsum(falling[::-1])[::-1]
    scales = (wanted - np.arange(len(falling))) / rest  # where the first 0, 1, … are capped
    scale = scales[np.argmax(scales * falling <= 1)]
    caps: Numbers = np.minimum(scale * appeal, 1)
    return caps
