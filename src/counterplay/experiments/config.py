"""The configuration of a run: one value that says all of it."""

from __future__ import annotations

import difflib
import json
import shlex
import tomllib
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from counterplay.data.files import leaves
from counterplay.errors import ConfigError
from counterplay.learning.config import Game, Training, Weighted
from counterplay.models.registry import ModelName, build

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import torch

    from counterplay.data.interactions import Interactions
    from counterplay.models.scorer import Scorer
    from counterplay.seeding import Streams

Method = Literal["erm", "ps", "acl"]
Protocol = Literal["full", "sampled"]
RowMetric = Literal["hit", "dcg", "ndcg", "mrr"]
Settings = TypeVar("Settings", bound=BaseModel)
_TRAINING: dict[Method, type[Training]] = {"erm": Training, "ps": Weighted, "acl": Game}


class ModelSettings(BaseModel):
    """A model and its size; see `counterplay.models.registry.build`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: ModelName = "gmf"
    dim: Annotated[int, Field(ge=1)] = 32
    exponent: float = 1.0
    length: Annotated[int, Field(ge=1)] = 50
    heads: Annotated[int, Field(ge=1)] = 1
    blocks: Annotated[int, Field(ge=1)] = 2
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.1
    use_features: bool = True

    def build(self, log: Interactions, generator: torch.Generator) -> Scorer:
        """Return a fresh model for the users and items of a training log."""
        return build(self.name, log, generator=generator, **self.model_dump(exclude={"name"}))


class ValidationSettings(BaseModel):
    """What selects the best epoch, on the validation rows; ratings go by their squared error.

    Attributes:
        protocol: full ranks among all unseen items; sampled among `n_negatives` of them.
        metric: Of a row's rank.
        k: Its cutoff, below the number of items that half of the rows are ranked among.
        n_negatives: Of the sampled protocol.
        users: Go by the rows of so many users, drawn once. By default by all; with full ranks by as
            many as 33 million scores allow, users times items.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    protocol: Protocol = "full"
    metric: RowMetric = "hit"
    k: Annotated[int, Field(ge=1)] = 10
    n_negatives: Annotated[int, Field(ge=1)] = 100
    users: Annotated[int, Field(ge=1)] | None = None


