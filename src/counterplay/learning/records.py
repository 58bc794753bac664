"""What happened in each epoch, and what came of the whole."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from counterplay.display import RANGE, Convertible, Shown, flat, pairs
from counterplay.groups import ALONE, Group

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor, nn

    from counterplay.learning.batches import Batch
    from counterplay.learning.optimizers import Optimizer
    from counterplay.learning.weighting import Groups
    from counterplay.models.link import Link
    from counterplay.models.scorer import Scorer


_PARTS = {"beta": ("0", "1", "2"), "propensity": RANGE}


@dataclass(slots=True, repr=False)
class Epoch(Shown, Convertible):
    """One epoch; what a method does not have is None."""

    epoch: int  #: Its number, from 0.
    candidate_loss: float | None = None  #: Mean (weighted) loss of the candidate.
    exposure_loss: float | None = None  #: Mean of the exposure model's regularizer.
    imputation_loss: float | None = None  #: Mean loss of the imputation model, of dr.
    objective: float | None = (
        None  #: What the candidate minimises and the exposure model maximises.
    )
    beta: tuple[float, float, float] | None = None  #: The link's β at the end.
    propensity: tuple[float, float, float] | None = None  #: Lowest, mean and highest propensity.
    ess: float | None = None  #: Effective sample size, as a share of the rows; see `Meter.ess`.
    candidate_gradient: float | None = None  #: Norm of the candidate's last gradient.
    exposure_gradient: float | None = None  #: Norm of the exposure model's last gradient.
    validation: float | None = None  #: The candidate's validation value.
    exposure_validation: float | None = None  #: The exposure model's.

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
    """What learning ended in: the players as they were in the best epoch, and the record."""

    players: Mapping[str, nn.Module]  #: By role: the candidate that was learnt, and the others.
    epochs: list[Epoch]  #: What happened.
    best_epoch: int  #: Which epoch's state was kept.
    stopped: str  #: Why learning ended, in words.
    earlier: tuple[int, ...] = ()  #: Which were kept of what was learnt beforehand, latest first.

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
        """Effective sample size in the epoch that was kept, as a share; see `has_no_effect`."""
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
        rows = [row for place, row in enumerate(self.to_rows()) if place in ends]
        return {
            name.replace("_", " "): [row[name] for row in rows]
            for name in (rows[0] if rows else ())
            if any(row[name] is not None for row in rows)
        }


_ENDS = 3  # epochs at the beginning and at the end that a notebook shows
_MANY = 1 << 20  # weights that are looked at together


class Meter:
    """Sums over the batches of an epoch; they are read when the epoch is over."""

    def __init__(self, group: Group = ALONE) -> None:
        self._group = group
        self._sums: dict[str, float] = {}
        self._rows: dict[str, float] = {}
        self._means: list[tuple[int, int, dict[str, Tensor]]] = []  # rows of all workers, and here
        self._weights: list[tuple[int, Tensor, Groups]] = []  # with the rows of all workers
        self._waiting = 0
        self._inverse = True
        self._low, self._high = float("inf"), float("-inf")

    def add(self, batch: Batch, **means: Tensor) -> None:
        """Add means over the rows of a batch, named as in `Epoch`; of several workers, shares."""
        held = {name: value.detach() for name, value in means.items()}
        self._means.append((len(batch), len(batch.users), held))

    def add_weights(
        self, batch: Batch | None, weights: Tensor, groups: Groups = (), *, inverse: bool = True
    ) -> None:
        """Add the weights of a batch before they are scaled, `[B, K]`, and what shares a scale.

        Unless they are `inverse` propensities, the epoch has none.
        """
        self._inverse = inverse
        n = len(weights) if batch is None else len(batch)
        self._weights.append((n, weights.detach(), groups))
        self._waiting += n * weights.shape[1]  # the same for all workers: they reduce together
        if self._waiting >= _MANY:
            self._reduce()

    def _reduce(self) -> None:
        """Take up what waits: a few large steps are faster than many small ones."""
        import torch

        for n, n_here, means in self._means:
            for name, value in means.items():
                self._sum(name, n * float(value), n_here)
        self._means.clear()
        if self._weights:
            weights = torch.cat([each.reshape(-1) for _, each, _ in self._weights])
            if self._inverse:
                n = len(weights)
                if n:  # of several workers one may have no rows
                    low, high = weights.aminmax()
                    self._low, self._high = min(self._low, float(low)), max(self._high, float(high))
                self._sum("propensity", n * float(weights.reciprocal().mean()) if n else 0.0, n)
            for place, scaled in enumerate(self._scaled()):
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
        self._reduce()
        self._add_up()
        norms = {role: each.gradient_norm() for role, each in optimizers.items()}
        means = ("candidate_loss", "exposure_loss", "imputation_loss", "objective")
        return Epoch(
            number,
            **{name: self.mean(name) for name in means},
            beta=None if link is None else cast("Link", link).beta,
            propensity=self.propensity(),
            ess=self.ess(),
            candidate_gradient=norms.get("candidate"),
            exposure_gradient=norms.get("exposure"),
        )

    def _add_up(self) -> None:
        """Add up what the workers of a group have seen."""
        names = sorted(self._sums)
        found = self._group.total(
            np.array([[self._sums[each] for each in names], [self._rows[each] for each in names]])
        )
        self._sums, self._rows = (dict(zip(names, each.tolist(), strict=True)) for each in found)
        low, self._high = self._group.most(-self._low, self._high)
        self._low = -low

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

        The weights are what the loss sees: scaled batch by batch, where groups of places have a
        mean weight of 1 each. Every group is looked at by itself, and the lowest share is returned,
        so that weights of one group that are all alike do not hide those of another.
        """
        self._reduce()
        found, place = [], 0
        while f"square {place}" in self._sums:
            weight, square = (
                self._sums[name] / self._rows[name]
                for name in (f"weight {place}", f"square {place}")
            )
            found.append(weight**2 / square)
            place += 1
        return min(found, default=None)

    def _scaled(self) -> list[Tensor]:
        """Return the weights as the loss sees them, one flat tensor a group of places."""
        import torch

        groups = self._weights[0][2]
        if not groups:
            return [torch.cat([weights.reshape(-1) for _, weights, _ in self._weights])]
        parts = [weights.split(groups, dim=1) for _, weights, _ in self._weights]
        if self._group is ALONE:
            means = [[part.mean() for part in each] for each in parts]
        else:
            sums = torch.stack(
                [torch.stack([part.double().sum() for part in each]) for each in parts]
            )
            sizes = torch.tensor([[n * width for width in groups] for n, *_ in self._weights])
            self._group.sum(sums)
            means = [list(each) for each in (sums / sizes.to(sums)).to(parts[0][0].dtype)]
        scaled = [
            [part / mean for part, mean in zip(*each, strict=True)]
            for each in zip(parts, means, strict=True)
        ]
        return [
            torch.cat([part.reshape(-1) for part in each]) for each in zip(*scaled, strict=True)
        ]
