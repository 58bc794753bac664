"""A model and its size, as configurations hold it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, ConfigDict, Field

from counterplay.models.registry import ModelName, build

if TYPE_CHECKING:
    import torch

    from counterplay.data.interactions import Interactions
    from counterplay.models.scorer import Scorer


class ModelSettings(BaseModel):
    """A model by name, and its size; see `counterplay.models.registry.build`."""

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
