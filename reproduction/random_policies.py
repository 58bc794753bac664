"""Offline estimates of a policy's click rate from another policy's log (Open Bandit).

The click rate of one policy is estimated from the log of another, and judged by its own log. Here
a row is an impression and its propensity is known, so there is nothing for an opponent to choose:
the robust estimator plays the worst exposure that the data still allow, and with known
propensities they allow one, where it is the logged estimator. Nor does a policy have a loss on
each row for an opponent to raise. So robust is reported as not defined, with the reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.errors import DataError
from counterplay.metrics.off_policy import item_policy, policy_values, reward_by_action
from counterplay.seeding import Streams

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from counterplay.data.interactions import Interactions
    from counterplay.metrics.off_policy import PolicyValue

NOT_DEFINED = (
    "not defined, because the propensities of the log are known: the one exposure that they allow "
    "is the logged estimator's, and a policy has no loss on each row for an opponent to raise"
)


def judge_by_own_log(
    target: Interactions,
    log: Interactions,
    *,
    prior: float = 100.0,
    level: float = 0.95,
    n_resamples: int = 1000,
    seed: int = 0,
) -> dict[str, Any]:
    """Estimate the click rate of the policy behind `target` from another policy's log.

    The new policy is known by how often it shows an item at a position. standard is the log's own
    click rate, without correction; popularity and propensity take the log's propensities for
    unknown: they are the item's share of the log, or its share at the position, drawn towards the
    former by `prior` rows; both self-normalised. ips, snips, dm and dr are those of
    `counterplay.policy_values` with the logged propensities. Intervals of estimates take policy
    and propensities as given.

    Args:
        target: Impressions of the new policy: items, positions, clicks. They are the truth.
        log: Impressions of the other policy, with propensities.
        prior: Rows that the overall mean, or share, counts for.
        level: Of the intervals; that of an error has both logs' in it (method of variance
            estimates recovery).
        n_resamples: Of the bootstrap.
        seed: Of folds and resamples.
    """
    if not target.items.ids.equals(log.items.ids):
        raise DataError(
            "both logs must have the same items, in one order; found others; read them as one "
            "log, or with all ids"
        )
    if target.clicked is None or target.position is None:
        raise DataError("the target must hold clicks and positions; found none; name the columns")
    if log.clicked is None or log.position is None or log.propensity is None:
        raise DataError(
            "the log must hold clicks, positions and propensities; found none; name the columns"
        )
    rng = Streams(seed).numpy("open bandit")
    policy, shown = (
        np.zeros((int(max(log.position.max(), target.position.max())) + 1, log.n_items))
        for _ in range(2)
    )
    np.add.at(policy, (target.position, target.item), 1)
    policy[policy.sum(1) == 0] = 1  # positions that do not occur
    np.add.at(shown, (log.position, log.item), 1)
    share = shown.sum(0) / len(log)
    chosen = item_policy(policy, log.item, log.position)
    model = reward_by_action(
        log.clicked, log.item, log.n_items, rng, position=log.position, prior=prior
    )

    def values(
        rewards: NDArray[np.bool_], q: NDArray[np.float64], pi: NDArray[np.float64], **more: Any
    ) -> list[PolicyValue]:
        return policy_values(rewards, q, pi, rng, level=level, n_resamples=n_resamples, **more)

    known = values(
        log.clicked,
        log.propensity,
        chosen,
        predicted=model.of(log.item),
        expected=model.under(policy, log.position),
    )
    sure, plain = np.ones(len(target)), np.ones(len(log))
    truth = values(target.clicked, sure, sure)[0]
    fitted = item_policy(shown + prior * share, log.item, log.position)
    estimated = {
        "standard": values(log.clicked, plain, plain)[0],
        "popularity": values(log.clicked, share[log.item], chosen)[1],
        "propensity": values(log.clicked, fitted, chosen)[1],
    } | {one.estimator: one for one in known}
    own = estimated["standard"].value
    return {
        "truth": {"value": truth.value, "low": truth.low, "high": truth.high, "n": truth.n},
        "estimates": [_compared(name, one, truth, own) for name, one in estimated.items()],
        "robust": NOT_DEFINED,
    }


def _compared(name: str, one: PolicyValue, truth: PolicyValue, own: float) -> dict[str, Any]:
    """Return an estimate with its error, and whether it tells which of both policies is better."""
    error = one.value - truth.value
    differs = truth.value != own
    return {
        "estimator": name,
        "value": one.value,
        "low": one.low,
        "high": one.high,
        "n": one.n,
        "ess": one.ess,
        "error": error,
        "error_low": error - float(np.hypot(one.value - one.low, truth.high - truth.value)),
        "error_high": error + float(np.hypot(one.high - one.value, truth.value - truth.low)),
        "right": (one.value - own) * (truth.value - own) > 0 if differs else None,
    }


def summarise_policies(results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return each estimator's errors over pairs of logs, of `judge_by_own_log`.

    relative is the root of the mean square of estimate / truth − 1; covered counts errors whose
    interval has 0 in it; right counts the pairs in which it tells which policy has more clicks, of
    those whose own logs differ in that, n_decided.
    There are no intervals: two directions share their logs, so pairs are not independent.
    """
    if not results:
        raise DataError("a summary must have results; found none; judge a pair of logs first")
    rows = []
    for place, first in enumerate(results[0]["estimates"]):
        found = [each["estimates"][place] for each in results]
        error = np.array([one["error"] for one in found])
        truth = np.array([each["truth"]["value"] for each in results])
        rows.append(
            {
                "estimator": first["estimator"],
                "n": len(found),
                "bias": float(error.mean()),
                "squared_error": float((error**2).mean()),
                "relative": float(np.sqrt(((error / truth) ** 2).mean())),
                "covered": sum(one["error_low"] <= 0 <= one["error_high"] for one in found),
                "right": sum(one["right"] is True for one in found),
                "n_decided": sum(one["right"] is not None for one in found),
            }
        )
    return rows
