"""What happened in each epoch, and what came of the whole."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, cast

import torch

from counterplay.display import RANGE, Convertible, Shown, flat, pairs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor, nn

    from counterplay.learning.optimizers import Optimizer
    from counterplay.learning.weighting import Groups
    from counterplay.models.link import Link
    from counterplay.models.scorer import Scorer


_PARTS = {"beta": ("0", "1", "2"), "propensity": RANGE}


@dataclass(slots=True, repr=False)
class Epoch(Shown, Convertible):
    """One epoch; what a method does not have is None.

    Attributes:
        epoch: Its number, from 0.
        candidate_loss: Mean (weighted) loss of the candidate.
        exposure_loss: Mean of the exposure model's regularizer.
        objective: What the candidate wants small and the exposure model large.
        beta: The link's β at the end.
        propensity: Lowest, mean and highest propensity.
        ess: Effective sample size of the weights as the loss sees them, as a share of the rows;
            see `Meter.ess`.
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

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one row of flat values."""
        return [flat(self.to_dict(), _PARTS)]

    def _title(self) -> str:
        return f"{self.epoch}: " + ", ".join(
            f"{name.replace('_', ' ')} {value:.4g}" for name, value in self._known().items()
        )

    def _columns(self) -> dict[str, list[object]]:
        return pairs({name.replace("_", " "): value for name, value in self._known().items()})

    def _known(self) -> dict[str, float]:
        row = self.to_rows()[0]
        return {name: row[name] for name in row if name != "epoch" and row[name] is not None}


@dataclass(frozen=True, slots=True, repr=False)
class Fit(Shown, Convertible):
    """What learning ended in: the players as they were in the best epoch, and the record.

    Attributes:
        players: By their roles: the candidate that was learnt, and whoever else took part.
        epochs: What happened.
        best_epoch: Which epoch's state was kept.
        stopped: Why learning ended, in words.
    """

    players: Mapping[str, nn.Module]
    epochs: list[Epoch]
    best_epoch: int
    stopped: str

    @property
    def candidate(self) -> Scorer:
        """The model that was learnt."""
        return cast("Scorer", self.players["candidate"])

    @property
    def exposure(self) -> Scorer | None:
        """Its opponent, or the propensity model; None for plain learning."""
        return cast("Scorer | None", self.players.get("exposure"))

    @property
    def link(self) -> Link | None:
        """The link between them; None for plain learning."""
        return cast("Link | None", self.players.get("link"))

    @property
    def ess(self) -> float | None:
        """Effective sample size of the weights in the epoch that was kept; None for plain learning.

        It is a share of the rows; above 0.98 the weights have no effect.
        """
        return self.epochs[max(self.best_epoch, 0)].ess if self.epochs else None

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row of flat values for each epoch."""
        return [row for epoch in self.epochs for row in epoch.to_rows()]

    def _title(self) -> str:
        models = [self.players[role] for role in ("candidate", "exposure") if role in self.players]
        names = " against ".join(type(model).__name__ for model in models)
        return f"of {names}: {len(self.epochs)} epochs, the best {self.best_epoch}; {self.stopped}"

    def _columns(self) -> dict[str, list[object]]:
        """Return the first epochs, the best and the last, without what the method does not have."""
        ends = {*range(_ENDS), *range(len(self.epochs) - _ENDS, len(self.epochs)), self.best_epoch}
        rows = [
            self.epochs[place].to_rows()[0] for place in sorted(ends & {*range(len(self.epochs))})
        ]
        columns: dict[str, list[object]] = {
            name.replace("_", " "): [row[name] for row in rows]
            for name in (rows[0] if rows else ())
        }
        return {name: column for name, column in columns.items() if column != [None] * len(rows)}


_ENDS = 3  # epochs at the beginning and at the end that a notebook shows
_MANY = 1 << 20  # weights that are looked at together


