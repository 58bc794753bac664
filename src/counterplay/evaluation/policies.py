"""What a candidate would earn as a policy: its click rate, from impressions of another policy.

The policy of a candidate at k shows one of its k best unseen items, each with probability 1 / k.
Its click rate is estimated from held-out impressions (`counterplay.metrics.off_policy`):

    ips, snips, dm, dr    impressions that the log gives the propensity of: the probability with
                          which the item was chosen for that impression
    replay                the click rate of rows whose item is among the k: of random rows as they
                          are; without random rows, of impressions, weighted by 1 / propensity

Several candidates are compared on the same rows: the difference of each pair, with an interval and
a p-value over users for all pairs of an estimator and k at once, and none by dm, whose interval
takes its model for the truth.

The reward model of dm and dr is the item's click rate in the impressions of other users. Where
scores tie at the end of a list, each of the items that tie is on it with the same probability.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from counterplay.data.impressions import impressions_of
from counterplay.data.splits import TEST, VALIDATION
from counterplay.errors import ConfigError, CounterplayWarning, DataError
from counterplay.evaluation.records import CandidateEstimate, Comparison, EvaluationRecord
from counterplay.evaluation.top_lists import ItemTable, TopLists
from counterplay.evaluation.user_sample import UserSample
from counterplay.metrics.comparison import comparisons_of_sums
from counterplay.metrics.estimation import finite
from counterplay.metrics.intervals import cluster_sums, top_share
from counterplay.metrics.off_policy import (
    linear_sums,
    policy_values,
    replay_value,
    reward_by_action,
    value_parts,
)
from counterplay.seeding import Streams

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from counterplay.data.interactions import Interactions
    from counterplay.data.splits import Split
    from counterplay.evaluation.stage import Evaluation
    from counterplay.metrics.off_policy import PolicyValue
    from counterplay.metrics.scoring import Scores
    from counterplay.progress import Stages

    Floats = NDArray[np.float64]

METRIC, PROTOCOL = "ctr", "impressions"
AS_LOGGED = "as logged"  # the policy that made the log
SETTINGS = frozenset({"k", "level", "n_resamples", "part", "users", "seed", "memory", "clip"})
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
        sample: Whose impressions they are, if not everybody's.
    """

    impressions: Interactions | None
    random: Interactions | None
    seen: Interactions
    name: str
    sample: UserSample | None = None

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
    why, rows, sample = _why_not(split), None, None
    if why is None:
        rows = impressions_of(split, held_out)
        sample = UserSample.of_part(split, held_out, config.users, config.seed)
        rows = rows if sample is None else sample.rows(rows)
    elif random is None:
        raise DataError(f"{_NEEDED}; found {why}")
    elif config.users is not None:
        raise ConfigError(
            "users are drawn among those who have impressions with propensities; found random rows "
            "alone, which all count; leave users out"
        )
    else:
        text = f"policies are valued by random rows alone: {_NEEDED}; found {why}"
        warnings.warn(text, CounterplayWarning, stacklevel=3)
    return ShownRows(rows, random, seen, split.interactions.name, sample)


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


@dataclass(slots=True)
class _Sums:
    """What the values of candidates are sums of, a number a user, by estimator and k."""

    by: dict[tuple[str, int], dict[str, Floats]] = field(default_factory=dict)
    users: dict[tuple[str, int], NDArray[np.int32]] = field(default_factory=dict)  # of the rows

    def add(
        self, name: str, k: int, parts: Mapping[str, tuple[Floats, Floats]], rows: Interactions
    ) -> None:
        """Take the rows of a candidate, which must be those of the others."""
        for estimator in parts.keys() - {"dm"}:
            key = estimator, k
            if not np.array_equal(self.users.setdefault(key, rows.user), rows.user):
                raise DataError(
                    f"compared policies need lists for the same users; found '{name}', which has "
                    "some for others; give scores of all users to every candidate"
                )
            self.by.setdefault(key, {})[name] = linear_sums(*parts[estimator], rows.user)

    def compared(self, config: Evaluation) -> list[Comparison]:
        """Return the differences of all pairs."""
        found = []
        for (estimator, k), sums in sorted(self.by.items(), key=lambda each: each[0][::-1]):
            users = self.users[estimator, k]
            n_rows = cluster_sums(np.ones(len(users)), users)[:, 0]
            differences = comparisons_of_sums(
                sums, n_rows, Streams(config.seed).numpy("policies", "comparison", estimator, k),
                n=len(users), n_resamples=config.n_resamples, level=config.level,
            )  # fmt: skip
            for (first, second), each in zip(combinations(sums, 2), differences, strict=True):
                found.append(
                    Comparison(
                        metric=METRIC, k=k, estimator=estimator, first=first, second=second,
                        value=each.value, low=finite(each.low), high=finite(each.high),
                        level=each.level, n=each.n, p=each.p_value,
                    )
                )  # fmt: skip
        return found


def policies_valued(
    rows: ShownRows,
    candidates: Mapping[str, Scores],
    config: Evaluation,
    progress: Stages = lambda *_: None,
) -> EvaluationRecord:
    """Return the click rate that each candidate would have, by each estimator and k."""
    found, sums = [_as_logged(rows, config)], _Sums()
    for name, scores in candidates.items():
        if rows.impressions is not None:
            lists = TopLists(name, scores, rows.impressions, rows.seen, config, progress)
            found += _from_impressions(name, lists, rows, config, sums)
        if rows.random is not None:
            lists = TopLists(name, scores, rows.random, rows.seen, config, progress)
            found += _replayed(name, lists, config, sums)
    configuration = config.model_dump(mode="json", include=set(SETTINGS))
    return EvaluationRecord(
        dataset=rows.name,
        part=config.part,
        configuration={"log": PROTOCOL, **configuration},
        estimates=tuple(found),
        sample=None if rows.sample is None else rows.sample.record,
        comparisons=tuple(sums.compared(config)) if len(candidates) > 1 else (),
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
    name: str, lists: TopLists, shown: ShownRows, config: Evaluation, sums: _Sums
) -> list[CandidateEstimate]:
    """Value a candidate by the logged propensities of impressions."""
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
        parts = value_parts(rows.clicked, q, chosen, predicted=predicted, expected=expected)
        if shown.random is None:
            parts["replay"] = value_parts(rows.clicked, q, on_list)["snips"]
            values.append(
                replay_value(
                    rows.clicked, on_list, same[1], propensities=q,
                    clusters=rows.user, level=config.level, n_resamples=config.n_resamples,
                )
            )  # fmt: skip
        sums.add(name, k, parts, rows)
        clicks = lists.has_clicks(k)
        found += [_record(name, k, each, chosen / q, interval=clicks) for each in values]
    return found


def _replayed(
    name: str, lists: TopLists, config: Evaluation, sums: _Sums
) -> list[CandidateEstimate]:
    """Value a candidate by the click rate of the random rows that it would have shown."""
    assert lists.rows.clicked is not None
    found = []
    for k in config.k:
        on_list, _ = lists.within(k)
        replayed = value_parts(lists.rows.clicked, np.ones(len(on_list)), on_list)["snips"]
        sums.add(name, k, {"replay": replayed}, lists.rows)
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
