"""What happened in each epoch, and what came of the whole."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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


@dataclass(slots=True)
class Meter:
    """Running sums over the batches of an epoch."""

    n: int = 0
    _sums: dict[str, float] = field(default_factory=dict)
    _low: float = float("inf")
    _high: float = float("-inf")

    def add(self, n: int, **values: Tensor) -> None:
        """Add means over `n` rows."""
        self.n += n
        for name, value in values.items():
            self._sums[name] = self._sums.get(name, 0.0) + n * float(value.detach())

    def add_weights(self, weights: Tensor) -> None:
        """Add the weights of a batch; call it before `add`."""
        weights = weights.detach()
        propensities = 1 / weights
        n = weights.shape[0]
        for name, value in (
            ("propensity", propensities.mean()),
            ("weight", weights.mean()),
            ("square", weights.square().mean()),
        ):
            self._sums[name] = self._sums.get(name, 0.0) + n * float(value)
        self._low = min(self._low, float(propensities.min()))
        self._high = max(self._high, float(propensities.max()))

    def mean(self, name: str) -> float | None:
        """Return the mean of what was added as `name`."""
        return self._sums[name] / self.n if name in self._sums else None

    def propensity(self) -> tuple[float, float, float] | None:
        """Return the lowest, mean and highest propensity."""
        mean = self.mean("propensity")
        return None if mean is None else (self._low, mean, self._high)

    def ess(self) -> float | None:
        """Return `(Σw)² / (n Σw²)`, the effective sample size as a share."""
        weight, square = self.mean("weight"), self.mean("square")
        return None if weight is None or square is None else weight**2 / square
