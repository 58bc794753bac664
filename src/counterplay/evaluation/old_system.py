"""The system that did the exposing, as a candidate: in a world it is known what it would show."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from counterplay.evaluation.propensities import Contestant
    from counterplay.simulation.world import World

NAME = "old system"
_LEAST = 1e-6  # logits of what is never shown are far down, not infinite


class Exposing:
    """Ranks by the probability that the old system shows an item."""

    def __init__(self, world: World) -> None:
        self._world = world

    def of(self, users: NDArray[np.integer], items: NDArray[np.integer]) -> NDArray[np.floating]:
        """Return the probabilities of `items` `[B, K]`, `[B, K]`."""
        return self._world.propensity(users, items)

    def of_all(self, users: NDArray[np.integer]) -> NDArray[np.floating]:
        """Return the probabilities of all items, `[B, n_items]`."""
        return self._world.propensity(users, None)


def old_system(world: World) -> Contestant:
    """Return the world's logging policy as a contestant: whoever imitates it does well offline."""
    import torch

    from counterplay.evaluation.propensities import Contestant
    from counterplay.models.given import GivenExposure

    def shown(users: Tensor, items: Tensor) -> Tensor:
        found = world.propensity(users.cpu().numpy(), items.cpu().numpy())
        return torch.from_numpy(found).to(users.device, torch.float32).clamp(_LEAST, 1 - _LEAST)

    model = GivenExposure(world.n_users, world.n_items, shown)
    return Contestant(NAME, Exposing(world), model)
