"""What a tuning searches, where, and what it selects by: one value that says all of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, field_validator

from counterplay.errors import ConfigError
from counterplay.evaluation.estimators import ESTIMATORS, known
from counterplay.evaluation.settings import Evaluation, OpponentSettings, Share
from counterplay.learning.config import Game
from counterplay.learning.methods import method_of
from counterplay.metrics.choices import Protocol, RowMetric
from counterplay.models.registry import ModelName, ModelSettings
from counterplay.runs.config import Method, RunConfig, ValidationSettings, config_of
from counterplay.runs.defaults import training_for, validation_for

if TYPE_CHECKING:
    from counterplay.data.interactions import Interactions


class Choices(tuple[Any, ...]):
    """Values to choose from; any other tuple is a range from end to end."""

    __slots__ = ()


def _selects(name: str) -> str:
    if not ESTIMATORS[known(name)].selects:
        able = ", ".join(each.name for each in ESTIMATORS.values() if each.selects)
        raise ConfigError(f"tuning selects by one of {able}; found '{name}'; choose one of them")
    return name


def _ordered(ends: tuple[float, float]) -> tuple[float, float]:
    if ends[0] > ends[1]:
        raise ValueError("a range must not end below its beginning")
    return ends


def _range(value: object) -> object:
    """Read a number as the range that fixes it."""
    return (value, value) if isinstance(value, int | float) else value


_Above = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Whole = Annotated[int, Field(ge=1)]
Rates = Annotated[tuple[_Above, _Above], BeforeValidator(_range), AfterValidator(_ordered)]
Counts = Annotated[tuple[_Whole, _Whole], BeforeValidator(_range), AfterValidator(_ordered)]


class Space(BaseModel):
    """Where to search: each range from end to end, by its logarithm; one number fixes a setting."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rate: Rates = (0.001, 0.1)
    l2: Rates = (1e-7, 0.01)  # the lower end is as good as none
    batch_size: Counts = (256, 8192)
    n_negatives: Counts = (1, 16)  # sampled items per query
    dim: Counts = (8, 128)  # of the candidate, powers of 2
    alpha: Rates = (0.01, 10.0)  # weight of the exposure model's regularizer, of acl
    exposure_rate: Rates = (0.001, 0.1)  # of acl
    exposure_dim: Counts = (2, 64)  # of acl
    exposure: tuple[ModelName, ...] = ("pop", "gmf")  # what ps tries besides the one it has


