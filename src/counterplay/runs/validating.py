"""What selects the epoch that is kept: the candidate's value on the validation rows.

Clicks are ranked as the evaluation ranks them, for no more users than a budget of scores allows; or
impressions are told apart, clicked or not.
Ratings go by their mean squared error, weighted by inverse propensities if the log has them.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.data.impressions import impressions_of, tells_apart, without_organic
from counterplay.data.splits import VALIDATION
from counterplay.errors import ConfigError, DataError
from counterplay.metrics.estimation import estimates, weights_of
from counterplay.metrics.impressions import click_log_losses, shares_below
from counterplay.metrics.measures import (
    IMPRESSION_METRICS,
    SMALLER_IS_BETTER,
    ranking_metrics,
    rating_errors,
)
from counterplay.metrics.ranks import full_ranks, sampled_candidates, sampled_ranks
from counterplay.metrics.scoring import ModelScores
from counterplay.models.item_tables import whole_items
from counterplay.runs.defaults import ranked_among

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from counterplay.data.interactions import Interactions
    from counterplay.data.splits import Split
    from counterplay.groups import Share
    from counterplay.models.scorer import Scorer
    from counterplay.runs.config import ValidationSettings
    from counterplay.seeding import Streams

SCORES = 1 << 25  # at most, of users times items, in one validation by full ranks


class Judge:
    """Judges models on the same validation rows, after every epoch.

    The training rows are as the model is given them: with ratings, they are predicted. `taught` are
    users whom models know by impressions, `[n_users]`; others without training rows get popularity.
    """

    def __init__(
        self,
        split: Split,
        train: Interactions,
        settings: ValidationSettings,
        streams: Streams,
        *,
        taught: NDArray[np.bool_] | None = None,
    ) -> None:
        self.train, self.settings, self._streams = train, settings, streams
        self._taught = taught
        self.metric = "mse" if train.is_explicit else settings.metric
        self.sign = -1 if self.metric in SMALLER_IS_BETTER else 1  # larger is better for learning
        self._shown = self.metric in IMPRESSION_METRICS
        if self._shown:
            if not any(train.group.most(float(tells_apart(split, VALIDATION)))):
                raise DataError(
                    f"validation by {self.metric} needs a user with a clicked impression and "
                    "another one among the validation rows; found none; choose another "
                    "validation.metric, or another split"
                )
            self.targets = impressions_of(split, VALIDATION)
        else:
            if not train.is_explicit:
                check_cutoff(settings, split)
            rows = without_organic(split.validation)
            known = train.group.total(np.array([len(rows)]))[0] > 0  # to some worker
            self.targets = _some(rows if known else split.validation, train, settings, streams)
        self.k = 0 if train.is_explicit or self._shown else settings.k
        logged = self.targets.propensity if train.is_explicit else None
        self.estimator = "standard" if logged is None else "logged"
        self._weights = np.ones(len(self.targets)) if logged is None else weights_of(logged)
        self._candidates: NDArray[np.int32] | None = None
        if settings.protocol == "sampled" and not (train.is_explicit or self._shown):
            self._candidates = self._sampled(settings.n_negatives)

    def _sampled(self, n: int) -> NDArray[np.int32]:
        """Return each row's item and others to rank it among; several workers draw by shard."""
        train, targets, share = self.train, self.targets, self.train.share
        if share is None:
            return sampled_candidates(train, targets, n, self._streams.numpy("validation"))
        ends = np.searchsorted(targets.user, share.bounds)
        return np.concatenate(
            [
                sampled_candidates(
                    train,
                    targets.take(np.arange(begin, end)),
                    n,
                    self._streams.numpy("validation", shard),
                )
                for shard, (begin, end) in zip(share.shards, pairwise(ends), strict=True)
            ]
        )

    @property
    def protocol(self) -> str:
        """How rows are judged, for the record."""
        if self.train.is_explicit:
            return "ratings"
        if self._shown:
            return "impressions"
        full = self.settings.protocol == "full"
        return "full" if full else f"sampled-{self.settings.n_negatives}"

    def __call__(self, model: Scorer) -> float:
        """Return a model's value; larger is better, so of an error its negative."""
        values, weights = self.values(model), self._weights
        counts = ~np.isnan(values)  # of impressions, some say nothing
        if self.train.share is None:
            return self.sign * float(np.average(values[counts], weights=weights[counts]))
        sums = np.array([values[counts] @ weights[counts], weights[counts].sum()])
        total, weight = self.train.group.total(sums)
        return self.sign * float(total / weight)

    def estimate(self, model: Scorer) -> dict[str, Any]:
        """Return a model's value by its metric, with a bootstrap interval over users."""
        share = self.train.share
        first = 0 if share is None else share.first_user
        users, values, weights = (
            self.train.group.gathered(each)
            for each in (self.targets.user + np.int64(first), self.values(model), self._weights)
        )
        counts = ~np.isnan(values)
        _, clusters = np.unique(users[counts], return_inverse=True)
        (found,) = estimates(
            {(self.metric, self.k): values[counts]},
            weights[counts],
            clusters,
            self._streams.numpy("validation", "bootstrap"),
            estimator=self.estimator,
            protocol=self.protocol,
        )
        return found.to_dict()

    def values(self, model: Scorer) -> NDArray[np.float64]:
        """Return the value of every row, `[n]`; all workers have all items meanwhile."""
        with whole_items(model, self.train.group):
            return self._values(model)

    def _values(self, model: Scorer) -> NDArray[np.float64]:
        scores = ModelScores(model, self.train, train=self.train, taught=self._taught)
        targets = self.targets
        if self.train.is_explicit:
            assert targets.rating is not None
            predicted = scores.of(targets.user, targets.item[:, None])[:, 0]
            return rating_errors(predicted, targets.rating)["mse"]
        if self._shown:
            return self._of_impressions(scores.of(targets.user, targets.item[:, None])[:, 0])
        if self._candidates is None:
            ranks = full_ranks(scores, targets, self.train)
        else:
            ranks = sampled_ranks(scores, targets.user, self._candidates)
        found = ranking_metrics(ranks, np.arange(len(ranks)), names=[self.metric], k=[self.k])
        return found[self.metric, self.k]

    def _of_impressions(self, scores: NDArray[np.floating]) -> NDArray[np.float64]:
        targets, logits = self.targets, scores.astype(np.float64)
        assert targets.clicked is not None
        if self.metric == "log_loss":
            return click_log_losses(logits, targets.clicked, targets.position)
        found = np.full(len(targets), np.nan)
        found[targets.clicked] = shares_below(targets.user, logits, targets.clicked)
        return found


