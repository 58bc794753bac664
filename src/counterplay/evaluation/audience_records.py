"""What an evaluation says of parts of the audience: values by segment, and a sample of users."""

from __future__ import annotations

from typing import Literal

from counterplay.evaluation.record_kinds import Number, OfCandidate, OfMetric, Record, Text


class SegmentValue(OfCandidate):
    """A candidate's value on the rows of a segment."""

    estimator: str
    value: float
    low: Number
    high: Number


class SegmentLead(Record):
    """The paired difference of two candidates on the rows of a segment.

    Its ends hold for all segments of the estimator at once (Bonferroni); `decided` is whether they
    leave out 0.
    """

    estimator: str
    value: float
    low: Number
    high: Number
    decided: bool


class Segment(Record):
    """Rows that have something in common.

    Attributes:
        of: What they are told apart by.
        label: What these have in common.
        n: Number of rows.
        n_users: Number of users.
        values: Of each candidate, by estimator.
        leads: Of the first of two candidates over the second, by estimator.
    """

    of: Text
    label: Text
    n: int
    n_users: int
    values: tuple[SegmentValue, ...]
    leads: tuple[SegmentLead, ...] = ()


class Segments(OfMetric):
    """The metric that decides, segment by segment.

    Attributes:
        level: Of the intervals.
        estimator: The one that is followed here; standard stands beside it.
        first: The candidate that the verdict puts first.
        second: Its nearest rival; None where there is none.
        n_leads: How many differences are judged at once under an estimator.
        segments: Those with rows.
        left_out: Feature columns that were not used, each with the reason.
    """

    level: float
    estimator: str
    first: Text
    second: Text | None
    n_leads: int
    segments: tuple[Segment, ...]
    left_out: tuple[Text, ...] = ()


class SampledUser(Record):
    """A user by their id; items are places in the sample's table.

    Attributes:
        user: The id.
        n_history: Rows before the held-out ones.
        history: The items of the last of those.
        n_chosen: Held-out rows.
        chosen: The items of the first of those.
        ratings: Their ratings, where ratings are predicted.
        lists: By candidate, what it would show, the best first.
    """

    user: Text
    n_history: int
    history: tuple[int, ...]
    n_chosen: int
    chosen: tuple[int, ...]
    ratings: tuple[float, ...] | None = None
    lists: dict[Text, tuple[int, ...]]


class UserGallery(Record):
    """A sample of users with held-out rows, and all items that they are shown with.

    Attributes:
        k: Length of the lists.
        n_users: Users with held-out rows, from whom these were drawn.
        feedback: What a held-out row is.
        in_order: Whether a history is in the order of its times.
        items: Ids of the items.
        names: Their names, where a feature table has some; None where an item has none.
        users: The sample.
    """

    k: int
    n_users: int
    feedback: Literal["clicks", "ratings"]
    in_order: bool
    items: tuple[Text, ...]
    names: tuple[Text | None, ...] | None
    users: tuple[SampledUser, ...]