class RunConfig(BaseModel):
    """All that a run needs besides its data.

    Attributes:
        method: erm, ps or acl.
        candidate: The model that is learnt.
        exposure: Its propensity model (ps) or opponent (acl).
        training: How; options that the method does not have are refused.
        validation: What selects the best epoch.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    method: Method = "acl"
    candidate: ModelSettings = ModelSettings()
    exposure: ModelSettings = ModelSettings()
    training: Game = Game()
    validation: ValidationSettings = ValidationSettings()

    def of_method(self) -> Training:
        """Return the training options of the method; refuse what does not go with it."""
        if self.method == "acl" and self.exposure.name == "pop":
            raise ConfigError(
                "an opponent must have something to learn; found the exposure model pop; choose "
                "another, or the method ps"
            )
        if self.method == "acl" and self.training.regularizer == "known":
            raise ConfigError(
                "a run learns from a log, whose true exposure nobody knows; found "
                "training.regularizer=known; choose feedback, exposure or popularity, or play in a "
                "world with counterplay.acl(…, known=…)"
            )
        kind = _TRAINING[self.method]
        strange = sorted(self.training.model_fields_set - kind.model_fields.keys())
        if strange:
            raise ConfigError(
                f"an option must belong to the method; found training.{strange[0]} with "
                f"{self.method}; leave it out, or choose another method"
            )
        return kind(**{name: getattr(self.training, name) for name in kind.model_fields})

    def players(self, train: Interactions, streams: Streams) -> tuple[Scorer, Scorer | None]:
        """Return a fresh candidate and exposure model, which plain learning has none of."""
        candidate = self.candidate.build(train, streams.torch("initial", "candidate"))
        if self.method == "erm":
            return candidate, None
        return candidate, self.exposure.build(train, streams.torch("initial", "exposure"))


def run_config(
    file: Path | None = None, assignments: Iterable[str] = (), options: dict[str, Any] | None = None
) -> RunConfig:
    """Put the configuration of a run together."""
    return configured(RunConfig, file, assignments, options)


def configured(
    kind: type[Settings],
    file: Path | None = None,
    assignments: Iterable[str] = (),
    options: dict[str, Any] | None = None,
) -> Settings:
    """Put settings together: a TOML file, then options, then `section.key=value`."""
    values: dict[str, Any] = {}
    if file is not None:
        try:
            values = tomllib.loads(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise ConfigError(
                f"a configuration must be a readable TOML file; found none at '{file}'; name "
                "another"
            ) from None
        except RecursionError:
            raise ConfigError(
                "a configuration must be a readable TOML file; found values within values, too "
                f"deep to read, in '{file}'; correct it"
            ) from None
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"a configuration must be a readable TOML file; found {error} in '{file}'; "
                "correct it"
            ) from None
    written = leaves(values)
    for key, value in (options or {}).items():
        if value is not None:
            _put(values, key, value)
    for assignment in assignments:
        key, sign, text = assignment.partition("=")
        if not sign:
            raise ConfigError(
                f"an assignment must have the form section.key=value; found '{assignment}'; "
                "correct it"
            )
        _put(values, key.strip(), _literal(text.strip()))
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        place = ".".join(str(part) for part in error.errors()[0]["loc"])
        said = any(f"{key}.".startswith(f"{place}.") for key in written)
        where = f" in '{file}'" if said else ""
        raise ConfigError(_sentence(error, kind, where)) from None


def _put(values: dict[str, Any], key: str, value: object) -> None:
    *sections, last = key.split(".")
    for section in sections:
        values = values.setdefault(section, {})
        if not isinstance(values, dict):
            raise ConfigError(
                f"a section must hold keys; found '{section}' in '{key}' to be a value; correct it"
            )
    known = values.get(last)
    values[last] = known | value if isinstance(known, dict) and isinstance(value, dict) else value


def _literal(text: str) -> object:
    """Read a value as TOML would; what is none is text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        return text


def _sentence(error: ValidationError, kind: type[BaseModel], where: str) -> str:
    """Say what is wrong with the first bad key, with the nearest known one."""
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    if first["type"] != "extra_forbidden":
        found = f"found {place}={first['input']!r}{where}"
        return f"every setting must be valid ({first['msg'].lower()}); {found}; correct it"
    model: Any = kind
    for part in first["loc"][:-1]:
        values = get_args(model)  # of a section with names of the user's own
        model = values[-1] if values else model.model_fields[part].annotation
    return (
        f"every setting must be a known one; found '{place}'{where}; "
        f"{_hint(str(first['loc'][-1]), model, kind)}"
    )


def _hint(name: str, section: type[BaseModel], kind: type[BaseModel]) -> str:
    """Name the same key of another section, else the nearest of this one, else all of this one."""
    known = list(section.model_fields)
    elsewhere = [
        f"{other}.{name}"
        for other, field in kind.model_fields.items()
        if name in getattr(field.annotation, "model_fields", ())
    ]
    nearest = elsewhere or difflib.get_close_matches(name, known, n=1)
    return f"did you mean '{nearest[0]}'" if nearest else f"known are {', '.join(known)}"


def training_command(configuration: dict[str, Any], name: str) -> str:
    """Return the command that trains as a record says, with what is not the default spelt out."""
    method = configuration["method"]
    usual = RunConfig.model_validate({"method": method}).model_dump(mode="json")
    given = RunConfig.model_validate(configuration).model_dump(mode="json")
    settings = [
        f"--set {shlex.quote(f'{key}={json.dumps(value)}')}"
        for key, value in leaves(given).items()
        if value is not None and value != leaves(usual).get(key)
    ]
    words = ["counterplay train DATA", f"--out {shlex.quote(name)}", f"--method {method}"]
    return " ".join(words + settings)
