"""What keeps the exposure model close to the data: R(g) of the game, in four forms.

Those that look at propensities take the link as it is: β is the candidate's to choose, and gets no
gradient from them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

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

KnownExposure = Callable[[Tensor, Tensor], Tensor]  # users [B], items [B, K] to propensities
Regularizer = Callable[["Batch", Tensor, "Link"], Tensor]  # g's scores [B, 1 + n_negatives]


def regularizer_of(
    config: Game,
    log: Interactions,
    known: KnownExposure | None = None,
    impressions: Interactions | None = None,
) -> Regularizer:
    """Return R(g) as a function of a batch, g's scores on it and the link.

    With impressions, feedback and exposure are both g's loss on what was shown, and their batch
    is of impressions; popularity counts impressions.
    """
    delta = LOSSES[config.loss]
    kind = config.regularizer
    if log.is_explicit and kind == "feedback":
        kind = "exposure"  # ratings are no outcome for g: that they were given is
    if impressions is not None and kind in ("feedback", "exposure"):
        return lambda batch, g, _: batch.mean(shown_losses(g, batch.unseen))
    if kind == "feedback":
        return lambda batch, g, _: batch.mean(delta(batch.observed, g))
    if kind == "exposure":
        return lambda batch, g, _: batch.mean(exposure_losses(g, batch.observed))
    if kind == "popularity":
        popularity = _popularity(log if impressions is None else impressions).to(config.device)
        return lambda batch, g, link: popularity_distance(
            link(g, batch.observed, learn=False), batch.items, popularity
        )
    if known is None:
        raise ConfigError(
            "the regularizer known needs the true exposure; found none; give a world's as known, "
            "or choose another regularizer"
        )
    return lambda batch, g, link: known_distance(
        link(g, batch.observed, learn=False), known(batch.users, batch.items)
    )


_LEAST_DEVIATION = 1e-3  # of propensities, or of counts


def exposure_losses(g: Tensor, observed: Tensor) -> Tensor:
    """Return the logistic losses of g on which pairs were observed: they were exposed."""
    return F.softplus(-(2 * observed - 1) * g)


def shown_losses(g: Tensor, unseen: Tensor | None) -> Tensor:
    """Return the logistic losses of g on what was shown, against sampled items that were not.

    The shown item of each row is the first of `[B, K]`, clicked or not. `unseen` `[B]` is 0 for
    users who were shown everything: nothing could be sampled for them.
    """
    losses = torch.cat([F.softplus(-g[:, :1]), F.softplus(g[:, 1:])], dim=1)
    if unseen is not None:
        losses = torch.cat([losses[:, :1], losses[:, 1:] * unseen[:, None]], dim=1)
    return losses


def popularity_distance(propensities: Tensor, items: Tensor, popularity: Tensor) -> Tensor:
    """Return `1 − corr(mean of G over users, popularity)` over the items of a batch.

    An item of `items` `[B, K]` counts once, whatever its number of users. Deviations count as no
    smaller than 0.001: where all means are the same, there is nothing to correlate, and the
    gradient would have no bounds.
    """
    present, place, n = items.reshape(-1).unique(return_inverse=True, return_counts=True)
    sums = propensities.new_zeros(len(present)).index_add(0, place, propensities.reshape(-1))
    both = torch.stack([sums / n, popularity[present].to(propensities)])
    centred = both - both.mean(1, keepdim=True)
    deviations = (centred.norm(dim=1) / len(present) ** 0.5).clamp(min=_LEAST_DEVIATION)
    correlation: Tensor = centred.prod(0).mean() / deviations.prod()
    return 1 - correlation


def known_distance(propensities: Tensor, known: Tensor) -> Tensor:
    """Return the mean of `|G − known|`: the Wasserstein distance if mass stays with its pair."""
    return (propensities - known).abs().mean()


def _popularity(log: Interactions) -> Tensor:
    """Return how many users each item has: the paper's `Σ_u Y_ui`."""
    distinct = np.unique(log.pair)
    return torch.from_numpy(np.bincount(distinct % log.n_items, minlength=log.n_items))
