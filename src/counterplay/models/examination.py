"""Examination by position: a table ρ(position), the first place always examined.

    P(click | shown at p) = ρ_p · P(click | examined)

Where a log has positions, this keeps a low place in the list from being taken for bad taste.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from counterplay.data.interactions import Interactions

LAST = 100  # places after it are examined like it
_LEAST = 1e-3  # of ρ, so that its logarithm has bounds
_ROUNDS = 100


class Examination(nn.Module):
    """`log ρ_p`, at most 0, and 0 for the first place; starts at the given ρ `[n_places]`."""

    def __init__(self, initial: NDArray[np.float64]) -> None:
        super().__init__()
        least = torch.from_numpy(np.clip(initial[1:], _LEAST, 1 - _LEAST)).log()
        self.raw = nn.Parameter((-least).expm1().log().float())  # log ρ = −softplus(raw)

    def forward(self, position: Tensor) -> Tensor:
        """Return `log ρ` of positions from 1, `[B]`."""
        table = torch.cat([self.raw.new_zeros(1), -nn.functional.softplus(self.raw)])
        return table[position.long().clamp(1, len(table)) - 1]

    @property
    def rho(self) -> list[float]:
        """The table as numbers."""
        places = torch.arange(1, len(self.raw) + 2, device=self.raw.device)
        return [float(each) for each in self(places).detach().exp()]


def examination_of(log: Interactions) -> NDArray[np.float64]:
    """Estimate ρ `[n_places]` from items that were shown at several positions.

    Clicks of item i at place p are taken to be `n_ip · a_i · ρ_p` in the mean. The most likely ρ
    comes from fitting both factors in turn; an item that was shown at one place says nothing of it.
    """
    assert log.position is not None
    assert log.clicked is not None
    place = np.clip(log.position, 1, LAST).astype(np.int64) - 1
    n_places = int(place.max()) + 1
    cells, inverse = np.unique(log.item * np.int64(n_places) + place, return_inverse=True)
    item, at = np.divmod(cells, n_places)
    shown, clicks = np.bincount(inverse), np.bincount(inverse, log.clicked)
    by_item, by_place = np.bincount(item, clicks), np.bincount(at, clicks, n_places)
    rho = np.ones(n_places)
    for _ in range(_ROUNDS):
        appeal = by_item / np.maximum(np.bincount(item, shown * rho[at]), _LEAST)
        found = by_place / np.maximum(np.bincount(at, shown * appeal[item], n_places), _LEAST)
        found = np.clip(found / max(found[0], _LEAST), _LEAST, 1)
        if np.abs(found - rho).max() < 1e-6:
            break
        rho = found
    return rho
