"""The configuration of a run: one value that says all of it."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, create_model

from counterplay.errors import ConfigError
from counterplay.learning.config import Game, Training
from counterplay.learning.methods import MADE, known, method_of, settings_of
from counterplay.metrics.choices import Protocol, RowMetric
from counterplay.models.registry import ModelSettings
from counterplay.settings import configured, leaves

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from counterplay.data.interactions import Interactions
    from counterplay.models.scorer import Scorer
    from counterplay.seeding import Streams


Method = Annotated[str, AfterValidator(known)]  # of METHODS, or one's own as module:name
USUAL: Method = "erm"  # where nobody names a method


class ValidationSettings(BaseModel):
    """What selects the best epoch, on the validation rows; ratings go by their squared error.

    Attributes:
        protocol: Rank among all unseen items (full), or among `n_negatives` of them (sampled).
        metric: Computed from the rank of each row; or of impressions auc, how often a click scores
            above what the same user was shown and did not click, or log_loss.
        k: Cutoff of the metric, below the number of items that half of the rows are ranked among.
        n_negatives: Number of sampled items, for sampled.
        users: Number of users to rank for, drawn once. By default all; for full as many as 33
            million scores (users times items) allow.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    protocol: Protocol = "full"
    metric: RowMetric | Literal["auc", "log_loss"] = "hit"
    k: Annotated[int, Field(ge=1)] = 10
    n_negatives: Annotated[int, Field(ge=1)] = 100
    users: Annotated[int, Field(ge=1)] | None = None


class RunConfig(BaseModel):
    """All that a run needs besides its data.

    Attributes:
        method: erm, ps, acl or another, or your own as module:name.
        candidate: The model to train.
        exposure: The propensity model (ps) or the opponent (acl).
        training: How to train; options that the method does not have are refused.
        validation: What selects the best epoch.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    method: Method = USUAL
    candidate: ModelSettings = ModelSettings()
    exposure: ModelSettings = ModelSettings()
    training: Game = Game()
    validation: ValidationSettings = ValidationSettings()

    @property
    def has_exposure(self) -> bool:
        """Whether a player of the method is built like the exposure model."""
        return bool(set(method_of(self.method).roles) - {"candidate", "imputation", *MADE})

    def of_method(self) -> Training:
        """Return the training options of the method; refuse what does not go with it."""
        self.training.check_device()
        if self.method == "acl" and self.exposure.name == "pop":
            raise ConfigError(
                "an opponent must have something to learn; found the exposure model pop; choose "
                "another, or the method ps"
            )
        if self.method == "acl" and self.training.regularizer == "known":
            raise ConfigError(
                "a run learns from a log, whose true exposure nobody knows; found "
                "training.regularizer=known; choose feedback, exposure or popularity, or play in a "
                "world with counterplay.learning.acl(…, known=…)"
            )
        for role in method_of(self.method).roles:
            if role not in MADE:
                model: ModelSettings = getattr(self, role, self.exposure)
                method_of(self.method).check_player(role, model.kind)
        kind = settings_of(self.method)
        strange = sorted(self.training.model_fields_set - kind.model_fields.keys())
        if strange:
            raise ConfigError(
                f"an option must belong to the method; found training.{strange[0]} with "
                f"{self.method}; leave it out, or choose another method"
            )
        given = self.training.model_fields_set  # others are the method's own defaults
        return kind(**{name: getattr(self.training, name) for name in given})

    def players(
        self, train: Interactions, streams: Streams, shown: Interactions | None = None
    ) -> dict[str, Scorer]:
        """Return fresh models by their roles, as many as the method has.

        Where the exposure model is fitted to impressions, `shown`, it counts them.
        """
        rows = {} if shown is None else {"exposure": replace(shown, clicked=None, rating=None)}
        like = {"imputation": self.candidate}
        return {  # a role of a user's own method has a model like the exposure model
            role: getattr(self, role, like.get(role, self.exposure)).build(
                rows.get(role, train), streams.torch("initial", role)
            )
            for role in method_of(self.method).roles
            if role not in MADE
        }


def config_of(values: dict[str, Any]) -> RunConfig:
    """Return the configuration of a run; of a method of one's own, with the settings it has."""
    return kind_of(values).model_validate(values)


def kind_of(values: dict[str, Any]) -> type[RunConfig]:
    """Return the kind of configuration that has the settings of the method it names."""
    try:
        settings = settings_of(str(values.get("method", USUAL)))
    except ConfigError:  # validation says so, and where
        return RunConfig
    return RunConfig if issubclass(Game, settings) else _with(settings)


@cache
def _with(settings: type[Training]) -> type[RunConfig]:
    training: Any = (settings, settings())
    return create_model("RunConfig", __base__=RunConfig, training=training)


def run_config(
    file: Path | None = None, assignments: Iterable[str] = (), options: dict[str, Any] | None = None
) -> RunConfig:
    """Return the configuration of a run: a TOML file, then options, then assignments."""
    return configured(kind_of, file, assignments, options)


def training_command(configuration: dict[str, Any], name: str) -> str:
    """Return the command that trains as a record says, with what is not the default spelt out."""
    method = configuration["method"]
    usual = config_of({"method": method}).model_dump(mode="json")
    given = config_of(configuration).model_dump(mode="json")
    settings = [
        f"--set {shlex.quote(f'{key}={json.dumps(value)}')}"
        for key, value in leaves(given).items()
        if value is not None and value != leaves(usual).get(key)
    ]
    words = ["counterplay train DATA", f"--out {shlex.quote(name)}", f"--method {method}"]
    return " ".join(words + settings)
