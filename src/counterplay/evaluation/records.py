"""What an evaluation leaves behind: typed records, whose dump is its JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import SerializerFunctionWrapHandler, model_serializer

from counterplay.display import Shown, value_first
from counterplay.evaluation.audience_records import Segments, UserGallery
from counterplay.evaluation.record_kinds import Key as Key
from counterplay.evaluation.record_kinds import Kind as Kind
from counterplay.evaluation.record_kinds import Number as Number
from counterplay.evaluation.record_kinds import OfCandidate
from counterplay.evaluation.record_kinds import OfMetric as OfMetric
from counterplay.evaluation.record_kinds import Record as Record
from counterplay.evaluation.record_kinds import Settings as Settings
from counterplay.evaluation.record_kinds import Text as Text
from counterplay.evaluation.record_kinds import read_as as read_as
from counterplay.evaluation.record_kinds import validated as validated
from counterplay.metrics.comparison import beyond_chance

if TYPE_CHECKING:
    from plotly.graph_objects import Figure  # type: ignore[import-untyped]

Group = Literal["warm", "cold"]  # rows of users with training rows, and without


class EstimateRecord(OfMetric):
    """An `Estimate`, whose interval is None where it has none."""

    estimator: str
    protocol: str
    value: float
    low: Number
    high: Number
    level: float
    n: int
    ess: float
    top_share: float
    normalised: bool


class CandidateEstimate(EstimateRecord, OfCandidate):
    """The estimate of a candidate."""


class GroupEstimate(EstimateRecord, OfCandidate):
    """The estimate of a candidate on the rows of users with training rows, or without."""

    rows: Group


class ColdRows(Record):
    """The rows of users without training rows: how many, and estimates of them and the others."""

    rows: int
    share: float
    estimates: tuple[GroupEstimate, ...]


class Band(OfMetric, OfCandidate):
    """What an estimate could be if the odds of exposure were off by a factor `gamma`."""

    estimator: str
    gamma: float
    low: float
    high: float


class Comparison(OfMetric):
    """The difference of two candidates; `flip` is the factor of the odds that could turn it."""

    estimator: str
    first: Text
    second: Text
    value: float
    low: Number
    high: Number
    level: float
    n: int
    p: float
    flip: Number = None
    statement: Text | None = None

    @property
    def decided(self) -> bool:
        """Whether it is beyond chance, all pairs judged at once."""
        return beyond_chance(self.p, self.level)


class LeadMap(OfMetric):
    """First minus second at each pair of dials.

    `low` are its lower ends, one-sided, for all rivals at once; None where there is none.
    """

    first: Text
    second: Text
    value: tuple[float, ...]
    low: tuple[Number, ...]


class RandomDials(Record):
    """What random rows say of the dials.

    `gamma` and `lam` are the likeliest shares of popularity and of taste that are exposure; with
    `exposure_only` clicks show exposure, not taste.
    """

    n: int
    n_clicks: int
    gamma: float
    lam: float
    exposure_only: bool


class DialsRecord(Record):
    """The worst case of an evaluation, and what it rests on.

    Attributes:
        dials: Pairs of γ and λ, the shares of popularity and of taste that are exposure.
        box: The pairs that are held possible.
        point: The likeliest.
        coefficients: Of the click model: of popularity, and of each personalised candidate.
        n_fitted: Rows that the click model was fitted on.
        n_left_out: Rows that it was not, because their users have seen nearly all items.
        error: Of the logarithm of a propensity, by the sample of users that sums come from.
        leads: Of each candidate over each other.
        random: What random rows say of the dials, if there are any.
    """

    dials: tuple[tuple[float, float], ...]
    box: tuple[tuple[float, float], ...]
    point: tuple[float, float]
    coefficients: dict[Text, float]
    n_fitted: int
    n_left_out: int
    error: float
    leads: tuple[LeadMap, ...]
    random: RandomDials | None = None


class _Weights(Record):
    estimator: str
    candidate: Text | None  # None where all candidates share them

    @property
    def name(self) -> str:
        """The estimator, and whose propensities they are where candidates have their own."""
        return self.estimator if self.candidate is None else f"{self.estimator}, {self.candidate}"


class Spread(_Weights):
    """How propensities are spread over the rows."""

    n: int
    ess: float
    top_share: float
    quantiles: dict[str, float]
    edges: tuple[float, ...]
    counts: tuple[int, ...]


class Decile(Record):
    """A decile of popularity: its items, and its share of the training events."""

    decile: int
    items: int
    logged: float


class ListMeasure(Record):
    """A mean over the lists of `n` users, or a ratio of two such means."""

    name: Literal["novelty", "diversity", "popularity lift"]
    n: int
    value: Number
    low: Number
    high: Number
    level: float


class Recommended(OfCandidate):
    """How popular, how new and how varied the items of a candidate's lists are."""

    k: int
    n_users: int
    shares: tuple[float, ...]
    mean_popularity: float
    coverage: float
    gini: float
    measures: tuple[ListMeasure, ...] = ()


