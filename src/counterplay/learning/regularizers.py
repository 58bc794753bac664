"""What keeps the exposure model close to the data: four terms, each to be small.

The game subtracts α times one of them from what the exposure model wants to be large.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from counterplay.errors import ConfigError
from counterplay.learning.losses import LOSSES

if TYPE_CHECKING:
    from counterplay.data.interactions import Interactions
    from counterplay.learning.batches import Batch
    from counterplay.learning.config import Game
    from counterplay.models.link import Link

RegularizerName = Literal["feedback", "exposure", "popularity", "wasserstein"]


KnownExposure = Callable[[Tensor, Tensor], Tensor]  # users [B], items [B, K] to propensities
Regularizer = Callable[["Batch", Tensor, "Link"], Tensor]  # g's scores [B, 1 + n_negatives]


def regularizer_of(
    config: Game, log: Interactions, known: KnownExposure | None = None
) -> Regularizer:
    """Return R(g) as a function of a batch, g's scores on it and the link."""
    delta = LOSSES[config.loss]
    kind = config.regularizer
    if log.is_explicit and kind == "feedback":
        kind = "exposure"  # ratings are no outcome for g: that they were given is
    if kind == "feedback":
        return lambda batch, g, _: delta(batch.observed, g).mean()
    if kind == "exposure":
        return lambda batch, g, _: exposure_loss(g, batch.observed)
    if kind == "popularity":
        events = torch.from_numpy(np.bincount(log.item, minlength=log.n_items))
        return lambda batch, g, link: popularity_distance(
            link(g, batch.observed), events.to(g.device)[batch.items]
        )
    if known is None:
        raise ConfigError(
            "the Wasserstein regularizer needs a known exposure; found none; give a world's, or "
            "choose another regularizer"
        )
    return lambda batch, g, link: wasserstein_distance(
        link(g, batch.observed), known(batch.users, batch.items)
    )


def exposure_loss(g: Tensor, observed: Tensor) -> Tensor:
    """Return the logistic loss of g on which pairs were observed: they were exposed."""
    return F.softplus(-(2 * observed - 1) * g).mean()


def popularity_distance(propensities: Tensor, popularity: Tensor) -> Tensor:
    """Return `1 − corr(G, popularity)` over the pairs of a batch."""
    both = torch.stack([propensities.reshape(-1), popularity.reshape(-1).to(propensities)])
    centred = both - both.mean(1, keepdim=True)
    norms = centred.norm(dim=1).clamp(min=1e-12)
    correlation: Tensor = (centred[0] @ centred[1]) / (norms[0] * norms[1])
    return 1 - correlation


def wasserstein_distance(propensities: Tensor, known: Tensor) -> Tensor:
    """Return W₁ between the propensities of a batch and known ones: sorted, place by place."""
    ours, theirs = propensities.reshape(-1).sort().values, known.reshape(-1).sort().values
    return (ours - theirs).abs().mean()
