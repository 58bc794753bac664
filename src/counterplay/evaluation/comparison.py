"""Compare models on the same rows: paired differences, intervals and tests over users."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.errors import ConfigError, DataError
from counterplay.evaluation.estimators import finite
from counterplay.evaluation.intervals import (
    bootstrap,
    check_weights,
    cluster_sums,
    interval,
    random_sums,
    random_words,
)
from counterplay.showing import Convertible, Shown, between

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


_ROUNDING = 1e-12  # of Σ |d_u|: sums closer than that are a tie


def beyond_chance(low: float | None, high: float | None) -> bool:
    """Tell whether the interval of a difference is known and leaves out 0.

    Example:
        >>> beyond_chance(0.1, 0.3), beyond_chance(-0.1, 0.3), beyond_chance(None, None)
        (True, False, False)
    """
    return low is not None and high is not None and low * high > 0


@dataclass(frozen=True, slots=True, repr=False)
class Difference(Shown, Convertible):
    """A difference of two models: `value` in `[low, high]` at `level`, over `n` rows.

    `p_value` is that of the sign-flip test over the `n_clusters` users; `compare` adjusts it.
    """

    value: float
    low: float
    high: float
    level: float
    n: int
    n_clusters: int
    p_value: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON; an interval that is not there is None."""
        return asdict(self) | {"low": finite(self.low), "high": finite(self.high)}

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one row of flat values."""
        return [self.to_dict()]

    def _title(self) -> str:
        return (
            f"{self.value:+.4f} {between(self.low, self.high, self.level, '+')}, "
            f"p {self.p_value:.4f}; {self.n:,} rows of {self.n_clusters:,} users"
        )

    def _columns(self) -> dict[str, list[object]]:
        return {name: [value] for name, value in self.to_dict().items()}


def paired_difference(
    first: NDArray[np.floating],
    second: NDArray[np.floating],
    weights: NDArray[np.floating],
    clusters: NDArray[np.integer],
    rng: np.random.Generator,
    *,
    n_resamples: int = 1000,
    n_flips: int = 9999,
    level: float = 0.95,
    normalise: bool = True,
) -> Difference:
    """Return Σ w · (first − second) / Σ w, its interval over users and its sign-flip p-value.

    Args:
        first: Values of one model's rows, `[n]`.
        second: Values of the other's on the same rows, `[n]`.
        weights: Weight of each row, `[n]`.
        clusters: User of each row, `[n]`.
        rng: Where resamples and flips come from.
        n_resamples: Resamples of the interval.
        n_flips: Random flips of the test; where all flips are no more than that, it is exact.
        level: Level of the interval.
        normalise: Divide by Σ w; otherwise by n.

    Example:
        >>> values, users = np.array([1.0, 2.0, 3.0]), np.array([0, 1, 2])
        >>> found = paired_difference(values + 1, values, values, users, np.random.default_rng(0))
        >>> found.value, found.low, found.high, found.p_value
        (1.0, 1.0, 1.0, 0.25)
    """
    found = _differences(
        _table([first, second]),
        [(0, 1)],
        weights,
        clusters,
        rng,
        n_resamples,
        n_flips,
        level,
        normalise,
    )
    return found[0]


def compare(
    values: Mapping[str, NDArray[np.floating]],
    weights: NDArray[np.floating],
    clusters: NDArray[np.integer],
    rng: np.random.Generator,
    *,
    reference: str | None = None,
    n_resamples: int = 1000,
    n_flips: int = 9999,
    level: float = 0.95,
    normalise: bool = True,
) -> list[tuple[str, str, Difference]]:
    """Return (one model, another, one minus the other) for each comparison, all in one pass.

    The p-values are Holm's, over the comparisons made; each interval is at `level` on its own.

    Args:
        values: Each model's values on the same rows, `[n]`.
        weights: Weight of each row, `[n]`.
        clusters: User of each row, `[n]`.
        rng: Where resamples and flips come from.
        reference: The model that all others are compared with, chosen before seeing the values;
            None compares all pairs.
        n_resamples: As for `paired_difference`.
        n_flips: As for `paired_difference`.
        level: As for `paired_difference`.
        normalise: As for `paired_difference`.

    Example:
        >>> hits = {"pop": np.array([1.0, 0.0, 0.0]), "mf": np.array([1.0, 1.0, 1.0])}
        >>> rng = np.random.default_rng(0)
        >>> compare(hits, np.ones(3), np.arange(3), rng, reference="pop")[0][:2]
        ('mf', 'pop')
    """
    names = list(values)
    if len(names) < 2 or (reference is not None and reference not in values):
        raise ConfigError(
            "a comparison needs two models or more, the reference among them; found "
            f"{', '.join(names) or 'none'} with reference {reference}; name one of the models"
        )
    if reference is None:
        pairs = list(combinations(range(len(names)), 2))
    else:
        base = names.index(reference)
        pairs = [(other, base) for other in range(len(names)) if other != base]
    found = _differences(
        _table(list(values.values())),
        pairs,
        weights,
        clusters,
        rng,
        n_resamples,
        n_flips,
        level,
        normalise,
    )
    adjusted = holm(np.array([difference.p_value for difference in found])).tolist()
    return [
        (names[one], names[other], replace(difference, p_value=p_value))
        for (one, other), difference, p_value in zip(pairs, found, adjusted, strict=True)
    ]


def holm(p_values: NDArray[np.floating]) -> NDArray[np.float64]:
    """Adjust p-values `[m]` for their number: max over j ≤ i of min(1, (m − j + 1) · p₍ⱼ₎).

    Reject where the adjusted value is at most α: any false rejection has probability ≤ α.

    Example:
        >>> holm(np.array([0.25, 0.0625, 0.125]))
        array([0.25  , 0.1875, 0.25  ])
    """
    if not ((p_values >= 0) & (p_values <= 1)).all():
        raise DataError(
            f"p-values must lie between 0 and 1; found {p_values.min()} to {p_values.max()}; "
            "give the values of the tests themselves"
        )
    order = np.argsort(p_values, kind="stable")
    stepped = np.arange(len(order), 0, -1) * p_values[order]
    adjusted = np.empty(len(order))
    adjusted[order] = np.minimum(1, np.maximum.accumulate(stepped))
    return adjusted


def sign_flip_test(
    differences: NDArray[np.float64], rng: np.random.Generator, *, n_flips: int = 9999
) -> NDArray[np.float64]:
    """Return p = (1 + #{|Σ s_u d_u| ≥ |Σ d_u|}) / (1 + n_flips) of each column, s_u = ±1.

    Under the null a user's difference is as likely to have either sign. Where there are no more
    than `n_flips` flips in all, each is tried and p is the exact share of them.

    Args:
        differences: Each user's summed difference, one column per comparison, `[n_users, m]`.
        rng: Where the signs come from; all columns share them.
        n_flips: Number of random flips.

    Example:
        >>> sign_flip_test(np.array([[1.0, 1.0], [2.0, -1.0]]), np.random.default_rng(0))
        array([0.5, 1. ])
    """
    moved = differences[differences.any(axis=1)]  # a difference of 0 has no sign to flip
    threshold = np.abs(moved.sum(axis=0)) - _ROUNDING * np.abs(moved).sum(axis=0)
    if 1 << len(moved) <= n_flips:
        bits = np.arange(1 << len(moved))[:, None] >> np.arange(len(moved))
        exact: NDArray[np.float64] = (np.abs((1.0 - 2 * (bits & 1)) @ moved) >= threshold).mean(0)
        return exact
    extreme = np.abs(random_sums(_signs, moved, n_flips, rng)) >= threshold
    p_values: NDArray[np.float64] = (1 + extreme.sum(axis=0)) / (1 + n_flips)
    return p_values


def _differences(
    values: NDArray[np.float64],
    pairs: list[tuple[int, int]],
    weights: NDArray[np.floating],
    clusters: NDArray[np.integer],
    rng: np.random.Generator,
    n_resamples: int,
    n_flips: int,
    level: float,
    normalise: bool,
) -> list[Difference]:
    """Compare pairs of columns of values `[n, m]`, on the same resamples and flips."""
    check_weights(weights)
    if weights.shape != values.shape[:1]:
        raise DataError(
            "every row must have one weight; found "
            f"{len(values):,} rows and weights of shape {weights.shape}; give one array of both"
        )
    one, other = np.array(pairs).T
    gaps = (values[:, one] - values[:, other]) * weights[:, None]
    scale = weights.astype(np.float64) if normalise else np.ones(len(weights))
    low, high = interval(bootstrap(gaps, scale, clusters, rng, n_resamples=n_resamples), level)
    by_user = cluster_sums(gaps, clusters)
    p_values = sign_flip_test(by_user, rng, n_flips=n_flips)
    found = np.stack([by_user.sum(axis=0) / scale.sum(), low, high, p_values], axis=1).tolist()
    return [
        Difference(value, least, most, level, len(values), len(by_user), p_value)
        for value, least, most, p_value in found
    ]


def _table(columns: list[NDArray[np.floating]]) -> NDArray[np.float64]:
    shapes = {column.shape for column in columns}
    if len(shapes) > 1 or columns[0].ndim != 1:
        raise DataError(
            "models must be compared on the same rows, one value each; found values of shapes "
            f"{', '.join(map(str, sorted(shapes)))}; evaluate all of them on one log"
        )
    return np.stack(columns, axis=1).astype(np.float64)


def _signs(rows: int, width: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return random ±1, `[rows, width]`."""
    bits = np.unpackbits(random_words(rows, width, rng).view(np.uint8), axis=1, count=width)
    return (1 - 2 * bits.view(np.int8)).astype(np.float64)