class Popularity(Record):
    """The popularity of what was logged, and of what is recommended."""

    deciles: tuple[Decile, ...]
    recommended: tuple[Recommended, ...]
    logged_mean_popularity: float


class DecileMean(OfMetric, OfCandidate):
    """The plain mean of a metric on rows whose items are in a decile."""

    decile: int
    n: int
    value: Number
    low: Number
    high: Number


class Bin(Record):
    """Rows of similar propensities, estimated and true ones."""

    n: int
    estimated: float
    true: float


class Calibration(_Weights):
    """Estimated propensities against those of the world."""

    correlation: Number
    bins: tuple[Bin, ...]


class Diagnostics(Record):
    """What the weights, the lists and the metrics of an evaluation hang on."""

    propensities: tuple[Spread, ...]
    popularity: Popularity
    by_decile: tuple[DecileMean, ...]
    calibration: tuple[Calibration, ...]
    segments: Segments | None = None
    gallery: UserGallery | None = None


class SampledUsers(Record):
    """How many users were drawn to be evaluated, of how many with held-out rows."""

    n: int
    of: int


class EvaluationRecord(Shown, Record):
    """What came of an evaluation: evaluation.json, and what evaluate and compare write."""

    dataset: Text
    part: str
    configuration: Settings
    estimates: tuple[CandidateEstimate, ...]
    sample: SampledUsers | None = None
    bands: tuple[Band, ...] = ()
    cold: ColdRows | None = None
    comparisons: tuple[Comparison, ...] = ()
    dials: DialsRecord | None = None
    diagnostics: Diagnostics | None = None
    notes: tuple[Text, ...] = ()

    @model_serializer(mode="wrap")
    def _written(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out what a comparison, a study or a sample adds, where this is none."""
        absent = {"comparisons", "dials", "diagnostics"} - self.model_fields_set
        absent |= {"sample"} if self.sample is None else set()
        return {name: value for name, value in dump(self).items() if name not in absent}

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row for each estimate."""
        return [value_first(each.to_dict()) for each in self.estimates]

    def plot_estimates(self, *, estimator: str | None = None, metric: Key | None = None) -> Figure:
        """Return estimates with intervals as a figure; see `counterplay.report.plot_estimates`."""
        import counterplay  # the report's room lies above this one; see docs/decisions

        return counterplay.report.plot_estimates(self, estimator=estimator, metric=metric)

    def plot_differences(
        self,
        *,
        estimator: str | None = None,
        metric: Key | None = None,
        candidate: str | None = None,
    ) -> Figure:
        """Return paired differences as a figure; see `counterplay.report.plot_differences`."""
        import counterplay

        return counterplay.report.plot_differences(
            self, estimator=estimator, metric=metric, candidate=candidate
        )

    def plot_bands(self, *, estimator: str | None = None, metric: Key | None = None) -> Figure:
        """Return what estimates could be at each Γ; see `counterplay.report.plot_bands`."""
        import counterplay

        return counterplay.report.plot_bands(self, estimator=estimator, metric=metric)

    def _title(self) -> str:
        names = dict.fromkeys(repr(each.candidate) for each in self.estimates)
        return f"of {', '.join(names)} on {self.dataset!r}: {self.part} rows"

    def _columns(self) -> dict[str, list[object]]:
        shown = ("candidate", "estimator", "metric", "k", "value", "low", "high")
        return {name: [getattr(each, name) for each in self.estimates] for name in shown}