def check_cutoff(settings: ValidationSettings, split: Split) -> None:
    """Refuse a cutoff that most rows are within, whatever the ranking; no list is below one."""
    if settings.metric in IMPRESSION_METRICS:
        return
    full = settings.protocol == "full"
    among = ranked_among(split, VALIDATION) if full else settings.n_negatives + 1
    if split.interactions.share is not None:  # by the worker whose rows have most
        here = float(among) if split.counts["validation"] else 0.0
        among = int(split.interactions.group.most(here)[0])
    if settings.k >= max(among, 2):
        whom = "half of the validation rows are" if full else "a row is"
        raise ConfigError(
            f"validation.k must be below the number of items that {whom} ranked among, or every "
            f"ranking is as good; found {settings.k:,} and {among:,}; lower validation.k, or what "
            "it follows from: evaluation.k of a study, --k of a tuning"
        )


def _some(
    rows: Interactions, train: Interactions, settings: ValidationSettings, streams: Streams
) -> Interactions:
    """Return the rows of as many users as are asked for, or as the budget allows; drawn once."""
    users, most = np.unique(rows.user), settings.users
    if most is None and settings.protocol == "full" and not train.is_explicit:
        most = max(1, SCORES // train.n_items)
    if most is not None and rows.share is not None:
        if rows.group.total(np.array([len(users)]))[0] <= most:
            return rows
        return rows.take(np.isin(rows.user, _of_shards(users, most, rows.share, streams)))
    if most is None or len(users) <= most:
        return rows
    drawn = streams.numpy("validation", "users").permutation(users)[:most]
    return rows.take(np.isin(rows.user, drawn))


def _of_shards(
    users: NDArray[np.int32], most: int, share: Share, streams: Streams
) -> NDArray[np.int32]:
    """Return this worker's of the `most` users of all whose numbers, drawn by shard, are lowest."""
    ends = np.searchsorted(users, share.bounds)
    drawn = np.concatenate(
        [
            streams.numpy("validation", "users", shard).random(end - begin)
            for shard, (begin, end) in zip(share.shards, pairwise(ends), strict=True)
        ]
    )
    lowest = np.sort(share.group.gathered(drawn))[most - 1]
    return np.asarray(users[drawn <= lowest])
