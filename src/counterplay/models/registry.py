"""A model with its size, as configurations hold it."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from counterplay.errors import ConfigError
from counterplay.models.names import MODELS
from counterplay.settings import configured

if TYPE_CHECKING:
    import torch

    from counterplay.data.interactions import Interactions
    from counterplay.models.scorer import Scorer


def known(name: str) -> str:
    """Return the name of a model; refuse another one."""
    if name not in MODELS:
        near = get_close_matches(name, MODELS, n=1)
        advice = f"did you mean '{near[0]}'" if near else "choose one of them"
        raise ConfigError(f"a model must be one of {', '.join(MODELS)}; found '{name}'; {advice}")
    return name


ModelName = Annotated[str, AfterValidator(known)]


class ModelSettings(BaseModel):
    """A model by name, and its size; each model uses the settings that it knows."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: ModelName = "gmf"  #: Name of the model.
    dim: Annotated[int, Field(ge=1)] = 32  #: Hidden dimension.
    exponent: float = 1.0  #: Exponent of popularity, for pop.
    length: Annotated[int, Field(ge=1)] = 50  #: Longest history, for attn.
    heads: Annotated[int, Field(ge=1)] = 1  #: Number of attention heads, for attn.
    blocks: Annotated[int, Field(ge=1)] = 2  #: Number of attention blocks, for attn.
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.1  #: Dropout rate, for attn.
    use_features: bool = True  #: Whether to use features, if the log has them.
    #: Strength of ℓ2 regularization, for ease and ials; if omitted, the model's own default.
    ridge: Annotated[float, Field(gt=0, le=1e12)] | None = None
    #: Maximum size in GiB of the matrix of ease.
    memory: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 4.0
    neighbours: Annotated[int, Field(ge=1)] = 50  #: Neighbours kept for each item, for knn.
    #: Shrinkage of similarities of rare items, for knn.
    shrink: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 10.0
    #: Confidence α in observed pairs, for ials.
    confidence: Annotated[float, Field(gt=0, le=1e6)] = 3.0
    sweeps: Annotated[int, Field(ge=1)] = 10  #: Sweeps over users and items, for ials.

    def build(self, log: Interactions, generator: torch.Generator | None) -> Scorer:
        """Return a fresh model for the users and items of a training log."""
        if log.share is not None:
            from counterplay.models.shares import shared_out

            return shared_out(self, log, generator)
        return self.kind.of(log, self, generator)

    @property
    def kind(self) -> type[Scorer]:
        """The class of the model."""
        found = MODELS[self.name]
        if not isinstance(found, str):
            return found
        module, _, attribute = found.partition(":")
        kind: type[Scorer] = getattr(import_module(module), attribute)
        return kind


def build(
    name: ModelName, log: Interactions, *, generator: torch.Generator | None = None, **size: Any
) -> Scorer:
    """Return a fresh model for the users and items of a training log.

    Args:
        name: One of `MODELS`.
        log: The rows it will be trained on; their features enter the neural models.
        generator: Stream of the initial values.
        size: As in `ModelSettings`, such as `dim=32`.
    """
    return configured(ModelSettings, options={"name": name, **size}).build(log, generator)