class Selection(BaseModel):
    """The estimate that trials are selected by, on validation rows.

    Its weights must be the same for every trial. The robust estimators are fitted against the
    candidates that they weight, and a trial does not know those to come.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    estimator: Annotated[str, AfterValidator(_selects)] = "popularity"
    metric: RowMetric = "hit"
    k: _Whole = 10
    protocol: Protocol = "full"
    n_negatives: _Whole = 100
    clip: Share | None = None
    exponent: float = 1.0
    floor: Share = 0.01
    opponent: OpponentSettings = OpponentSettings()

    def evaluation(self, seed: int) -> Evaluation:
        """Return it as an evaluation."""
        same = {name: getattr(self, name) for name in Selection.model_fields}
        one = {"estimators": (same.pop("estimator"),), "metrics": (same.pop("metric"),)}
        return Evaluation(**same | one | {"k": (self.k,), "part": "validation", "seed": seed})


class Tuning(BaseModel):
    """What to tune, and how.

    Attributes:
        methods: Which methods; each has the same number of trials.
        trials: That number; the first has the settings that follow from the size of the data.
        candidate: The model to train.
        exposure: Its propensity model (ps) or opponent (acl).
        training: Settings for the methods that have them: where searching begins, or what stays.
        validation: What selects the best epoch; what is not set is as in `selection`.
        selection: What selects the best trial.
        space: Where to search.
        seed: Of all streams.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    methods: Annotated[tuple[Method, ...], Field(min_length=1)] = ("erm", "ps", "acl")
    trials: _Whole = 20
    candidate: ModelSettings = ModelSettings()
    exposure: ModelSettings = ModelSettings()
    training: Game = Game()
    validation: ValidationSettings = ValidationSettings()
    selection: Selection = Selection()
    space: Space = Space()
    seed: Annotated[int, Field(ge=0)] = 0

    @field_validator("methods")
    @classmethod
    def _different(cls, methods: tuple[Method, ...]) -> tuple[Method, ...]:
        if len(set(methods)) < len(methods):
            raise ValueError("a method is tuned once")
        return methods

    @field_validator("training")
    @classmethod
    def _tunable(cls, training: Game) -> Game:
        if training.loss == "squared":
            raise ValueError("trials are selected by ranks, so the loss must not be squared")
        if "seed" in training.model_fields_set:
            raise ValueError("the seed is that of the whole tuning, seed")
        return training

    @property
    def judged(self) -> ValidationSettings:
        """What selects the best epoch: the rule that selects the best trial, unless set."""
        given = {name: getattr(self.validation, name) for name in self.validation.model_fields_set}
        return ValidationSettings(**validation_for(self.selection.evaluation(self.seed)) | given)

    def run_config(
        self, method: Method, train: Interactions, settings: dict[str, Any]
    ) -> RunConfig:
        """Return what a trial with these settings trains; without any, the defaults of the data."""
        known = method_of(method).settings.model_fields
        given = {
            name: getattr(self.training, name)
            for name in self.training.model_fields_set & known.keys()
        }
        parts: dict[str, dict[str, Any]] = {
            "training": training_for(train, seed=self.seed, **given),
            "candidate": self.candidate.model_dump(),
            "exposure": self.exposure.model_dump(),
        }
        for key, value in settings.items():
            section, name = key.split(".")
            parts[section][name] = value
        whole = {"method": method, "validation": self.judged}
        config = config_of(whole | parts)
        config.of_method()
        return config

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON; of training those that were given."""
        given = self.training.model_dump(mode="json", exclude_unset=True)
        judged = self.judged.model_dump(mode="json")
        return self.model_dump(mode="json") | {"training": given, "validation": judged}


def searched(config: Tuning, method: Method) -> dict[str, tuple[Any, ...]]:
    """Return the range, or the choices, of every setting that a method's trials search."""
    kind = method_of(method)
    ranges: dict[str, tuple[Any, ...]] = {
        key: getattr(config.space, ends) if isinstance(ends, str) else ends
        for key, ends in (*config.candidate.kind.searched, *kind.searched)
        if key not in kind.unsearched
    }
    if "candidate.dim" in ranges:
        ranges["candidate.dim"] = _dimensions(config.candidate.dim, *ranges["candidate.dim"])
    if "exposure.name" in ranges:
        names = dict.fromkeys((config.exposure.name, *config.space.exposure))
        ranges["exposure.name"] = Choices(names)
    return ranges


def _dimensions(own: int, low: int, high: int) -> Choices:
    """Return the powers of 2 in a range, which heads divide, and the one that is asked for."""
    powers = {1 << power for power in range(low.bit_length() - 1, high.bit_length())}
    inside = sorted(each for each in {own, *powers} if low <= each <= high)
    return Choices(inside or (low,))


def _nearest(value: Any, ends: tuple[Any, ...]) -> Any:
    if isinstance(ends, Choices):
        return min(ends, key=lambda each: abs(each - value))
    return min(max(value, ends[0]), ends[1])


def first_settings(config: Tuning, method: Method, train: Interactions) -> dict[str, Any]:
    """Return the settings of the first trial: the defaults, or the nearest in the space."""
    start, usual = config.run_config(method, train, {}).model_dump(), config.candidate.kind.usual
    settings = {}
    for key, ends in searched(config, method).items():
        section, name = key.split(".")
        value = start[section][name]
        if value is None:
            value = usual(train)[name]
        settings[key] = value if value in ends else _nearest(value, ends)
    return settings
