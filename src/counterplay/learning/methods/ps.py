"""Propensity scoring (PS): an exposure model g is fitted and frozen, and weighs the candidate.

    min over f, β    mean[ δ(y, f) / G_β(g, y) ]

g is fitted to clicks, or to impressions (`exposure_from`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

import numpy as np
import torch

from counterplay.data.histories import Histories
from counterplay.learning.config import Training, Weighted
from counterplay.learning.fitting import FitOptions, fit
from counterplay.learning.method import Method
from counterplay.learning.methods.erm import Erm
from counterplay.learning.regularizers import shown_losses
from counterplay.learning.weighting import groups_of, weighted_loss
from counterplay.models.scorer import History

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray
    from torch import Tensor

    from counterplay.data.interactions import Interactions
    from counterplay.learning.batches import Batch
    from counterplay.learning.records import Fit, Meter
    from counterplay.learning.weighting import Groups
    from counterplay.models.scorer import Scorer

_ROWS = 1 << 16  # whose exposure is scored at a time


class Exposed(Method[Training]):
    """An exposure model alone: what was shown, clicked or not, against sampled unseen items."""

    needs = "impressions"
    for_workers = True

    def step(self, batch: Batch, meter: Meter) -> None:
        """Move g down the gradient of its mean loss."""
        loss = batch.mean(shown_losses(self.candidate(*batch.query), batch.unseen))
        self.optimizers["candidate"].step(loss)
        meter.add(batch, candidate_loss=loss)


class Ps(Method[Weighted]):
    """The candidate, weighted by a frozen exposure model."""

    settings = Weighted
    for_workers = True
    roles: ClassVar[tuple[str, ...]] = ("candidate", "exposure", "link")
    searched: ClassVar[tuple[tuple[str, str | tuple[float, float]], ...]] = (
        ("exposure.name", "exposure"),
    )
    exposure_config: Training | None = None

    def first(self) -> Method[Any] | None:
        """Fit g alone, unless it has nothing to learn."""
        shown = self.exposures()
        if not any(True for _ in self.exposure.parameters()):
            return None
        config = self.exposure_config or self.config.plain()
        kind, rows = (Erm, self.log) if shown is None else (Exposed, shown)
        return kind({"candidate": self.exposure}, replace(rows, rating=None), config)

    def prepare(self) -> None:
        """Freeze g; f and β learn together."""
        self.exposure.requires_grad_(requires_grad=False)
        self.learns("candidate", self.config.rate, free=self.free)

    def begin(self, epoch: int) -> None:
        """Keep g as it is, without dropout."""
        self.exposure.eval()

    def step(self, batch: Batch, meter: Meter) -> None:
        """Move f and β down the gradient of the weighted loss."""
        n = self.config.n_weighted(batch.scored.shape[1])  # W
        with torch.no_grad():
            g = self.exposure(*batch.query)[:, :n]  # [B, W]
        f = self.candidate(*batch.query)  # [B, K]
        groups = groups_of(self.config.recipe, n)
        y = batch.link_outcomes[:, :n]  # [B, W]
        losses, factor = self.worst(batch, self.delta(batch.outcomes, f), g, y, groups)  # [B, K]
        loss, weights = weighted_loss(losses, self.link, g, y, groups, batch, factor=factor)
        self.optimizers["candidate"].step(loss)
        meter.add_weights(batch, weights, groups)
        meter.add(batch, candidate_loss=loss)

    def worst(
        self, batch: Batch, losses: Tensor, g: Tensor, y: Tensor, groups: Groups
    ) -> tuple[Tensor, Tensor | None]:
        """Return what is weighted, and factors of the odds where weights are not those of g."""
        return losses, None

    @torch.no_grad()
    def row_weights(self) -> NDArray[np.float64]:
        """Return `1 / G_β(g, 1)` of the rows by the fitted g, `[n]`; β stays where it starts."""
        log, device = self.log, self.config.device
        weights, model = np.empty(len(log)), self.exposure.eval()
        for rows, history in _queries(log, model.history_length):
            users, items = (
                torch.from_numpy(each[rows]).to(device) for each in (log.user, log.item[:, None])
            )
            g = model(users, items, history)[:, 0]
            weights[rows] = 1 / self.link(g, torch.ones_like(g)).cpu().numpy()
        return weights


def _queries(log: Interactions, length: int) -> Iterator[tuple[NDArray[np.int64], History | None]]:
    """Yield some rows of a log at a time, with what came before each if `length` is above 0."""
    if not length:
        for begin in range(0, len(log), _ROWS):
            yield np.arange(begin, min(begin + _ROWS, len(log))), None
        return
    windows, n = Histories(log).windows(length), max(1, _ROWS // length)
    for begin in range(0, len(windows.inputs), n):
        part = slice(begin, begin + n)
        window, place = np.nonzero(windows.row[part] >= 0)
        inputs, window_of, last = map(torch.from_numpy, (windows.inputs[part], window, place))
        yield windows.row[part][window, place], History(inputs, window_of, last)


def ps(
    candidate: Scorer,
    exposure: Scorer,
    log: Interactions,
    config: Weighted,
    *,
    exposure_config: Training | None = None,
    impressions: Interactions | None = None,
    **options: Unpack[FitOptions],
) -> Fit:
    """Fit g alone, then minimise `mean[δ(y, f) / G_β(g, y)]` over f and β with g frozen.

    Both models are changed in place; a g without parameters (popularity, given propensities) is
    taken as it is. `exposure_config` says how to learn g; by default as f. With
    `exposure_from="impressions"` g is fitted to `impressions`, a log with `clicked` in the ids of
    the clicks. For `options` see `erm`; callbacks are called in the second stage only.
    """
    method = Ps({"candidate": candidate, "exposure": exposure}, log, config)
    method.exposure_config, method.impressions = exposure_config, impressions
    return fit(method, **options)
