"""What a candidate would earn as a policy: its click rate, from impressions of another policy.

The policy of a candidate at k shows one of its k best unseen items, each with probability 1 / k.
Its click rate is estimated from held-out impressions (`counterplay.metrics.off_policy`):

    ips, snips, dm, dr    impressions that the log gives the propensity of: the probability with
                          which the item was chosen for that impression
    replay                the click rate of rows whose item is among the k: of random rows as they
                          are; without random rows, of impressions, weighted by 1 / propensity

The reward model of dm and dr is the item's click rate in the impressions of other users. Where
scores tie at the end of a list, each of the items that tie is on it with the same probability.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from counterplay.data.impressions import impressions_of
from counterplay.data.splits import TEST, VALIDATION
from counterplay.errors import ConfigError, CounterplayWarning, DataError
from counterplay.evaluation.records import CandidateEstimate, EvaluationRecord
from counterplay.evaluation.top_lists import ItemTable, TopLists
from counterplay.metrics.estimation import finite
from counterplay.metrics.intervals import cluster_sums, top_share
from counterplay.metrics.off_policy import policy_values, replay_value, reward_by_action
from counterplay.seeding import Streams

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from counterplay.data.interactions import Interactions
    from counterplay.data.splits import Split
    from counterplay.evaluation.stage import Evaluation
    from counterplay.metrics.off_policy import PolicyValue
    from counterplay.metrics.scoring import Scores

    Floats = NDArray[np.float64]

METRIC, PROTOCOL = "ctr", "impressions"
AS_LOGGED = "as logged"  # the policy that made the log
SETTINGS = frozenset({"k", "level", "n_resamples", "part", "seed", "memory", "clip"})
_PRIOR = 100.0  # impressions that the overall click rate counts for in an item's
_NEEDED = (
    "a policy is valued from impressions with logged propensities that were held out by time, or "
    "from random rows"
)
_FAR = 4.0  # standard errors that the mean weight may be from 1


@dataclass(frozen=True, slots=True, eq=False)
class ShownRows:
    """The rows that policies are valued by.

    Attributes:
        impressions: Of the part that is evaluated, in the order of users; None if the log has no
            propensities.
        random: Random rows, in the order of users.
        seen: What users had clicked before: no policy shows it again.
        name: Of the dataset.
    """

    impressions: Interactions | None
    random: Interactions | None
    seen: Interactions
    name: str

    @property
    def users(self) -> NDArray[np.int32]:
        """All users of the rows, each once."""
        logs = [each.user for each in (self.impressions, self.random) if each is not None]
        return np.unique(np.concatenate(logs))


def shown_rows(split: Split, config: Evaluation, random: Interactions | None) -> ShownRows:
    """Return the rows that policies are valued by; refuse data that have none."""
    others = sorted(config.model_fields_set - SETTINGS)
    if others:
        raise ConfigError(
            "a policy is valued from impressions with the settings "
            f"{', '.join(sorted(SETTINGS))}; found {others[0]}, which is for clicks; leave it out"
        )
    held_out = TEST if config.part == "test" else VALIDATION
    seen = split.interactions.take(split.part < held_out)
    why, rows = _why_not(split), None
    if why is None:
        rows = impressions_of(split, held_out)
    elif random is None:
        raise DataError(f"{_NEEDED}; found {why}")
    else:
        text = f"policies are valued by random rows alone: {_NEEDED}; found {why}"
        warnings.warn(text, CounterplayWarning, stacklevel=3)
    return ShownRows(rows, random, seen, split.interactions.name)


def _why_not(split: Split) -> str | None:
    """Return why held-out impressions tell nothing of policies, and what to do; None if they do.

    The held-out impressions of other splits depend on clicks: those of a user begin with a click,
    or a pair's go where its clicks go.
    """
    if split.unclicked is None:
        return "a log of clicks alone; prepare a log with the columns clicked and propensity"
    if split.unclicked.propensity is None or split.interactions.propensity is None:
        return "impressions without propensities; prepare the log with the column propensity"
    if split.kind in ("leave-last-two", "random"):
        return f"the split {split.kind}, which depends on clicks; prepare the log with --split time"
    return None


def policies_valued(
    rows: ShownRows, candidates: Mapping[str, Scores], config: Evaluation
) -> EvaluationRecord:
    """Return the click rate that each candidate would have, by each estimator and k."""
    found = [_as_logged(rows, config)]
    for name, scores in candidates.items():
        if rows.impressions is not None:
            found += _from_impressions(name, scores, rows, config)
        if rows.random is not None:
            found += _replayed(name, scores, rows.random, rows.seen, config)
    configuration = config.model_dump(mode="json", include=set(SETTINGS))
    return EvaluationRecord(
        dataset=rows.name,
        part=config.part,
        configuration={"log": PROTOCOL, **configuration},
        estimates=tuple(found),
    )


def _as_logged(rows: ShownRows, config: Evaluation) -> CandidateEstimate:
    """Return the click rate of the rows as they are."""
    shown = rows.random if rows.impressions is None else rows.impressions
    assert shown is not None
    assert shown.clicked is not None
    one = np.ones(len(shown))
    rng = Streams(config.seed).numpy("policies", AS_LOGGED)
    mean = policy_values(
        shown.clicked, one, one, rng,
        clusters=shown.user, level=config.level, n_resamples=config.n_resamples,
    )[0]  # fmt: skip
    return _record(AS_LOGGED, 0, replace(mean, estimator="mean"), one)


def _from_impressions(
    name: str, scores: Scores, shown: ShownRows, config: Evaluation
) -> list[CandidateEstimate]:
    """Value a candidate by the logged propensities of impressions."""
    assert shown.impressions is not None
    lists = TopLists(name, scores, shown.impressions, shown.seen, config)
    rows = lists.rows
    assert rows.clicked is not None
    assert rows.propensity is not None
    n_users = len(lists.users)
    if n_users < 2:
        raise DataError(
            f"a policy is valued from impressions of two users or more; found {n_users:,} in the "
            f"{config.part} part; choose another split"
        )
    q = rows.propensity if config.clip is None else np.maximum(rows.propensity, config.clip)
    model = reward_by_action(
        rows.clicked, rows.item, rows.n_items, Streams(config.seed).numpy("policies", "folds"),
        clusters=rows.user, prior=_PRIOR, n_folds=min(5, n_users),
    )  # fmt: skip
    line = np.zeros(rows.n_users, np.int64)
    line[rows.user] = model.line  # all rows of a user are in one fold
    believed = lists.sums(ItemTable(model.table, line))
    predicted = model.of(rows.item)
    found = []
    for k in config.k:
        on_list, length = lists.within(k)
        chosen, expected = on_list / length, believed[lists.place, k - 1] / length
        _check_mean_weight(name, k, chosen / rows.propensity, rows.user)
        same = [Streams(config.seed).numpy("policies", name, k) for _ in range(2)]  # resamples
        values = policy_values(
            rows.clicked, q, chosen, same[0], predicted=predicted, expected=expected,
            clusters=rows.user, level=config.level, n_resamples=config.n_resamples,
        )  # fmt: skip
        if shown.random is None:
            values.append(
                replay_value(
                    rows.clicked, on_list, same[1], propensities=q,
                    clusters=rows.user, level=config.level, n_resamples=config.n_resamples,
                )
            )  # fmt: skip
        clicks = lists.has_clicks(k)
        found += [_record(name, k, each, chosen / q, interval=clicks) for each in values]
    return found


def _replayed(
    name: str, scores: Scores, random: Interactions, seen: Interactions, config: Evaluation
) -> list[CandidateEstimate]:
    """Value a candidate by the click rate of the random rows that it would have shown."""
    lists = TopLists(name, scores, random, seen, config)
    assert lists.rows.clicked is not None
    found = []
    for k in config.k:
        on_list, _ = lists.within(k)
        value = replay_value(
            lists.rows.clicked, on_list, Streams(config.seed).numpy("policies", "replay", name, k),
            clusters=lists.rows.user, level=config.level, n_resamples=config.n_resamples,
        )  # fmt: skip
        found.append(_record(name, k, value, on_list, interval=lists.has_clicks(k)))
    return found


def _check_mean_weight(name: str, k: int, weights: Floats, users: NDArray[np.int32]) -> None:
    """Warn where the weights contradict the propensities: their mean is 1 if those are right."""
    mean = float(weights.mean())
    error = float(np.sqrt((cluster_sums(weights - mean, users) ** 2).sum())) / len(weights)
    if abs(mean - 1) > _FAR * error + 1e-9:
        warnings.warn(
            f"the weights of '{name}' at k={k} should have a mean of about 1; found {mean:.3g}; "
            "propensities must be the probability that the item was chosen for the impression, "
            "and the log must be able to show every item: read snips, not ips and dr",
            CounterplayWarning,
            stacklevel=3,
        )


def _record(
    name: str, k: int, found: PolicyValue, weights: Floats, *, interval: bool = True
) -> CandidateEstimate:
    weighs = found.estimator != "dm"
    ends = interval or not weighs  # zeros alone would make an interval without width
    return CandidateEstimate(
        candidate=name, metric=METRIC, k=k, estimator=found.estimator, protocol=PROTOCOL,
        value=found.value, low=finite(found.low) if ends else None,
        high=finite(found.high) if ends else None, level=found.level, n=found.n, ess=found.ess,
        top_share=top_share(weights if weighs else np.ones(found.n)),
        normalised=found.estimator in ("snips", "replay"),
    )  # fmt: skip