class Meter:
    """Sums over the batches of an epoch; they are read when the epoch is over."""

    def __init__(self) -> None:
        self._sums: dict[str, float] = {}
        self._rows: dict[str, int] = {}
        self._means: list[tuple[int, dict[str, Tensor]]] = []
        self._weights: list[tuple[Tensor, Groups]] = []
        self._waiting = 0
        self._low, self._high = float("inf"), float("-inf")

    def add(self, n: int, **means: Tensor) -> None:
        """Add means over `n` rows, named as in `Epoch`."""
        self._means.append((n, {name: value.detach() for name, value in means.items()}))

    def add_weights(self, weights: Tensor, groups: Groups = ()) -> None:
        """Add the weights of a batch before they are scaled, `[B, K]`, and what shares a scale."""
        self._weights.append((weights.detach(), groups))
        self._waiting += weights.numel()
        if self._waiting >= _MANY:
            self._reduce()

    def _reduce(self) -> None:
        """Take up what waits: a few large steps are faster than many small ones."""
        for n, means in self._means:
            for name, value in means.items():
                self._sum(name, n * float(value), n)
        self._means.clear()
        if self._weights:
            weights = torch.cat([each.reshape(-1) for each, _ in self._weights])
            low, high = weights.aminmax()
            self._low, self._high = min(self._low, float(low)), max(self._high, float(high))
            n = len(weights)
            self._sum("propensity", n * float(weights.reciprocal().mean()), n)
            for place, scaled in enumerate(_scaled(self._weights)):
                self._sum(f"weight {place}", float(scaled.sum(dtype=torch.float64)), len(scaled))
                square = scaled.square().sum(dtype=torch.float64)
                self._sum(f"square {place}", float(square), len(scaled))
            self._weights.clear()
            self._waiting = 0

    def _sum(self, name: str, value: float, n: int) -> None:
        self._sums[name] = self._sums.get(name, 0.0) + value
        self._rows[name] = self._rows.get(name, 0) + n

    def epoch(
        self, number: int, optimizers: Mapping[str, Optimizer], link: nn.Module | None
    ) -> Epoch:
        """Return the epoch's record."""
        norms = {role: each.gradient_norm() for role, each in optimizers.items()}
        return Epoch(
            number,
            candidate_loss=self.mean("candidate_loss"),
            exposure_loss=self.mean("exposure_loss"),
            objective=self.mean("objective"),
            beta=None if link is None else cast("Link", link).beta,
            propensity=self.propensity(),
            ess=self.ess(),
            candidate_gradient=norms.get("candidate"),
            exposure_gradient=norms.get("exposure"),
        )

    def mean(self, name: str) -> float | None:
        """Return the mean of what was added as `name`."""
        self._reduce()
        return self._sums[name] / self._rows[name] if name in self._sums else None

    def propensity(self) -> tuple[float, float, float] | None:
        """Return the lowest, mean and highest propensity."""
        mean = self.mean("propensity")
        return None if mean is None else (1 / self._high, mean, 1 / self._low)

    def ess(self) -> float | None:
        """Return `(Σw)² / (n Σw²)`, the effective sample size as a share; 1 means all alike.

        The weights are what the loss sees. Where groups of places have a mean weight of 1 each,
        they are scaled, batch by batch, and every group is looked at by itself: that observed items
        weigh more than sampled ones has no effect then. The lowest share is returned, so that
        weights of one group which are all alike do not hide those of another.
        """
        self._reduce()
        found = []
        for place in range(sum(name.startswith("square ") for name in self._sums)):
            weight, square = self.mean(f"weight {place}"), self.mean(f"square {place}")
            assert weight is not None
            assert square is not None
            found.append(weight**2 / square)
        return min(found, default=None)


def _scaled(batches: list[tuple[Tensor, Groups]]) -> list[Tensor]:
    """Return the weights as the loss sees them, one flat tensor a group."""
    groups = batches[0][1]
    if not groups:
        return [torch.cat([weights.reshape(-1) for weights, _ in batches])]
    parts = [
        [part / part.mean() for part in weights.split(groups, dim=1)] for weights, _ in batches
    ]
    return [torch.cat([part.reshape(-1) for part in column]) for column in zip(*parts, strict=True)]
