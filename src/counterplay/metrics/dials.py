"""Values under every assumption that two dials allow: how much of a click log is exposure.

The log odds of a click are an item part and a personal part, log c_i + T(u, i). A share γ of the
one and a share λ of the other is exposure (`click_model` has T and A_λ):

    log q(u, i) = γ · log(c_i + 1) + λ · T(u, i) + A_λ(i)
    V_γλ(f)     = Σ m_f / q  /  Σ 1 / q                                    over held-out clicks
    lead(f, h)  = min over (γ, λ) in the box of V(f) − V(h) − z · s.e.     paired row by row

(0, 0) is the standard estimate, (1, 0) weighting by popularity. Standard errors are over users:
with the sums T and B of a user's m/q and 1/q, user u moves a value by ψ_u = (T − V·B) / ΣB, and
Σ_u ψ_u(f) · ψ_u(h) is the covariance of two values; one matrix a pair of dials has all pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from counterplay.errors import ConfigError, DataError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from counterplay.metrics.click_model import Exposures

    Floats = NDArray[np.float64]

Dials = tuple[float, float]  # γ, the share of popularity, and λ, the share of the personal part
GAMMAS = (0.0, 0.25, 0.5, 0.75, 1.0)
LAMBDAS = (0.0, 0.2, 0.4)
POINT: Dials = (0.55, 0.3)
_FEWEST = 7  # users in whom two candidates must differ for a difference to be told from chance


@dataclass(frozen=True, slots=True)
class Box:
    """The dials that are held possible.

    Attributes:
        dials: Pairs (γ, λ).
        point: The pair that is held likeliest.

    Example:
        >>> box = Box.grid((0, 1), (0, 0.2))
        >>> box.dials, box.lambdas
        (((0, 0), (0, 0.2), (1, 0), (1, 0.2)), (0, 0.2, 0.3))
    """

    dials: tuple[Dials, ...] = tuple(product(GAMMAS, LAMBDAS))
    point: Dials = POINT

    def __post_init__(self) -> None:
        if not self.dials or not np.isfinite([*self.dials, self.point]).all():
            raise ConfigError(
                "a box must have a pair of dials or more, all of them finite; found "
                f"{self.dials} and the point {self.point}; give shares such as 0.5"
            )

    @classmethod
    def grid(
        cls, gammas: Sequence[float] = GAMMAS, lambdas: Sequence[float] = LAMBDAS,
        point: Dials = POINT,
    ) -> Box:  # fmt: skip
        """Return the box of all pairs."""
        return cls(tuple(product(gammas, lambdas)), point)

    @property
    def lambdas(self) -> tuple[float, ...]:
        """Every λ that a click model must be fitted for, ascending."""
        return tuple(sorted({lam for _, lam in (*self.dials, self.point)}))


@dataclass(frozen=True, slots=True, eq=False)
class Surface:
    """The values of candidates over a box; the last entry of each array is that of the point.

    Attributes:
        names: Of the candidates, F of them.
        box: The dials, G of them.
        values: `[G + 1, F]`.
        covariances: Of the values, over users, `[G + 1, F, F]`.
        ess: Effective sample size of the weights, `[G + 1]`.
        n: Number of rows.
        n_users: Number of users.
        differing: Users in whom two candidates differ, `[F, F]`.
    """

    names: tuple[str, ...]
    box: Box
    values: Floats
    covariances: Floats
    ess: Floats
    n: int
    n_users: int
    differing: NDArray[np.int64]

    def lower(self, first: str, second: str, *, level: float = 0.95, n_tests: int = 1) -> Floats:
        """Return the lower end of V(first) − V(second) at each pair of dials, `[G + 1]`.

        One-sided at `level`, for `n_tests` differences at once (Bonferroni). It is −∞ where the
        two differ in fewer than seven users: chance alone could do that.
        """
        one, other = self._place(first), self._place(second)
        error = self._errors(one, other)
        reach = _quantile(1 - (1 - level) / n_tests) * error
        if 0 < self.differing[one, other] < _FEWEST:
            reach = np.full(len(error), np.inf)
        found: Floats = self.values[:, one] - self.values[:, other] - reach
        return found

    def lead(self, first: str, second: str, *, level: float = 0.95, n_tests: int = 1) -> float:
        """Return the least lower end of V(first) − V(second) over the box.

        Above 0, the first is ahead whichever dials of the box are right. That needs no correction
        for their number: it must hold at each of them.
        """
        return float(self.lower(first, second, level=level, n_tests=n_tests)[:-1].min())

    def leads(self, name: str, *, level: float = 0.95) -> dict[str, float]:
        """Return the lead over each rival, all of them at once at `level`.

        So a candidate that was chosen by its values can be called the best of all where each lead
        is above 0: one that is not would be called so with a probability of 1 − level at most.
        """
        rivals = [each for each in self.names if each != name]
        return {rival: self.lead(name, rival, level=level, n_tests=len(rivals)) for rival in rivals}

    def p_value(self, first: str, second: str, *, n_tests: int = 1) -> float:
        """Return the smallest 1 − level at which one of the two leads the other over the box."""
        return min(
            1.0, *(n_tests * self._chance(*pair) for pair in ((first, second), (second, first)))
        )

    def _chance(self, first: str, second: str) -> float:
        """Return the greatest probability over the box that chance alone puts the first so far."""
        from scipy.special import ndtr

        one, other = self._place(first), self._place(second)
        if self.differing[one, other] < _FEWEST:
            return 1.0
        ahead = (self.values[:, one] - self.values[:, other])[:-1]
        with np.errstate(divide="ignore", invalid="ignore"):
            away = np.nan_to_num(ahead / self._errors(one, other)[:-1], nan=0.0)  # 0 / 0: equal
        return float(ndtr(-away).max())

    def _errors(self, one: int, other: int) -> Floats:
        """Return the standard error of a difference at each pair of dials, `[G + 1]`."""
        spread = self.covariances[:, one, one] + self.covariances[:, other, other]
        found: Floats = np.sqrt(np.maximum(spread - 2 * self.covariances[:, one, other], 0))
        return found

    def ends(self, name: str, *, level: float = 0.95) -> tuple[float, float]:
        """Return the least lower and the greatest upper end of a value over the box."""
        value, reach = self._reach(name, level)
        return float((value - reach)[:-1].min()), float((value + reach)[:-1].max())

    def interval(self, name: str, *, level: float = 0.95) -> tuple[float, float]:
        """Return the interval of a value at the point."""
        value, reach = self._reach(name, level)
        return float((value - reach)[-1]), float((value + reach)[-1])

    def at(self, gamma: float, lam: float) -> dict[str, float]:
        """Return the values at a pair of dials of the box, or at its point."""
        pairs = [*self.box.dials, self.box.point]
        if (gamma, lam) not in pairs:
            raise ConfigError(
                f"values are known at the dials of the box and at its point; found ({gamma:g}, "
                f"{lam:g}); ask for one of {pairs}"
            )
        return dict(zip(self.names, self.values[pairs.index((gamma, lam))].tolist(), strict=True))

    @property
    def point(self) -> dict[str, float]:
        """The values at the point."""
        return dict(zip(self.names, self.values[-1].tolist(), strict=True))

    def mean(self) -> dict[str, float]:
        """Return the mean of each value over the box: what to choose by."""
        return dict(zip(self.names, self.values[:-1].mean(axis=0).tolist(), strict=True))

    def _reach(self, name: str, level: float) -> tuple[Floats, Floats]:
        place = self._place(name)
        reach = _quantile((1 + level) / 2) * np.sqrt(
            np.maximum(self.covariances[:, place, place], 0)
        )
        if self.n_users < _FEWEST:
            reach = np.full(len(reach), np.inf)
        return self.values[:, place], reach

    def _place(self, name: str) -> int:
        if name not in self.names:
            raise ConfigError(
                f"a candidate must be one of {', '.join(self.names)}; found {name!r}; name one"
            )
        return self.names.index(name)


def surface(
    values: Mapping[str, NDArray[np.floating]],
    exposures: Exposures,
    users: NDArray[np.integer],
    box: Box | None = None,
) -> Surface:
    """Value candidates on the same rows at every pair of dials of a box, and at its point.

    Args:
        values: By candidate, what the metric gives each row, `[n]`.
        exposures: Of the rows, by a click model that was not fitted on them.
        users: Of the rows, `[n]`.
        box: By default γ from 0 to 1 and λ from 0 to 0.4.
    """
    from scipy.sparse import csr_array

    box = box or Box()
    table = _checked(values, exposures, users)
    if not (users[1:] >= users[:-1]).all():
        order = np.argsort(users, kind="stable")
        table, exposures, users = table[order], exposures.take(order), users[order]
    begins = np.flatnonzero(np.diff(users, prepend=users[0] - 1, append=users[-1] + 1))
    level = float(table[:, :-1].mean())  # taken off all values: sums of squares stay exact
    table[:, :-1] -= level
    n, n_users, n_values = len(table), len(begins) - 1, len(values)
    rows = np.arange(n)
    pairs = [*box.dials, box.point]
    found, ess = np.empty((len(pairs), n_values)), np.empty(len(pairs))
    covariances = np.empty((len(pairs), n_values, n_values))
    for place, (gamma, lam) in enumerate(pairs):
        weights = _weights(exposures.log_propensities(gamma, lam))
        sums = csr_array((weights, rows, begins), shape=(n_users, n)) @ table  # [n_users, F + 1]
        total = sums.sum(axis=0)
        value = total[:-1] / total[-1]
        away = np.vstack([np.eye(n_values), -value])  # sums @ away are a user's T − V · B
        covariances[place] = away.T @ (sums.T @ sums) @ away / total[-1] ** 2
        found[place], ess[place] = level + value, total[-1] ** 2 / (weights @ weights)
    # By the weights of the point, which differ from row to row.
    differing = np.stack([(sums[:, :-1] != sums[:, [one]]).sum(axis=0) for one in range(n_values)])
    return Surface(tuple(values), box, found, covariances, ess, n, n_users, differing)


def propensities(exposures: Exposures, gamma: float, lam: float) -> Floats:
    """Return q of each row as a share of the greatest, in (0, 1]: `[n]`."""
    logs = exposures.log_propensities(gamma, lam)
    found: Floats = np.exp(np.maximum(logs - logs.max(initial=-np.inf), -700))
    return found


def _weights(log_propensities: Floats) -> Floats:
    """Return 1/q as a share of the greatest weight: no power overflows."""
    weights: Floats = np.exp(log_propensities.min() - log_propensities)
    return weights


def _checked(
    values: Mapping[str, NDArray[np.floating]], exposures: Exposures, users: NDArray[np.integer]
) -> Floats:
    """Return the values beside a column of ones, `[n, F + 1]`."""
    shapes = {each.shape for each in values.values()} | {(len(exposures),), users.shape}
    if len(shapes) != 1 or not len(users):
        raise DataError(
            "candidates, exposures and users must be those of the same rows, one or more; found "
            f"the shapes {', '.join(map(str, sorted(shapes)))}; evaluate all on one log"
        )
    table = np.ones((len(users), len(values) + 1))
    for place, each in enumerate(values.values()):
        table[:, place] = each
    if not np.isfinite(table).all():
        raise DataError(
            "values must be finite; found "
            f"{np.count_nonzero(~np.isfinite(table)):,} that are not; leave those rows out"
        )
    return table


def _quantile(level: float) -> float:
    from scipy.special import ndtri

    if not 0.5 < level < 1:
        raise ConfigError(
            f"the level of an interval must lie between 0.5 and 1; found {level:g}; give 0.95"
        )
    return float(ndtri(level))
