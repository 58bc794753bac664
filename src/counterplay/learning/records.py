"""What happened in each epoch, and what came of the whole."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray
    from torch import Tensor

    from counterplay.models.link import Link
    from counterplay.models.scorer import Scorer


@dataclass(slots=True)
class Epoch:
    """One epoch; what a method does not have is None.

    Attributes:
        epoch: Its number, from 0.
        candidate_loss: Mean (weighted) loss of the candidate.
        exposure_loss: Mean of the exposure model's regularizer.
        objective: What the candidate wants small and the exposure model large.
        beta: The link's β at the end.
        propensity: Lowest, mean and highest propensity.
        ess: Effective sample size of the weights, as a share of the rows.
        candidate_gradient: Norm of the candidate's last gradient.
        exposure_gradient: Norm of the exposure model's last gradient.
        validation: The candidate's validation value.
        exposure_validation: The exposure model's.
    """

    epoch: int
    candidate_loss: float | None = None
    exposure_loss: float | None = None
    objective: float | None = None
    beta: tuple[float, float, float] | None = None
    propensity: tuple[float, float, float] | None = None
    ess: float | None = None
    candidate_gradient: float | None = None
    exposure_gradient: float | None = None
    validation: float | None = None
    exposure_validation: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Fit:
    """What learning ended in: the players as they were in the best epoch, and the record.

    Attributes:
        candidate: The model that was learnt.
        exposure: Its opponent, or the propensity model; None for plain learning.
        link: The link between them; None for plain learning.
        epochs: What happened.
        best_epoch: Which epoch's state was kept.
        stopped: Why learning ended, in words.
    """

    candidate: Scorer
    exposure: Scorer | None
    link: Link | None
    epochs: list[Epoch]
    best_epoch: int
    stopped: str


class Meter:
    """Sums over the batches of an epoch; they are read when the epoch is over."""

    def __init__(self) -> None:
        self.n = 0
        self._sizes: list[int] = []
        self._values: dict[str, list[Tensor]] = {}

    def add(self, n: int, **values: Tensor) -> None:
        """Add means over `n` rows."""
        self.n += n
        self._sizes.append(n)
        self._keep(values)

    def add_weights(self, weights: Tensor) -> None:
        """Add the weights of the batch that `add` is called for."""
        flat = weights.detach().reshape(-1)
        low, high = flat.aminmax()
        self._keep(
            {
                "propensity": flat.reciprocal().mean(),
                "weight": flat.mean(),
                "square": flat.dot(flat) / len(flat),
                "lowest": low,
                "highest": high,
            }
        )

    def mean(self, name: str) -> float | None:
        """Return the mean of what was added as `name`."""
        values = self._read(name)
        return None if values is None else float(values @ np.array(self._sizes)) / self.n

    def propensity(self) -> tuple[float, float, float] | None:
        """Return the lowest, mean and highest propensity."""
        mean, low, high = self.mean("propensity"), self._read("lowest"), self._read("highest")
        if mean is None or low is None or high is None:
            return None
        return 1 / float(high.max()), mean, 1 / float(low.min())

    def ess(self) -> float | None:
        """Return `(Σw)² / (n Σw²)`, the effective sample size as a share."""
        weight, square = self.mean("weight"), self.mean("square")
        return None if weight is None or square is None else weight**2 / square

    def _keep(self, values: Mapping[str, Tensor]) -> None:
        for name, value in values.items():
            self._values.setdefault(name, []).append(value.detach())

    def _read(self, name: str) -> NDArray[np.float64] | None:
        kept = self._values.get(name)
        return None if kept is None else torch.stack(kept).double().cpu().numpy()
