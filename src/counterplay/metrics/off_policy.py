"""The value of a new policy from the impressions of another one, whose propensities are known.

A row of the log is an action that was shown, its reward r and the probability q > 0 with which
it was chosen. The new policy would have chosen it with probability π, so it weighs w = π / q.
With a model that predicts the reward ρ of the action, and ρ̄ = Σ π(a) ρ(a) over all actions:

    ips    mean(w · r)              unbiased; its variance grows with the weights
    snips  Σ w · r / Σ w            on the scale of the rewards; a bias that falls as 1 / n
    dm     mean(ρ̄)                  as good as its model, which its interval takes for the truth
    dr     mean(ρ̄ + w · (r − ρ))    unbiased whatever the model, and steadier with a good one

A policy that shows lists can be replayed: of rows whose action is on the list, a = 1,

    replay Σ a · r / q / Σ a / q    without 1 / q where every action was equally likely

All of this needs a log that could have shown whatever the new policy shows, and a policy that was
not learned from it. DR also needs a ρ that was not fitted to the row it predicts: on its own log, a
model must be cross-fitted, as `reward_by_action` is.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from counterplay.errors import ConfigError, CounterplayWarning, DataError
from counterplay.metrics import intervals

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from counterplay.metrics.arrays import Doubles

    Places = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PolicyValue:
    """The mean reward that a policy would have had, by one estimator."""

    estimator: str  # ips, snips, dm, dr or replay
    value: float
    low: float
    high: float
    level: float  # of the interval from low to high
    n: int  # rows
    ess: float  # effective sample size of the weights; n for dm, which has none


def policy_values(
    rewards: ArrayLike,
    propensities: ArrayLike,
    chosen: ArrayLike,
    rng: np.random.Generator,
    *,
    predicted: ArrayLike | None = None,
    expected: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    level: float = 0.95,
    n_resamples: int = 1000,
) -> list[PolicyValue]:
    """Estimate the value of a policy by IPS and SNIPS, and with a reward model by DM and DR.

    Of each row: the reward r of the logged action, its propensity q in (0, 1], the probability π
    with which the new policy has `chosen` it, and of a model the `predicted` reward ρ of the action
    and the `expected` reward ρ̄ of the policy, `[n]` each. Rows of a cluster, such as a user's, are
    resampled together.

    Example:
        >>> found = policy_values([1, 0], [0.5, 0.5], [0.75, 0.5], np.random.default_rng(0))
        >>> [(one.estimator, one.value, round(one.ess, 1)) for one in found]
        [('ips', 0.75, 1.9), ('snips', 0.6, 1.9)]
    """
    n = np.size(rewards)
    parts = value_parts(rewards, propensities, chosen, predicted=predicted, expected=expected)
    above, below = (np.stack(side, axis=1) for side in zip(*parts.values(), strict=True))
    groups = np.arange(n) if clusters is None else _places("clusters", clusters, n)
    resamples = intervals.bootstrap(above, below, groups, rng, n_resamples=n_resamples)
    columns = np.stack([above.sum(0) / below.sum(0), *intervals.interval(resamples, level)], axis=1)
    weight = parts["snips"][1]
    ess = dict.fromkeys(parts, intervals.effective_sample_size(weight)) | {"dm": float(n)}
    if (warning := intervals.weight_warning(weight)) is not None:
        warnings.warn(warning, CounterplayWarning, stacklevel=2)
    return [
        PolicyValue(name, value, low, high, level, n, ess[name])
        for name, (value, low, high) in zip(parts, columns.tolist(), strict=True)
    ]


def value_parts(
    rewards: ArrayLike,
    propensities: ArrayLike,
    chosen: ArrayLike,
    *,
    predicted: ArrayLike | None = None,
    expected: ArrayLike | None = None,
) -> dict[str, tuple[Doubles, Doubles]]:
    """Return of each estimator the rows `[n]` whose sums have its value as their ratio.

    The arguments are those of `policy_values`.
    """
    n = np.size(rewards)
    reward = _column("rewards", rewards, n)
    propensity = _column("propensities", propensities, n, "above 0 and at most 1", 1e-300, 1)
    chance = _column("chosen", chosen, n, "probabilities of 0 to 1", 0, 1)
    if not chance.any():
        raise DataError(
            "the new policy must be able to choose a logged action; found a probability of 0 in "
            f"all {n:,} rows; check that it and the log number actions alike"
        )
    weight, one = chance / propensity, np.ones(n)
    parts = {"ips": (weight * reward, one), "snips": (weight * reward, weight)}
    if predicted is not None and expected is not None:
        model, mean = _column("predicted", predicted, n), _column("expected", expected, n)
        parts |= {"dm": (mean, one), "dr": (mean + weight * (reward - model), one)}
    elif predicted is not None or expected is not None:
        raise ConfigError(
            "a reward model must give both predicted and expected rewards; found one of them; "
            "give both, or neither"
        )
    return parts


def linear_sums(above: Doubles, below: Doubles, clusters: ArrayLike) -> Doubles:
    """Return a number a cluster: their sum over that of its rows is Σ above / Σ below.

    With v that ratio, and T, B and m a cluster's sums of both and its rows, it is
    m · v + (T − v · B) · n / ΣB: to first order it varies as the ratio does, so the difference of
    two ratios with denominators of their own can be judged as one of sums.
    """
    ids = _places("clusters", clusters, len(above))
    sums = intervals.cluster_sums(np.stack([above, below, np.ones(len(above))], axis=1), ids)
    value = sums[:, 0].sum() / sums[:, 1].sum()
    rest = (sums[:, 0] - value * sums[:, 1]) * (len(above) / sums[:, 1].sum())
    found: Doubles = sums[:, 2] * value + rest
    return found


def replay_value(
    rewards: ArrayLike,
    agrees: ArrayLike,
    rng: np.random.Generator,
    *,
    propensities: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    level: float = 0.95,
    n_resamples: int = 1000,
) -> PolicyValue:
    """Return the mean reward of the rows whose action the new policy `agrees` with.

    Whether it agrees is 1 or 0, or where chance decides a probability, `[n]`. Without propensities
    `[n]` the actions must have been drawn with equal probabilities.

    Example:
        >>> found = replay_value([1, 0, 1, 0], [1, 1, 0, 0], np.random.default_rng(0))
        >>> found.estimator, found.value, found.ess
        ('replay', 0.5, 2.0)
    """
    q = np.ones(np.size(rewards)) if propensities is None else propensities
    _, found = policy_values(
        rewards, q, agrees, rng, clusters=clusters, level=level, n_resamples=n_resamples
    )
    return replace(found, estimator="replay")


def item_policy(
    policy: ArrayLike, actions: ArrayLike, position: ArrayLike | None = None
) -> Doubles:
    """Return the probabilities of `actions` `[n]` under a policy, `[n]`.

    The policy has counts or probabilities, brought to a sum of 1: `[n_actions]`; with the actions'
    positions `[n]`, `[n_positions, n_actions]`; or where they differ by row, `[n, n_actions]`.
    """
    table, line = _lines(policy, np.size(actions), position)
    return table[line, _places("actions", actions, len(line), table.shape[1])]


@dataclass(frozen=True, eq=False, slots=True)
class RewardModel:
    """Predicted rewards of all actions, `table[line[row], action]`."""

    table: Doubles  # [n_lines, n_actions]
    line: Places  # the line that a row of the log reads, [n]; np.arange(n) for a line a row

    def of(self, actions: ArrayLike) -> Doubles:
        """Return the predicted rewards of `actions` `[n]`, `[n]`."""
        action = _places("actions", actions, len(self.line), self.table.shape[1])
        return self.table[self.line, action]

    def under(self, policy: ArrayLike, position: ArrayLike | None = None) -> Doubles:
        """Return the predicted rewards of a policy, which is given as to `item_policy`, `[n]`."""
        table, line = _lines(policy, len(self.line), position, self.table.shape[1])
        pairs, inverse = np.unique(self.line * len(table) + line, return_inverse=True)
        mine, other = np.divmod(pairs, len(table))
        expected: Doubles = np.einsum("pa,pa->p", self.table[mine], table[other])[inverse]
        return expected


def reward_by_action(
    rewards: ArrayLike,
    actions: ArrayLike,
    n_actions: int,
    rng: np.random.Generator,
    *,
    position: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    prior: float = 10.0,
    n_folds: int = 5,
) -> RewardModel:
    """Predict a reward by the mean of its action, and position, in the other folds.

    `(sum + prior · mean) / (count + prior)`, all of it over the rows of the other folds: no
    prediction knows its own row, nor another one of its cluster. Rewards, actions, positions and
    clusters are `[n]`; the overall mean counts for `prior` rows.
    """
    n = np.size(rewards)
    reward, action = _column("rewards", rewards, n), _places("actions", actions, n, n_actions)
    place = np.zeros(n, np.int64) if position is None else _places("position", position, n)
    group = np.arange(n) if clusters is None else _places("clusters", clusters, n)
    ids, group = np.unique(group, return_inverse=True)
    if not (0 < prior < np.inf and 2 <= n_folds <= len(ids)):
        raise ConfigError(
            f"a reward model must have a prior above 0 and 2 to {len(ids):,} folds, each with a "
            f"cluster; found a prior of {prior} and {n_folds} folds; change them"
        )
    fold = (rng.permutation(len(ids)) % n_folds)[group]
    shape = (n_folds, int(place.max()) + 1, n_actions)
    cell = np.ravel_multi_index((fold, place, action), shape)
    counts = np.bincount(cell, minlength=np.prod(shape)).reshape(shape)
    sums = np.bincount(cell, reward, minlength=np.prod(shape)).reshape(shape)
    counts, sums = counts.sum(0) - counts, sums.sum(0) - sums  # of the other folds
    mean = sums.sum((1, 2), keepdims=True) / counts.sum((1, 2), keepdims=True)
    table = (sums + prior * mean) / (counts + prior)
    return RewardModel(table.reshape(-1, n_actions), fold * shape[1] + place)


def _lines(
    policy: ArrayLike, n: int, position: ArrayLike | None, n_actions: int | None = None
) -> tuple[Doubles, Places]:
    """Return a policy's probabilities, `[n_lines, n_actions]`, and the line of each row, `[n]`."""
    given = np.asarray(policy, dtype=np.float64)
    shapes = [(), (n,)] if position is None else [given.shape[:1]]
    if given.shape[:-1] not in shapes or n_actions not in (None, *given.shape[-1:]):
        raise DataError(
            f"a policy must have the shape [{n_actions or 'n_actions'}], with a line for each row "
            f"or each given position, or none; found {list(given.shape)}; reshape it"
        )
    table = np.atleast_2d(given)
    line = np.arange(n) % len(table)  # one for all rows, or one for each
    if position is not None:
        line = _places("position", position, n, len(table))
    total = table.sum(1)
    bad = ~((table >= 0).all(1) & (total > 0) & (total < np.inf))
    if bad[line].any():
        raise DataError(
            "a policy must give no action less than 0, and some more; found otherwise in its line "
            f"{line[bad[line]][0]}; give counts or probabilities"
        )
    return table / np.where(bad, 1, total)[:, None], line


def _column(
    name: str,
    values: ArrayLike,
    n: int,
    must: str = "finite",
    low: float = -1e300,
    high: float = 1e300,
) -> Doubles:
    """Return `values` as numbers of `low` to `high`, `[n]`, or say what is wrong with them."""
    column = np.asarray(values, dtype=np.float64)
    if column.shape != (n,) or not n:
        raise DataError(
            f"{name} must be a column of {n or 'some'} rows; found the shape {list(column.shape)}; "
            "give every column for the same rows"
        )
    whole = must.startswith("whole")
    bad = ~((column >= low) & (column <= high)) | (whole & (np.floor(column) != column))
    if bad.any():
        raise DataError(
            f"{name} must be {must}; found {column[bad][0]} in row {np.argmax(bad)}; "
            "correct such rows, or leave them out"
        )
    return column


def _places(name: str, values: ArrayLike, n: int, below: int = 2**31) -> Places:
    must = f"whole numbers of 0 to {below - 1:,}"
    return _column(name, values, n, must, 0, below - 1).astype(np.int64)
