"""Models by name: pop, cf, gmf, mlp, ncf, attn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from counterplay.models.attention import Attention
from counterplay.models.factorization import CF, GMF
from counterplay.models.neural import MLP, NCF
from counterplay.models.popularity import Popularity

if TYPE_CHECKING:
    import torch

    from counterplay.data.interactions import Interactions
    from counterplay.models.scorer import Scorer

ModelName = Literal["pop", "cf", "gmf", "mlp", "ncf", "attn"]


def build(
    name: ModelName,
    log: Interactions,
    *,
    dim: int = 32,
    generator: torch.Generator | None = None,
    exponent: float = 1.0,
    length: int = 50,
    heads: int = 1,
    blocks: int = 2,
    dropout: float = 0.1,
    use_features: bool = True,
) -> Scorer:
    """Return a fresh model for the users and items of a training log.

    Args:
        name: Which model.
        log: The rows it will be trained on; their features enter the neural models.
        dim: Hidden dimension.
        generator: Stream of the initial values.
        exponent: Exponent of popularity, for pop.
        length: Longest history, for attn, as are heads, blocks and dropout.
        heads: Attention heads.
        blocks: Attention blocks.
        dropout: Share dropped while training.
        use_features: Whether features are used where the log has them.
    """
    shape = log.n_users, log.n_items
    if name == "pop":
        return Popularity(*shape, np.bincount(log.item, minlength=shape[1]), exponent=exponent)
    users, items = (log.user_features, log.item_features) if use_features else (None, None)
    if name == "attn":
        return Attention(
            *shape, dim=dim, length=length, heads=heads, blocks=blocks, dropout=dropout,
            item_features=items, generator=generator,
        )  # fmt: skip
    kind = {"cf": CF, "gmf": GMF, "mlp": MLP, "ncf": NCF}[name]
    return kind(*shape, dim=dim, user_features=users, item_features=items, generator=generator)
