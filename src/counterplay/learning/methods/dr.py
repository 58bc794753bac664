"""Doubly robust joint learning (DR) of ratings, with an imputation model h as a third player.

    min over f    mean over all pairs of [ ê + o · (e − ê) / q ],    e = (r − f)²,  ê = (r̃ − f)²
    min over h    mean over observed pairs of [ (h − (r − f))² / q ]

r̃ = f + h is the imputed rating: h predicts by how much f is wrong, and f moves by it where nobody
rated. o says whether a pair was observed, q is its propensity. If either h or q is right, the first
mean is that of e over all pairs. Unobserved pairs are sampled, the same number for each row; a row
of user u counts for n_unseen(u) / n_rows(u) of them. f moves first, then h answers the updated f.

Wang et al., Doubly Robust Joint Learning for Recommendation on Data Missing Not at Random, 2019
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack, cast

import numpy as np
import torch

from counterplay.errors import ConfigError, DataError
from counterplay.learning.config import Joint
from counterplay.learning.fitting import FitOptions, fit
from counterplay.learning.method import Method
from counterplay.learning.methods.erm import Erm
from counterplay.learning.weighting import logged_are_used

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from counterplay.data.interactions import Interactions
    from counterplay.learning.batches import Batch
    from counterplay.learning.records import Fit, Meter
    from counterplay.models.scorer import Scorer


class Dr(Method[Joint]):
    """The candidate, a model of its errors, and propensities."""

    settings = Joint
    for_workers = True
    roles = ("candidate", "imputation", "exposure")
    needs = "ratings"
    searched = (("training.imputation_rate", (0.001, 0.1)), ("training.floor", (0.01, 1.0)))

    def __init__(self, players: Mapping[str, Scorer], log: Interactions, config: Joint) -> None:
        if log.rating is None:
            raise DataError(
                "the method dr predicts ratings; found a log without; name the column with "
                "--rating, or choose another method"
            )
        if not any(True for _ in players["imputation"].parameters()):
            raise ConfigError(
                "an imputation model must have something to learn; found one without parameters; "
                "choose another model, such as cf"
            )
        super().__init__(players, log, config)
        self._logged = logged_are_used(config.propensities, log)
        self._fitted = not self._logged and any(True for _ in self.exposure.parameters())
        n_rows = np.bincount(log.user, minlength=log.n_users)
        pairs = np.unique(log.pair)
        n_unseen = log.n_items - np.bincount(pairs // log.n_items, minlength=log.n_users)
        others = np.where(n_rows > 0, n_unseen / np.maximum(n_rows, 1), 0).astype(np.float32)
        self._others = torch.from_numpy(others).to(config.device)  # for each row, [n_users]
        n, others_of_all = log.group.total(np.array([len(log), n_unseen[n_rows > 0].sum()]))
        self._density = float(n / (n + others_of_all))  # mean of q

    def first(self) -> Method[Any] | None:
        """Fit the exposure model alone, unless there are propensities, or nothing to learn."""
        if not self._fitted:
            return None
        rows = replace(self.log, rating=None)
        return Erm({"candidate": self.exposure}, rows, self.config.plain())

    def prepare(self) -> None:
        """Freeze g; f and h learn."""
        self.exposure.requires_grad_(requires_grad=False)
        self.learns("candidate", self.config.rate)
        self.learns("imputation", self.config.imputation_rate)

    def begin(self, epoch: int) -> None:
        """Keep g as it is, without dropout."""
        self.exposure.eval()

    def step(self, batch: Batch, meter: Meter) -> None:
        """Move f down the doubly robust loss, then h towards the errors of the updated f."""
        assert batch.ratings is not None
        rating, imputation = batch.ratings[:, 0], cast("Scorer", self.players["imputation"])
        pairs = batch.users, batch.items, batch.history
        inverse = self._inverse(batch)  # 1 / q, [B]
        with torch.no_grad():
            h = imputation(*pairs)  # [B, 1 + n_negatives]
        f = self.candidate(*pairs)  # [B, 1 + n_negatives]
        rows = doubly_robust(rating, f, f.detach() + h, inverse, self._others[batch.users.long()])
        loss = self._density * batch.mean(rows)
        self.optimizers["candidate"].step(loss)
        with torch.no_grad():
            error = rating - self.candidate(*batch.query)[:, 0]  # of the updated f, [B]
        missed = (imputation(*batch.query)[:, 0] - error) ** 2  # [B]
        imputed = self._density * batch.mean(inverse * missed)
        self.optimizers["imputation"].step(imputed)
        meter.add_weights(batch, inverse[:, None])
        meter.add(batch, candidate_loss=loss, imputation_loss=imputed)

    def _inverse(self, batch: Batch) -> Tensor:
        """Return 1 / q of observed pairs, `[B]`: as logged, or fitted, then with mean 1 / density.

        The exposure model tells rows from samples. Its odds become those of a pair when they are
        multiplied by n_rows / n_unseen of the user, and by the samples a row if it is fitted here.
        """
        least = self.config.floor * self._density
        if self._logged:
            assert batch.propensity is not None
            return 1 / batch.propensity.clamp(min=least)
        with torch.no_grad():
            g = self.exposure(*batch.query)[:, 0]
        n_sampled = self.config.n_negatives if self._fitted else 1
        q = torch.sigmoid(g + torch.log(n_sampled / self._others[batch.users.long()]))
        inverse = 1 / q.clamp(min=least)
        return inverse / (self._density * batch.mean_of_all(inverse))


def doubly_robust(
    rating: Tensor, f: Tensor, imputed: Tensor, inverse: Tensor, others: Tensor
) -> Tensor:
    """Return `ê + (e − ê) / q + others · mean[ê of sampled pairs]` of each row, `[B]`.

    Ratings, 1 / q and others are `[B]`; f and imputed ratings have the observed item first,
    `[B, 1 + n]`.
    """
    guess = (imputed - f) ** 2  # ê
    error = (rating - f[:, 0]) ** 2  # e
    return guess[:, 0] + inverse * (error - guess[:, 0]) + others * guess[:, 1:].mean(1)


def dr(
    candidate: Scorer,
    imputation: Scorer,
    exposure: Scorer,
    log: Interactions,
    config: Joint,
    **options: Unpack[FitOptions],
) -> Fit:
    """Predict ratings with an imputation model and propensities; all are changed in place.

    The exposure model is fitted first, unless the log states propensities. For `options` see `erm`.
    """
    players = {"candidate": candidate, "imputation": imputation, "exposure": exposure}
    return fit(Dr(players, log, config), **options)
